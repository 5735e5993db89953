"""`appliance log`."""

import argparse
import json
import re
from typing import Any, TextIO

from appliance.cli.common import NOT_FOUND, SUCCESS, Console, Failure, clean, since, size
from appliance.cli.finding import deployment, deployment_path, label
from appliance.client import Refused, part

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def log(args: argparse.Namespace, console: Console) -> int:
    """Show a run: what it printed on standard output there, everything else on standard error."""
    run, name, number = _run(args, console)
    if args.output is not None:
        return _output(args.output, run, console)
    if console.json:
        console.dump(run)
        return SUCCESS
    when = run["ended_at"] or run["started_at"] or run["granted_at"]
    console.note(f"{name}: run {run['id'][:8]} of generation {number}: {run['sentence']}, {since(when)}")
    if run["stands"] == "released":
        return SUCCESS
    if run["stands"] != "ended":
        console.note("what it prints is reported when it ends")
        console.next(f"appliance wait {name}")
        return SUCCESS
    if "stdout" in run:
        _printed("stdout", run, console, console.out)
        if run["stderr"]:
            console.note("--- its standard error:")
            _printed("stderr", run, console, console.err)
        for output, value in sorted(run["outputs"].items()):
            console.note(f"output {output}: {_shown(value)}")
    else:
        console.note("its machine has not reported what it printed")
    if run["status"] == "FAILED":
        console.next(f"appliance rerun {name}")
    return SUCCESS


def _run(args: argparse.Namespace, console: Console) -> tuple[Any, str, object]:
    """The run that is meant, with what it printed; the deployment's name; the number of the run's generation."""
    path = deployment_path(console, args.deployment)
    found = console.client.get(f"{path}/runs")
    numbers = {one["id"]: one["number"] for one in found["generations"]}
    try:
        one = deployment(console, args.deployment)
        name = label(one)
    except Refused:  # it was deleted; its evidence can still be read
        one, name = None, args.deployment
    begun = [run for run in found["runs"] if run["stands"] != "released"]
    if args.run_id is not None:
        matching = [run["id"] for run in found["runs"] if run["id"].startswith(args.run_id)]
        if len(matching) != 1:
            raise Failure(f"{name} has no run {args.run_id!r}", f"see: appliance deployment runs {name}", NOT_FOUND)
    elif not begun:
        why = "" if one is None else f" ({one['sentence']})"
        raise Failure(f"{name} has not run yet{why}", f"see: appliance why {name}", NOT_FOUND)
    else:
        matching = [begun[0]["id"]]
    run = console.client.get(f"/v1/runs/{part(matching[0])}")
    return run, name, numbers.get(run["generation"], "?")


def _printed(stream: str, run: Any, console: Console, to: TextIO) -> None:
    """To a terminal, text that cannot steer it; else as it was printed."""
    text = run[stream] or ""
    if to.isatty():
        text = clean(_COLOURS.sub("", text).replace("\r\n", "\n"))
    to.write(text)
    if text and not text.endswith("\n") and to.isatty():
        to.write("\n")
    to.flush()
    if stream in run["truncated"]:
        whole = run["sizes"].get(stream)
        console.note(f"[{stream} was cut: {size(len(text.encode()))} of {size(whole) if whole else 'more'} are shown]")


def _output(name: str, run: Any, console: Console) -> int:
    if name not in run.get("outputs", {}):
        there = ", ".join(sorted(run.get("outputs", {}))) or "none"
        raise Failure(f"run {run['id'][:8]} has put out no {name!r}", f"it has: {there}", NOT_FOUND)
    value = run["outputs"][name]
    if console.json:
        console.dump(value)
    elif isinstance(value, str):
        console.out.write(clean(value) if console.out.isatty() else value)
        console.out.write("" if value.endswith("\n") else "\n")
    else:
        console.out.write(json.dumps(value, ensure_ascii=False) + "\n")
    return SUCCESS


def _shown(value: Any) -> str:
    return value.rstrip("\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
