"""Opening the journal: what is damaged is set aside, what cannot be read just now stays."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from appliance.agent import journal as journals
from appliance.agent.errors import AgentError
from appliance.agent.journal import Journal

from .conftest import Machine
from .fake import Fake, script


def made(path: Path) -> Path:
    journal = Journal(path / "journal.db")
    journal.set_meta("kept", "yes")
    journal.close()
    return path / "journal.db"


def test_a_journal_that_cannot_be_opened_just_now_stays_and_keeps_its_results(machine: Machine, fake: Fake) -> None:
    fake.signal_status = lambda signal: (503, {})
    fake.change([script(machine.counter("a"))])
    machine.one_pass(check=7)
    obstacle = machine.state / "journal.db-shm"
    obstacle.symlink_to("/no/such/directory/file")  # SQLite cannot make it: the same error as for want of inodes
    done = machine.one_pass(check=1)
    assert "cannot be opened just now" in done.stderr
    assert "unable to open" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(machine.state.glob("*broken*")) == []
    obstacle.unlink()
    fake.signal_status = lambda signal: None
    machine.one_pass()
    assert [found["outcome"] for found in fake.of("finished")] == ["ended"]
    assert machine.count("a") == 1


@pytest.mark.parametrize("with_code", [True, False])
@pytest.mark.parametrize(
    "code,text,damaged",
    [
        (14, "unable to open database file", False),
        (8, "attempt to write a readonly database", False),
        (10, "disk I/O error", False),
        (522, "disk I/O error", False),
        (13, "database or disk is full", False),
        (3, "access permission denied", False),
        (5, "database is locked", False),
        (7, "out of memory", False),
        (1, "no such table: run", True),
        (11, "database disk image is malformed", True),
        (267, "database disk image is malformed", True),
        (26, "file is not a database", True),
    ],
)
def test_only_damaged_content_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, damaged: bool, with_code: bool
) -> None:
    path = made(tmp_path)
    error = sqlite3.OperationalError(text)
    if with_code:
        error.sqlite_errorcode = code
    real, failures = sqlite3.connect, [error]

    def connect(*args: Any, **how: Any) -> sqlite3.Connection:
        if failures:
            raise failures.pop()
        return real(*args, **how)

    monkeypatch.setattr(journals.sqlite3, "connect", connect)
    if damaged:
        journal = Journal(path)
        assert journal.set_aside is not None
        journal.close()
        return
    with pytest.raises(AgentError, match="cannot be opened just now") as caught:
        Journal(path)
    assert "\n" not in caught.value.message
    journal = Journal(path)
    assert (journal.set_aside, journal.meta("kept")) == (None, "yes")
    journal.close()


@pytest.mark.parametrize("statement", ["DROP TABLE done", "PRAGMA application_id = 1", "DELETE FROM meta"])
def test_a_database_that_is_no_whole_journal_is_set_aside(tmp_path: Path, statement: str) -> None:
    path = made(tmp_path)
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    journal = Journal(path)
    assert journal.set_aside is not None
    journal.close()


def test_a_page_that_cannot_be_read_is_no_damage() -> None:
    assert journals._sound(["ok"])
    assert not journals._sound(["Page 3: free space corruption"])
    assert not journals._sound(["Page 3: unable to get the page. error code=11"])
    with pytest.raises(sqlite3.OperationalError):
        journals._sound(["Page 3: unable to get the page. error code=522"])
