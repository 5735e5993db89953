"""The shape of a database: what two files must have in common to be of one schema, however each came to it.

The raw text of CREATE TABLE differs after ALTER TABLE, so tables are compared through pragmas; CHECK clauses are not visible there and
have rows of their own in test_schema.py.
"""

import re
from typing import Any

import apsw


def shape_of(db: apsw.Connection) -> dict[str, Any]:
    """Tables with columns, keys and indexes; triggers, views and partial indexes by their text without layout."""
    found: dict[str, Any] = {"application_id": db.pragma("application_id"), "user_version": db.pragma("user_version")}
    for _, name, kind, _, without_rowid, strict in list(db.execute("PRAGMA main.table_list")):
        if name.startswith("sqlite_"):
            continue
        columns = {row[1]: row[2:] for row in db.execute(f'PRAGMA table_xinfo("{name}")')}
        foreign = sorted(row[2:] for row in db.execute(f'PRAGMA foreign_key_list("{name}")'))
        indexes = sorted(
            (unique, origin, partial, [row[2] for row in db.execute(f'PRAGMA index_info("{index}")')], index if origin == "c" else "")
            for _, index, unique, origin, partial in list(db.execute(f'PRAGMA index_list("{name}")'))
        )
        found[f"{kind} {name}"] = {
            "without rowid": without_rowid,
            "strict": strict,
            "columns": columns,
            "foreign keys": foreign,
            "indexes": indexes,
        }
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'table'"):
        found[f"text of {kind} {name}"] = " ".join(re.sub(r"--[^\n]*", "", sql).split())
    return found
