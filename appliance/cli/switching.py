"""`appliance plan switch` and `rollback`: always based on what this directory was based on."""

import argparse
from pathlib import Path
from typing import Any

from appliance.cli.bases import Base, Bases
from appliance.cli.common import SUCCESS, Console
from appliance.client import part


def switch(args: argparse.Namespace, console: Console) -> int:
    """Make a version current."""
    base = _base(console, args.plan, args.version)
    answer = send_switch(console, base, args.version, force=args.force)
    say_switched(console, answer)
    if console.json:
        console.dump(answer)
    return SUCCESS


def rollback(args: argparse.Namespace, console: Console) -> int:
    """Make the version before the current one current."""
    base = _base(console, args.plan, None)
    answer = console.client.post(f"/v1/plans/{part(args.plan)}/rollback", {"expected": base.serial, "force": args.force})
    _moved(base, answer)
    say_switched(console, answer)
    if console.json:
        console.dump(answer)
    return SUCCESS


def send_switch(console: Console, base: Base, to: str, *, force: bool) -> dict[str, Any]:
    """Switch to `to`, and remember that its directory builds upon that switch from now on."""
    body = {"to": to, "expected": base.serial, "force": force}
    answer: dict[str, Any] = console.client.post(f"/v1/plans/{part(base.plan)}/switch", body)
    _moved(base, answer)
    return answer


def _base(console: Console, plan: str, ref: str | None) -> Base:
    """What is remembered of this directory, else of the one that pushed version `ref`, else what is current just now."""
    bases, url = Bases(), console.client.profile.url
    here = bases.find(Path(), url, plan)
    if here is not None:
        return here
    digest = None if ref is None else _digest(console, plan, ref)
    pushed = bases.who_pushed(digest, url, plan) if digest is not None else None
    if pushed is not None:
        return pushed
    overview = console.client.get(f"/v1/plans/{part(plan)}")
    return Base("", url, plan, int(overview["serial"]), "", 0)


def _digest(console: Console, plan: str, ref: str) -> str | None:
    if ref.startswith("sha256:"):
        return ref
    if not (ref.isascii() and ref.isdecimal() and len(ref) < 16):
        return None
    found = console.client.get(f"/v1/plans/{part(plan)}/versions", before=int(ref) + 1, limit=1)["versions"]
    return str(found[0]["digest"]) if found and found[0]["number"] == int(ref) else None


def _moved(base: Base, answer: dict[str, Any]) -> None:
    if base.directory:
        Bases().remember(Path(base.directory), base.url, base.plan, int(answer["serial"]), base.digest)
    else:
        Bases().follow(base.url, base.plan, base.serial, int(answer["serial"]))


def say_switched(console: Console, answer: dict[str, Any]) -> None:
    """Say what a switch did, and the next likely command."""
    plan, version = answer["plan"], answer["version"]
    if answer["unchanged"]:
        console.note(f"{plan} is at version {version} already (switch {answer['serial']})")
        console.next(f"appliance plan show {plan}")
        return
    was = "first version" if answer["was"] is None else f"was {answer['was']}"
    differs = _counted(answer["changed"], "file") + (" differs" if answer["changed"] == 1 else " differ")
    forced = "; a newer switch was overruled" if answer["forced"] else ""
    console.note(f"{plan} is at version {version} now ({was}; switch {answer['serial']}{forced}): {differs}")
    count, servers = len(answer["deployments"]), len(answer["servers"])
    if count:
        made = f"{_counted(count, 'deployment')} on {_counted(servers, 'server')} changed with it"
        console.next("appliance status --watch", made)
    elif answer["was"] is None:
        console.next(f"appliance deploy NAME --plan {plan} --path FILE", "no deployment uses it yet")
    else:
        console.next(f"appliance plan log {plan}", "no deployment uses a file that differs")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
