"""All connections, the writer thread, and the only place that begins, commits and rolls back.

The writer takes what is queued, runs each operation in a savepoint of its own inside one IMMEDIATE transaction, commits (WAL,
`synchronous=FULL`), and only then answers. Readers see snapshots and never wait for it. A preview is an operation that runs alone and is
rolled back.
"""

import asyncio
import contextlib
import queue
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import apsw

from appliance.errors import ApplianceError, Busy, Corrupt, Invalid, StorageFull, TooLarge
from appliance.store import migrations
from appliance.store.tx import ConstraintFailed, Reader, Tx

P = ParamSpec("P")
T = TypeVar("T")

BATCH = 512
READERS = 4
PREVIEW_STEPS = 20_000_000  # of SQLite's machine: a switch that moves some 10,000 deployments
_TICK = 10_000
STATEMENTS = 500  # prepared ones kept for each connection: there are some 200


def wall_clock() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def counting_from(base: int) -> Callable[[], int]:
    """Milliseconds that count on from `base`, whatever is done to the wall clock."""
    began = time.monotonic_ns()
    return lambda: base + (time.monotonic_ns() - began) // 1_000_000


def random_id() -> str:
    """A new UUID4."""
    return str(uuid.uuid4())


@dataclass(slots=True)
class _Job:
    run: Callable[[Tx], Any]
    answer: "Future[Any] | asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop | None
    result: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)
    steps: int | None = None  # a preview, of at most so many steps


@dataclass(frozen=True, slots=True)
class Previewed(Generic[T]):
    """What an operation would have come to, and the number of the last commit it saw."""

    result: T
    commit: int


class Database:
    """One open appliance file.

    `on_commit` is called once per batch, after the answers, with the topics its operations touched; in the event loop that `bind`
    named, or in the writer thread when there is none. `uptime` counts the milliseconds for which the file has been open in all; each
    commit writes it down.
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Callable[[], int] = wall_clock,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        """Open or create the file and bring it to the current schema.

        Raises Invalid for a file that is not ours, Conflict for one of a newer appliance, StorageFull, Corrupt.
        """
        self.path = path
        self.clock = clock
        self.new_id = new_id
        self.on_commit: Callable[[set[str]], None] = _nobody
        self._loop: asyncio.AbstractEventLoop | None = None
        with _domain_errors(path):
            self._writer = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            try:
                self.is_new = migrations.prepare(self._writer, path)
                for pragma, value in (("synchronous", "FULL"), ("foreign_keys", 1), ("cache_size", -16384)):
                    self._writer.pragma(pragma, value)
                self._commit_no: int = self._writer.execute("SELECT coalesce(max(last_commit), 0) FROM file").get
                self.uptime = counting_from(self._writer.execute("SELECT coalesce(max(uptime_ms), 0) FROM file").get)
                self._front = _connect(path, apsw.SQLITE_OPEN_READONLY)
            except BaseException:
                self._writer.close()
                raise
        self._back: queue.LifoQueue[apsw.Connection | None] = queue.LifoQueue()
        for _ in range(READERS):
            self._back.put(None)
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._write_for_ever, name="writer", daemon=True)
        self._thread.start()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have `on_commit` called in `loop` from now on."""
        self._loop = loop

    @property
    def commit_no(self) -> int:
        """The greatest commit number that is on disk."""
        return self._commit_no

    # ------------------------------------------------------------------------------------------ writing

    def submit(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Queue an operation; the future is done once its commit is on disk, or it raised and changed nothing.

        The operation may be run more than once before that (see the module), so its only effects are those on `tx`.
        """
        future: Future[T] = Future()
        self._put(_Job(lambda tx: operation(tx, *args, **kwargs), future, None))
        return future

    def write(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`submit` and wait. Never call it in an event loop."""
        return self.submit(operation, *args, **kwargs).result()

    async def awrite(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`submit` and await."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(lambda tx: operation(tx, *args, **kwargs), future, loop))
        return await future

    def preview(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Previewed[T]:
        """Run the very operation that `write` would run, alone in a transaction that is always rolled back, and wait.

        Raises what it raises, and TooLarge when it takes more than PREVIEW_STEPS. Never call it in an event loop.
        """
        future: Future[Previewed[T]] = Future()
        self._put(_Job(lambda tx: operation(tx, *args, **kwargs), future, None, steps=PREVIEW_STEPS))
        return future.result()

    async def apreview(self, operation: Callable[Concatenate[Tx, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Previewed[T]:
        """`preview`, awaited."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Previewed[T]] = loop.create_future()
        self._put(_Job(lambda tx: operation(tx, *args, **kwargs), future, loop, steps=PREVIEW_STEPS))
        return await future

    def _put(self, job: _Job) -> None:
        if self._closed:
            raise Busy("the appliance is shutting down", hint="try again in a moment")
        self._queue.put(job)

    def _write_for_ever(self) -> None:
        held: _Job | None = None
        stop = False
        while not stop and (first := held or self._queue.get()) is not None:
            batch, held = [first], None
            while first.steps is None and held is None and len(batch) < BATCH:
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
                if job is None:
                    stop = True
                    break
                if job.steps is None:
                    batch.append(job)
                else:
                    held = job  # a preview runs alone
            if first.steps is None:
                self._run(batch)
            else:
                self._preview(first, first.steps)
            self._answer(batch)

    def _preview(self, job: _Job, steps: int) -> None:
        """One operation in a transaction of its own that leaves nothing behind, not even a commit number."""
        db, ticks = self._writer, count(1)
        try:
            db.set_progress_handler(lambda: next(ticks) * _TICK > steps, _TICK)
            db.execute("BEGIN IMMEDIATE")
            tx = Tx(db, self.clock(), self.uptime(), self._commit_no + 1, self.new_id, set())
            job.result = Previewed(job.run(tx), self._commit_no)
        except apsw.InterruptError:
            job.error = TooLarge(f"the preview takes more than {steps} steps, so it was given up; nothing was changed")
        except Exception as error:  # noqa: BLE001 - whatever ends it is its answer
            job.error = _translated(error, self.path)
        finally:
            db.set_progress_handler(None)
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _run(self, batch: list[_Job]) -> None:
        """Run the jobs in one transaction; when that fails as a whole, each again alone, so that only the guilty one fails."""
        if self._attempt(batch) or len(batch) == 1:
            return
        for job in batch:
            job.result, job.error = None, None
            job.topics.clear()
            self._attempt([job])

    def _attempt(self, batch: list[_Job]) -> bool:
        """One transaction. False when it failed as a whole: then nothing of it is on disk and every job has that error."""
        db = self._writer
        number = self._commit_no
        try:
            db.execute("BEGIN IMMEDIATE")
            now, uptime = self.clock(), self.uptime()
            for job in batch:
                number += 1
                tx = Tx(db, now, uptime, number, self.new_id, job.topics)
                db.execute("SAVEPOINT operation")
                try:
                    job.result = job.run(tx)
                    db.execute("RELEASE operation")
                except Exception as error:
                    if not db.in_transaction:  # a full disk or an interrupt ends the whole transaction
                        raise
                    db.execute("ROLLBACK TO operation")
                    db.execute("RELEASE operation")
                    job.error = _translated(error, self.path)
                    job.topics.clear()
            if all(job.error is not None for job in batch):  # nothing to keep, so nothing to wait for the disk for
                db.execute("ROLLBACK")
                return True
            db.execute("UPDATE file SET last_commit = ?, uptime_ms = ?", (number, uptime))
            db.execute("COMMIT")
            self._commit_no = number
            return True
        except Exception as error:  # noqa: BLE001 - whatever ends the batch is each job's answer
            with contextlib.suppress(apsw.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            for job in batch:
                job.error = _translated(error, self.path)
                job.topics.clear()
            return False

    def _answer(self, batch: list[_Job]) -> None:
        topics: set[str] = set().union(*(job.topics for job in batch))
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = defaultdict(list)
        for job in batch:
            if job.loop is not None:
                by_loop[job.loop].append(job)
            elif isinstance(job.answer, Future) and job.answer.set_running_or_notify_cancel():  # else nobody waits for it any more
                _settle(job)
        if self._loop is not None:
            by_loop.setdefault(self._loop, [])
        elif topics:
            self.on_commit(topics)
        for loop, jobs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # that loop has ended, and nobody waits in it any more
                loop.call_soon_threadsafe(self._deliver, jobs, topics if loop is self._loop else set())

    def _deliver(self, jobs: list[_Job], topics: set[str]) -> None:
        for job in jobs:
            if not job.answer.cancelled():
                _settle(job)
        if topics:
            self.on_commit(topics)

    # ------------------------------------------------------------------------------------------ reading

    def read(self, query: Callable[Concatenate[Reader, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short query on one snapshot, here and now. Only ever called from one thread: the event loop's, or a test's."""
        return self._read(self._front, query, *args, **kwargs)

    def read_apart(self, query: Callable[Concatenate[Reader, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on one snapshot with a connection of its own; for worker threads. Waits when all are in use."""
        connection = self._back.get()
        try:
            if connection is None:
                connection = _connect(self.path, apsw.SQLITE_OPEN_READONLY)
            return self._read(connection, query, *args, **kwargs)
        finally:
            self._back.put(connection)

    async def aread(self, query: Callable[Concatenate[Reader, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """`read_apart` in a worker thread, awaited; for queries that are not short."""
        return await asyncio.to_thread(self.read_apart, query, *args, **kwargs)

    def _read(self, db: apsw.Connection, query: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        with _domain_errors(self.path):
            db.execute("BEGIN")
            try:
                return query(Reader(db, self.clock(), self.uptime()), *args, **kwargs)
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")

    # ------------------------------------------------------------------------------------------ ending

    def close(self) -> None:
        """Finish what is queued, then close. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        while True:
            try:
                connection = self._back.get_nowait()
            except queue.Empty:
                break
            if connection is not None:
                connection.close()
        self._front.close()
        self._writer.close()


def _nobody(topics: set[str]) -> None:
    """Nobody waits."""


def _settle(job: _Job) -> None:
    if job.error is not None:
        job.answer.set_exception(job.error)
    else:
        job.answer.set_result(job.result)


def _connect(path: str, flags: int) -> apsw.Connection:
    db = apsw.Connection(path, flags=flags, statementcachesize=STATEMENTS)
    db.set_busy_timeout(10_000)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else a statement is prepared again whenever other values are bound to it
    for setting in (apsw.SQLITE_DBCONFIG_DQS_DML, apsw.SQLITE_DBCONFIG_DQS_DDL, apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA):
        db.config(setting, 0)
    db.pragma("cache_size", -8192)
    return db


@contextlib.contextmanager
def _domain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _translated(error, path) from error


def _translated(error: Exception, path: str) -> Exception:
    """The domain's error for one of SQLite's, by result code; anything else unchanged (it is a bug and shown as one)."""
    if isinstance(error, ApplianceError | ConstraintFailed) or not isinstance(error, apsw.Error):
        return error
    match error:
        case apsw.FullError():
            return StorageFull("the disk is full; nothing was changed", hint=f"free space on the disk that holds {path}, then try again")
        case apsw.NotADBError():
            return Invalid(f"{path} is not a database", hint="name another file with --db, or move this one away")
        case apsw.CorruptError():
            return Corrupt(f"{path} is damaged ({error})", hint="restore a backup")
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path} is in use by another process", hint="stop the other process, then try again")
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return Invalid(f"{path} cannot be opened for reading and writing", hint="check that the directory exists and who owns it")
        case apsw.IOError():
            return StorageFull(f"the disk that holds {path} failed ({error}); nothing was changed", hint="check the disk, then try again")
        case _:
            return error
