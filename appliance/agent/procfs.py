"""Finding processes: who is in a group, who carries a run's mark, and ending them without ever hitting a stranger."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from .facts import start_time

PROC = Path("/proc")
MARK = "APPLIANCE_RUN"


def members(pgid: int) -> list[int]:
    """Living processes of a group; zombies do not count."""
    found = []
    for pid in _pids():
        try:
            fields = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if len(fields) > 2 and fields[2] == str(pgid) and fields[0] not in "ZX":
            found.append(pid)
    return found


def marked(run: str) -> list[int]:
    """Living processes that carry the run's mark in the environment they were started with, wherever they went."""
    wanted = f"{MARK}={run}".encode()
    found = []
    for pid in _pids():
        try:
            carries = wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if carries and pid != os.getpid():
            found.append(pid)
    return found


def end(pgid: int | None, run: str, *, grace: float, patience: float = 30.0) -> list[int]:
    """End the group and everything that carries the run's mark: TERM, `grace` seconds, KILL, until nothing is left.

    Returns what is left after `patience` seconds (a process the kernel will not let go), usually nothing.
    """
    left = _living(pgid, run)
    if left and grace > 0:
        _send(pgid, left, signal.SIGTERM)
        left = _wait(pgid, run, grace)
    until = time.monotonic() + patience
    while left and time.monotonic() < until:
        _send(pgid, left, signal.SIGKILL)
        left = _wait(pgid, run, 0.2)
    return left


def end_found(pgid: int | None, leader: int | None, run: str) -> list[int]:
    """End what a dead agent left running. The group is ended only if its leader is the process that was journaled."""
    ours = pgid is not None and leader is not None and start_time(PROC / str(pgid) / "stat") == leader
    return end(pgid if ours else None, run, grace=0)


def _living(pgid: int | None, run: str) -> list[int]:
    group = members(pgid) if pgid is not None else []
    return group + [pid for pid in marked(run) if pid not in group]


def _wait(pgid: int | None, run: str, seconds: float) -> list[int]:
    until = time.monotonic() + seconds
    while True:
        left = _living(pgid, run)
        if not left or time.monotonic() >= until:
            return left
        time.sleep(0.02)


def _send(pgid: int | None, pids: list[int], what: int) -> None:
    if pgid is not None and members(pgid):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pgid, what)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            if pgid is None or os.getpgid(pid) != pgid:
                os.kill(pid, what)


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - names are all we need
    except OSError:
        return []
