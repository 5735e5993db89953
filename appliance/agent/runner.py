"""One start, from the decision to the journaled result; and what is left of the starts of an agent that died."""

from __future__ import annotations

import os
import select
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Callable

from . import capture, checkout, hooks, ledger, procfs, results, signals, workdir
from .capture import Capture
from .content import Content, NotWanted, Patience, Source, Unavailable
from .document import Document
from .facts import Facts
from .hooks import CannotStart
from .journal import Journal
from .ledger import Running
from .log import say
from .manifest import BadManifest, Entry
from .passes import Start
from .process import Leader
from .settings import Settings
from .signals import Result, wall
from .supply import Supply, combined
from .wire import Backoff


class Runner:
    """Runs one thing at a time.

    `stop` is a descriptor that becomes readable when the agent is told to stop; `news` rings the outbox; `cancelled` knows of runs;
    `source` has the bytes of plan files; `wanted` says whether a start is still to be made while they are fetched.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        facts: Facts,
        agent_start: str,
        stop: int,
        news: Callable[[], None],
        cancelled: Callable[[str], bool],
        source: Source,
        wanted: Callable[[Start], bool],
    ) -> None:
        self._cancelled = cancelled
        self._settings, self._journal, self._facts = settings, journal, facts
        self._agent_start, self._stop, self._news = agent_start, stop, news
        self._source, self._wanted = source, wanted

    def run(self, start: Start, document: Document) -> str:
        """Run it to its end; the verdict. Raises OSError, sqlite3.Error or NotWanted only if nothing was started."""
        item, run = start.item, start.run or str(uuid.uuid4())
        begun = Running(run, item, start.repeat, document.changed, self._facts.boot, self._agent_start, wall())
        say(f"{item.name}: {'repeat (' + start.repeat + ')' if start.repeat else 'run'} {run} starts")
        if workdir.was_released(self._settings.runs, run):
            return self._lost(begun)
        content = Content(self._settings.content, self._settings.cache)
        try:
            return self._supplied(begun, Supply(content, self._source, self._patience(start)))
        finally:
            content.prune()
            ledger.prune(self._journal)

    def _supplied(self, begun: Running, supply: Supply) -> str:
        item = begun.item
        try:
            if item.group == checkout.GROUP:
                return self._keep(begun, checkout.run(item, supply), started=False)
            files = combined(supply.listed(digest) for digest in item.files)
            supply.fetch(files)
        except (Unavailable, BadManifest) as error:
            return self._keep(begun, _unavailable(begun, error), started=False)
        directory = workdir.make(self._settings.runs, begun.run)
        try:
            result = self._started(begun, directory, supply, files)
        except CannotStart as error:
            ledger.running(self._journal, begun, None, None)
            result = Result(error.outcome, begun.started_at, wall(), message=error.sentence)
        except (OSError, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - what nobody foresaw must not keep the other items from their turn
            ledger.running(self._journal, begun, None, None)
            result = _unforeseen(begun, error)
        verdict = self._keep(begun, result)
        workdir.wipe(directory)
        workdir.prune(self._settings.runs)
        return verdict

    def _patience(self, start: Start) -> Patience:
        def go_on(seconds: float) -> None:
            until = time.monotonic() + seconds
            while True:
                if not self._wanted(start) or _readable(self._stop, min(1.0, max(0.0, until - time.monotonic()))):
                    raise NotWanted
                if time.monotonic() >= until:
                    return

        backoff = Backoff(self._settings.backoff_first, self._settings.backoff_last)
        return Patience(start.item.timeout, backoff, go_on)

    def _started(self, begun: Running, directory: Path, supply: Supply, placed: tuple[Entry, ...]) -> Result:
        settings, item = self._settings, begun.item
        prepared = hooks.prepare(item, begun.run, directory, settings.hooks, os.environ, settings.umask)
        try:
            supply.place(placed, directory / "work")
        except (Unavailable, BadManifest) as error:
            raise CannotStart("invalid", str(error)) from None
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
                return self._released(leader, begun, directory, prepared, (out, err))
            finally:
                err.close()
        finally:
            out.close()

    def _released(
        self, leader: Leader, begun: Running, directory: Path, prepared: hooks.Prepared, captures: tuple[Capture, Capture]
    ) -> Result:
        """The result of a start that is journaled. Raises nothing but what asks the agent itself to end."""
        item, ending = begun.item, None
        try:
            try:
                workdir.mark_released(directory)
                failure = leader.release()
            except OSError as error:
                leader.abandon()
                failure = f"it could not be started: {error.strerror}"
            self._news()  # the start is delivered while it runs
            if failure is not None:
                return Result("invalid", begun.started_at, wall(), message=failure)
            grace = self._settings.grace
            ending = leader.wait(item.timeout, grace=grace, stop=self._stop, cancelled=lambda: self._cancelled(begun.run))
            declared = item.config.get("outputs") or []
            return results.gather(prepared, declared, ending, *captures, begun.started_at, item.timeout)
        except Exception as error:  # noqa: BLE001 - it was started: there must be a result
            if ending is None:
                leader.kill(self._settings.grace)
            return _unforeseen(begun, error)

    def _keep(self, begun: Running, result: Result, *, started: bool = True) -> str:
        """Journal the result, and the start with it if that is not journaled. It exists only here, so a full disk is waited for."""
        verdict = signals.verdict(result, begun.item.config.get("outputs") or [])
        ended = time.monotonic()
        while True:
            try:
                with self._journal.write():
                    if not started:
                        ledger.running(self._journal, begun, None, None)
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


def _unforeseen(begun: Running, error: Exception) -> Result:
    name = type(error).__name__
    say(f"{begun.item.name}: run {begun.run}: {name}")
    return Result("invalid", begun.started_at, wall(), message=f"the agent failed at it unexpectedly ({name})")


def _unavailable(begun: Running, error: Unavailable | BadManifest) -> Result:
    late = isinstance(error, Unavailable) and error.late
    return Result("timeout" if late else "invalid", begun.started_at, wall(), message=str(error))


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
