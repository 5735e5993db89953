"""From what a run left behind to its result, within limits."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from .capture import REPORTED, Capture, clean, clip, join
from .hooks import NAME, Prepared
from .process import Ending
from .signals import Result, wall

OUTPUTS = 700_000  # bytes of all named outputs together, as JSON
ANSWER = 4 << 20  # of standard output that is read as an answer; of more, only the last line is
DEPTH = 90  # of one output; the appliance refuses what is nested more than 100 deep in all
DIGITS = 300  # of a number; with more it is a text
LARGEST_STATUS = 2**53
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
        _answer(found, ending, out)
    if ending.how != "exited":
        found.outcome = "interrupted" if ending.how == "stopped" else ending.how
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
    room, cut = OUTPUTS - sum(_size(name) for name in outputs), []
    for index, name in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        share = max(0, room) // (len(sizes) - index)
        if sizes[name] > share:
            outputs[name] = _fit(_as_text(outputs[name]), share)
            cut.append(name)
        room -= min(sizes[name], share)
    return cut


def _fit(text: str, share: int) -> str:
    """Head and tail of a text, `share` bytes at most as JSON."""
    size = min(share, len(text.encode("utf-8", "replace")))
    while size > 200:
        part = clip(text, size)[0]
        actual = _size(part)
        if actual <= share:
            return part
        size = int(size * share / actual * 0.98)
    return ""


def _answer(found: _Found, ending: Ending, out: Capture) -> None:
    """Read a hook's answer: its standard output is one JSON object, or noise and then one on the last line."""
    exit_code = ending.code if ending.code is not None else 1
    whole = out.size <= ANSWER
    stdout = out.tail(ANSWER)
    answer, is_json = parse_answer(stdout, whole=whole)
    if answer is None:
        if ending.how != "exited" or exit_code != 0 or is_json:
            return
        if not whole and out.head(1) == b"{" and stdout.rstrip().endswith(b"}"):
            found.outcome = "invalid"
            found.message = f"the hook's answer is larger than {ANSWER >> 20} MiB, which is not read"
        elif not stdout.strip():
            found.outcome = "invalid"
            found.message = "the hook said nothing at all; is the tool it needs installed?"
        return
    found.outputs = {clean(str(name)): _cleaned(value) for name, value in answer.items() if name not in OWN}
    for name in ("stdout", "stderr"):
        if f"deploy_{name}" in answer:
            text = clean(_as_text(answer[f"deploy_{name}"]))
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


def parse_answer(stdout: bytes, *, whole: bool = True) -> tuple[dict[str, Any] | None, bool]:
    """The object in a hook's output, and whether the output was JSON at all.

    If `stdout` is not the whole output but the end of it, only its last line is looked at, and whether that is JSON.
    """
    if not whole:
        stdout = stdout.rstrip()
        stdout = stdout[stdout.rfind(b"\n") + 1 :]
    text = stdout.decode("utf-8", "replace").strip()
    try:
        value = _loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        if whole:
            return (value if isinstance(value, dict) else None), True
        return (value if isinstance(value, dict) and "deploy_status_code" in value else None), True
    line = text.rpartition("\n")[2]
    for start in (0, line.find('{"')):
        try:
            last = _loads(line[start:]) if start >= 0 else None
        except (ValueError, RecursionError):
            continue
        if isinstance(last, dict) and "deploy_status_code" in last:
            return last, False
    return None, False


def _loads(text: str) -> Any:
    """JSON in which every number is one that others can read, too: what is infinite, or none, or very long is a text."""
    return json.loads(text, parse_constant=str, parse_float=_float, parse_int=_int)


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _int(text: str) -> int | str:
    return int(text) if len(text) <= DIGITS else text


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
    limit = f"the time limit of {timeout:g} s was reached" if timeout else "the time limit was reached"
    reasons = {"timeout": limit, "cancelled": "it was cancelled"}
    what = reasons.get(ending.how, "the agent was stopped")
    if ending.left:
        return f"{what}; these processes could not be ended: {', '.join(map(str, ending.left))}"
    return f"{what}; the process group was ended"


def _status(value: object) -> int | None:
    """A status code as a number that everyone can hold, None for none. What is out of range is a failure."""
    if isinstance(value, str):
        try:
            value = int(value) if len(value) <= DIGITS else float(value)
        except ValueError:
            try:
                if math.isfinite(float(value)):
                    return None
            except ValueError:
                return None
            return 1
    if not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return 1
    return int(value) if abs(value) < LARGEST_STATUS else 1


def _cleaned(value: Any) -> Any:
    """Valid Unicode throughout, and as a text what is nested too deep for the appliance."""
    if _too_deep(value):
        return clean(_as_text(value))
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _as_text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        return "(left out: nested too deep)"


def _size(value: Any) -> int:
    """Bytes of it as JSON, all but ASCII escaped: never less than what is sent or counted."""
    return len(json.dumps(value))
