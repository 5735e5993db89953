"""Waiting until deployments are settled, through restarts of the appliance."""

import time
from dataclasses import dataclass
from typing import Any

from appliance.cli.common import BLOCKED, FAILED, NOT_FOUND, SUCCESS, TIMEOUT, Console, span
from appliance.cli.finding import label, standing, summary
from appliance.client import Refused, Unreachable, part

POLL_SECONDS = 30
WAIT_SECONDS = 3600  # where nobody says another time
SHOWN_SECONDS = 2  # on a terminal the progress line must move
RETRY_SECONDS = 0.5

# Of several, the first of these that one of them ends with is the exit code.
WORST = (NOT_FOUND, FAILED, BLOCKED, TIMEOUT, SUCCESS)


@dataclass(slots=True)
class _Waited:
    """One deployment that is waited for: as it was seen last, and what became of it."""

    view: Any
    code: int | None = None
    sentence: str = ""


class Waiter:
    """Waits for all of several deployments, until one deadline for them together."""

    def __init__(self, console: Console, views: list[Any], timeout: int | None) -> None:
        self.console = console
        self.items = [_Waited(view) for view in views]
        self.began = time.monotonic()
        self.end = None if timeout is None else self.began + timeout
        self.away: str | None = None

    def run(self) -> int:
        """Wait; the exit code. Says what became of each as soon as that is known."""
        for item in self.items:
            while item.code is None:
                self._look(item)
            self.console.progress_over()
            self._say(item)
        if self.console.json:
            self.console.dump([{**item.view, "exit_code": item.code} for item in self.items])
        return next(code for code in WORST if any(item.code == code for item in self.items))

    def _left(self) -> float | None:
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    def _look(self, item: _Waited) -> None:
        """Ask once how it stands, waiting there for its end."""
        left = self._left()
        self._progress(item)
        longest: float = SHOWN_SECONDS if self.console.err.isatty() else POLL_SECONDS
        seconds = longest if left is None else min(longest, left)
        try:
            item.view = self.console.client.get(
                f"/v1/deployments/{part(item.view['id'])}",
                timeout=seconds + 30,
                wait=f"{seconds:.3f}",
                generation=item.view["generation"]["number"],
            )
            self.away = None
        except Unreachable as error:
            self._pause(item, error.message, left)
            return
        except Refused as error:
            if error.status in (502, 503, 504):
                self._pause(item, error.message, left)
            elif error.status in (404, 410):
                item.code, item.sentence = NOT_FOUND, "was deleted"
            else:
                raise
            return
        self._judge(item, left)

    def _judge(self, item: _Waited, left: float | None) -> None:
        view = item.view
        match view["settled"]:
            case "complete":
                item.code = SUCCESS
            case "failed":
                item.code = FAILED
            case "blocked":
                item.code = BLOCKED
            case "superseded":
                by = view["generation"]
                self.console.progress_over()
                self.console.note(
                    f"{label(view)}: generation {by['number']} ({by['cause']} by {by['by']}) took its place; waiting for that"
                )
            case _ if left == 0:
                item.code = TIMEOUT

    def _pause(self, item: _Waited, why: str, left: float | None) -> None:
        if left == 0:
            item.code, item.sentence = TIMEOUT, f"not known: {why}"
            return
        if self.away is None:
            self.console.progress_over()
            self.console.note(f"{why}; trying again")
        self.away = why
        self.console.close()
        time.sleep(RETRY_SECONDS if left is None else min(RETRY_SECONDS, left))

    def _progress(self, item: _Waited) -> None:
        done = sum(1 for one in self.items if one.code is not None)
        count = f"{done} of {len(self.items)}; " if len(self.items) > 1 else ""
        state = "the appliance does not answer" if self.away else standing(item.view)
        self.console.progress(f"{count}{label(item.view)}: {state} ({span(time.monotonic() - self.began)})")

    def _say(self, item: _Waited) -> None:
        view = item.view
        sentence = item.sentence or summary(view)
        if item.code == TIMEOUT and not item.sentence:
            sentence = f"still {sentence}"
        self.console.note(f"{label(view)}: {sentence}")


def wait_for(console: Console, views: list[Any], timeout: int | None) -> int:
    """Wait until each of `views` is settled on the generation it has there, or on one that took its place; the exit code.

    All complete 0; else the first of: one was deleted 5, failed 1, waits for one that failed 4, was not settled in time 3. An appliance
    that does not answer is asked again until the timeout.
    """
    waiter = Waiter(console, views, timeout)
    code = waiter.run()
    views = [item.view for item in waiter.items]
    names = [label(view) for view in views]
    if code == SUCCESS and (held := [label(view) for view in views if view["held"]]):
        console.next("appliance rerun " + " ".join(held), "to run it again")
    elif code == SUCCESS and len(names) == 1:
        console.next(f"appliance log {names[0]}")
    elif code in (FAILED, BLOCKED, TIMEOUT):
        console.next(f"appliance why {names[0]}" if len(names) == 1 else "appliance status")
    return code
