"""From what a run left behind to its result, within limits."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from .capture import REPORTED, Capture, clean, clip, join
from .hooks import NAME, Prepared
from .process import Ending
from .signals import Result, wall

OUTPUTS = 700_000  # bytes of all named outputs together
OWN = ("deploy_stdout", "deploy_stderr", "deploy_status_code")


@dataclass
class _Found:
    """What is being put together."""

    outcome: str = "ended"
    status_code: int | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    truncated: list[str] = field(default_factory=list)
    message: str | None = None


def gather(
    prepared: Prepared,
    declared: Sequence[Mapping[str, Any]],
    ending: Ending,
    out: Capture,
    err: Capture,
    started_at: str,
    timeout: float | None,
) -> Result:
    """The result of a run that was started and has ended."""
    found = _Found(status_code=ending.code, message=prepared.remark)
    for name, capture in (("stdout", out), ("stderr", err)):
        text, cut = capture.report()
        found.texts[name], found.sizes[name] = text, capture.size
        if cut:
            found.truncated.append(name)
    if prepared.builtin:
        found.outputs, cuts = _read_outputs(prepared.outputs, declared)
        found.truncated += cuts
    else:
        _answer(found, ending, out.read())
    if ending.how != "exited":
        found.outcome = "timeout" if ending.how == "timeout" else "interrupted"
        found.message = _cut_short(ending, timeout)
    found.truncated += [name for name in limit(found.outputs) if name not in found.truncated]
    return Result(
        outcome=found.outcome,
        started_at=started_at,
        ended_at=wall(),
        status_code=found.status_code,
        outputs=found.outputs,
        stdout=found.texts["stdout"],
        stderr=found.texts["stderr"],
        sizes=found.sizes,
        truncated=tuple(found.truncated),
        message=found.message,
    )


def limit(outputs: dict[str, Any]) -> list[str]:
    """Cut the longest outputs until all fit into the limit; names those cut."""
    sizes = {name: _size(value) for name, value in outputs.items()}
    room, cut = OUTPUTS, []
    for index, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        share = room // (len(sizes) - index)
        if sizes[name] > share:
            value = outputs[name]
            text = value if isinstance(value, str) else json.dumps(value)
            outputs[name] = clip(text, share)[0] if share > 200 else ""
            cut.append(name)
        room -= min(sizes[name], share)
    return cut


def _answer(found: _Found, ending: Ending, stdout: bytes) -> None:
    """Read a hook's answer: its standard output is one JSON object, or noise and then one on the last line."""
    exit_code = ending.code if ending.code is not None else 1
    answer, is_json = parse_answer(stdout)
    if answer is None:
        if ending.how == "exited" and exit_code == 0 and not is_json and not stdout.strip():
            found.outcome = "invalid"
            found.message = "the hook said nothing at all; is the tool it needs installed?"
        return
    found.outputs = {str(name): _cleaned(value) for name, value in answer.items() if name not in OWN}
    for name in ("stdout", "stderr"):
        if f"deploy_{name}" in answer:
            value = answer[f"deploy_{name}"]
            text = clean(value if isinstance(value, str) else json.dumps(value))
            found.texts[name], found.sizes[name], cut = clip(text, REPORTED)
            found.truncated = [other for other in found.truncated if other != name] + [name] * cut
    status = _status(answer.get("deploy_status_code"))
    if status is None and exit_code == 0 and ending.how == "exited":
        found.outcome = "invalid"
        found.message = "the hook gave no deploy_status_code; is the tool it needs installed?"
    elif exit_code == 0:
        found.status_code = status
    else:
        found.status_code = status or exit_code


def parse_answer(stdout: bytes) -> tuple[dict[str, Any] | None, bool]:
    """The object in a hook's output, and whether the output was JSON at all."""
    text = stdout.decode("utf-8", "replace").strip()
    try:
        whole = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        pass
    else:
        return (whole if isinstance(whole, dict) else None), True
    line = text.rpartition("\n")[2]
    for start in (0, line.find('{"')):
        try:
            last = json.loads(line[start:], parse_constant=str) if start >= 0 else None
        except (ValueError, RecursionError):
            continue
        if isinstance(last, dict) and "deploy_status_code" in last:
            return last, False
    return None, False


def _read_outputs(prefix: Path, declared: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Declared outputs from `<prefix>.<name>`: only regular files, and never more of them than is reported."""
    found: dict[str, Any] = {}
    cut = []
    for output in declared:
        name = str(output.get("name") or "")
        if not NAME.fullmatch(name) or name in OWN:
            continue
        try:
            descriptor = os.open(f"{prefix}.{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_size <= OUTPUTS:
                found[name] = os.pread(descriptor, status.st_size, 0).decode("utf-8", "replace")
            else:
                half = OUTPUTS // 2
                head, tail = os.pread(descriptor, half, 0), os.pread(descriptor, half, status.st_size - half)
                found[name] = join(head, tail, status.st_size)
                cut.append(name)
        finally:
            os.close(descriptor)
    return found, cut


def _cut_short(ending: Ending, timeout: float | None) -> str:
    what = f"the time limit of {timeout:g} s was reached" if timeout and ending.how == "timeout" else "the agent was stopped"
    if ending.left:
        return f"{what}; these processes could not be ended: {', '.join(map(str, ending.left))}"
    return f"{what}; the process group was ended"


def _status(value: object) -> int | None:
    if isinstance(value, (int, float)):
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None


def _cleaned(value: Any) -> Any:
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))


def _size(value: Any) -> int:
    return len((value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "replace"))
