"""Blobs by digest: what is missing, where one lies, and its verified bytes."""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from appliance.errors import Corrupt, NotFound
from appliance.plan import digest_of, shown
from appliance.store import large
from appliance.store.packs import Shelf
from appliance.store.tx import Reader, byte_strings, integers

_COLUMNS = "id, digest, size, pack, start, large"


class Blob(msgspec.Struct, frozen=True):
    """One blob and where it lies: in a slice of `pack`, or in the rows of `large`."""

    id: int
    digest: bytes
    size: int
    pack: int | None
    start: int | None
    large: int | None


def missing(tx: Reader, digests: Iterable[bytes]) -> list[bytes]:
    """Those of `digests` that are not stored, once each, in the order given."""
    wanted = list(dict.fromkeys(digests))
    if not wanted:
        return []
    there = {digest for (digest,) in tx.rows("SELECT digest FROM blob WHERE digest IN carray(?)", (byte_strings(wanted),))}
    return [digest for digest in wanted if digest not in there]


def known(tx: Reader, digests: Collection[bytes]) -> dict[bytes, tuple[int, int]]:
    """(id, size) of those of `digests` that are stored."""
    if not digests:
        return {}
    rows = tx.rows("SELECT digest, id, size FROM blob WHERE digest IN carray(?)", (byte_strings(digests),))
    return {digest: (id, size) for digest, id, size in rows}


def find(tx: Reader, digest: bytes) -> Blob:
    """The blob of this digest. Raises NotFound."""
    row = tx.row(f"SELECT {_COLUMNS} FROM blob WHERE digest = ?", (digest,))
    if row is None:
        raise NotFound(f"no blob {shown(digest)}", hint="it was never uploaded, or removed because nothing needed it")
    return Blob(*row)


def by_id(tx: Reader, ids: Collection[int]) -> dict[int, Blob]:
    """The blobs with these ids. Raises Corrupt when one is not there: ids come from listings, which keep their blobs."""
    if not ids:
        return {}
    rows = tx.rows(f"SELECT {_COLUMNS} FROM blob WHERE id IN carray(?)", (integers(ids),))
    found = {row[0]: Blob(*row) for row in rows}
    for id in ids:
        if id not in found:
            raise Corrupt(f"blob {id} is named by a version and missing", hint="restore a backup")
    return found


def digests(tx: Reader, ids: Collection[int]) -> dict[int, tuple[bytes, int]]:
    """(digest, size) of the blobs with these ids."""
    if not ids:
        return {}
    rows = tx.rows("SELECT id, digest, size FROM blob WHERE id IN carray(?)", (integers(ids),))
    return {id: (digest, size) for id, digest, size in rows}


def read(tx: Reader, digest: bytes) -> bytes:
    """The verified bytes of one blob, in memory. Raises NotFound or Corrupt. For a large one, `stream` it instead."""
    return content(tx, find(tx, digest))


def content(tx: Reader, blob: Blob, shelf: Shelf | None = None) -> bytes:
    """The verified bytes of `blob`. `shelf` saves unpacking a pack for each of its blobs. Raises Corrupt."""
    try:
        if blob.pack is None:
            assert blob.large is not None
            raw = b"".join(large.parts(tx, blob.large, 0, -(-blob.size // large.PART_BYTES)))
            if digest_of(raw) == blob.digest:
                return raw
        else:
            assert blob.start is not None
            shelf = Shelf(0) if shelf is None else shelf
            end = blob.start + blob.size
            for _ in range(2 if blob.pack in shelf else 1):  # a pack's number may have gone to another pack since it was put there
                raw = shelf.take(tx, blob.pack)[blob.start : end]
                if digest_of(raw) == blob.digest:
                    return raw
                shelf.forget(blob.pack)
    except Corrupt as error:
        raise damaged(blob) from error
    raise damaged(blob)


def contents(tx: Reader, ids: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """The verified bytes of many blobs, each pack unpacked once. Raises Corrupt."""
    shelf = Shelf(0)  # one pack at a time: they come in the order of their packs
    found = by_id(tx, set(ids))
    for blob in sorted(found.values(), key=lambda blob: (blob.pack or 0, blob.start or 0)):
        yield blob.id, content(tx, blob, shelf)


def damaged(blob: Blob) -> Corrupt:
    """The error for stored bytes that do not have their digest."""
    return Corrupt(
        f"the stored bytes of {shown(blob.digest)} are damaged; they are not served",
        hint="upload the same file again to repair it ('appliance plan push DIR --resend'), or restore a backup",
    )


def damaged_among(tx: Reader, digests: Collection[bytes]) -> set[bytes]:
    """Those small ones of `digests` that are stored and damaged: a new upload replaces them."""
    found = set()
    shelf = Shelf()
    for digest in digests:
        row = tx.row(
            f"SELECT {_COLUMNS} FROM blob WHERE digest = ? AND pack IS NOT NULL",
            (digest,),
        )
        if row is not None:
            try:
                content(tx, Blob(*row), shelf)
            except Corrupt:
                found.add(digest)
    return found
