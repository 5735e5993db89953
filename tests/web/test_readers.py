"""Readers over HTTP, each a connection of its own, while a plan is switched back and forth."""

import http.client
import io
import threading
import time
from urllib.parse import urlsplit

import pytest

from appliance import archive, compression
from appliance.plan import Entry, digest_of, manifest, shown

from ..cli.serving import served
from ..samples import opened, push, read_tree, real_plan, switch_to

READERS = 8


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


@pytest.fixture
def url(database):
    with served(database) as url:
        yield url


def read_archive(url, plan):
    """What a client gets that asks for the current version: the version it was told, and the digest of what came."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {"Authorization": "Bearer viewer-secret"}
    connection.request("GET", f"/v1/plans/{plan}/versions/current/archive?format=tar.zst", headers=headers)
    moved = connection.getresponse()
    moved.read()
    assert moved.status == 307
    connection.request("GET", moved.headers["Location"], headers=headers)
    raw = connection.getresponse().read()
    connection.close()
    found = []
    for member, content in archive.members(compression.Unpacked(io.BytesIO(raw), "tar.zst")):
        found.append(Entry(member.path, member.mode, member.size, digest_of(b"".join(content.chunks()))))
    return int(moved.headers["Appliance-Version"]), len(found), manifest(found).digest


def read_while_switching(database, url, plan, turns):
    """Every (version, files, digest) that eight readers got while the plan was switched `turns` times."""
    stop = threading.Event()
    seen, errors = [], []

    def read():
        try:
            while not stop.is_set():
                seen.append(read_archive(url, plan))
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(repr(error))

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for turn in range(turns):
        switch_to(database, plan, turn % 2 + 1)
        time.sleep(0.1)
    stop.set()
    for reader in readers:
        reader.join()
    assert errors == []
    return seen


def test_ato_03_each_reader_gets_one_version_as_it_was_pushed(database, url):
    digests = {push(database, "lab", {f"f{n}": b"version %d file %d" % (v, n) for n in range(100)}).version.digest for v in range(2)}
    switch_to(database, "lab", 1)
    seen = read_while_switching(database, url, "lab", 20)
    assert {digest for _, _, digest in seen} == digests
    assert {version for version, _, _ in seen} == {1, 2}


@pytest.mark.real_input
def test_ato_03_eight_readers_each_get_one_real_version_over_http(database, url, tmp_path):
    pushed = {}
    for which in "ab":
        version = push(database, "tht", read_tree(real_plan(which, tmp_path))).version
        pushed[version.number] = (version.files, shown(version.digest))
    switch_to(database, "tht", 1)
    seen = read_while_switching(database, url, "tht", 30)
    assert {(version, (files, shown(digest))) for version, files, digest in seen} == set(pushed.items())
    assert len(seen) >= READERS
