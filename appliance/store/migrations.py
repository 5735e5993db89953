"""From an empty or older file to the current schema, in one transaction a step."""

from importlib.resources import files
from pathlib import Path

import apsw

from appliance.errors import Conflict, Corrupt, Invalid

APPLICATION_ID = 1097887849
SCHEMA_VERSION = 1

# n: the SQL that turns a file of version n into one of version n + 1. SQL text only, no domain types: they move on, a step must not.
STEPS: dict[int, str] = {}


def schema_text() -> str:
    """The text of schema.sql."""
    return files("appliance").joinpath("schema.sql").read_text(encoding="utf-8")


def prepare(db: apsw.Connection, path: str) -> bool:
    """Bring the file behind a writing connection to the current schema; True when the file was new.

    An older file is first copied aside, to its own name with `.vN`; a step that fails leaves the version before it.
    Raises Invalid for a file that is not ours and Conflict for one of a newer appliance; neither is touched.
    """
    if is_empty(db, path):
        db.pragma("auto_vacuum", 2)  # must stand before the file's first page, and so before WAL
        db.pragma("journal_mode", "wal")
        db.execute("BEGIN IMMEDIATE")
        db.execute(schema_text())
        db.execute("COMMIT")
        return True
    version = db.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise Conflict(
            f"{path} was written by a newer appliance (schema {version}, this one knows {SCHEMA_VERSION})",
            hint="use that appliance, or restore a backup made before the upgrade",
        )
    if version < SCHEMA_VERSION:
        _copy_aside(db, Path(f"{path}.v{version}"))
    for step in range(version, SCHEMA_VERSION):
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute(STEPS[step])
            if db.execute("PRAGMA foreign_key_check").fetchone() is not None:  # a step may rebuild tables, so they are not enforced in it
                raise Corrupt(f"{path} cannot be brought to schema {step + 1}: rows would refer to nothing; nothing was changed")
            db.pragma("user_version", step + 1)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    db.pragma("journal_mode", "wal")
    return False


def _copy_aside(db: apsw.Connection, target: Path) -> None:
    if not target.exists():
        whole = target.with_name(target.name + ".new")
        whole.unlink(missing_ok=True)
        db.execute("VACUUM INTO ?", (str(whole),))
        whole.rename(target)


def is_empty(db: apsw.Connection, path: str) -> bool:
    """Whether the file is a new one. Raises Invalid when it is somebody else's."""
    application, version = db.pragma("application_id"), db.pragma("user_version")
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if not tables and not application and not version:
        return True
    if application != APPLICATION_ID:
        raise Invalid(f"{path} is a database, but not an appliance's", hint="name another file with --db, or move this one away")
    return False
