"""Blobs: stored once, verified when read, small ones in packs and large ones in rows."""

import os
import threading

import pytest

from appliance.errors import Conflict, Corrupt, Invalid, NotFound
from appliance.operations.contents import LargeReader
from appliance.plan import digest_of
from appliance.store import blobs, large, packs
from appliance.store.packs import PACK_BYTES, Shelf
from appliance.store.tx import ConstraintFailed

from ..samples import opened, store_small


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def count(database, table):
    return database.read(lambda tx: tx.value(f"SELECT count(*) FROM {table}"))


def store_large(database, data, digest=None):
    """As an edge does, part by part."""
    parts = large.Parts()
    id = database.write(large.begin, len(data))
    pieces = [data[at : at + large.PART_BYTES] for at in range(0, len(data), large.PART_BYTES)]
    for n, piece in enumerate(pieces):
        database.write(large.add, id, n, [parts.encode(piece)])
    return id, database.write(large.finish, id, digest or digest_of(data), parts)


def drain(database, reader, into):
    while not reader.done:
        into.append(database.read(reader.step))


def big(seed=0):
    return bytes([seed]) * (large.PART_BYTES + 5) + os.urandom(large.PART_BYTES)


def test_missing_names_each_digest_once_in_order(database):
    store_small(database, [b"a"])
    a, b, c = map(digest_of, (b"a", b"b", b"c"))
    assert database.read(blobs.missing, [c, a, b, c]) == [c, b]
    assert database.read(blobs.missing, []) == []


def test_small_blobs_come_back_verified_and_are_stored_once(database):
    contents = [b"", b"x", b"y" * 1000, b"x"]
    assert store_small(database, contents) == 3
    assert store_small(database, contents) == 0
    assert [database.read(blobs.read, digest_of(data)) for data in contents] == contents
    assert count(database, "pack") == 1


def test_the_empty_blob_alone_can_be_stored(database):
    store_small(database, [b""])
    assert database.read(blobs.read, digest_of(b"")) == b""


def test_packs_hold_some_64_kib_in_the_order_given():
    made = list(packs.packed((digest_of(bytes([n])), bytes([n]) * 20_000) for n in range(10)))
    assert [len(pack.slices) for pack in made] == [4, 4, 2]
    assert all(pack.size >= PACK_BYTES for pack in made[:-1])


def test_an_unknown_digest_is_not_found(database):
    with pytest.raises(NotFound):
        database.read(blobs.read, digest_of(b"nope"))


def flip(database, digest):
    """Damage the stored bytes of a blob: another pack's content of the same size lies in its place."""
    blob = database.read(blobs.find, digest)
    pack = next(packs.packed([(digest, b"?" * database.read(lambda tx: tx.value("SELECT size FROM pack WHERE id = ?", (blob.pack,))))]))
    database.write(lambda tx: tx.execute("UPDATE pack SET data = ? WHERE id = ?", (pack.data, blob.pack)))


def test_cra_07_a_damaged_blob_is_an_error_and_a_new_upload_repairs_it(database):
    data, digest = b"precious", digest_of(b"precious")
    store_small(database, [data])
    flip(database, digest)
    with pytest.raises(Corrupt, match=digest.hex()):
        database.read(blobs.read, digest)
    assert database.read(blobs.damaged_among, [digest]) == {digest}
    pack = list(packs.packed([(digest, data)]))
    assert database.write(packs.store, pack, replace=[digest]) == 1
    assert database.read(blobs.read, digest) == data
    assert count(database, "blob") == 1


def test_a_pack_that_cannot_be_unpacked_is_an_error(database):
    store_small(database, [b"one", b"two"])
    database.write(lambda tx: tx.execute("UPDATE pack SET data = x'00112233'"))
    for data in (b"one", b"two"):
        with pytest.raises(Corrupt):
            database.read(blobs.read, digest_of(data))


def test_many_are_read_with_each_pack_unpacked_once(database):
    contents = [os.urandom(1000) for _ in range(200)]
    store_small(database, contents)
    ids = [database.read(blobs.find, digest_of(data)).id for data in contents]
    found = dict(database.read(lambda tx: list(blobs.contents(tx, ids))))
    assert [found[id] for id in ids] == contents


def test_a_shelf_that_holds_an_outdated_pack_reads_it_again(database):
    store_small(database, [b"one"])
    shelf = Shelf()
    blob = database.read(blobs.find, digest_of(b"one"))
    database.read(blobs.content, blob, shelf)
    shelf._held[blob.pack] = b"another pack's bytes"
    assert database.read(blobs.content, blob, shelf) == b"one"


def test_a_shelf_keeps_within_its_limit(database):
    contents = [os.urandom(PACK_BYTES) for _ in range(5)]
    store_small(database, contents)
    shelf = Shelf(2 * PACK_BYTES)
    for data in contents:
        assert database.read(lambda tx, data=data: blobs.content(tx, blobs.find(tx, digest_of(data)), shelf)) == data
    assert sum(map(len, shelf._held.values())) <= 2 * PACK_BYTES


def test_a_large_blob_comes_back_verified(database):
    data = big()
    _, spare = store_large(database, data)
    assert spare is None
    assert database.read(blobs.read, digest_of(data)) == data
    reader = LargeReader(database.read(blobs.find, digest_of(data)))
    found: list[bytes] = []
    drain(database, reader, found)
    assert b"".join(found) == data


def test_cra_07_a_damaged_large_blob_never_gives_its_last_part(database):
    data = os.urandom(9 * large.PART_BYTES)
    id, _ = store_large(database, data)
    database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE large = ? AND n = 1", (id,)))
    reader = LargeReader(database.read(blobs.find, digest_of(data)))
    given: list[bytes] = []
    with pytest.raises(Corrupt):
        drain(database, reader, given)
    assert sum(map(len, given)) < len(data)
    with pytest.raises(Corrupt):
        database.read(blobs.read, digest_of(data))


def test_a_missing_part_is_an_error(database):
    data = os.urandom(6 * large.PART_BYTES)
    id, _ = store_large(database, data)
    database.write(lambda tx: tx.execute("DELETE FROM large_part WHERE large = ? AND n >= 4", (id,)))
    reader = LargeReader(database.read(blobs.find, digest_of(data)))
    with pytest.raises(Corrupt):
        drain(database, reader, [])


def test_a_large_blob_with_another_digest_is_not_stored(database):
    with pytest.raises(Invalid, match="nothing was stored"):
        store_large(database, big(), digest_of(b"something else"))
    assert count(database, "blob") == 0
    while database.write(large.sweep_incomplete):
        pass
    assert count(database, "large") == count(database, "large_part") == 0


def test_what_unfinished_uploads_left_is_swept_in_steps(database):
    data = big()
    store_large(database, data)
    id = database.write(large.begin, 1 << 30)
    for n in range(100):
        database.write(large.add, id, n, [(0, b"x")])
    steps = 1
    while database.write(large.sweep_incomplete):
        steps += 1
    assert steps > 2
    assert count(database, "large") == 1
    assert database.read(blobs.read, digest_of(data)) == data
    assert not database.write(large.sweep_incomplete)


def test_an_upload_that_was_swept_cannot_be_finished(database):
    parts = large.Parts()
    id = database.write(large.begin, 3)
    database.write(large.add, id, 0, [parts.encode(b"abc")])
    while database.write(large.sweep_incomplete):
        pass
    with pytest.raises(Conflict):
        database.write(large.finish, id, digest_of(b"abc"), parts)
    assert count(database, "blob") == 0


def test_a_stored_large_blob_is_never_dropped(database):
    data = big()
    id, _ = store_large(database, data)
    assert database.write(large.drop, id) is False
    assert database.read(blobs.read, digest_of(data)) == data


def test_con_05_of_concurrent_uploads_of_one_digest_one_copy_stays(database):
    data, small = big(), b"small one"
    errors = []

    def upload():
        try:
            store_small(database, [small])
            id, spare = store_large(database, data)
            assert spare in (None, id)
            if spare is not None:
                while database.write(large.drop, spare):
                    pass
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=upload) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert count(database, "large") == 1
    assert count(database, "blob") == 2
    assert database.read(blobs.read, digest_of(data)) == data


def test_a_blob_that_is_named_cannot_be_removed(database):
    store_small(database, [b"a"])
    database.write(
        lambda tx: (
            tx.execute("INSERT INTO listing (digest, entries, bytes, data) VALUES (zeroblob(32), 1, 1, x'00')")
            and tx.execute("INSERT INTO names VALUES (1, 1)")
        )
    )
    with pytest.raises(ConstraintFailed):
        database.write(lambda tx: tx.execute("DELETE FROM blob"))
