"""Who did what."""

from typing import Any

import msgspec

from appliance.store.tx import Reader, Tx


class Deed(msgspec.Struct, frozen=True):
    """One row of the audit log."""

    seq: int
    commit: int
    at: int
    by: str
    verb: str
    object: str
    detail: dict[str, Any]


def record(tx: Tx, by: str, verb: str, object: str, **detail: Any) -> None:
    """Add a row. `detail` never holds a secret."""
    tx.execute(
        "INSERT INTO audit (commit_no, at, by, verb, object, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (tx.commit, tx.now, by, verb, object, msgspec.json.encode(detail).decode()),
    )


def newest(tx: Reader, *, limit: int, before: int | None = None, object: str | None = None) -> list[Deed]:
    """The newest rows first; `before` is a `seq` to go on from."""
    bound = {"limit": limit, "before": before if before is not None else 1 << 62, "object": object}
    by_object = "AND object = :object" if object is not None else ""
    return [
        Deed(seq, commit, at, by, verb, what, msgspec.json.decode(detail))
        for seq, commit, at, by, verb, what, detail in tx.rows(
            "SELECT seq, commit_no, at, by, verb, object, detail FROM audit"
            f" WHERE seq < :before {by_object} ORDER BY seq DESC LIMIT :limit",
            bound,
        )
    ]
