"""`appliance deploy`: say what servers must run, in one commit for all of them."""

import argparse
import re
from typing import Any

from appliance.cli.common import SUCCESS, Console, Failure, command, duration, duration_or_none
from appliance.cli.finding import UUID, chosen, config_id, label
from appliance.client import Refused, part

POLICIES = ("on-change", "once", "per-boot", "always")
REPEATS = {"per-boot": "at each boot", "always": "at each start of the agent, at each change, and at its interval"}
ACTIONS = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")
SHOWN = 4


def register(parsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = command(
        parsers,
        "deploy",
        "say what servers must run: creates SERVER/NAME, or brings it to what is said",
        _deploy,
        example=(
            "appliance deploy base --script base.sh --output result --wait\n"
            "appliance deploy app --server 'web-*' --server label:rack3 --plan lab --path scripts/app.sh --input who=me --after base\n"
            "appliance deploy tools --server web-1 --script base.sh --files lab/scripts"
        ),
        reads=True,
    )
    parser.description = (
        "Say what servers must run. It creates SERVER/NAME, or brings the one there is to what is said here; what is not said is as for"
        " a new one, but the run policy stays. All servers in one commit: all of them or none. With --files lab --directory /srv/lab"
        " it runs nothing, and keeps that directory of the machine at the plan's current version."
    )
    from appliance.cli.statement import body_flags, given_flags

    parser.add_argument("name", metavar="NAME", help="the deployment's name, the same on each server")
    parser.add_argument(
        "--server",
        metavar="S",
        action="append",
        default=[],
        help="a server, label:L, or a pattern like 'web-*'; may be repeated, and left out where there is only one server",
    )
    body_flags(parser, config=True)
    given_flags(parser)
    terms_flags(parser)
    parser.add_argument(
        "--replace", action="store_true", help="delete the one of this name, with its DELETE work, and make a new one: all in one commit"
    )
    parser.add_argument("--wait", action="store_true", help="wait for the end (at most 1 h), with the exit codes of `appliance wait`")


def terms_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say when and after what it runs."""
    parser.add_argument("--policy", choices=POLICIES, help="when it runs (default: on-change)")
    parser.add_argument("--interval", metavar="TIME", type=duration, help="with --policy always: also this often (at least 30s)")
    parser.add_argument(
        "--after", metavar="X", action="append", help="only when this one is complete: SERVER/NAME, an id, or NAME on the same server"
    )
    parser.add_argument(
        "--follow",
        metavar="X",
        action="append",
        help="as --after, and again when that one has a new generation that is not complete at once",
    )
    parser.add_argument(
        "--timeout", metavar="TIME", type=duration_or_none, default=argparse.SUPPRESS, help="its time limit: 90s, 5m, 1h, none (default 1h)"
    )
    parser.add_argument(
        "--actions",
        metavar="A,B",
        type=actions,
        help="what the script has work for, told by $deploy_action (default: CREATE,UPDATE; there are DELETE, SUSPEND and RESUME too)",
    )
    parser.add_argument(
        "--attempts",
        metavar="N",
        type=attempts,
        help="try it so often at most (default 1; for per-boot, in each boot): after it exited with an error, timed out or was cut short",
    )


def attempts(text: str) -> int:
    """A number of attempts; for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of attempts (1 to 100)")
    return int(text)


def actions(text: str) -> list[str]:
    """Names of actions, separated by commas; for argparse."""
    found = [word.strip().upper() for word in text.split(",") if word.strip()]
    wrong = [word for word in found if word not in ACTIONS]
    if wrong or not found:
        raise argparse.ArgumentTypeError(f"{text!r}: there is {', '.join(ACTIONS)}")
    return found


def after(refs: list[str], server: str) -> list[str]:
    """What --after or --follow names, for a deployment of `server`."""
    return [ref if "/" in ref or UUID.fullmatch(ref) else f"{server}/{ref}" for ref in refs]


def _deploy(args: argparse.Namespace, console: Console) -> int:
    config = _config(args, console)
    servers = chosen(console, args.server)
    found = _send(console, servers, [_item(args, config, one) for one in servers])
    for one in found:
        console.note(said(one))
    for hint in _hints(found, servers, _group(console, config)):
        console.note(hint)
    if args.wait:
        from appliance.cli.waiting import WAIT_SECONDS, wait_for

        return wait_for(console, found, WAIT_SECONDS)
    if console.json:
        console.dump(found)
    console.next(*_next(found))
    return SUCCESS


def _config(args: argparse.Namespace, console: Console) -> Any:
    from appliance.cli.statement import statement

    stated = statement(args)
    if args.config is None:
        if stated is None:
            raise Failure(
                "nothing says what to run",
                "give --script FILE, --plan PLAN with --path FILE, --files PLAN with --directory PATH, or --config ID",
            )
        return stated
    if stated is not None or args.hook or args.output or args.files:
        raise Failure("--config says what to run, its hook, outputs and files", "leave out all that --config says")
    return config_id(console, args.config)


def _item(args: argparse.Namespace, config: Any, server: Any) -> dict[str, Any]:
    from appliance.cli.statement import given

    plain, secret = given(args)
    item: dict[str, Any] = {"server": server["id"], "name": args.name, "config": config, "inputs": plain, "secrets": secret, "update": True}
    item |= {"policy": args.policy, "interval": args.interval, "depends_on": after(args.after or [], server["name"])}
    item |= {"follow": after(args.follow or [], server["name"])}
    item |= {"replace": True} if args.replace else {}
    item |= {"attempts": args.attempts} if args.attempts else {}
    item |= {"actions": args.actions} if args.actions else {}
    return item | ({"timeout": args.timeout} if "timeout" in args else {})


def _send(console: Console, servers: list[Any], items: list[dict[str, Any]]) -> list[Any]:
    """One request, one commit. What is wrong with one item is said of its server."""
    try:
        found: list[Any] = console.client.post("/v1/deployments", items)
    except Refused as error:
        item = re.match(r"item (\d+): ", error.message)
        if item:
            name = servers[int(item[1]) - 1]["name"]
            error.message = f"{error.message[item.end() :]} (for {name}; nothing was changed on any server)"
        raise
    return found


def said(one: Any) -> str:
    """What became of a deployment that was created or changed."""
    name = label(one)
    if one["did"] == "unchanged":
        return f"{name}: unchanged ({one['sentence']})"
    changes = ", ".join(one["changes"])
    if one["did"] == "replaced":
        return f"{name}: a new one in place of the one before; {one['sentence']}"
    if one["did"] == "created":
        return f"{name}: created; {one['sentence']}"
    if one["held"] and one["made_generation"]:
        number = one["generation"]["number"]
        return f"{name}: generation {number} ({changes}) is held: it is `once` and has run, so this does not run by itself"
    if one["made_generation"]:
        return f"{name}: generation {one['generation']['number']} ({changes}); {one['sentence']}"
    return f"{name}: updated ({changes}); nothing runs for that"


def _group(console: Console, config: Any) -> str | None:
    if isinstance(config, dict):
        return str(config["group"])
    group = console.client.get(f"/v1/configs/{part(config)}")["group"]
    return None if group is None else str(group)


def _hints(found: list[Any], servers: list[Any], group: str | None) -> list[str]:
    """What a person may not expect, once each."""
    policies = sorted({one["policy"] for one in found} & REPEATS.keys())
    lines = [f"policy {policy}: it runs {REPEATS[policy]}, so it must bear repeating" for policy in policies]
    for one in servers:
        hooks = one["agent"]["hooks"] if one["agent"] else None
        if hooks and group is not None and group not in hooks:
            lines.append(f"no hook {group!r} on {one['name']}; it has: {', '.join(hooks)}")
    told = {one["server"]["id"] for one in found if "never seen" in one["sentence"]}
    fresh = [one["name"] for one in servers if one["seen_at"] is None and one["id"] not in told]
    if fresh:
        shown = ", ".join(fresh[:SHOWN]) + (f" and {len(fresh) - SHOWN} more" if len(fresh) > SHOWN else "")
        lines.append(f"never seen: {shown}; it runs there when they join")
    again = [label(one) for one in found if one["settled"] and (one["held"] or one["did"] == "unchanged")]
    if again and (len(again) < len(found) or len(found) > SHOWN):
        lines.append("to run it again: appliance rerun " + " ".join(again[:SHOWN]) + (" ..." if len(again) > SHOWN else ""))
    return lines


def _next(found: list[Any]) -> tuple[str, str]:
    """The next command, and why."""
    names = [label(one) for one in found]
    if len(names) > SHOWN:
        return "appliance status", ""
    waiting = [label(one) for one in found if one["settled"] is None]
    if waiting:
        return "appliance wait " + " ".join(waiting), ""
    if all(one["held"] or one["did"] == "unchanged" for one in found):
        return "appliance rerun " + " ".join(names), "to run it again"
    return f"appliance why {names[0]}", ""
