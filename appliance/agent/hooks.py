"""Hooks: finding the one for a group, preparing its start in a run's own directory, and reading what it answered.

`script` is built in, with heat-agents' contract for inputs, `heat_outputs_path` and outputs; so is `plan` (see `checkout`).
Any other group is an executable of that name in a hooks directory: the item as JSON on standard input, a JSON object on standard output. An
executable named `script` is preferred to the built-in.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from . import checkout, environment, files
from .document import Item
from .process import Program

NAME = re.compile(r"[A-Za-z0-9_:-]{1,200}")


class CannotStart(Exception):
    """The run ends without a start: `outcome` is `no-hook` or `invalid`, the sentence says why."""

    def __init__(self, outcome: str, sentence: str) -> None:
        super().__init__(sentence)
        self.outcome, self.sentence = outcome, sentence


@dataclass(frozen=True)
class Prepared:
    """A start made ready: what to run, where its outputs will be, and a remark for the result."""

    program: Program
    builtin: bool
    outputs: Path
    remark: str | None = None


def groups(directories: Sequence[Path]) -> list[str]:
    """The groups there are hooks for, sorted."""
    found = {"script", checkout.GROUP}
    for directory in directories:
        try:
            names = os.listdir(directory)  # noqa: PTH208 - names are all we need
        except OSError:
            continue
        found.update(name for name in names if NAME.fullmatch(name) and _executable(directory / name))
    return sorted(found)


def prepare(item: Item, run: str, directory: Path, hooks: Sequence[Path], environ: Mapping[str, str], umask: int) -> Prepared:
    """Make ready to run `item` in the fresh `directory`. Raises CannotStart, or OSError if there is no room."""
    hook = _find(item.group, hooks)
    (directory / "work").mkdir(mode=0o700)
    (directory / "outputs").mkdir(mode=0o700)
    if hook is None:
        return _script(item, run, directory, environ, umask)
    working, outputs = directory / "work", directory / "outputs"
    prefix = "HEAT_" + re.sub(r"[^A-Za-z0-9]", "_", item.group).upper()
    env = environment.base(environ, run, hook=True)
    env.update({f"{prefix}_WORKING": str(working), f"{prefix}_OUTPUTS": str(outputs)})
    stdin = directory / "item.json"
    files.write_whole(stdin, json.dumps(_stdin(item, run)).encode())
    return Prepared(Program([str(hook)], env, working, umask, stdin), builtin=False, outputs=outputs / run)


def _script(item: Item, run: str, directory: Path, environ: Mapping[str, str], umask: int) -> Prepared:
    body = item.config.get("config")
    if not isinstance(body, str) or not body:
        raise CannotStart("invalid", "the config of a script is its text; this one is empty or no text")
    line = body.partition("\n")[0]
    if not line.startswith("#!"):
        raise CannotStart("invalid", f"line 1 is {_quoted(line)}, but a script begins with '#!' and its interpreter")
    if line.endswith("\r"):
        raise CannotStart("invalid", f"line 1 is {_quoted(line)}: it has Windows line ends (CRLF)")
    options = item.config.get("options")
    allowed = options.get("allow_environment") if isinstance(options, dict) else None
    env = environment.base(environ, run, hook=False)
    env, dropped = environment.with_inputs(env, item.config.get("inputs") or [], allowed)
    outputs = directory / "outputs" / run
    env["heat_outputs_path"] = str(outputs)
    script = directory / "work" / run
    files.write_whole(script, body.encode("utf-8", "replace"), mode=0o700)
    remark = None
    if dropped:
        names = ", ".join(sorted(dropped))
        remark = f"left out of the environment: {names} (options.allow_environment can permit names)"
    program = Program([str(script)], env, directory / "work", umask)
    return Prepared(program, builtin=True, outputs=outputs, remark=remark)


def _find(group: str, directories: Sequence[Path]) -> Path | None:
    """The hook of `group`, None for the built-in. Raises CannotStart."""
    if NAME.fullmatch(group):
        for directory in directories:
            path = directory / group
            if path.is_file():
                if _executable(path):
                    return path
                raise CannotStart("no-hook", f"the hook {path} is not executable")
        if group == "script":
            return None
    raise CannotStart("no-hook", f"no hook `{group}` on this machine; it has: {', '.join(groups(directories))}")


def _stdin(item: Item, run: str) -> dict[str, Any]:
    config = item.config
    return {
        "id": run,
        "name": item.name,
        "group": item.group,
        "creation_time": config.get("creation_time") or "1970-01-01T00:00:00Z",
        "config": config.get("config") if config.get("config") is not None else "",
        "inputs": environment.for_hook(config.get("inputs") or [], item.group),
        "outputs": config.get("outputs") or [],
        "options": config.get("options") or {},
    }


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _quoted(line: str) -> str:
    return repr(line if len(line) <= 80 else line[:80] + "...")
