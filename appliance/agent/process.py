"""Starting a program so that at most one start can come of it, and ending it with everything it started.

A leader is forked that blocks on a pipe; the start is journaled; only then the leader is told what to become. If the
pipe closes before that, the leader exits and has run nothing. Standard input is never a terminal.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Sequence

from . import procfs
from .capture import Capture
from .facts import start_time

TICK = 0.2

# Runs before anything of the user's does, isolated (-I) and without site packages (-S).
LEADER = """
import json, os, signal, sys
go, failure = int(sys.argv[1]), int(sys.argv[2])
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(go, size - len(data))
        if not part:
            os._exit(125)
        data += part
    return data
spec = json.loads(take(int.from_bytes(take(8), "big")))
os.close(go)
os.set_inheritable(failure, False)
for name in ("SIGPIPE", "SIGXFSZ", "SIGINT"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
try:
    os.umask(spec["umask"])
    os.chdir(spec["cwd"])
    os.execve(spec["argv"][0], spec["argv"], spec["env"])
except OSError as error:
    os.write(failure, str(error.errno).encode())
except ValueError as error:
    os.write(failure, b"22")
os._exit(127)
"""


@dataclass(frozen=True)
class Program:
    """What to run: path and arguments, environment, working directory, umask, and a file for standard input."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    umask: int
    stdin: Path | None = None


@dataclass(frozen=True)
class Ending:
    """How it ended: `exited` with a code (negative: a signal), `timeout`, `stopped` or `cancelled`; `left` could not be ended."""

    how: str
    code: int | None
    left: tuple[int, ...] = ()


class Leader:
    """One start of `program` for `run`: forked now, started by `release`, waited for by `wait`."""

    def __init__(self, program: Program, run: str, out: Capture, err: Capture) -> None:
        self._program, self._run, self._captures = program, run, (out, err)
        read_go, self._go = os.pipe()
        self._failure, write_failure = os.pipe()
        stdin = os.open(program.stdin or os.devnull, os.O_RDONLY)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LEADER, str(read_go), str(write_failure)],
                stdin=stdin,
                stdout=out.descriptor,
                stderr=err.descriptor,
                env={**os.environ, procfs.MARK: run},
                cwd="/",
                pass_fds=(read_go, write_failure),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._go)
            os.close(self._failure)
            raise
        finally:
            for descriptor in (read_go, write_failure, stdin):
                os.close(descriptor)
        self.pgid = self._process.pid
        self.start_time = start_time(procfs.PROC / str(self.pgid) / "stat")

    def abandon(self) -> None:
        """Let the leader go without ever running anything. Harmless after `release`."""
        for descriptor in (self._go, self._failure):
            with suppress(OSError):
                os.close(descriptor)
        self._process.wait()

    def release(self) -> str | None:
        """Tell the leader what to become. None if it did, else the sentence that says why it could not be started."""
        program = self._program
        spec = {"argv": list(program.argv), "env": dict(program.env), "cwd": str(program.cwd), "umask": program.umask}
        data = json.dumps(spec).encode()
        with os.fdopen(self._go, "wb") as pipe, suppress(BrokenPipeError):
            pipe.write(len(data).to_bytes(8, "big") + data)
        with os.fdopen(self._failure, "rb") as answer:
            failure = answer.read().strip()
        if not failure:
            return None
        self._process.wait()
        return _sentence(int(failure), program)

    def wait(self, timeout: float | None, *, grace: float, stop: int, cancelled: Callable[[], bool]) -> Ending:
        """Wait for the end, at most `timeout` seconds of the monotonic clock, or until `stop` is readable or it is `cancelled`.

        In each of these cases the whole process group and whatever carries the run's mark is ended. What a program
        that came to its own end left in the background is left alone.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        poller = select.poll()
        poller.register(stop, select.POLLIN)
        watch = self._watch(poller)
        try:
            while True:
                left = TICK if deadline is None else min(TICK, deadline - time.monotonic())
                ready = {descriptor for descriptor, _ in poller.poll(max(0.0, left) * 1000)}
                for capture in self._captures:
                    capture.bound()
                code = self._process.poll()
                if code is not None:
                    return Ending("exited", code)
                if deadline is not None and time.monotonic() >= deadline:
                    return self._end("timeout", grace)
                if stop in ready:
                    return self._end("stopped", grace)
                if cancelled():
                    return self._end("cancelled", grace)
        finally:
            if watch is not None:
                os.close(watch)

    def kill(self, grace: float) -> None:
        """End it with everything it started, whatever else fails."""
        try:
            self._end("stopped", grace)
        except Exception:  # noqa: BLE001 - without descriptors or memory at least the group can be ended
            with suppress(OSError):
                os.killpg(self.pgid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)

    def _watch(self, poller: select.poll) -> int | None:
        try:
            descriptor = os.pidfd_open(self.pgid)
        except (AttributeError, OSError):
            return None  # an older kernel: the tick finds out
        poller.register(descriptor, select.POLLIN)
        return descriptor

    def _end(self, how: str, grace: float) -> Ending:
        left = procfs.end(self.pgid, self._run, grace=grace)
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=1 if left else 10)
        for capture in self._captures:
            capture.bound()
        return Ending(how, code, tuple(left))


def _sentence(number: int, program: Program) -> str:
    path = Path(program.argv[0])
    if number == errno.ENOENT and path.exists():
        with path.open("rb") as file:
            first = file.readline(200).decode("utf-8", "replace").strip()
        return f"the interpreter named in line 1 ({first!r}) does not exist on this machine"
    if number == errno.ENOEXEC:
        return f"{path.name} is no program: it has no '#!' line"
    if number == errno.E2BIG:
        return "the inputs are too large for an environment"
    return f"{path} could not be started: {os.strerror(number)}"
