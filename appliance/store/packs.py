"""Small blobs, together in packs: some 64 KiB of content in one zstd frame.

`packed` needs no database and takes the time; `store` writes what it made in the writer's transaction.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec
import zstandard

from appliance.errors import Corrupt
from appliance.store.tx import Reader, Tx, byte_strings

PACK_BYTES = 64 * 1024
SMALL_BYTES = 256 * 1024  # a blob over this is stored in rows of its own, see store/large.py
LEVEL = 3


class Slice(NamedTuple):
    """Where one blob lies in an unpacked pack."""

    digest: bytes
    start: int
    size: int


class Pack(msgspec.Struct, frozen=True):
    """A pack to be stored: `size` bytes when unpacked."""

    size: int
    data: bytes
    slices: tuple[Slice, ...]


def packed(blobs: Iterable[tuple[bytes, bytes]]) -> Iterator[Pack]:
    """Packs of (digest, content) pairs, in the order given: near-alike files side by side make small packs.

    The digests are trusted; whoever read the content has verified it.
    """
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
    slices: list[Slice] = []
    contents: list[bytes] = []
    start = 0
    for digest, content in blobs:
        slices.append(Slice(digest, start, len(content)))
        contents.append(content)
        start += len(content)
        if start >= PACK_BYTES:
            yield _pack(compressor, slices, contents)
            slices, contents, start = [], [], 0
    if slices:
        yield _pack(compressor, slices, contents)


def _pack(compressor: zstandard.ZstdCompressor, slices: list[Slice], contents: list[bytes]) -> Pack:
    raw = b"".join(contents) or b"\0"  # a pack of nothing but the empty blob still has a byte
    return Pack(len(raw), compressor.compress(raw), tuple(slices))


def store(tx: Tx, packs: Collection[Pack], *, replace: Collection[bytes] = ()) -> int:
    """Store the blobs of `packs` that are not there yet; how many that were.

    A digest in `replace` is stored anew although it is there: that is how a damaged blob is repaired.
    """
    digests = [piece.digest for pack in packs for piece in pack.slices]
    if not digests:
        return 0
    there = {digest for (digest,) in tx.rows("SELECT digest FROM blob WHERE digest IN carray(?)", (byte_strings(digests),))}
    mend = there.intersection(replace)
    stored = 0
    rows: list[tuple[bytes, int, int, int, int]] = []
    for pack in packs:
        if all(piece.digest in there and piece.digest not in mend for piece in pack.slices):
            continue
        id = tx.insert("INSERT INTO pack (size, data) VALUES (?, ?)", (pack.size, pack.data))
        for digest, start, size in pack.slices:
            if digest not in there:
                there.add(digest)
                rows.append((digest, size, id, start, tx.now))
            elif digest in mend:
                mend.remove(digest)
                stored += tx.execute("UPDATE blob SET pack = ?, start = ?, large = NULL WHERE digest = ?", (id, start, digest))
    tx.many("INSERT INTO blob (digest, size, pack, start, created_at) VALUES (?, ?, ?, ?, ?)", rows)
    return stored + len(rows)


class Shelf:
    """Packs unpacked a moment ago, for reading many blobs. Keeps at most `limit` bytes.

    A pack's number may be another pack's after a clean-up; readers verify what they take, and `forget` one that does not fit.
    """

    def __init__(self, limit: int = 32 << 20) -> None:
        self._limit = limit
        self._held: OrderedDict[int, bytes] = OrderedDict()
        self._size = 0

    def __contains__(self, pack: int) -> bool:
        return pack in self._held

    def take(self, tx: Reader, pack: int) -> bytes:
        """The unpacked bytes of a pack. Raises Corrupt."""
        raw = self._held.get(pack)
        if raw is not None:
            self._held.move_to_end(pack)
            return raw
        raw = unpacked(tx, pack)
        self._held[pack] = raw
        self._size += len(raw)
        while self._size > self._limit and len(self._held) > 1:
            self._size -= len(self._held.popitem(last=False)[1])
        return raw

    def forget(self, pack: int) -> None:
        """Take it from the file next time."""
        self._size -= len(self._held.pop(pack, b""))


def unpacked(tx: Reader, pack: int) -> bytes:
    """The unpacked bytes of a pack; its blobs are not verified yet. Raises Corrupt."""
    row = tx.row("SELECT size, data FROM pack WHERE id = ?", (pack,))
    if row is None:
        raise Corrupt(f"pack {pack} is missing", hint="restore a backup, or push the plans again")
    size, data = row
    try:
        raw: bytes = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Corrupt(f"pack {pack} cannot be unpacked ({error})", hint="restore a backup, or push the plans again") from None
    if len(raw) != size:
        raise Corrupt(f"pack {pack} has {len(raw)} bytes instead of {size}", hint="restore a backup, or push the plans again")
    return raw
