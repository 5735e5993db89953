"""Listings: whole or as a delta, always the same manifest."""

import random

import pytest

from appliance.errors import Corrupt
from appliance.plan import manifest
from appliance.store import blobs, listings

from ..samples import entries, opened, store_small


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def store(database, files, on=None):
    """Store blobs and listing; its id."""
    found = manifest(entries(files))
    store_small(database, [data if isinstance(data, bytes) else data[1] for data in files.values()])

    def operation(tx):
        known = blobs.known(tx, {entry.digest for entry in found.entries})
        lines = {entry.path: listings.line(entry.mode, known[entry.digest][0]) for entry in found.entries}
        return listings.store(tx, found.digest, lines, found.bytes, on)

    return database.write(operation)


def row(database, id):
    return database.read(lambda tx: tx.row("SELECT base, entries, length(data) FROM listing WHERE id = ?", (id,)))


def named(database, id):
    return database.read(lambda tx: tx.value("SELECT count(*) FROM names WHERE listing = ?", (id,)))


FILES = {f"d{n % 7}/f{n}": b"%d" % n for n in range(100)} | {"run": ("executable", b"#!"), "l": ("symlink", b"run")}


def test_a_listing_gives_back_its_manifest(database):
    id = store(database, FILES)
    assert database.read(listings.manifest, id) == manifest(entries(FILES))
    assert row(database, id)[:2] == (None, 102)
    assert named(database, id) == 102


def test_the_empty_manifest_can_be_stored(database):
    id = store(database, {})
    assert database.read(listings.manifest, id).entries == ()


def test_a_small_change_is_a_delta_that_names_only_what_it_adds(database):
    first = store(database, FILES)
    changed = {**FILES, "d1/f1": b"new", "added": b"added"}
    del changed["d2/f2"]
    second = store(database, changed, on=first)
    assert row(database, second)[0] == first
    assert named(database, second) == 2
    assert database.read(listings.manifest, second) == manifest(entries(changed))


def test_a_delta_on_a_delta_goes_to_the_whole_one(database):
    first = store(database, FILES)
    second = store(database, {**FILES, "x": b"x"}, on=first)
    third = store(database, {**FILES, "x": b"x", "y": b"y"}, on=second)
    assert row(database, third)[0] == first
    assert named(database, third) == 2


def test_a_large_change_is_stored_whole(database):
    first = store(database, FILES)
    id = store(database, dict.fromkeys(FILES, b"new"), on=first)
    assert row(database, id)[0] is None
    assert named(database, id) == 1


def test_differing_names_exactly_what_differs():
    old, new = {"a": 4, "b": 8, "c": 12}, {"b": 8, "c": 13, "d": 4}
    assert listings.differing(old, new) == ["a", "c", "d"]
    assert listings.differing(old, old) == []


def test_random_histories_always_read_back(database):
    dice = random.Random(7)
    files = dict(FILES)
    last = store(database, files)
    for step in range(25):
        for path in dice.sample(sorted(files), dice.randrange(1, 12)):
            if dice.random() < 0.4:
                del files[path]
            else:
                files[path] = b"%d %s" % (step, path.encode())
        files[f"n{step}"] = b"%d" % step
        last = store(database, files, on=last)
        assert database.read(listings.manifest, last) == manifest(entries(files))
        lines = database.read(listings.read, last)
        assert list(lines) == sorted(lines)


def test_a_damaged_listing_is_an_error(database):
    id = store(database, FILES)
    size = row(database, id)[2]
    data = database.read(lambda tx: tx.value("SELECT data FROM listing WHERE id = ?", (id,)))
    for at in (size // 3, size // 2, size - 1):
        bad = bytearray(data)
        bad[at] ^= 1
        database.write(lambda tx, bad=bad: tx.execute("UPDATE listing SET data = ? WHERE id = ?", (bytes(bad), id)))
        with pytest.raises(Corrupt):
            database.read(listings.manifest, id)
    database.write(lambda tx: tx.execute("UPDATE listing SET data = ?, digest = zeroblob(32) WHERE id = ?", (data, id)))
    with pytest.raises(Corrupt, match="digest"):
        database.read(listings.manifest, id)


def test_the_entries_at_some_paths(database):
    id = store(database, FILES)
    found = database.read(listings.at, id, ["run", "nope"])
    assert list(found) == ["run"]
    assert found["run"][0].mode == "executable"
