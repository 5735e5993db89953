"""What an agent sees of the world outside: time, ids, the line and processes, put in place of the real ones."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from appliance.agent import journal, line, loop, outbox, runner, signals, wire
from appliance.agent.capture import Capture
from appliance.agent.journal import Journal
from appliance.agent.process import Ending, Program
from appliance.agent.wire import Answer

if TYPE_CHECKING:
    import sqlite3

    from .machine import Body


class Stage:
    """Whose turn it is: everything an agent asks of the outside is asked in its machine's name."""

    def __init__(self) -> None:
        self._body: Body | None = None

    @property
    def body(self) -> "Body":
        assert self._body is not None
        return self._body

    @contextmanager
    def turn(self, body: "Body") -> Iterator[None]:
        before, self._body = self._body, body
        try:
            yield
        finally:
            self._body = before


STAGE = Stage()


class SimTime:
    """The two clocks of the machine whose turn it is."""

    strftime, gmtime = staticmethod(time.strftime), staticmethod(time.gmtime)

    @staticmethod
    def monotonic() -> float:
        return STAGE.body.monotonic()

    @staticmethod
    def time() -> float:
        return STAGE.body.world.clock.wall() / 1000


class SimJournal(Journal):
    """The real journal, with moments before and after each commit at which the agent may be killed."""

    def __init__(self, body: "Body") -> None:
        self._body = body
        super().__init__(body.disk / "journal.db")

    @contextmanager
    def write(self) -> "Iterator[sqlite3.Connection]":
        self._body.point()
        with super().write() as tx:
            yield tx
            self._body.point()
        self._body.point()

    @property
    def committed(self) -> bool:
        return not self._db.in_transaction


class SimClient:
    """The line of one machine."""

    def __init__(self, url: str, *, insecure_http: bool, limit: float) -> None:
        self.url, self.limit, self._body = url, limit, STAGE.body

    def request(
        self, method: str, path: str, headers: Callable[[], Mapping[str, str]], message: object = None, *, limit: float | None = None
    ) -> Answer:
        return self._body.world.network.exchange(self._body, method, path, dict(headers()), message)

    def cut(self) -> None:
        self._body.cut()


class SimLeader:
    """A process of the machine whose turn it is."""

    def __init__(self, program: Program, run: str, out: Capture, err: Capture) -> None:
        self._body, self._program, self._run = STAGE.body, program, run
        self._body.point()
        self.pgid = self._body.world.number()
        self.start_time = self._body.world.clock.now

    def abandon(self) -> None:
        """It never ran anything; nothing is left of it."""

    def release(self) -> str | None:
        self._body.point()
        self._body.begin(self._run, self._program)
        self._body.point()
        return None

    def wait(self, timeout: float | None, *, grace: float, stop: int, cancelled: Callable[[], bool]) -> Ending:
        return self._body.wait_for(self._run)


class SimProcesses:
    """What an agent does to processes it finds."""

    @staticmethod
    def end_found(pgid: int | None, leader: int | None, run: str) -> list[int]:
        STAGE.body.cut_short(run)
        return []

    @staticmethod
    def marked(run: str) -> list[int]:
        return [1] if STAGE.body.lives(run) else []

    @staticmethod
    def end(pgid: int | None, run: str, *, grace: float) -> list[int]:
        STAGE.body.cut_short(run)
        return []


def _say(sentence: str) -> None:
    STAGE.body.world.say(f"{STAGE.body.label}: {sentence}")


@contextmanager
def installed() -> Iterator[None]:
    """Everything above in its place."""
    ids = SimpleNamespace(uuid4=lambda: f"10000000-0000-4000-8000-{STAGE.body.world.number():012x}")
    marks = SimpleNamespace(token_hex=lambda size: f"{STAGE.body.world.number():0{2 * size}x}")
    places: list[tuple[Any, str, Any]] = [
        *((room, "time", SimTime) for room in (line, loop, outbox, runner, signals, wire)),
        *((room, "say", _say) for room in (line, loop, outbox, runner)),
        *((room, "uuid", ids) for room in (loop, runner)),
        *((room, "secrets", marks) for room in (loop, journal)),
        (wire, "random", SimpleNamespace(uniform=lambda low, high: (low + high) / 2)),
        (loop, "status", SimpleNamespace(note=lambda *_: None)),
        (line, "Client", SimClient),
        (runner, "Leader", SimLeader),
        (runner, "procfs", SimProcesses),
    ]
    with ExitStack() as stack:
        for room, name, simulated in places:
            stack.enter_context(mock.patch.object(room, name, simulated))
        yield
