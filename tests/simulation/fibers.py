"""Activities that can be suspended: each has a stack of its own, and only one thing ever runs at a time.

A fiber runs until it parks or ends; whoever resumed it goes on then. Worker threads carry the stacks and are used again.
"""

import _thread
from collections import deque
from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """What the process of an activity was killed with; nothing of ours catches it."""


class _Worker:
    def __init__(self) -> None:
        self.go = _thread.allocate_lock()
        self.go.acquire()
        self.fiber: Fiber | None = None
        _thread.start_new_thread(self._work, ())

    def _work(self) -> None:
        while True:
            self.go.acquire()
            fiber = self.fiber
            assert fiber is not None
            try:
                fiber.work()
            except BaseException as error:  # whatever ends it is for who resumed it
                fiber.error = error
            fiber.done, self.fiber = True, None
            _idle.append(self)
            fiber.back.release()


_idle: list[_Worker] = []


class Fiber:
    """One activity. `waits` says what it is parked for; `fates` are those of its next requests."""

    def __init__(self, work: Callable[[], Any], fates: list[str]) -> None:
        self.work = work
        self.fates = deque(fates)
        self.waits: str | None = None
        self.cut = False
        self.done = False
        self.error: BaseException | None = None
        self.back = _thread.allocate_lock()
        self.back.acquire()
        self._worker: _Worker | None = None
        self._thrown: BaseException | None = None

    def resume(self, thrown: BaseException | None = None) -> None:
        """Let it run until it parks or ends; `thrown` is raised where it was parked."""
        worker = self._worker
        if worker is None:
            worker = self._worker = _idle.pop() if _idle else _Worker()
            worker.fiber = self
        self.waits, self._thrown = None, thrown
        worker.go.release()
        self.back.acquire()

    def park(self, waits: str) -> None:
        """Give control back until somebody resumes it; called by the activity itself."""
        assert self._worker is not None
        self.waits = waits
        self.back.release()
        self._worker.go.acquire()
        if self._thrown is not None:
            raise self._thrown
