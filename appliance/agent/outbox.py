"""Delivering signals, whatever else the machine is doing: in order for each run, and again until there is an answer."""

from __future__ import annotations

import threading
import time

from . import ledger, signals
from .errors import Unreachable
from .journal import Journal
from .line import Line
from .log import say
from .settings import Settings
from .wire import Answer, Backoff


class Outbox:
    """What is to be delivered lies in the journal; this sends it."""

    def __init__(self, settings: Settings, journal: Journal, line: Line) -> None:
        self._settings, self._journal, self._line = settings, journal, line
        self._wait: dict[str, tuple[float, Backoff]] = {}  # of runs whose signal the appliance could not take just now
        self.acknowledged: dict[str, float] = {}  # of this process: when, by the monotonic clock
        self.news = threading.Event()

    def deliver(self) -> float | None:
        """Send what may be sent now. None if all is delivered, else when to try again, in seconds."""
        again: float | None = None
        while True:
            rows = ledger.pending(self._journal)
            now = time.monotonic()
            due = [row for row in rows if self._wait.get(row["run"], (0.0,))[0] <= now]
            if not due:
                if rows:
                    again = max(0.05, min(self._wait[row["run"]][0] for row in rows) - now)
                return again
            for row in due:
                if not self._line.up.is_set():
                    return self._settings.backoff_last
                try:
                    answer = self._line.signal(row["run"], signals.loads(row["body"]))
                except Unreachable as error:
                    self._line.lost(error.message)
                    return self._settings.backoff_last
                self._settle(row["seq"], row["run"], row["kind"], answer)

    def _settle(self, seq: int, run: str, kind: str, answer: Answer) -> None:
        if answer.good:
            self._wait.pop(run, None)
            ledger.acknowledged(self._journal, seq)
            self.acknowledged[run] = time.monotonic()
            if kind == "released":
                self._line.news()
            found = answer.object()
            if found.get("effect") == "none":
                say(f"run {run}: {kind} was received and had no effect ({found.get('why')})")
        elif answer.retry:
            _, backoff = self._wait.get(run, (0.0, Backoff(self._settings.backoff_first, self._settings.backoff_last)))
            self._wait[run] = (time.monotonic() + backoff.after(answer), backoff)
            say(f"run {run}: {kind} not delivered yet: {answer.sentence}")
        elif answer.status in (400, 413) and ledger.shortened(self._journal, seq):
            say(f"run {run}: the result was not accepted ({answer.sentence}); it is sent again without long texts and outputs")
        else:
            self._wait.pop(run, None)
            ledger.parked(self._journal, seq, answer.sentence)
            say(f"run {run}: {kind} was not accepted and is kept here: {answer.sentence}")
