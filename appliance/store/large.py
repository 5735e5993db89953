"""Large blobs: rows of 1 MiB, written and removed a few at a time, so that no transaction is long.

An upload is `begin`, `add` again and again, `finish`. Until `finish` the rows belong to nobody: `drop` removes those of an upload
that failed, `sweep_incomplete` those that a stopped process left behind.
"""

import hashlib
from collections.abc import Sequence

import zstandard

from appliance.errors import Conflict, Corrupt, Invalid
from appliance.store.tx import ConstraintFailed, Reader, Tx

PART_BYTES = 1 << 20
PARTS_PER_STEP = 8
LEVEL = 3


class Parts:
    """Compresses the parts of one large blob as they come, and hashes them, outside the writer thread."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.size = 0

    def encode(self, part: bytes) -> tuple[int, bytes]:
        """(encoding, data) of the next part: all but the last have PART_BYTES."""
        self._hasher.update(part)
        self.size += len(part)
        data = self._compressor.compress(part)
        return (1, data) if len(data) < len(part) * 15 // 16 else (0, part)

    @property
    def digest(self) -> bytes:
        """Of all parts so far."""
        return self._hasher.digest()


def begin(tx: Tx, size: int) -> int:
    """Begin an upload of `size` bytes; its id."""
    return tx.insert("INSERT INTO large (size) VALUES (?)", (size,))


def add(tx: Tx, large: int, first: int, parts: Sequence[tuple[int, bytes]]) -> None:
    """Store parts `first`, `first + 1`, ... of an upload."""
    tx.many(
        "INSERT INTO large_part (large, n, encoding, data) VALUES (?, ?, ?, ?)",
        ((large, first + n, encoding, data) for n, (encoding, data) in enumerate(parts)),
    )


def finish(tx: Tx, large: int, digest: bytes, parts: Parts, *, replace: bool = False) -> int | None:
    """Make a whole upload the blob `digest`. What it returns is for the caller to `drop`: this copy, if there was one already.

    `parts` has seen every byte. `replace` puts this copy in the place of a damaged one, which is then the one to drop.
    Raises Invalid when it has another digest.
    """
    if parts.digest != digest:
        raise Invalid(
            f"the content has the digest sha256:{parts.digest.hex()}, not sha256:{digest.hex()}; nothing was stored",
            hint="the file changed or was damaged on its way: send it again",
        )
    rows, size = tx.row("SELECT count(n), size FROM large LEFT JOIN large_part ON large = id WHERE id = ?", (large,)) or (0, None)
    if size != parts.size or rows != -(-parts.size // PART_BYTES):
        raise Conflict("the upload was removed while it was going on; nothing was stored", hint="send it again")
    there = tx.row("SELECT id, large FROM blob WHERE digest = ?", (digest,))
    if there is not None and not replace:
        return large
    tx.execute("UPDATE large SET complete = 1 WHERE id = ?", (large,))
    if there is None:
        tx.execute("INSERT INTO blob (digest, size, large, created_at) VALUES (?, ?, ?, ?)", (digest, parts.size, large, tx.now))
        return None
    blob, old = there
    tx.execute("UPDATE blob SET large = ?, pack = NULL, start = NULL WHERE id = ?", (large, blob))
    tx.execute("UPDATE large SET complete = 0 WHERE id = ?", (old,))
    return None if old is None else int(old)


def drop(tx: Tx, large: int) -> bool:
    """Remove a few parts of an incomplete upload, or the last of it; whether there is more to do."""
    if tx.value("SELECT complete FROM large WHERE id = ?", (large,)) != 0:
        return False
    gone = tx.execute(
        "DELETE FROM large_part WHERE large = :large AND n IN (SELECT n FROM large_part WHERE large = :large ORDER BY n DESC LIMIT :step)",
        {"large": large, "step": 4 * PARTS_PER_STEP},
    )
    if gone == 4 * PARTS_PER_STEP:
        return True
    try:
        tx.execute("DELETE FROM large WHERE id = ?", (large,))
    except ConstraintFailed as error:  # pragma: no cover - a blob points at an incomplete large: the file is damaged
        raise Corrupt(f"large {large} is incomplete and in use", hint="restore a backup") from error
    return False


def sweep_incomplete(tx: Tx) -> bool:
    """At start-up, before any upload begins: a step of removing what unfinished uploads left; whether there is more to do."""
    left = tx.value("SELECT id FROM large WHERE complete = 0 LIMIT 1")
    return left is not None and (drop(tx, left) or tx.value("SELECT 1 FROM large WHERE complete = 0 LIMIT 1") is not None)


def parts(tx: Reader, large: int, first: int, count: int) -> list[bytes]:
    """Up to `count` parts from `first` on, unpacked; they are not verified yet. Raises Corrupt."""
    found: list[bytes] = []
    unpack = zstandard.ZstdDecompressor()
    for n, encoding, data in tx.rows(
        "SELECT n, encoding, data FROM large_part WHERE large = ? AND n >= ? AND n < ? ORDER BY n", (large, first, first + count)
    ):
        if n != first + len(found):
            raise Corrupt(f"part {first + len(found)} of large {large} is missing", hint="upload the file again to repair it")
        try:
            found.append(unpack.decompress(data) if encoding else data)
        except zstandard.ZstdError as error:
            raise Corrupt(f"part {n} of large {large} cannot be unpacked ({error})", hint="upload the file again to repair it") from None
    return found
