"""The one row about the file itself."""

import msgspec

from appliance.store.tx import Reader, Tx


class File(msgspec.Struct, frozen=True):
    """Epoch, key id and stored URL of an appliance file."""

    epoch_number: int
    epoch_id: str
    key_id: str
    url: str | None
    created_at: int


class Pace(msgspec.Struct, frozen=True):
    """How long silence is borne after a run's time limit (of our agent, of a stock one).

    And the wait before a second attempt, and how long ready DELETE work may take. In ms.
    """

    grace: int
    stock_grace: int
    retry: int
    delete: int


def pace(tx: Reader) -> Pace:
    """The settings of this file."""
    found = tx.row("SELECT grace_s * 1000, stock_grace_s * 1000, retry_s * 1000, delete_s * 1000 FROM file")
    assert found is not None
    return Pace(*found)


def set_pace(
    tx: Tx, *, grace_s: int | None = None, stock_grace_s: int | None = None, delete_s: int | None = None, retry_s: int | None = None
) -> None:
    """Store these, in seconds; None leaves what is stored. What was granted before keeps its deadline."""
    tx.execute(
        "UPDATE file SET grace_s = coalesce(?, grace_s), stock_grace_s = coalesce(?, stock_grace_s), delete_s = coalesce(?, delete_s),"
        " retry_s = coalesce(?, retry_s)",
        (grace_s, stock_grace_s, delete_s, retry_s),
    )


def born(tx: Tx, key_id: str) -> None:
    """Write the first row of a new file: epoch 1."""
    tx.execute(
        "INSERT INTO file (one, epoch_number, epoch_id, key_id, last_commit, created_at) VALUES (1, 1, ?, ?, ?, ?)",
        (tx.new_id(), key_id, tx.commit, tx.now),
    )


def read(tx: Reader) -> File | None:
    """The row, or None for a file whose birth was cut short."""
    found = tx.row("SELECT epoch_number, epoch_id, key_id, url, created_at FROM file")
    return None if found is None else File(*found)


def last_commit(tx: Reader) -> int:
    """The number of the newest commit in this snapshot."""
    found: int = tx.value("SELECT last_commit FROM file")
    return found


def set_url(tx: Tx, url: str | None) -> None:
    """Store the base of every URL we write."""
    tx.execute("UPDATE file SET url = ?", (url,))
