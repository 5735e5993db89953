"""The agent at work: decide, journal, claim, run, again; a thread that polls and a thread that delivers beside it."""

from __future__ import annotations

import os
import secrets
import select
import sqlite3
import threading
import time
import uuid
from contextlib import suppress
from typing import Any, Callable

from . import errors, files, ledger, passes, runner, status, workdir
from . import facts as machine
from .content import NotWanted
from .document import Document
from .errors import Unreachable
from .facts import Facts
from .identity import Identity
from .journal import Journal
from .line import Line
from .log import say
from .outbox import Outbox
from .passes import Moment, Start
from .settings import Settings
from .wire import Answer, Backoff

LAST_DELIVERY = 3.0
IDLE = 30.0
PAUSE = 5.0  # after something that could not be done
MANY = 200  # runs in one claim; what an item waits for is in the same claim or in one before


class Agent:
    """One agent start. `run` stays, `one_pass` does what there is to do; both return an exit code."""

    def __init__(self, settings: Settings, journal: Journal, facts: Facts, me: Identity) -> None:
        self._settings, self._journal, self._facts = settings, journal, facts
        self._start_mark = secrets.token_hex(8)
        self._stop_read, self._stop_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._stop_write, self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._stopping = threading.Event()
        self.line = Line(settings, me, facts, journal, self._news)
        self.outbox = Outbox(settings, journal, self.line)
        self._runner = runner.Runner(
            settings, journal, facts, self._start_mark, self._stop_read, self.outbox.news.set, self._cancelled, self.line, self._is_wanted
        )
        self._claim_backoff = Backoff(settings.backoff_first, settings.backoff_last)
        self._claim_at = 0.0
        self._claim_wanted = False
        self._wake_at: float | None = None
        self._forgotten: set[str] = set()
        self._refused: dict[str, float] = {}  # runs, and when
        self._unsaid: set[str] = set()  # tombstones acted upon, to be named in the next claim
        self._sent_again: set[tuple[str, str]] = set()
        self._failed = False
        known = files.parse_object(journal.meta("instance"))
        self._barred: str | None = None
        if known is None:
            self._confirm_instance()
        elif not machine.same_instance(known, facts.instance):
            self._bar("this looks like another machine than the one that joined")

    def close(self) -> None:
        """Give back the descriptors."""
        for descriptor in (self._stop_read, self._stop_write, self._wake_read, self._wake_write):
            os.close(descriptor)

    @property
    def stopper(self) -> int:
        """A descriptor; a byte written to it asks for the end."""
        return self._stop_write

    def stop(self) -> None:
        """Ask for the end; safe in a signal handler."""
        with suppress(OSError):
            os.write(self._stop_write, b".")

    def run(self) -> int:
        """Work until told to stop."""
        threads = [
            threading.Thread(target=self._edge, args=(work,), name=work.__name__, daemon=True) for work in (self._poll_on, self._deliver_on)
        ]
        for thread in threads:
            thread.start()
        while not self._stopped(0):
            try:
                if self._step():
                    continue
                self._note()
                self._sleep()
            except (OSError, sqlite3.Error) as error:
                say(f"cannot go on just now: {error}")
                self._stopped(PAUSE)
            except Exception as error:  # noqa: BLE001 - the edge of the agent: one bad thing must not end all others
                say(f"cannot go on just now: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
                self._stopped(PAUSE)
        self._part(threads)
        say("stopped")
        return errors.SUCCESS

    def _part(self, threads: list[threading.Thread]) -> None:
        """End the threads, then try once more to deliver, for a short moment."""
        in_contact = self.line.up.is_set()
        self.line.quiet = True
        self._stopping.set()
        self.outbox.news.set()
        self.line.client.abort()
        for thread in threads:
            thread.join(5.0)
        self.line.client.resume(limit=LAST_DELIVERY)
        if in_contact:
            self.line.up.set()
            self.outbox.deliver()

    def one_pass(self) -> int:
        """Fetch, run what there is to run until nothing more is, deliver."""
        while True:
            self.line.poll(0)
            did = False
            while not self._stopped(0) and self._step():
                did = True
            left = self.outbox.deliver()
            if not did or self._stopped(0):
                break
        self._note()
        if self._failed:
            return errors.FAILED
        if self._barred or self.line.refused or self.line.barred:
            return errors.REFUSED
        unsent = left is not None or bool(ledger.unanswered(self._journal))
        return errors.UNREACHABLE if unsent or not self.line.up.is_set() else errors.SUCCESS

    def _step(self) -> bool:
        """One decision and its effects. Whether there may be more to do at once."""
        document = self.line.document
        if document is None or self.line.wrong_epoch or self.line.barred:
            return False
        self._forgotten &= document.deleted
        memory = ledger.memory(self._journal)
        ahead, unknown = self._ahead(document, memory)
        if ahead - unknown and document.fetched is not None and self.line.up.is_set():
            self.line.poll(0, anew=True)
            return self.line.document is not document
        moment = Moment(self._facts.boot, self._start_mark, time.monotonic(), frozenset(self._forgotten), ahead)
        decision = passes.decide(document, memory, moment)
        self._wake_at = decision.wake_at
        if decision.adopt:
            ledger.adopt(self._journal, decision.adopt)
        if decision.release:
            ledger.released(self._journal, decision.release)
        if decision.other_policy:
            ledger.other_policy(self._journal, decision.other_policy, self._facts.boot)
        if decision.forget:
            ledger.forgotten(self._journal, decision.forget)
            self._forgotten.update(decision.forget)
            self._unsaid.update(decision.forget)
        self._send_again(document, memory)
        if decision.mint and self.line.up.is_set() and self._barred is None:
            ledger.claimed(self._journal, [(str(uuid.uuid4()), mint) for mint in decision.mint])
        if self._claim():
            return True
        if decision.start is not None and self._barred is None:
            self._run(decision.start, document)
            return True
        return bool(decision.adopt or decision.release)

    def _ahead(self, document: Document, memory: passes.Memory) -> tuple[frozenset[str], set[str]]:
        """Refused and released runs that the document does not reflect yet; those of them the appliance does not even know of."""
        generations = {item.generation for item in document.items}
        unknown = ledger.unreturned(self._journal)
        found = set()
        for run in memory.runs:
            if run.state in passes.CLOSED and run.generation in generations and run.why != "claimed":
                when = max(self._refused.get(run.run, 0.0), self.outbox.acknowledged.get(run.run, 0.0))
                if run.run in unknown or document.fetched is None or document.fetched <= when:
                    found.add(run.run)
        return frozenset(found), unknown

    def _run(self, start: Start, document: Document) -> None:
        self._note(start)
        try:
            verdict = self._runner.run(start, document)
        except NotWanted:
            return
        self._failed = self._failed or verdict == passes.FAILED
        self.outbox.news.set()

    def _cancelled(self, run: str) -> bool:
        document = self.line.document
        return document is not None and any(run in item.cancel for item in document.items)

    def _is_wanted(self, start: Start) -> bool:
        """Whether the newest document still has what is about to start. One that merely lacks it says nothing."""
        document = self.line.document
        if document is None or self.line.wrong_epoch:
            return True
        known = start.item
        same = [
            (item.generation, item.attempt) == (known.generation, known.attempt)
            for item in document.items
            if item.deployment == known.deployment
        ]
        return known.deployment not in document.deleted and all(same)

    def _claim(self) -> bool:
        """Send what has no answer yet, if it is time. Whether answers came in."""
        runs = ledger.unanswered(self._journal)[:MANY]
        self._claim_wanted = bool(runs or self._unsaid or self._barred) and self.line.up.is_set()
        if not self._claim_wanted or time.monotonic() < self._claim_at:
            return False
        named, barred = sorted(self._unsaid), self._barred
        try:
            answer = self.line.claim(runs, named)
        except Unreachable as error:
            self.line.lost(error.message)
            return False
        found = answer.object().get("answers") if answer.good else None
        if not isinstance(found, list):
            self._no_answer(answer)
            return False
        answers = [entry for entry in found if _is_answer(entry)]
        ledger.answered(self._journal, answers)
        self._unsaid.difference_update(named)
        for entry in answers:
            if entry["answer"] != "granted":
                self._refused[entry["run"]] = time.monotonic()
                say(f"run {entry['run']} was refused: {entry.get('message') or entry.get('why')}")
        if any(entry.get("why") == "other-instance" for entry in answers):
            self._claim_at = time.monotonic() + self._claim_backoff.after()
            self._bar("the appliance takes this for another machine than the one that joined")
            return False
        self._confirm_instance()
        refused = any(entry["answer"] != "granted" for entry in answers)
        if len(answers) < len(runs) or (refused and not ledger.unanswered(self._journal)):
            self._claim_at = time.monotonic() + self._claim_backoff.after()
        else:
            self._claim_backoff.reset()
        return bool(answers or named or barred)

    def _no_answer(self, answer: Answer) -> None:
        self._claim_at = time.monotonic() + self._claim_backoff.after(answer)
        if answer.bars:
            self._bar(answer.sentence)
        else:
            say(f"the claim was not answered: {answer.sentence}")

    def _bar(self, why: str) -> None:
        if self._barred != why:
            say(f"{why}; nothing is started until `appliance server reset {self.line.me.name}`")
        self._barred = why

    def _confirm_instance(self) -> None:
        if self._barred:
            say("this machine may run again")
        self._barred = None
        self._journal.set_meta("instance", files.compact(self._facts.instance))

    def _send_again(self, document: Document, memory: passes.Memory) -> None:
        """Results that the appliance lost, once per epoch: nothing runs for it."""
        if document.fetched is None:
            return
        acknowledged = self.outbox.acknowledged
        due = []
        for generation in passes.unreported(document, memory):
            key = (generation, document.epoch.id)
            when = acknowledged.get(memory.done[generation].run or "", 0.0)
            if key not in self._sent_again and when < document.fetched:
                self._sent_again.add(key)
                due.append(generation)
        if due and ledger.again(self._journal, due):
            self.outbox.news.set()

    def _news(self) -> None:
        with suppress(OSError):
            os.write(self._wake_write, b".")
        self.outbox.news.set()

    def _stopped(self, seconds: float) -> bool:
        return bool(_wait([self._stop_read], seconds))

    def _sleep(self) -> None:
        now = time.monotonic()
        until = now + IDLE
        if self._wake_at is not None:
            until = min(until, self._wake_at)
        if self._claim_wanted:
            until = min(until, self._claim_at)
        _wait([self._stop_read, self._wake_read], max(0.01, until - now))
        with suppress(OSError):
            os.read(self._wake_read, 4096)
        workdir.prune(self._settings.runs)

    def _poll_on(self) -> None:
        backoff = Backoff(self._settings.backoff_first, self._settings.backoff_last)
        wait = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            answer = self.line.poll(wait)
            if answer is not None:
                wait = 0.0
                self._stopping.wait(backoff.after(answer))
                continue
            backoff.reset()
            if wait and time.monotonic() - began < min(wait, 1.0):
                self._stopping.wait(min(0.2, self._settings.backoff_first))
            wait = float(self._settings.wait)

    def _deliver_on(self) -> None:
        while not self._stopping.is_set():
            again = self.outbox.deliver()
            self.outbox.news.wait(self._settings.backoff_last if again is None else again)
            self.outbox.news.clear()

    def _edge(self, work: Callable[[], None]) -> None:
        """A thread that must not die: what nobody foresaw is said, and the work taken up again."""
        while not self._stopping.is_set():
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the edge of a thread
                if not self._stopping.is_set():
                    say(f"{work.__name__.strip('_')}: {type(error).__name__}: {error}")
                self._stopping.wait(self._settings.backoff_last)

    def _note(self, start: Start | None = None) -> None:
        status.note(self._settings, self.line, self._barred, start)


def _is_answer(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("run"), str):
        return False
    after = entry.get("after") or []
    return entry.get("answer") in ("granted", "refused") and isinstance(after, list) and all(map(files.is_uuid, after))


def _wait(descriptors: list[int], seconds: float) -> list[int]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll(seconds * 1000)]
