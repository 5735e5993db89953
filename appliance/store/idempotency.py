"""Answers kept so that a request sent twice acts once."""

import msgspec

from appliance.store.tx import Reader, Tx


class Kept(msgspec.Struct, frozen=True):
    """An answer given before. `body` is None when it held a secret and was not kept."""

    request: bytes
    status: int
    body: bytes | None


def find(tx: Reader, who: str, key: str) -> Kept | None:
    """What was answered to `who` under `key`."""
    found = tx.row("SELECT request, status, body FROM idempotency WHERE who = ? AND key = ?", (who, key))
    return None if found is None else Kept(*found)


def keep(tx: Tx, who: str, key: str, answer: Kept) -> None:
    """Remember an answer, in the transaction that did the work."""
    tx.execute(
        "INSERT INTO idempotency (who, key, request, status, body, at) VALUES (?, ?, ?, ?, ?, ?)",
        (who, key, answer.request, answer.status, answer.body, tx.now),
    )
