"""A preview: the real operation, alone, in a transaction that leaves nothing behind."""

import asyncio
import threading
import time

import pytest

from appliance.errors import Conflict, TooLarge
from appliance.store import audit
from appliance.store import database as store

from ..samples import opened


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def note(tx, verb="v"):
    audit.record(tx, "ann", verb, "x")
    tx.touch("x")
    return tx.commit


def occupy(database):
    """Keep the writer busy until the event that is returned is set."""
    begun, gate = threading.Event(), threading.Event()
    database.submit(lambda tx: (begun.set(), gate.wait(30)))
    assert begun.wait(30)
    return gate


def queued(database, number):
    while database._queue.qsize() < number:
        time.sleep(0.01)


def verbs(tx):
    return [verb for (verb,) in tx.rows("SELECT verb FROM audit ORDER BY seq")]


def test_it_answers_what_the_operation_would_and_changes_nothing_and_wakes_nobody(database):
    database.write(note)
    before, woken = database.commit_no, []
    database.on_commit = woken.append
    found = database.preview(lambda tx: (note(tx), verbs(tx)))
    assert found.result == (before + 1, ["v", "v"])
    assert (found.commit, database.commit_no, woken) == (before, before, [])
    assert database.read(verbs) == ["v"]
    assert database.write(note) == before + 1  # not even a number was used up


def test_it_raises_what_the_operation_raises(database):
    def refuse(tx):
        note(tx)
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        database.preview(refuse)
    assert database.read(verbs) == []
    database.write(note)


def test_it_runs_alone_between_batches_and_sees_what_was_queued_before_it(database):
    gate = occupy(database)
    first = database.submit(note, "before")
    found = []
    asking = threading.Thread(target=lambda: found.append(database.preview(lambda tx: (verbs(tx), note(tx, "never")))))
    asking.start()
    queued(database, 2)
    last = database.submit(note, "after")
    gate.set()
    asking.join(30)
    assert found[0].result[0] == ["before"]
    assert found[0].commit == first.result() < last.result()
    assert database.read(verbs) == ["before", "after"]


def test_one_that_takes_too_many_steps_is_given_up_and_the_next_ones_are_not_counted(database, monkeypatch):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT max(i) FROM n"
    monkeypatch.setattr(store, "PREVIEW_STEPS", 1_000_000)
    for _ in range(2):
        with pytest.raises(TooLarge, match="more than 1000000 steps"):
            database.preview(lambda tx: (note(tx), tx.value(endless)))
    assert database.write(lambda tx: (note(tx), tx.value(endless)))[1] == 3_000_000
    assert database.preview(verbs).result == ["v"]


def test_it_can_be_awaited(database):
    async def ask():
        return await database.apreview(note)

    assert asyncio.run(ask()).result == database.commit_no + 1


def test_what_waits_when_the_file_is_closed_is_still_answered(database):
    gate = occupy(database)
    found = []
    asking = threading.Thread(target=lambda: found.append(database.preview(note).result))
    asking.start()
    queued(database, 1)
    closing = threading.Thread(target=database.close)
    closing.start()
    gate.set()
    asking.join(30)
    closing.join(30)
    assert found == [database.commit_no + 1]
