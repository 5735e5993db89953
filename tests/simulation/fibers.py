"""Activities that can be suspended: each has a stack of its own, and only one ever runs at a time.

A fiber runs until it parks or ends; whoever resumed it goes on then. So the agent's own blocking code runs as it is, and is held wherever
the history wants it held.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet


class Killed(BaseException):
    """What the process of an activity was killed with; nothing of ours catches it."""


class Fiber:
    """One activity. `waits` says what it is parked for; `fates` are those of its next requests; `error` is what ended it."""

    def __init__(self, work: Callable[[], Any], fates: list[str]) -> None:
        self.fates = deque(fates)
        self.waits: str | None = None
        self.cut = False
        self.done = False
        self.error: BaseException | None = None
        self._work = work
        self._stack = greenlet(self._run)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - whatever ends it is for who resumed it
            self.error = error
        self.done = True

    def resume(self, thrown: BaseException | None = None) -> None:
        """Let it run until it parks or ends; `thrown` is raised where it was parked."""
        self.waits = None
        self._stack.parent = getcurrent()
        if thrown is None:
            self._stack.switch()
        else:
            self._stack.throw(thrown)

    def park(self, waits: str) -> None:
        """Give control back until somebody resumes it; called by the activity itself."""
        self.waits = waits
        self._stack.parent.switch()
