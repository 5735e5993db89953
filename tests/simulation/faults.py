"""Faults planted into the real code, each of a kind that this product exists to end. The simulator must find every one of them."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from appliance.agent import ledger, passes, runner, signals
from appliance.agent.errors import Unreachable
from appliance.agent.line import Line
from appliance.agent.wire import Answer
from appliance.operations import changes, claims, documents, fate
from appliance.operations import signals as reports
from appliance.store import runs, uses

from .stage import STAGE, SimLeader

Fault = Callable[[], dict[tuple[Any, str], Any]]


def journal_write_after_the_run() -> dict[tuple[Any, str], Any]:
    """The start is written down after the program was let go."""
    write, release, late = ledger.running, SimLeader.release, []

    def released(leader: SimLeader) -> str | None:
        failure = release(leader)
        while late:
            late.pop()()
        return failure

    return {(ledger, "running"): lambda *start: late.append(lambda: write(*start)), (SimLeader, "release"): released}


def status_in_the_etag() -> dict[tuple[Any, str], Any]:
    """The ETag covers what was observed, too."""
    build = documents.build

    def built(*of: Any) -> Any:
        found = build(*of)
        return msgspec.structs.replace(found, etag=f'"{hashlib.sha256(found.content).hexdigest()}"')

    return {(documents, "build"): built}


def grant_without_the_generation_check() -> dict[tuple[Any, str], Any]:
    """Whatever generation is asked for, the current one is granted."""
    judge = claims._judge

    def judged(tx: Any, server: Any, ask: Any, found: Any) -> Any:
        return judge(tx, server, ask if found is None else msgspec.structs.replace(ask, generation=found.generation.id), found)

    return {(claims, "_judge"): judged}


def journal_rows_dropped_when_a_list_is_short() -> dict[tuple[Any, str], Any]:
    """A deployment that is not in the document is taken for deleted."""
    decide = passes.decide

    def decided(document: Any, memory: Any, moment: Any) -> Any:
        decision = decide(document, memory, moment)
        there = {item.deployment for item in document.items} | document.deleted
        known = {*memory.last, *(run.deployment for run in memory.runs)}
        return replace(decision, forget=tuple(sorted({*decision.forget, *(known - there)})))

    return {(passes, "decide"): decided}


def result_sent_before_it_is_journaled() -> dict[tuple[Any, str], Any]:
    """The result goes out first, and is written down then."""
    write = ledger.finished

    def finished(journal: Any, run: str, result: Any, verdict: str, ended: float | None) -> None:
        process = STAGE.body.process
        if process is not None and process.agent is not None:
            [row] = journal.rows("SELECT * FROM run WHERE run = ?", run)
            process.agent.line.signal(run, signals.finished(row, result))
        write(journal, run, result, verdict, ended)

    return {(ledger, "finished"): finished}


def claim_answers_not_remembered() -> dict[tuple[Any, str], Any]:
    """A claim that is repeated is a new one."""
    return {(runs, "claim_of"): lambda _tx, _run: None}


def complete_at_once_though_it_was_left() -> dict[tuple[Any, str], Any]:
    """What ran in between, and failed, is not looked at."""
    begin = changes.begin

    def begun(policy: Any, memory: Any, *more: Any, **flags: Any) -> Any:
        return begin(policy, msgspec.structs.replace(memory, left=False), *more, **flags)

    return {(changes, "begin"): begun, (reports, "begin"): begun}


def release_keeps_the_rerun() -> dict[tuple[Any, str], Any]:
    """A grant that is given back takes the rerun it stood for with it."""
    return {(reports, "_give_back"): lambda _tx, _run, memory: memory}


def finished_not_idempotent() -> dict[tuple[Any, str], Any]:
    """A report that comes again is taken for a new one."""
    return {(runs, "signalled"): lambda *_: None}


def dependants_left_behind() -> dict[tuple[Any, str], Any]:
    """Who waits for a deployment is not looked at when its run ends."""
    return {(fate, "settle"): lambda *_: None}


def grant_without_the_dependency_check() -> dict[tuple[Any, str], Any]:
    """What is blocked is granted all the same."""
    judge = claims._judge

    def judged(tx: Any, server: Any, ask: Any, found: Any) -> Any:
        why, message, after = judge(tx, server, ask, found)
        return (None, "", []) if why == "blocked" else (why, message, after)

    return {(claims, "_judge"): judged}


def once_forgets_its_own_run() -> dict[tuple[Any, str], Any]:
    """A `once` deployment that is changed while its first run is under way runs again."""
    return {(claims, "waits_for_itself"): lambda *_: False, (documents, "waits_for_itself"): lambda *_: False}


def cut_short_and_not_told() -> dict[tuple[Any, str], Any]:
    """A restarted agent does not look at what the one before left running."""
    return {(runner, "settle"): lambda *_: None}


def started_before_what_it_comes_after() -> dict[tuple[Any, str], Any]:
    """A run that was granted after others does not wait for them."""
    remember = ledger.memory

    def remembered(journal: Any) -> Any:
        memory = remember(journal)
        return replace(memory, runs=tuple(replace(run, after=()) for run in memory.runs))

    return {(ledger, "memory"): remembered}


def grants_never_given_back() -> dict[tuple[Any, str], Any]:
    """A grant that will not be started is kept."""
    return {(passes, "_releases"): lambda *_: []}


def switch_moves_one_of_many() -> dict[tuple[Any, str], Any]:
    """Of several that use a file only the first is moved."""
    users = uses.users_of_path
    return {(uses, "users_of_path"): lambda *of: users(*of)[:1]}


def sent_is_taken_for_delivered() -> dict[tuple[Any, str], Any]:
    """A signal whose answer did not come is not sent again."""
    send = Line.signal

    def sent(line: Line, run: str, body: object) -> Answer:
        try:
            return send(line, run, body)
        except Unreachable:
            return Answer(200, {}, b"{}")

    return {(Line, "signal"): sent}


FAULTS: list[Fault] = [
    journal_write_after_the_run, status_in_the_etag, grant_without_the_generation_check, journal_rows_dropped_when_a_list_is_short,
    result_sent_before_it_is_journaled, claim_answers_not_remembered, complete_at_once_though_it_was_left, release_keeps_the_rerun,
    finished_not_idempotent, dependants_left_behind, grant_without_the_dependency_check, once_forgets_its_own_run, cut_short_and_not_told,
    started_before_what_it_comes_after, grants_never_given_back, switch_moves_one_of_many, sent_is_taken_for_delivered,
]  # fmt: skip


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The fault is in the code meanwhile."""
    with ExitStack() as stack:
        for (room, name), wrong in fault().items():
            stack.enter_context(mock.patch.object(room, name, wrong))
        yield
