"""What a server's agent may fetch: the files of its current generations and of those that were granted to it, nothing else."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from appliance.errors import Corrupt, NotFound, TooLarge
from appliance.plan import digest_of, digest_of_entries, shown, text_of_entries
from appliance.store import blobs, listings, uses
from appliance.store.blobs import Blob
from appliance.store.packs import Shelf
from appliance.store.tx import Reader

TREES = 8
MANY = 1000
MANY_BYTES = 16 << 20


class Tree(msgspec.Struct, frozen=True):
    """What lies below a directory of a plan: the text of its manifest, and the digests of its blobs."""

    manifest: bytes
    blobs: frozenset[bytes]


class Trees:
    """Trees that were asked for a moment ago, by their digest: what a digest names never changes."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, Tree] = OrderedDict()

    def take(self, tx: Reader, generation: str, path: str, digest: bytes) -> Tree:
        """The tree of this digest, which a generation was resolved to. Raises Corrupt."""
        found = self._held.get(digest)
        if found is None:
            found = _tree(tx, generation, path, digest)
            self._held[digest] = found
            while len(self._held) > TREES:
                self._held.popitem(last=False)
        return found


def _tree(tx: Reader, generation: str, path: str, digest: bytes) -> Tree:
    for listing in uses.pinned(tx, generation):
        entries = listings.subtree(tx, listings.read(tx, listing), path)
        if digest_of_entries(entries) == digest:
            return Tree(text_of_entries(entries), frozenset(entry.digest for entry in entries))
    raise Corrupt(f"the files {shown(digest)} are not what a listing says", hint="restore a backup")


def fetch(tx: Reader, trees: Trees, server: str, digest: bytes) -> Blob | bytes:
    """A blob, or the text of the manifest of a directory of files. Raises NotFound for what this server has no use for."""
    for generation, kind, path, found in uses.may_fetch(tx, server):
        if kind == "file":
            if found == digest:
                return blobs.find(tx, digest)
            continue
        tree = trees.take(tx, generation, path, found)
        if found == digest:
            return tree.manifest
        if digest in tree.blobs:
            return blobs.find(tx, digest)
    raise NotFound(f"no blob {shown(digest)} for this server", hint="it belongs to none of its current or granted generations")


def fetch_many(tx: Reader, trees: Trees, server: str, digests: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """(digest, content) of many small blobs, in the order asked for. Raises NotFound as `fetch`, and TooLarge."""
    found: list[Blob] = []
    for digest in dict.fromkeys(digests):
        one = fetch(tx, trees, server, digest)
        if isinstance(one, bytes) or one.large is not None:
            raise TooLarge(f"{shown(digest)} is not asked for with others", hint="fetch it by itself")
        found.append(one)
    if sum(one.size for one in found) > MANY_BYTES:
        raise TooLarge(f"these blobs are over the limit of {MANY_BYTES} bytes for one request", hint="ask for fewer at once")
    shelf = Shelf()
    content = {one.id: blobs.content(tx, one, shelf) for one in sorted(found, key=lambda one: (one.pack or 0, one.start or 0))}
    assert all(digest_of(content[one.id]) == one.digest for one in found)
    return [(one.digest, content[one.id]) for one in found]
