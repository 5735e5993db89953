"""The bodies of signals, and the verdict on a run. Values in, values out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Iterable, Mapping

from .passes import COMPLETE, FAILED


@dataclass(frozen=True)
class Result:
    """What came of a run. `outcome` is `ended`, `timeout`, `interrupted`, `cancelled`, `no-hook` or `invalid`."""

    outcome: str
    started_at: str
    ended_at: str
    status_code: int | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""
    sizes: Mapping[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    truncated: tuple[str, ...] = ()
    message: str | None = None


def wall(moment: float | None = None) -> str:
    """RFC 3339 wall time, for people; nothing is decided by it."""
    seconds = time.time() if moment is None else moment
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


def verdict(result: Result, outputs: Iterable[Mapping[str, Any]]) -> str:
    """COMPLETE or FAILED, by Heat's rule: a non-zero status, or a received output flagged `error_output`, is FAILED."""
    flagged = {str(output.get("name")) for output in outputs if output.get("error_output")}
    if result.outcome != "ended" or result.status_code != 0 or flagged.intersection(result.outputs):
        return FAILED
    return COMPLETE


def body(kind: str, run: Mapping[str, Any], **more: object) -> dict[str, object]:
    """A signal about `run` (its deployment, generation and attempt)."""
    common = {key: run[key] for key in ("deployment", "generation", "attempt")}
    return {"kind": kind, **common, "leg": 1, "at": wall(), **more}


def finished(run: Mapping[str, Any], result: Result) -> dict[str, object]:
    """The `finished` signal."""
    return body("finished", run, **{**asdict(result), "truncated": list(result.truncated)})


def dumps(signal: Mapping[str, object]) -> str:
    """A signal as JSON that everyone can read. Raises ValueError for numbers that JSON does not have."""
    return json.dumps(signal, allow_nan=False)


def loads(text: str) -> dict[str, Any]:
    """A signal from the journal; numbers that JSON does not have become texts."""
    found: dict[str, Any] = json.loads(text, parse_constant=str)
    return found
