"""From flags to what a config states and a deployment is given. All of it is checked here before anything is sent."""

import argparse
import sys
from pathlib import Path
from typing import Any

from appliance.cli.common import Failure

TYPES = ("String", "Number", "CommaDelimitedList", "Json", "Boolean")
INPUTS = {"string": "String", "number": "Number", "list": "CommaDelimitedList", "json": "Json", "boolean": "Boolean", "bool": "Boolean"}


def body_flags(parser: argparse.ArgumentParser, *, config: bool) -> None:
    """Add the flags that say what to run."""
    parser.add_argument("--script", metavar="FILE", help="run this file; - reads standard input")
    parser.add_argument("--plan", metavar="PLAN", help="run a file of this plan, as it is current: a switch that changes it runs it again")
    parser.add_argument("--path", metavar="FILE", help="... which file of --plan")
    parser.add_argument(
        "--files",
        metavar="PLAN[/DIR]",
        action="append",
        default=[],
        help="have these files of a plan in the run's working directory, as they are current; may be repeated",
    )
    parser.add_argument("--directory", metavar="PATH", help="run nothing: keep the --files as this directory of the machine (hook plan)")
    parser.add_argument("--keep", metavar="N", type=int, help="... and the last N versions beside it (default 3)")
    if config:
        parser.add_argument("--config", metavar="ID", help="run this config, by id or name (see: appliance config list)")
    parser.add_argument("--hook", metavar="GROUP", help="the hook that understands it (default: script)")
    parser.add_argument(
        "--output",
        metavar="NAME[:error]",
        action="append",
        default=[],
        help="declare a named output; :error: its mere presence is a failure",
    )


def given_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that give inputs their values."""
    parser.add_argument("--input", metavar="K=V", action="append", default=[], help="give an input its value")
    parser.add_argument(
        "--secret",
        metavar="K=V|K=@FILE",
        action="append",
        default=[],
        help="the same, sealed and never shown; @FILE reads it (without its last line end)",
    )


def statement(args: argparse.Namespace, group: str | None = "script") -> dict[str, Any] | None:
    """What --script, --plan and --path, or --directory state, or None when none is given; for hook `group` where none is named.

    Raises Failure, and Invalid for what is no script.
    """
    from appliance.config import check_body

    if (args.plan is None) != (args.path is None):
        raise Failure("--plan and --path go together", "for example --plan lab --path scripts/base.sh")
    if args.script is not None and args.plan is not None:
        raise Failure("--script and --plan are two ways to say the same", "give one of them")
    if args.directory is not None:
        return _checkout(args)
    if args.keep is not None:
        raise Failure("--keep goes with --directory", "for example --files lab --directory /srv/lab --keep 3")
    group = args.hook or group
    stated: dict[str, Any] = {"group": group, "outputs": [output(one) for one in args.output]}
    stated |= {"files": [files(one) for one in args.files]} if args.files else {}
    if args.plan is not None:
        return stated | {"source": {"plan": args.plan, "path": args.path}}
    if args.script is None:
        return None
    where = "standard input" if args.script == "-" else args.script
    text = read_text(args.script, where)
    check_body(group, text, where)
    return stated | {"body": text}


def files(text: str) -> dict[str, str]:
    """A plan and a directory in it, from `PLAN` or `PLAN/DIR`."""
    plan, _, prefix = text.partition("/")
    return {"plan": plan, "prefix": prefix}


def _checkout(args: argparse.Namespace) -> dict[str, Any]:
    if args.script is not None or args.plan is not None or args.hook not in (None, "plan"):
        raise Failure("--directory keeps files and runs nothing", "leave out --script, --plan, --path and --hook")
    if len(args.files) != 1:
        raise Failure("--directory needs the files of one plan", "for example --files lab --directory /srv/lab")
    body = {"path": args.directory} | ({} if args.keep is None else {"keep": args.keep})
    return {"group": "plan", "files": [files(args.files[0])], "body": body, "outputs": [output(one) for one in args.output]}


def read_text(path: str, where: str) -> str:
    """A file's text, or standard input for `-`. Raises Failure when it cannot be read or is not text."""
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise Failure(f"{where} cannot be read: {error.strerror}") from None
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Failure(f"{where} is not text: line {line} is not UTF-8", "put binary files into a plan, or encode them") from None
    if "\0" in text:
        raise Failure(f"{where} is not text: it has a NUL byte", "put binary files into a plan, or encode them")
    return text


def output(text: str) -> dict[str, Any]:
    """A declared output from `NAME` or `NAME:error`."""
    name, colon, kind = text.rpartition(":")
    if colon and kind == "error":
        return {"name": name, "error_output": True}
    return {"name": text}


def declared(text: str) -> dict[str, Any]:
    """A declared input from `NAME[:TYPE][=DEFAULT]`; the type in any case, or short (number, list, json, bool)."""
    head, equals, default = text.partition("=")
    name, colon, kind = head.partition(":")
    if colon and kind.lower() not in INPUTS and kind not in TYPES:
        raise Failure(f"--input {text!r}: there is no type {kind!r}", f"types are {', '.join(TYPES)}")
    found: dict[str, Any] = {"name": name}
    if colon:
        found["type"] = kind if kind in TYPES else INPUTS[kind.lower()]
    return found | ({"default": default} if equals else {})


def given(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """(plain, secret) inputs by name. Raises Failure for what is not K=V, or given twice."""
    plain = _pairs("--input", args.input)
    secret = {name: _opened(name, value) for name, value in _pairs("--secret", args.secret).items()}
    return plain, secret


def _pairs(flag: str, texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            shown = repr(text) if flag == "--input" else "a value without '='"
            raise Failure(f"{flag} takes NAME=VALUE, and got {shown}")
        if name in found:
            raise Failure(f"{flag} {name} is given twice")
        found[name] = value
    return found


def _opened(name: str, value: str) -> str:
    if not value.startswith("@"):
        return value
    return read_text(value[1:], f"the file of --secret {name}").removesuffix("\n").removesuffix("\r")
