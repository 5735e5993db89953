"""Reading the bytes of versions and blobs in bounded steps, so that no snapshot lasts and no answer is held in memory whole."""

import hashlib
from collections.abc import Sequence

from appliance.errors import Corrupt
from appliance.operations import plans
from appliance.plan import Entry
from appliance.store import blobs, large, listings
from appliance.store.blobs import Blob
from appliance.store.packs import Shelf
from appliance.store.plans import Version
from appliance.store.tx import Reader

STEP_FILES = 512
STEP_BYTES = 2 << 20
STEP_PARTS = 4

Item = tuple[Entry, int]


def items(tx: Reader, plan: str, ref: str) -> tuple[Version, list[Item]]:
    """A version, and its entries each with its blob id. Raises NotFound, Invalid, Corrupt."""
    version = plans.version(tx, plan, ref)
    manifest, ids = listings.verified(tx, version.listing)
    return version, list(zip(manifest.entries, ids, strict=True))


def next_files(tx: Reader, ahead: Sequence[Item], first: int, shelf: Shelf) -> list[tuple[Entry, bytes | Blob]]:
    """The verified contents of the next few of `ahead` from index `first` on: at least one, about STEP_BYTES at most.

    A large one ends the step and comes as its Blob, to be read by `LargeReader`. Raises Corrupt.
    """
    batch = ahead[first : first + STEP_FILES]
    where = blobs.by_id(tx, {id for _, id in batch})
    found: list[tuple[Entry, bytes | Blob]] = []
    size = 0
    for entry, id in batch:
        blob = where[id]
        if blob.digest != entry.digest:
            raise blobs.damaged(blob)
        if blob.large is not None:
            found.append((entry, blob))
            break
        found.append((entry, blobs.content(tx, blob, shelf)))
        size += blob.size
        if size >= STEP_BYTES:
            break
    return found


class LargeReader:
    """Reads a large blob step by step and verifies it. What `step` gives is never the last of a blob whose digest is wrong."""

    def __init__(self, blob: Blob) -> None:
        assert blob.large is not None
        self._blob = blob
        self._large = blob.large
        self._hasher = hashlib.sha256()
        self._next = 0
        self._size = 0
        self._held = b""

    @property
    def done(self) -> bool:
        """Whether the whole blob was given."""
        return self._size == self._blob.size and not self._held

    def step(self, tx: Reader) -> bytes:
        """The next bytes: the step before the one just read, as the newest is held back until it is known to be good. Raises Corrupt."""
        while True:
            try:
                found = large.parts(tx, self._large, self._next, STEP_PARTS)
            except Corrupt as error:
                raise blobs.damaged(self._blob) from error
            self._next += len(found)
            ready, self._held = self._held, b"".join(found)
            self._hasher.update(self._held)
            self._size += len(self._held)
            if self._size >= self._blob.size or not found:
                if self._hasher.digest() != self._blob.digest:
                    raise blobs.damaged(self._blob)
                ready, self._held = ready + self._held, b""
                return ready
            if ready:
                return ready


def is_sound(tx: Reader, reader: LargeReader) -> bool | None:
    """One step of reading a large blob only to see whether it is damaged; None: go on."""
    try:
        reader.step(tx)
    except Corrupt:
        return False
    return True if reader.done else None
