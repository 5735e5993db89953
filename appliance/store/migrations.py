"""From an empty or older file to the current schema, in one transaction a step."""

from importlib.resources import files

import apsw

from appliance.errors import Conflict, Invalid

APPLICATION_ID = 1097887849
SCHEMA_VERSION = 1

# n: the SQL that turns a file of version n into one of version n + 1. SQL text only, no domain types: they move on, a step must not.
STEPS: dict[int, str] = {}


def schema_text() -> str:
    """The text of schema.sql."""
    return files("appliance").joinpath("schema.sql").read_text(encoding="utf-8")


def prepare(db: apsw.Connection, path: str) -> bool:
    """Bring the file behind a writing connection to the current schema; True when the file was new.

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
    for step in range(version, SCHEMA_VERSION):
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute(STEPS[step])
            db.pragma("user_version", step + 1)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    db.pragma("journal_mode", "wal")
    return False


def is_empty(db: apsw.Connection, path: str) -> bool:
    """Whether the file is a new one. Raises Invalid when it is somebody else's."""
    application, version = db.pragma("application_id"), db.pragma("user_version")
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if not tables and not application and not version:
        return True
    if application != APPLICATION_ID:
        raise Invalid(f"{path} is a database, but not an appliance's", hint="name another file with --db, or move this one away")
    return False
