"""`appliance plan switch` and `rollback`: always based on what this directory was based on."""

import argparse
from pathlib import Path
from typing import Any

from appliance.cli.bases import Base, Bases
from appliance.cli.common import SUCCESS, Console, count, since
from appliance.client import part


def switch(args: argparse.Namespace, console: Console) -> int:
    """Make a version current, or with --dry-run tell what that would do."""
    base = _base(console, args.plan, args.version)
    how = {"to": args.version, "expected": base.serial, "force": args.force, "max_affected": args.max_affected}
    return _done(args, console, base, "switch", how)


def rollback(args: argparse.Namespace, console: Console) -> int:
    """Make the version before the current one current, or with --dry-run tell what that would do."""
    base = _base(console, args.plan, None)
    return _done(args, console, base, "rollback", {"expected": base.serial, "force": args.force, "max_affected": args.max_affected})


def _done(args: argparse.Namespace, console: Console, base: Base, verb: str, body: dict[str, Any]) -> int:
    if args.dry_run:
        answer = console.client.post(f"/v1/plans/{part(base.plan)}/{verb}", body | {"dry_run": True})
        _say_preview(console, answer, _again(args, verb))
    else:
        answer = _send(console, base, verb, body)
        say_switched(console, answer)
    if console.json:
        console.dump(answer)
    return SUCCESS


def _again(args: argparse.Namespace, verb: str) -> str:
    """The command that does what was previewed."""
    words = ["appliance", "plan", verb, args.plan, *([args.version] if verb == "switch" else []), *(["--force"] if args.force else [])]
    return " ".join(words)


def send_switch(console: Console, base: Base, to: str, *, force: bool, max_affected: str | None = None) -> dict[str, Any]:
    """Switch to `to`, having said how many that moves, and remember that its directory builds upon that switch from now on."""
    return _send(console, base, "switch", {"to": to, "expected": base.serial, "force": force, "max_affected": max_affected})


def _send(console: Console, base: Base, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/plans/{part(base.plan)}/{verb}"
    if not console.json:  # nothing is said there, so nothing is asked for
        ahead = console.client.post(path, body | {"dry_run": True, "max_affected": None})
        if ahead["deployments"]:
            console.note(f"{verb} {base.plan} to version {ahead['version']}: moves {_moves(ahead)}")
    answer: dict[str, Any] = console.client.post(path, body)
    _moved(base, answer)
    return answer


def _moves(answer: dict[str, Any]) -> str:
    """How many a switch moves, and what becomes of them."""
    moves = answer["moves"]
    words = {"runs": "will run", "waits": "wait", "complete": "complete at once", "held": "held"}
    parts = [f"{moves[one]} {text}" for one, text in words.items() if moves[one]]
    many = f"{count(len(answer['deployments']), 'deployment')} on {count(len(answer['servers']), 'server')}"
    return f"{many} ({', '.join(parts)})"


def _say_preview(console: Console, answer: dict[str, Any], command: str) -> None:
    """Say what a switch would do: per server and deployment."""
    plan = answer["plan"]
    if answer["unchanged"]:
        console.note(f"{plan} is at version {answer['version']} already: a switch to it does nothing")
        return
    if console.json:
        return
    was = "no version" if answer["was"] is None else f"version {answer['was']}"
    removed = f", {len(answer['removed'])} of them removed" if answer["removed"] else ""
    differs = f"{count(answer['changed'], 'file')} {'differs' if answer['changed'] == 1 else 'differ'}{removed}"
    console.note(f"{plan} from {was} to version {answer['version']}: {differs}; as of commit {answer['as_of_commit']}")
    for server in answer["preview"]:
        console.print(f"{server['name']} ({_seen(server)})")
        for one in server["deployments"]:
            console.print(f"  {one['label'].partition('/')[2]}: {_does(one)}")
    if answer["deployments"]:
        console.note(f"moves {_moves(answer)}; nothing was changed")
    else:
        console.note("no deployment uses a file that differs; nothing was changed")
    console.next(command)


def _seen(server: dict[str, Any]) -> str:
    if server["seen_at"] is None:
        return "never seen: runs when it joins" if server["kind"] != "stock" else "never seen"
    return f"last seen {since(server['seen_at'])}"


def _does(one: dict[str, Any]) -> str:
    waits = f"waits for {', '.join(one['waits_for'])}"
    words = {"runs": "runs", "waits": f"runs, and {waits}", "complete": "complete at once, nothing runs", "held": "held until a rerun"}
    if not one["moved"]:
        return f"does not change; {waits}"
    return f"{words[one['does']]}: {one['why']}" if one["why"] else words[one["does"]]


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
    differs = count(answer["changed"], "file") + (" differs" if answer["changed"] == 1 else " differ")
    forced = "; a newer switch was overruled" if answer["forced"] else ""
    console.note(f"{plan} is at version {version} now ({was}; switch {answer['serial']}{forced}): {differs}")
    number, servers = len(answer["deployments"]), len(answer["servers"])
    if number:
        made = f"{count(number, 'deployment')} on {count(servers, 'server')} changed with it"
        console.next("appliance status --watch", made)
    elif answer["was"] is None:
        console.next(f"appliance deploy NAME --plan {plan} --path FILE", "no deployment uses it yet")
    else:
        console.next(f"appliance plan log {plan}", "no deployment uses a file that differs")
