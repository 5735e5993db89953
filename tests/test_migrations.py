"""From an older file to the current schema: same shape as a fresh one, no row lost, and a step that fails leaves the old version.

`schemas/vN.sql` is a dump, with rows, of a file as the release with schema N wrote it, frozen at that release. Until the first release
there is none, and synthetic steps stand in for real ones.
"""

import re
from pathlib import Path

import apsw
import pytest

from appliance.errors import Corrupt
from appliance.store import migrations
from appliance.store.database import Database

from .shape import shape_of

SCHEMAS = Path(__file__).with_name("schemas")
DUMPS = sorted(SCHEMAS.glob("v*.sql"))


def fresh(path):
    db = apsw.Connection(str(path))
    migrations.prepare(db, str(path))
    return db


def loaded(path, dump):
    db = apsw.Connection(str(path))
    db.pragma("auto_vacuum", 2)
    db.execute(dump)
    return db


def counts(db):
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    return {name: db.execute(f'SELECT count(*) FROM "{name}"').get for name in tables}


def test_there_is_a_step_from_every_version_that_was_ever_released():
    assert sorted(migrations.STEPS) == list(range(1, migrations.SCHEMA_VERSION))
    frozen = [int(path.stem[1:]) for path in DUMPS]
    assert all(1 <= version <= migrations.SCHEMA_VERSION for version in frozen)
    assert set(migrations.STEPS) <= set(frozen), "a step without the frozen dump it starts from"


def test_the_version_of_the_schema_is_the_one_the_code_knows(tmp_path):
    db = fresh(tmp_path / "a.db")
    assert db.pragma("user_version") == migrations.SCHEMA_VERSION
    assert db.pragma("application_id") == migrations.APPLICATION_ID == int.from_bytes(b"Appi")


def test_every_released_file_comes_to_the_shape_of_a_fresh_one_with_all_its_rows(tmp_path):
    expected = shape_of(fresh(tmp_path / "fresh.db"))
    for dump in DUMPS:
        path = tmp_path / f"{dump.stem}.db"
        old = loaded(path, dump.read_text())
        before = counts(old)
        migrations.prepare(old, str(path))
        assert shape_of(old) == expected, dump
        after = counts(old)
        assert {name: after.get(name) for name in before} == before, dump
        assert old.execute("PRAGMA integrity_check").get == "ok"
        assert list(old.execute("PRAGMA foreign_key_check")) == []


def test_two_fresh_files_have_one_shape_and_the_shape_sees_what_differs(tmp_path):
    one, other = fresh(tmp_path / "a.db"), fresh(tmp_path / "b.db")
    assert shape_of(one) == shape_of(other)
    for change in (
        "ALTER TABLE plan ADD COLUMN extra TEXT",
        "DROP INDEX plan_by_name",
        "DROP TRIGGER version_is_kept",
        "DROP VIEW current",
        "CREATE TABLE extra (a TEXT) STRICT",
        "PRAGMA user_version = 2",
    ):
        other.execute("BEGIN")
        other.execute(change)
        assert shape_of(one) != shape_of(other), change
        other.execute("ROLLBACK")
    assert shape_of(one) == shape_of(other)


@pytest.fixture
def next_version(monkeypatch):
    """A code base that is one version further, by the step it is given."""

    def further(step):
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", migrations.SCHEMA_VERSION + 1)
        monkeypatch.setitem(migrations.STEPS, migrations.SCHEMA_VERSION - 1, step)

    return further


def test_a_step_brings_an_older_file_forward_once_and_keeps_its_rows(database, next_version):
    database.write(lambda tx: tx.execute("INSERT INTO audit (commit_no, at, by, verb, object) VALUES (1, 1, 'ann', 'x', 'y')"))
    database.close()
    next_version("ALTER TABLE audit ADD COLUMN more TEXT NOT NULL DEFAULT 'none'; CREATE INDEX audit_by_more ON audit (more);")
    for _ in range(2):
        again = Database(database.path)
        assert again.read(lambda tx: tx.row("SELECT verb, more FROM audit")) == ("x", "none")
        assert again.read(lambda tx: tx.value("PRAGMA user_version")) == migrations.SCHEMA_VERSION
        again.close()
    with apsw.Connection(f"{database.path}.v{migrations.SCHEMA_VERSION - 1}") as aside:
        assert aside.pragma("user_version") == migrations.SCHEMA_VERSION - 1, "the file as it was lies beside it"
        assert aside.execute("SELECT verb FROM audit").get == "x"
    aside.close()


@pytest.mark.parametrize(
    "step",
    [
        "ALTER TABLE audit ADD COLUMN more TEXT; SELECT no_such_function();",
        "ALTER TABLE audit ADD COLUMN more TEXT; INSERT INTO label (server, label) VALUES ('nobody', 'x');",
        "ALTER TABLE audit ADD COLUMN more TEXT; this is not SQL;",
    ],
)
def test_a_step_that_fails_leaves_the_old_version_as_it_was(database, next_version, step):
    database.write(lambda tx: tx.execute("INSERT INTO audit (commit_no, at, by, verb, object) VALUES (1, 1, 'ann', 'x', 'y')"))
    database.close()
    with apsw.Connection(database.path) as db:
        before = shape_of(db), list(db.execute("SELECT * FROM audit"))
    db.close()
    old = migrations.SCHEMA_VERSION
    next_version(step)
    with pytest.raises((apsw.Error, Corrupt)):
        Database(database.path)
    with apsw.Connection(database.path) as db:
        assert (shape_of(db), list(db.execute("SELECT * FROM audit"))) == before
        assert db.pragma("user_version") == old
    db.close()


def test_of_two_steps_the_first_is_kept_when_the_second_fails(database, monkeypatch):
    database.close()
    first = migrations.SCHEMA_VERSION
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", first + 2)
    monkeypatch.setitem(migrations.STEPS, first, "ALTER TABLE audit ADD COLUMN one TEXT;")
    monkeypatch.setitem(migrations.STEPS, first + 1, "ALTER TABLE audit ADD COLUMN two TEXT; nonsense;")
    with pytest.raises(apsw.Error):
        Database(database.path)
    db = apsw.Connection(database.path)
    columns = {row[1] for row in db.execute("PRAGMA table_info(audit)")}
    assert db.pragma("user_version") == first + 1
    assert "one" in columns
    assert "two" not in columns
    db.close()


def test_the_schema_is_read_from_the_package_and_creates_only_strict_tables():
    text = re.sub(r"--[^\n]*", "", migrations.schema_text())
    tables = re.findall(r"CREATE TABLE (\S+) \(.*?\n\)([^;]*);", text, flags=re.DOTALL)
    assert len(tables) > 30
    assert [name for name, tail in tables if "STRICT" not in tail] == []
    assert "IF NOT EXISTS" not in text
