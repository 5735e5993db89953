"""The file, its connections, and the writer that runs many operations in one transaction."""

import asyncio
import sqlite3
import threading
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from appliance.errors import ApplianceError, Busy, Conflict, Invalid, StorageFull
from appliance.store import audit, file
from appliance.store.database import Database
from appliance.store.tx import ConstraintFailed

from .application import Clock, Ids
from .samples import KEY


def note(tx, verb, text=""):
    """An operation: one row, whose commit number it returns."""
    audit.record(tx, "ann", verb, "x", text=text)
    return tx.commit


def verbs(tx):
    return [verb for (verb,) in tx.rows("SELECT verb FROM audit ORDER BY seq")]


def at_once(database, *operations):
    """Queue operations while the writer is busy, so that they become one batch."""
    gate = threading.Event()
    busy = database.submit(lambda tx: gate.wait(30))
    futures = [database.submit(*operation) if isinstance(operation, tuple) else database.submit(operation) for operation in operations]
    gate.set()
    busy.result()
    return futures


def outcome(future: Future):
    return type(future.exception(30)) if future.exception(30) else "done"


# ---------------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize(
    "pragma, value", [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("auto_vacuum", 2), ("user_version", 1)]
)
def test_the_writer_has_the_pragma_that_the_promises_rest_on(database, pragma, value):
    assert database.write(lambda tx: tx.value(f"PRAGMA {pragma}")) == value


def test_the_pragmas_hold_after_reopening(database):
    database.close()
    again = Database(database.path)
    for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("auto_vacuum", 2)):
        assert again.write(lambda tx, pragma=pragma: tx.value(f"PRAGMA {pragma}")) == value
    assert not again.is_new
    again.close()


def test_readers_cannot_write(database):
    for read in (database.read, database.read_apart):
        with pytest.raises(Invalid):
            read(lambda tx: list(tx.rows("DELETE FROM audit")))


def test_a_misspelt_column_is_an_error_and_not_a_text(database):
    with pytest.raises(apsw.SQLError):
        database.read(lambda tx: tx.value('SELECT "no such column" FROM audit'))


def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE t (a)")
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(Invalid, match="not an appliance's"):
        Database(str(path))
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["theirs.db"]


def test_a_file_with_the_mark_of_another_program_is_refused_though_it_is_empty(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("PRAGMA application_id = 77")
    theirs.close()
    with pytest.raises(Invalid, match="not an appliance's"):
        Database(str(path))


def test_a_file_of_a_newer_appliance_is_refused_and_left_as_it_is(database):
    database.write(lambda tx: tx.value("PRAGMA user_version = 99"))
    database.close()
    before = Path(database.path).read_bytes()
    with pytest.raises(Conflict, match=r"newer appliance \(schema 99, this one knows 1\)") as caught:
        Database(database.path)
    assert caught.value.hint
    assert Path(database.path).read_bytes() == before


def test_what_is_no_database_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"dear diary " * 1000)
    with pytest.raises(Invalid, match="is not a database"):
        Database(str(path))
    assert path.read_bytes() == b"dear diary " * 1000


def test_a_directory_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(Invalid, match="cannot be opened"):
        Database(str(tmp_path / "no" / "lab.db"))


def test_a_birth_that_was_cut_short_is_finished_at_the_next_start(tmp_path):
    path = tmp_path / "lab.db"
    db = apsw.Connection(str(path))
    db.pragma("auto_vacuum", 2)
    db.pragma("journal_mode", "wal")
    db.close()
    database = Database(str(path))
    assert database.is_new
    assert database.write(lambda tx: tx.value("PRAGMA auto_vacuum")) == 2
    database.close()


# ---------------------------------------------------------------------------------------------------- batches


def test_operations_of_a_batch_share_one_transaction_and_have_commit_numbers_of_their_own(tmp_path):
    moments = iter(range(1_000_000))
    database = Database(str(tmp_path / "lab.db"), clock=lambda: next(moments), new_id=Ids())
    database.write(file.born, KEY.id)
    done = at_once(database, *[lambda tx, n=n: (note(tx, f"v{n}"), tx.now) for n in range(5)])
    found = [future.result(30) for future in done]
    assert len({now for _, now in found}) == 1
    assert all(later == earlier + 1 for (earlier, _), (later, _) in pairwise(found))
    assert database.read(verbs) == [f"v{n}" for n in range(5)]
    database.close()


def test_an_operation_that_fails_takes_all_of_itself_back_and_nothing_of_its_neighbours(database):
    def fails(tx):
        note(tx, "half")
        raise Conflict("no")

    futures = at_once(database, (note, "before"), fails, (note, "after"))
    assert [outcome(one) for one in futures] == ["done", Conflict, "done"]
    assert database.read(verbs) == ["before", "after"]


def test_a_bug_in_one_operation_reaches_its_submitter_as_it_is(database):
    futures = at_once(database, (note, "before"), lambda tx: 1 // 0, (note, "after"))
    assert [outcome(one) for one in futures] == ["done", ZeroDivisionError, "done"]
    assert database.read(verbs) == ["before", "after"]


def test_a_row_the_schema_refuses_is_named_by_kind_and_hurts_only_its_operation(database):
    futures = at_once(database, (note, "before"), lambda tx: tx.execute("UPDATE audit SET verb = 'x'"), (note, "after"))
    assert [outcome(one) for one in futures] == ["done", ConstraintFailed, "done"]
    assert futures[1].exception().kind == "trigger"
    assert database.read(verbs) == ["before", "after"]


def test_a_full_disk_fails_only_the_operation_that_needs_the_room(database):
    pages = database.write(lambda tx: tx.value("PRAGMA page_count"))
    database.write(lambda tx: tx.value(f"PRAGMA max_page_count = {pages + 10}"))
    tries: list[str] = []

    def small(tx, verb):
        tries.append(verb)
        return note(tx, verb)

    futures = at_once(database, (small, "before"), (note, "large", "x" * 1_000_000), (small, "after"))
    assert [outcome(one) for one in futures] == ["done", StorageFull, "done"]
    assert tries == ["before", "before", "after"], "the first ran again, alone"
    assert database.read(verbs) == ["before", "after"]
    assert "nothing was changed" in str(futures[1].exception())
    database.write(lambda tx: tx.value("PRAGMA max_page_count = 1000000"))
    database.write(note, "large", "x" * 1_000_000)
    assert database.read(verbs) == ["before", "after", "large"]


def test_when_the_commit_fails_every_operation_runs_again_alone_and_only_the_guilty_one_fails(database):
    def guilty(tx):
        tx.value("PRAGMA defer_foreign_keys = 1")  # so that the violation passes its savepoint and ends the common COMMIT
        tx.execute("INSERT INTO label (server, label) VALUES ('nobody', 'x')")

    futures = at_once(database, (note, "before"), guilty, (note, "after"))
    assert [outcome(one) for one in futures] == ["done", apsw.ConstraintError, "done"]
    assert database.read(verbs) == ["before", "after"]
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM label")) == 0


def test_an_operation_that_ran_twice_is_answered_for_its_second_run(database):
    def guilty(tx):
        tx.value("PRAGMA defer_foreign_keys = 1")
        tx.execute("INSERT INTO label (server, label) VALUES ('nobody', 'x')")

    first, _ = at_once(database, (note, "a"), guilty)
    assert first.result(30) == database.read(lambda tx: tx.value("SELECT commit_no FROM audit"))


def test_commit_numbers_rise_and_go_on_after_reopening(database):
    numbers = [database.write(note, str(n)) for n in range(3)]
    assert database.commit_no == numbers[-1] == database.read(file.last_commit)
    database.close()
    again = Database(database.path)
    numbers += [again.write(note, "again")]
    assert all(later > earlier for earlier, later in pairwise(numbers))
    again.close()


def test_a_refused_operation_leaves_no_trace_not_even_a_commit_number(database):
    before = database.commit_no
    with pytest.raises(Conflict):
        database.write(lambda tx: (_ for _ in ()).throw(Conflict("no")))
    assert database.commit_no == before == database.read(file.last_commit)


def test_each_operation_is_a_writer_from_its_first_statement(database):
    """So that what it read cannot be overtaken before it writes, and SQLite never refuses the upgrade."""

    def op(tx):
        other = apsw.Connection(database.path)
        with pytest.raises(apsw.BusyError):
            other.execute("BEGIN IMMEDIATE")
        other.close()

    database.write(op)


def test_those_who_wait_are_woken_once_per_batch_and_after_the_commit(database):
    heard = []
    database.on_commit = lambda topics: heard.append((sorted(topics), database.read_apart(verbs)))

    def touching(tx, topic):
        note(tx, topic)
        tx.touch(topic)

    def failing(tx):
        tx.touch("never")
        raise Conflict("no")

    for future in at_once(database, (touching, "a"), failing, (touching, "b")):
        outcome(future)
    database.close()
    assert heard == [(["a", "b"], ["a", "b"])]


def test_a_loop_that_is_bound_hears_of_commits_in_its_own_thread(database):
    heard = []

    async def main():
        database.bind(asyncio.get_running_loop())
        database.on_commit = lambda topics: heard.append((topics, threading.current_thread()))
        await database.awrite(lambda tx: tx.touch("a"))
        while not heard:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert heard == [({"a"}, threading.main_thread())]


def test_a_submitter_that_gave_up_does_not_stop_the_writer(database):
    gate = threading.Event()
    busy = database.submit(lambda tx: gate.wait(30))
    given_up = database.submit(note, "given up")
    assert given_up.cancel()
    gate.set()
    busy.result(30)
    database.write(note, "after")
    assert database.read(verbs)[-1] == "after"


def test_what_is_queued_is_done_before_closing_and_nothing_is_taken_afterwards(database):
    futures = [database.submit(note, str(n)) for n in range(50)]
    database.close()
    assert all(outcome(one) == "done" for one in futures)
    with pytest.raises(Busy):
        database.write(note, "late")
    database.close()


# ---------------------------------------------------------------------------------------------------- readers


@pytest.mark.parametrize("how", ["read", "read_apart"])
def test_a_reader_sees_one_snapshot_however_long_it_takes(database, how):
    def slowly(tx):
        before = verbs(tx)
        database.write(note, "meanwhile")
        return before, verbs(tx)

    assert getattr(database, how)(slowly) == ([], [])
    assert database.read(verbs) == ["meanwhile"]


def test_what_was_acknowledged_is_seen_by_every_later_reader(database):
    for n in range(20):
        database.write(note, str(n))
        assert len(database.read(verbs)) == len(database.read_apart(verbs)) == n + 1


def test_operations_and_queries_have_the_clock_and_the_ids_they_were_given(tmp_path):
    clock = Clock()
    database = Database(str(tmp_path / "lab.db"), clock=clock, new_id=Ids())
    database.write(file.born, KEY.id)
    clock.pass_(500)
    assert database.write(lambda tx: tx.now) == clock.now == database.read(lambda tx: tx.now)
    assert database.write(lambda tx: (tx.new_id(), tx.new_id())) == tuple(f"00000000-0000-4000-8000-{n:012x}" for n in (2, 3))
    database.close()


def test_con_06_readers_and_writers_in_many_threads_never_see_a_lock(database):
    """Eight threads read and then write what they read plus one; eight read, and two of another program's."""
    times, threads = 150, 8
    errors: list[BaseException] = []
    over = threading.Event()

    def count(tx):
        return tx.value("SELECT count(*) FROM audit")

    def rise(tx):
        seen = count(tx)
        note(tx, str(seen + 1))
        return seen + 1

    def writes():
        results.extend(database.write(rise) for _ in range(times))

    def reads():
        last = 0
        while not over.is_set():
            found = database.read_apart(count)
            assert found >= last
            last = found

    def reads_from_outside():
        db = sqlite3.connect(f"file:{database.path}?mode=ro", uri=True)
        while not over.is_set():
            assert db.execute("SELECT count(*) FROM audit").fetchone()[0] >= 0
        db.close()

    def guarded(work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - whatever it was is what the test is about
            errors.append(error)

    results: list[int] = []
    writers = [threading.Thread(target=guarded, args=(writes,)) for _ in range(threads)]
    readers = [threading.Thread(target=guarded, args=(work,)) for work in [reads] * threads + [reads_from_outside] * 2]
    for thread in [*readers, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in readers:
        thread.join()
    assert not errors
    assert sorted(results) == list(range(1, times * threads + 1)), "no count was read twice"
    assert len(database.read(verbs)) == times * threads


def test_a_file_that_another_process_keeps_locked_is_busy_and_not_a_traceback(database):
    database.write(lambda tx: tx.value("PRAGMA busy_timeout = 50"))
    other = apsw.Connection(database.path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy, match="in use by another process"):
        database.write(note, "x")
    other.execute("ROLLBACK")
    other.close()
    database.write(note, "y")
    assert database.read(verbs) == ["y"]


def test_every_error_of_the_file_is_one_for_people(tmp_path):
    for broken in (b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000):
        path = tmp_path / "broken.db"
        path.write_bytes(broken)
        with pytest.raises(ApplianceError) as caught:
            Database(str(path))
        assert str(path) in caught.value.message
        assert caught.value.hint
