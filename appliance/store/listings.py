"""Manifests as stored: paths, modes and blob ids, whole or as an explicit delta on one whole listing.

In memory a listing is `Lines`: path -> blob id * 4 + mode, in the order of the paths, so that two of them compare line by line.
"""

import struct
import sys
from array import array
from collections.abc import Iterable
from itertools import accumulate, pairwise

import msgspec
import zstandard

from appliance.errors import Corrupt
from appliance.plan import MODES, Entry, Manifest, Mode, digest_of_entries
from appliance.store import blobs
from appliance.store.tx import Reader, Tx, integers

Lines = dict[str, int]

_HEAD = struct.Struct("<II")
_MODE = {mode: n for n, mode in enumerate(MODES)}
LEVEL = 6
DELTA_SHARE = 4  # a delta of more than a 1/4 of the lines is stored whole


class Listing(msgspec.Struct, frozen=True):
    """A row: `base` is the whole listing this one is a delta on, or None."""

    id: int
    digest: bytes
    base: int | None
    files: int
    bytes: int


def line(mode: Mode, blob: int) -> int:
    """A line's value."""
    return blob << 2 | _MODE[mode]


def blob_of(value: int) -> int:
    """The blob id in a line's value."""
    return value >> 2


def mode_of(value: int) -> Mode:
    """The mode in a line's value."""
    return MODES[value & 3]


def find(tx: Reader, digest: bytes) -> Listing | None:
    """The listing of the manifest with this digest, or None."""
    row = tx.row("SELECT id, digest, base, entries, bytes FROM listing WHERE digest = ?", (digest,))
    return None if row is None else Listing(*row)


def read(tx: Reader, listing: int) -> Lines:
    """The lines of a listing. Raises Corrupt."""
    row = tx.row(
        "SELECT listing.data, whole.data FROM listing LEFT JOIN listing AS whole ON whole.id = listing.base WHERE listing.id = ?",
        (listing,),
    )
    if row is None:
        raise Corrupt(f"listing {listing} is missing", hint="restore a backup")
    lines, removed = _decode(listing, row[0])
    return lines if row[1] is None else merged(_decode(listing, row[1])[0], lines, removed)


def merged(base: Lines, put: Lines, removed: Iterable[str]) -> Lines:
    """`base` without `removed` and with `put`, in the order of the paths."""
    lines = dict(base)
    for path in removed:
        del lines[path]
    added = any(path not in lines for path in put)
    lines.update(put)
    return dict(sorted(lines.items())) if added else lines


def verified(tx: Reader, listing: int) -> tuple[Manifest, list[int]]:
    """The whole manifest, verified against its digest, and the blob ids of its entries. Raises Corrupt."""
    found = entries_of(tx, read(tx, listing))
    entries = tuple(entry for entry, _ in found)
    digest = digest_of_entries(entries)
    if digest != tx.value("SELECT digest FROM listing WHERE id = ?", (listing,)):
        raise _damaged(listing, "its digest differs")
    return Manifest(entries, digest), [blob for _, blob in found]


def manifest(tx: Reader, listing: int) -> Manifest:
    """The whole manifest, verified against its digest. Raises Corrupt."""
    return verified(tx, listing)[0]


def entries_of(tx: Reader, lines: Lines) -> list[tuple[Entry, int]]:
    """The entries of some lines, each with its blob id. Raises Corrupt when a blob is not there."""
    where = blobs.digests(tx, {value >> 2 for value in lines.values()})
    try:
        return [
            (Entry(path, MODES[value & 3], size, digest), value >> 2)
            for path, value in lines.items()
            for digest, size in (where[value >> 2],)
        ]
    except KeyError as error:
        raise Corrupt(f"blob {error} is named by a version and missing", hint="restore a backup") from None


def at(tx: Reader, listing: int, paths: Iterable[str]) -> dict[str, tuple[Entry, int]]:
    """The entries at `paths`, each with its blob id; a path that is not there is left out. Raises Corrupt."""
    lines = read(tx, listing)
    wanted = {path: lines[path] for path in paths if path in lines}
    return {entry.path: (entry, blob) for entry, blob in entries_of(tx, wanted)}


def below(lines: Lines, prefix: str) -> Lines:
    """What lies below the directory `prefix` (empty: everything), by the paths from there."""
    if not prefix:
        return lines
    start = prefix + "/"
    return {path[len(start) :]: value for path, value in lines.items() if path.startswith(start)}


def subtree(tx: Reader, lines: Lines, prefix: str) -> tuple[Entry, ...]:
    """The entries below the directory `prefix`, by the paths from there, sorted. Raises Corrupt."""
    return tuple(entry for entry, _ in entries_of(tx, below(lines, prefix)))


def differing(old: Lines, new: Lines) -> list[str]:
    """The paths whose line differs, in their order."""
    gone = old.keys() - new.keys()
    moved = [path for path, value in new.items() if old.get(path) != value]
    return sorted([*gone, *moved]) if gone else moved


def store(tx: Tx, digest: bytes, lines: Lines, bytes: int, on: int | None) -> int:
    """Store a new listing and the rows that name its blobs; its id.

    `on` is a listing it probably resembles: then it is stored as a delta on that one (or on the whole one that one is a delta on),
    unless so much differs that storing it whole is better.
    """
    put, removed, base = lines, set[str](), None
    if on is not None:
        root: int = tx.value("SELECT coalesce(base, id) FROM listing WHERE id = ?", (on,))
        whole = read(tx, root)
        put_on_it = {path: value for path, value in lines.items() if whole.get(path) != value}
        gone = whole.keys() - lines.keys()
        if (len(put_on_it) + len(gone)) * DELTA_SHARE <= len(lines):
            put, removed, base = put_on_it, gone, root
    id = tx.insert(
        "INSERT INTO listing (digest, base, entries, bytes, data) VALUES (?, ?, ?, ?, ?)",
        (digest, base, len(lines), bytes, _encode(put, removed)),
    )
    named = {value >> 2 for value in put.values()}
    if named:
        tx.execute(
            "INSERT INTO names (listing, blob) SELECT ?, value FROM carray(?)"
            " WHERE NOT EXISTS (SELECT 1 FROM names WHERE listing = ? AND blob = value)",
            (id, integers(sorted(named)), base),
        )
    return id


def _encode(put: Lines, removed: Iterable[str]) -> bytes:
    gone = sorted(removed)
    numbers = array("q", (b - a for a, b in pairwise([0, *put.values()])))
    if sys.byteorder == "big":
        numbers.byteswap()
    raw = _HEAD.pack(len(put), len(gone)) + numbers.tobytes() + "\0".join([*put, *gone]).encode()
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(raw)


def _decode(listing: int, data: bytes) -> tuple[Lines, list[str]]:
    try:
        raw = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise _damaged(listing, str(error)) from None
    count, gone = _HEAD.unpack_from(raw)
    end = _HEAD.size + 8 * count
    numbers = array("q", raw[_HEAD.size : end])
    if sys.byteorder == "big":
        numbers.byteswap()
    paths = raw[end:].decode().split("\0") if count or gone else []
    if len(paths) != count + gone:
        raise _damaged(listing, "it does not have the lines it should")
    return dict(zip(paths[:count], accumulate(numbers), strict=True)), paths[count:]


def _damaged(listing: int, why: str) -> Corrupt:
    return Corrupt(f"listing {listing} is damaged: {why}", hint="restore a backup, or push that directory again under another plan")
