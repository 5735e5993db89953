"""The journal file: SQLite, WAL, `synchronous=FULL`, one commit per step, a counter that each commit raises.

A journal whose content is damaged (0 bytes, half, random bytes) is set aside and a new one, with a new agent state,
takes its place: what the appliance observed is then the memory. One that cannot be opened or read just now (no inodes,
descriptors, permission, room) stays where it is, and so does one of a newer format.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Iterator

from . import files
from .errors import AgentError, Refused

FORMAT = 1
APPLICATION = 0x41474A4C  # "AGJL"
_ERROR, _CORRUPT, _NOTADB = 1, 11, 26  # SQLite's codes; before Python 3.11 there are only its texts
_DAMAGED = ("malformed", "is not a database", "no such table", "no such column", "unsupported file format", "could not decode")

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- every run this machine asked for or started; `seq` is their order
CREATE TABLE run (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    run          TEXT NOT NULL UNIQUE,
    deployment   TEXT NOT NULL,
    generation   TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    repeat       TEXT,                        -- null: needs a grant
    state        TEXT NOT NULL CHECK (state IN ('claimed', 'granted', 'refused', 'running', 'finished', 'released')),
    why          TEXT,                        -- of a refusal or a release
    after        TEXT NOT NULL DEFAULT '[]',  -- generations that must be COMPLETE here first
    changed      INTEGER,                     -- the document's, when it was started
    policy       TEXT,
    boot         TEXT,
    pgid         INTEGER,                     -- process group of its leader, null if it never got one
    leader       INTEGER,                     -- start time of the leader, so that a recycled id is not taken for it
    started_at   TEXT,
    ended_at     TEXT,
    result       TEXT,                        -- body of the `finished` signal
    acknowledged INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX run_by_deployment ON run (deployment, seq);
CREATE INDEX run_open ON run (seq) WHERE state <> 'finished';

-- generations that ran to an end: never pruned, removed only by a tombstone
CREATE TABLE done (
    generation TEXT PRIMARY KEY,
    deployment TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    verdict    TEXT NOT NULL CHECK (verdict IN ('COMPLETE', 'FAILED')),
    run        TEXT,                          -- null: the appliance said so
    outcome    TEXT,
    status     INTEGER
) WITHOUT ROWID;

-- the last started run of each deployment: removed only by a tombstone
CREATE TABLE last (
    deployment  TEXT PRIMARY KEY,
    boot        TEXT NOT NULL,
    changed     INTEGER NOT NULL,
    agent_start TEXT NOT NULL DEFAULT '',
    ended       REAL,                         -- monotonic clock of `boot`
    verdict     TEXT,
    policy      TEXT,
    other_boot  TEXT
) WITHOUT ROWID;

-- signals not yet acknowledged, and those the appliance would not have
CREATE TABLE outbox (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    body   TEXT NOT NULL,
    state  TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'parked')),
    answer TEXT
);
"""


class Journal:
    """One open journal, usable from any thread. `set_aside` names the broken file it replaced, if it did."""

    def __init__(self, path: Path) -> None:
        self.set_aside: Path | None = None
        try:
            if path.exists() and not _usable(path):
                self.set_aside = _set_aside(path)
            self._lock = threading.RLock()
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            self._db.row_factory = sqlite3.Row
            try:
                self._prepare(path)
                self.agent_state = str(self.meta("agent_state"))
            except BaseException:
                self._db.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise AgentError(f"the journal {path} cannot be opened just now and is left as it is: {error}") from error

    def _prepare(self, path: Path) -> None:
        path.chmod(0o600)
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > FORMAT:
            raise Refused(
                f"the journal {path} has format {found}, this agent knows up to {FORMAT}",
                "a newer agent wrote it: start that one",
            )
        if found < FORMAT:
            self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first page is written
        self._db.execute("PRAGMA journal_mode = WAL").fetchall()
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(f"PRAGMA journal_size_limit = {16 << 20}").fetchall()
        if found == FORMAT:
            return
        statements = [f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {FORMAT}"]
        self._db.executescript("BEGIN IMMEDIATE;" + SCHEMA + ";".join(statements) + ";COMMIT;")
        with self.write() as tx:
            tx.execute("INSERT INTO meta VALUES ('agent_state', ?)", (secrets.token_hex(16),))
        files.sync_directory(path.parent)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One durable commit; all or nothing. Raises the journal's counter. Within another one it is part of that."""
        with self._lock:
            if self._db.in_transaction:
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute(
                    "INSERT INTO meta VALUES ('counter', '1') ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                )
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """What a query finds."""
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def meta(self, key: str) -> str | None:
        """One of the journal's own values."""
        found = self.rows("SELECT value FROM meta WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Keep one value, durably; nothing is written if it is already kept."""
        if self.meta(key) != value:
            with self.write() as tx:
                tx.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def counter(self) -> int:
        """How many commits there were; never falls on one agent state."""
        return int(self.meta("counter") or 0)

    def shrink(self) -> None:
        """Give pages that are free back to the file system."""
        with self._lock:
            self._db.execute("PRAGMA incremental_vacuum").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def _usable(path: Path) -> bool:
    """Whether the file is a whole journal, of any format. Newer formats are judged by whoever opens it.

    Raises sqlite3.Error or OSError if its content could not be judged at all.
    """
    if path.stat().st_size == 0:
        return False
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                return False
            if not _sound([str(row[0]) for row in db.execute("PRAGMA quick_check")]):
                return False
            if db.execute("PRAGMA user_version").fetchone()[0] > FORMAT:
                return True
            for table in ("run", "done", "last", "outbox"):
                db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - our own names
            return db.execute("SELECT value FROM meta WHERE key = 'agent_state'").fetchone() is not None
    except sqlite3.Error as error:
        if _is_damage(error):
            return False
        raise


def _sound(found: list[str]) -> bool:
    """What `quick_check` says. A page it could not get, for another reason than its content, says nothing about the file."""
    for code in re.findall(r"error code=(\d+)", "\n".join(found)):
        if int(code) & 0xFF not in (_CORRUPT, _NOTADB):
            raise sqlite3.OperationalError(f"a page of it cannot be read (SQLite error {code})")
    return found == ["ok"]


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether it is the content that is wrong, and not the way to it."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF != _ERROR:
        return code & 0xFF in (_CORRUPT, _NOTADB)
    text = str(error).lower()
    return any(words in text for words in _DAMAGED)


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.broken-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    number = 0
    while aside.exists():
        number += 1
        aside = aside.with_name(f"{aside.name}.{number}")
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    files.sync_directory(path.parent)
    return aside
