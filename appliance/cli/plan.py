"""`appliance plan ...`: the commands about plans. Pushing, switching and exporting stand in files of their own."""

import argparse
import difflib
import hashlib
import shlex
import sys
from collections.abc import Iterator
from typing import Any

from appliance.cli.common import FAILED, NOT_FOUND, SUCCESS, USAGE, Console, Failure, clean, command, count, group, since, size, up_to
from appliance.client import part

PATCH_BYTES = 1 << 20
_MARK = {"added": "A", "removed": "D", "changed": "M"}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `plan` and its commands."""
    plan = group(subparsers, "plan", "push, switch and look at plans")
    parser = command(
        plan,
        "push",
        "store a directory as the next version of a plan",
        _push,
        example="appliance plan push ./templates lab --switch",
        reads=True,
    )
    parser.add_argument("directory", metavar="DIR", help="the directory that holds the plan's files")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the plan (default: the directory's name)")
    parser.add_argument("--switch", action="store_true", help="make it current at once")
    parser.add_argument(
        "--force",
        action="store_true",
        help="with --switch: overrule a switch by somebody else, or one this directory is not known to build upon",
    )
    parser.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        default=[],
        help="leave out, in the syntax of .gitignore; also in .applianceignore",
    )
    parser.add_argument("--resend", action="store_true", help="send everything, also what the appliance has: repairs damaged blobs")

    command(plan, "list", "list the plans", _list, example="appliance plan list", reads=True)

    parser = command(
        plan,
        "show",
        "show a plan and its versions, or one version",
        _show,
        example="appliance plan show lab\nappliance plan show lab 3",
        reads=True,
    )
    _plan(parser)
    parser.add_argument("version", metavar="VERSION", nargs="?", help="number, digest or 'current'")

    parser = command(
        plan,
        "ls",
        "list the files of a version",
        _ls,
        example="appliance plan ls lab\nappliance plan ls lab 3 --path puppet/",
        reads=True,
    )
    _plan(parser)
    parser.add_argument("version", metavar="VERSION", nargs="?", default="current", help="number, digest or 'current' (the default)")
    parser.add_argument("--path", metavar="PREFIX", default="", help="only what begins with this")
    parser.add_argument("-l", "--long", action="store_true", help="with mode, size and digest")

    parser = command(plan, "cat", "print a file of a plan", _cat, example="appliance plan cat lab scripts/hello.sh")
    _plan(parser)
    parser.add_argument("path", metavar="PATH", help="the file")
    parser.add_argument("--version", metavar="VERSION", default="current", help="number, digest or 'current' (the default)")

    parser = command(
        plan,
        "diff",
        "show what differs between two versions",
        _diff,
        example="appliance plan diff lab\nappliance plan diff lab 2 3 --patch",
        reads=True,
    )
    _plan(parser)
    parser.add_argument("old", metavar="FROM", nargs="?", help="version (default: current)")
    parser.add_argument("new", metavar="TO", nargs="?", help="version (default: the newest); given one version: from current to that one")
    parser.add_argument("-p", "--patch", action="store_true", help="show the lines that differ")

    parser = command(plan, "switch", "make a version current, atomically", _switch, example="appliance plan switch lab 3", reads=True)
    _plan(parser)
    parser.add_argument("version", metavar="VERSION", help="number or digest")
    parser.add_argument("--force", action="store_true", help="overrule a switch by somebody else; the log shows it")

    parser = command(
        plan,
        "rollback",
        "make the version before the current one current",
        _rollback,
        example="appliance plan rollback lab",
        reads=True,
    )
    _plan(parser)
    parser.add_argument("--force", action="store_true", help="overrule a switch by somebody else; the log shows it")

    parser = command(plan, "log", "list the switches of a plan, the newest first", _log, example="appliance plan log lab -n 20", reads=True)
    _plan(parser)
    parser.add_argument("-n", metavar="COUNT", type=up_to(1000), default=50, help="at most this many (default 50, at most 1000)")

    parser = command(
        plan,
        "export",
        "write a version to a directory",
        _export,
        example="appliance plan export lab ./lab\nappliance plan export lab ./lab-3 --version 3",
    )
    _plan(parser)
    parser.add_argument("directory", metavar="DIR", help="a new or empty directory")
    parser.add_argument("--version", metavar="VERSION", default="current", help="number, digest or 'current' (the default)")
    parser.add_argument("--force", action="store_true", help="also if DIR is not empty; what was there is kept beside it")

    parser = command(plan, "delete", "delete a plan with all its versions", _delete, example="appliance plan delete lab --yes")
    _plan(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="the plan's name")


# Loaded when asked for: a command line must start fast.


def _push(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.push import push

    return push(args, console)


def _switch(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.switching import switch

    return switch(args, console)


def _rollback(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.switching import rollback

    return rollback(args, console)


def _export(args: argparse.Namespace, console: Console) -> int:
    from appliance.cli.export import export

    return export(args, console)


# ---------------------------------------------------------------------------------------------------- looking


def _list(_: argparse.Namespace, console: Console) -> int:
    found = console.client.get("/v1/plans")["plans"]
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.next("appliance plan push DIR", "there is no plan yet")
        return SUCCESS
    console.table(
        ["plan", "current", "newest", "versions", "switched", "by"],
        [
            (
                one["name"],
                one["current"] or "-",
                one["newest"] or "-",
                one["versions"],
                since(one["switched_at"]),
                one["switched_by"] or "",
            )
            for one in found
        ],
    )
    console.next(f"appliance plan show {found[0]['name']}")
    return SUCCESS


def _show(args: argparse.Namespace, console: Console) -> int:
    plan = part(args.plan)
    if args.version is not None:
        found = console.client.get(f"/v1/plans/{plan}/versions/{part(args.version)}")
        if console.json:
            console.dump(found)
            return SUCCESS
        console.print(
            f"{args.plan} version {found['number']}: {count(found['files'], 'file')}, {size(found['bytes'])}",
            f"pushed {since(found['created_at'])} by {found['by']}",
            found["digest"],
        )
        console.next(f"appliance plan ls {args.plan} {found['number']}")
        return SUCCESS
    overview = console.client.get(f"/v1/plans/{plan}")
    versions = console.client.get(f"/v1/plans/{plan}/versions", limit=20)["versions"]
    if console.json:
        console.dump({**overview, "newest_versions": versions})
        return SUCCESS
    current = overview["current"]
    if current is None:
        console.print(f"{args.plan}: never switched")
    else:
        moved = f"switched {since(overview['switched_at'])} by {overview['switched_by']} (switch {overview['serial']})"
        console.print(f"{args.plan}: version {current} is current, {moved}")
    console.table(
        ["version", "files", "size", "pushed", "by", ""],
        [
            (
                one["number"],
                one["files"],
                size(one["bytes"]),
                since(one["created_at"]),
                one["by"],
                "current" if one["number"] == current else "",
            )
            for one in versions
        ],
    )
    if len(versions) < overview["versions"]:
        console.note(f"and {overview['versions'] - len(versions)} older")
    if overview["newest"] is not None and overview["newest"] != current:
        console.next(
            f"appliance plan diff {args.plan}" if current is not None else f"appliance plan switch {args.plan} {overview['newest']}"
        )
    return SUCCESS


def _ls(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(f"/v1/plans/{part(args.plan)}/versions/{part(args.version)}")
    entries = [one for one in found["entries"] if one["path"].startswith(args.path)]
    if not entries and args.path:
        raise Failure(
            f"version {found['number']} of plan {args.plan!r} has nothing that begins with {args.path!r}",
            f"see: appliance plan ls {args.plan} {found['number']}",
            NOT_FOUND,
        )
    if console.json:
        console.dump({**found, "entries": entries})
    elif args.long:
        console.table(["mode", "size", "digest", "path"], [(one["mode"], one["size"], one["digest"][7:19], one["path"]) for one in entries])
    else:
        console.print(*(one["path"] for one in entries))
        if entries:
            console.next(f"appliance plan cat {args.plan} {shlex.quote(entries[0]['path'])} --version {found['number']}")
    return SUCCESS


def _cat(args: argparse.Namespace, console: Console) -> int:
    """Bytes as they are to a pipe or file; to a terminal, text that cannot steer it."""
    path = f"/v1/plans/{part(args.plan)}/versions/{part(args.version)}/files/{'/'.join(part(one) for one in args.path.split('/'))}"
    hasher = hashlib.sha256()
    raw = None if console.out.isatty() else getattr(console.out, "buffer", None)
    with console.client.receive(path) as answer:
        while chunk := answer.read(1 << 16):
            hasher.update(chunk)
            if raw is not None:
                raw.write(chunk)
            else:
                console.out.write(clean(chunk.decode("utf-8", "replace").replace("\r\n", "\n")))
        digest = answer.headers["Appliance-Digest"]
    if digest != "sha256:" + hasher.hexdigest():
        raise Failure(
            f"{args.path} ended in the middle: what was printed is not all of it",
            "try again; the appliance's log may say why",
            FAILED,
        )
    return SUCCESS


def _log(args: argparse.Namespace, console: Console) -> int:
    found = console.client.get(f"/v1/plans/{part(args.plan)}/switches", limit=args.n)["switches"]
    if console.json:
        console.dump(found)
        return SUCCESS
    if not found:
        console.next(f"appliance plan show {args.plan}", f"{args.plan} was never switched")
        return SUCCESS
    console.table(
        ["switch", "version", "when", "by", ""],
        [(one["serial"], one["version"], since(one["at"]), one["by"], _remark(one)) for one in found],
    )
    if (found[0]["back_to"] or found[0]["serial"]) > 1:  # else there is nothing before it to go back to
        console.next(f"appliance plan rollback {args.plan}", "to go back")
    return SUCCESS


def _remark(switch: dict[str, Any]) -> str:
    remarks = []
    if switch["back_to"] is not None:
        remarks.append(f"rollback to switch {switch['back_to']}")
    if switch["forced"]:
        remarks.append("forced over a newer switch")
    return "; ".join(remarks)


# ---------------------------------------------------------------------------------------------------- differences


def _diff(args: argparse.Namespace, console: Console) -> int:
    old, new = ("current", args.old) if args.new is None and args.old is not None else (args.old or "current", args.new)
    found = console.client.get(f"/v1/plans/{part(args.plan)}/diff", from_=old, to=new)
    if console.json:
        console.dump(found)
        return SUCCESS
    before, after = found["from"]["number"], found["to"]["number"]
    if not found["changes"]:
        console.note(f"nothing differs between versions {before} and {after}")
        return SUCCESS
    for change in found["changes"]:
        if args.patch:
            console.print(*_patch(console, before, after, change))
        else:
            console.print(f"{_MARK[change['kind']]}  {change['path']}")
    kinds = [change["kind"] for change in found["changes"]]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("added", "changed", "removed") if kind in kinds)
    console.note(f"from version {before} to {after}: {counts}")
    if old == "current":
        console.next(f"appliance plan switch {args.plan} {after}")
    return SUCCESS


def _patch(console: Console, before: int, after: int, change: dict[str, Any]) -> Iterator[str]:
    path = change["path"]
    old, new = _lines(console, change["old"]), _lines(console, change["new"])
    if old is None or new is None:
        yield f"{_MARK[change['kind']]}  {path} (not text, or large)"
        return
    modes = [change[side]["mode"] if change[side] else None for side in ("old", "new")]
    if None not in modes and modes[0] != modes[1]:
        yield f"{path}: {modes[0]} becomes {modes[1]}"
    was, now = (f"{number}/{path}" if mode else "/dev/null" for number, mode in zip((before, after), modes, strict=True))
    yield from difflib.unified_diff(old, new, was, now, lineterm="")


def _lines(console: Console, entry: dict[str, Any] | None) -> list[str] | None:
    if entry is None:
        return []
    if entry["size"] > PATCH_BYTES:
        return None
    with console.client.receive(f"/v1/blobs/{part(entry['digest'])}") as answer:
        raw = answer.read()
    try:
        return raw.decode().splitlines() if b"\0" not in raw else None
    except UnicodeDecodeError:
        return None


# ---------------------------------------------------------------------------------------------------- deleting


def _delete(args: argparse.Namespace, console: Console) -> int:
    if not args.yes:
        if not sys.stdin.isatty():
            raise Failure("this deletes the plan with all its versions", "say --yes if that is meant", USAGE)
        console.err.write(f"delete {clean(args.plan)} with all its versions? type its name: ")
        console.err.flush()
        if sys.stdin.readline().strip() != args.plan:
            raise Failure("nothing was deleted", code=USAGE)
    console.client.delete(f"/v1/plans/{part(args.plan)}")
    console.note(f"deleted {args.plan}")
    console.next("appliance plan list")
    return SUCCESS
