"""`appliance status`, `why`, `log`, `wait`, `rerun`, `cancel`: the verbs of every day."""

import argparse
from typing import Any

from appliance.cli.common import SUCCESS, Console, command, duration_or_none
from appliance.cli.finding import deployment_path, deployments, label, standing, summary
from appliance.client import part

CODES = "exit codes: 0 all complete, 1 one failed, 3 not in time, 4 one waits for another that failed, 5 unknown or deleted"


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    _register(parsers)
    _register_cancel(parsers)


def _register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = command(
        parsers,
        "status",
        "show where every server stands, and what needs a look",
        _status,
        example="appliance status\nappliance status --json",
        reads=True,
    )
    parser.add_argument("--watch", action="store_true", help="show it again every 2 seconds")

    parser = command(
        parsers,
        "why",
        "say why a deployment stands where it stands, and what would change that",
        _why,
        example="appliance why web-1/base",
        reads=True,
    )
    _one(parser)

    parser = command(
        parsers,
        "log",
        "show what a deployment's last run printed and put out",
        _log,
        example="appliance log web-1/base\nappliance log web-1/base --output result",
        reads=True,
    )
    parser.description = (
        "Show what a deployment's last run printed and put out. Its standard output comes on standard output, everything else (its standard"
        " error, its named outputs, what became of it) on standard error."
    )
    _one(parser)
    parser.add_argument("--run", dest="run_id", metavar="ID", help="this run instead of the last (see: appliance deployment runs X)")
    parser.add_argument("--output", metavar="NAME", help="print only the value of this named output")

    parser = command(
        parsers,
        "wait",
        "wait until deployments are complete, or cannot become it",
        _wait,
        example="appliance wait web-1/base --timeout 10m",
        reads=True,
    )
    parser.description = (
        "Wait until deployments are complete, or cannot become it by themselves. All of them are waited for; of several the exit code is"
        " the first of 5, 1, 4, 3 that one of them has. A restart of the appliance is waited through."
    )
    parser.epilog = f"{parser.epilog}\n\n{CODES}"
    _several(parser)
    parser.add_argument(
        "--timeout", metavar="TIME", type=duration_or_none, default=3600, help="at most this long: 90s, 5m, 1h, none (default 1h)"
    )

    parser = command(
        parsers,
        "rerun",
        "run deployments once more, whatever they did before",
        _rerun,
        example="appliance rerun web-1/base --wait",
        reads=True,
    )
    _several(parser)
    parser.add_argument("--wait", action="store_true", help="wait for the end (at most 1 h), with the exit codes of `appliance wait`")


def _register_cancel(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = command(
        parsers,
        "cancel",
        "end deployments before their time",
        _cancel,
        example="appliance cancel web-1/base\nappliance cancel web-1/base --force",
        reads=True,
    )
    parser.description = (
        "End deployments before their time: all of them or none. What was not granted is cancelled at once; what runs is ended by its"
        " machine, with all that it started; what it came to stands if it was faster. A machine that is away hears of it when it is back."
    )
    _several(parser)
    parser.add_argument(
        "--force",
        action="store_true",
        help="over at once for the appliance, without a word from its machine (the only way for stock agents)",
    )


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("deployment", metavar="X", help="the deployment, as SERVER/NAME or by id")


def _several(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("deployments", metavar="X", nargs="+", help="deployments, as SERVER/NAME or by id")


# Loaded when asked for: a command line must start fast.


def _status(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.status import status

    return status(args, console)


def _log(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.log import log

    return log(args, console)


def _why(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(deployment_path(console, args.deployment) + "/why")
    if console.json:
        console.dump(found)
        return SUCCESS
    one = found["deployment"]
    console.print(f"{label(one)}: {standing(one)}", *(f"  {sentence}" for sentence in found["because"]))
    if found["next"]:
        console.next(found["next"])
    elif found["runs"]:
        console.next(f"appliance log {label(one)}")
    return SUCCESS


def _wait(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.waiting import wait_for

    return wait_for(console, deployments(console, args.deployments), args.timeout)


def _cancel(args: argparse.Namespace, console: Console) -> int:
    ids = [one["id"] for one in deployments(console, args.deployments)]
    found: list[Any] = console.client.post("/v1/deployments/cancel", {"ids": ids, "force": args.force})
    for one in found:
        console.note(f"{label(one)}: {summary(one)}")
    if console.json:
        console.dump(found)
    waiting = [label(one) for one in found if one["settled"] is None or one["repeating"]]
    console.next("appliance wait " + " ".join(waiting) if 0 < len(waiting) < 5 else "appliance status")
    return SUCCESS


def _rerun(args: argparse.Namespace, console: Console) -> int:
    ids = [one["id"] for one in deployments(console, args.deployments)]
    if len(ids) == 1:
        found: list[Any] = [console.client.post(f"/v1/deployments/{part(ids[0])}/rerun")]
    else:
        found = console.client.post("/v1/deployments/rerun", {"ids": ids})
    for one in found:
        console.note(f"{label(one)}: generation {one['generation']['number']} (rerun); {one['sentence']}")
    if args.wait:
        from appliance.cli.waiting import WAIT_SECONDS, wait_for

        return wait_for(console, found, WAIT_SECONDS)
    if console.json:
        console.dump(found)
    console.next("appliance wait " + " ".join(label(one) for one in found) if len(found) < 5 else "appliance status")
    return SUCCESS
