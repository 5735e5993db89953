"""What store functions are given: a snapshot to read, or an operation's open savepoint to write."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apsw

Row = tuple[Any, ...]
Bindings = Sequence[Any] | dict[str, Any]


class ConstraintFailed(Exception):
    """The schema refused a row. `kind` is `unique`, `foreign-key`, `check`, `trigger` or `other`.

    A store function that expects one turns it into an error of the domain; one that reaches an edge is a bug.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_KINDS = {
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY: "unique",
    apsw.SQLITE_CONSTRAINT_UNIQUE: "unique",
    apsw.SQLITE_CONSTRAINT_ROWID: "unique",
    apsw.SQLITE_CONSTRAINT_FOREIGNKEY: "foreign-key",
    apsw.SQLITE_CONSTRAINT_CHECK: "check",
    apsw.SQLITE_CONSTRAINT_NOTNULL: "check",
    apsw.SQLITE_CONSTRAINT_DATATYPE: "check",
    apsw.SQLITE_CONSTRAINT_TRIGGER: "trigger",
}


def _kind(error: apsw.ConstraintError) -> str:
    return _KINDS.get(getattr(error, "extendedresult", 0), "other")


class Reader:
    """One snapshot. `now` is milliseconds since 1970 UTC, `uptime` the milliseconds for which this file has been open in all."""

    __slots__ = ("_db", "now", "uptime")

    def __init__(self, db: apsw.Connection, now: int, uptime: int) -> None:
        self._db = db
        self.now = now
        self.uptime = uptime

    def rows(self, sql: str, bindings: Bindings = ()) -> Iterator[Row]:
        """The rows of a SELECT, as they come."""
        return self._db.execute(sql, bindings)

    def row(self, sql: str, bindings: Bindings = ()) -> Row | None:
        """The first row, or None."""
        found: Row | None = self._db.execute(sql, bindings).fetchone()
        return found

    def value(self, sql: str, bindings: Bindings = ()) -> Any:
        """The first column of the first row, or None when there is no row."""
        found = self._db.execute(sql, bindings).fetchone()
        return None if found is None else found[0]


class Tx(Reader):
    """One operation inside the writer's transaction.

    `commit` is the operation's commit number, `new_id()` a new UUID; a replay of the operation gets new ones. `touch(topic)` names
    what waiters are to be woken for once the commit is on disk.
    """

    __slots__ = ("_topics", "commit", "new_id")

    def __init__(self, db: apsw.Connection, now: int, uptime: int, commit: int, new_id: Callable[[], str], topics: set[str]) -> None:
        super().__init__(db, now, uptime)
        self.commit = commit
        self.new_id = new_id
        self._topics = topics

    def execute(self, sql: str, bindings: Bindings = ()) -> int:
        """Run one statement that writes; the number of rows it changed. Raises ConstraintFailed."""
        try:
            self._db.execute(sql, bindings)
        except apsw.ConstraintError as error:
            raise ConstraintFailed(_kind(error), str(error)) from error
        return self._db.changes()

    def insert(self, sql: str, bindings: Bindings = ()) -> int:
        """Run one INSERT; the rowid of the row. Raises ConstraintFailed."""
        self.execute(sql, bindings)
        return self._db.last_insert_rowid()

    def many(self, sql: str, bindings: Iterable[Bindings]) -> None:
        """Run one statement for each of `bindings`. Raises ConstraintFailed."""
        try:
            self._db.executemany(sql, bindings)
        except apsw.ConstraintError as error:
            raise ConstraintFailed(_kind(error), str(error)) from error

    def touch(self, *topics: str) -> None:
        """Wake those who wait for `topics` after the commit."""
        self._topics.update(topics)


def integers(values: Iterable[int]) -> Any:
    """A list of integers to bind for `IN carray(?)`-style look-ups: `SELECT ... WHERE id IN (SELECT value FROM carray(?))`."""
    return apsw.carray(array("q", values), flags=apsw.SQLITE_CARRAY_INT64)


def byte_strings(values: Iterable[bytes]) -> Any:
    """A list of byte strings to bind in the same way."""
    return apsw.carray(tuple(values))
