"""One start, from the decision to the journaled result; and what is left of the starts of an agent that died."""

from __future__ import annotations

import os
import select
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Callable

from . import capture, hooks, ledger, procfs, results, signals, workdir
from .capture import Capture
from .document import Document
from .facts import Facts
from .hooks import CannotStart
from .journal import Journal
from .ledger import Running
from .log import say
from .passes import Start
from .process import Leader
from .settings import Settings
from .signals import Result, wall


class Runner:
    """Runs one thing at a time. `stop` is a descriptor that becomes readable when the agent is told to stop; `news` rings the outbox."""

    def __init__(self, settings: Settings, journal: Journal, facts: Facts, agent_start: str, stop: int, news: Callable[[], None]) -> None:
        self._settings, self._journal, self._facts = settings, journal, facts
        self._agent_start, self._stop, self._news = agent_start, stop, news

    def run(self, start: Start, document: Document) -> str:
        """Run it to its end; the verdict. Raises OSError or sqlite3.Error only if nothing was started."""
        item, run = start.item, start.run or str(uuid.uuid4())
        begun = Running(run, item, start.repeat, document.changed, self._facts.boot, self._agent_start, wall())
        say(f"{item.name}: {'repeat (' + start.repeat + ')' if start.repeat else 'run'} {run} starts")
        if workdir.was_released(self._settings.runs, run):
            return self._lost(begun)
        directory = workdir.make(self._settings.runs, run)
        try:
            result = self._started(begun, directory)
        except CannotStart as error:
            ledger.running(self._journal, begun, None, None)
            result = Result(error.outcome, begun.started_at, wall(), message=error.sentence)
        verdict = self._keep(begun, result)
        workdir.wipe(directory)
        workdir.prune(self._settings.runs)
        ledger.prune(self._journal)
        return verdict

    def _started(self, begun: Running, directory: Path) -> Result:
        settings, item = self._settings, begun.item
        prepared = hooks.prepare(item, begun.run, directory, settings.hooks, os.environ, settings.umask)
        out = Capture(directory / "stdout")
        try:
            err = Capture(directory / "stderr")
            try:
                leader = Leader(prepared.program, begun.run, out, err)
                try:
                    ledger.running(self._journal, begun, leader.pgid, leader.start_time)
                except BaseException:
                    leader.abandon()
                    raise
                try:
                    workdir.mark_released(directory)
                    failure = leader.release()
                except OSError as error:
                    leader.abandon()
                    failure = f"it could not be started: {error.strerror}"
                self._news()  # the start is delivered while it runs
                if failure is not None:
                    return Result("invalid", begun.started_at, wall(), message=failure)
                ending = leader.wait(item.timeout, grace=settings.grace, stop=self._stop)
                declared = item.config.get("outputs") or []
                return results.gather(prepared, declared, ending, out, err, begun.started_at, item.timeout)
            finally:
                err.close()
        finally:
            out.close()

    def _keep(self, begun: Running, result: Result) -> str:
        """Journal the result. It exists only here, so a full disk is waited for."""
        verdict = signals.verdict(result, begun.item.config.get("outputs") or [])
        ended = time.monotonic()
        while True:
            try:
                ledger.finished(self._journal, begun.run, result, verdict, ended)
            except (OSError, sqlite3.Error) as error:
                say(f"{begun.item.name}: the result cannot be written ({error}); trying again")
                if _readable(self._stop, 5.0):
                    raise
            else:
                break
        code = "" if result.status_code is None else f" {result.status_code}"
        say(f"{begun.item.name}: run {begun.run} {verdict} ({result.outcome}{code})")
        return verdict

    def _lost(self, begun: Running) -> str:
        """The journal calls startable what a witness says was started: a journal that lost its last steps."""
        ledger.running(self._journal, begun, None, None)
        now = wall()
        message = "the journal lost its record of this start; it is not started a second time"
        return self._keep(begun, Result("interrupted", now, now, message=message))


def settle(settings: Settings, journal: Journal, facts: Facts) -> None:
    """End what a dead agent left running, wait until it is gone, and report it as interrupted."""
    for row in journal.rows("SELECT * FROM run WHERE state = 'running' ORDER BY seq"):
        same_boot = row["boot"] == facts.boot
        left = procfs.end_found(row["pgid"], row["leader"], row["run"]) if same_boot else []
        why = "the agent was restarted" if same_boot else "the machine was restarted"
        message = f"cut short at {wall()} at the latest: {why}"
        if left:
            message += f"; these processes could not be ended: {', '.join(map(str, left))}"
        stdout, stderr = (capture.left_behind(settings.runs / row["run"] / name) for name in ("stdout", "stderr"))
        result = Result(
            "interrupted",
            row["started_at"],
            wall(),
            stdout=stdout[0],
            stderr=stderr[0],
            sizes={"stdout": stdout[1], "stderr": stderr[1]},
            truncated=tuple(name for name, found in (("stdout", stdout), ("stderr", stderr)) if found[2]),
            message=message,
        )
        workdir.wipe(settings.runs / row["run"])
        ledger.finished(journal, row["run"], result, "FAILED", time.monotonic() if same_boot else None)
        say(f"run {row['run']}: interrupted ({why})")


def settle_unknown(settings: Settings, journal: Journal) -> None:
    """End what a lost journal knew to be running: whatever carries the mark of a run that did not come to its end."""
    known = {row["run"] for row in journal.rows("SELECT run FROM run WHERE state IN ('running', 'finished')")}
    for run in workdir.leftovers(settings.runs):
        if run not in known and procfs.marked(run):
            procfs.end(None, run, grace=0)
            say(f"run {run}: its processes were ended; the journal no longer knew it")


def _readable(descriptor: int, seconds: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(seconds * 1000))
