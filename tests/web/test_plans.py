"""The native edge of plans and blobs, through the front door, on a real file."""

import io
import os
import tarfile
import threading
from pathlib import Path

import anyio
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from appliance import archive
from appliance.errors import ApplianceError
from appliance.plan import digest_of, manifest, shown
from appliance.store import tokens
from appliance.web.context import Context, Settings
from appliance.web.front import Front
from appliance.web.native import blobs, intake, plans, switching
from appliance.web.respond import render_error

from ..samples import KEY, entries, opened, split, state

TAR = {"Content-Type": "application/x-tar"}
BYTES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


@pytest.fixture
def app(database):
    appliance = Context(database, KEY, 1, "e", Settings(url="http://testserver", hosts=frozenset({"testserver"})))
    handlers = {ApplianceError: render_error, HTTPException: render_error}
    inner = Starlette(routes=[*plans.routes, *switching.routes, *blobs.routes], exception_handlers=handlers)
    inner.state.context = appliance
    for role in ("admin", "operator", "viewer"):
        database.write(tokens.add, f"{role}-secret", role, role)
    return Front(inner, appliance)


def client_of(app, role):
    return TestClient(app, headers={"Authorization": f"Bearer {role}-secret"}, follow_redirects=True)


@pytest.fixture
def client(app):
    with client_of(app, "operator") as client:
        yield client


def tar_of(files):
    """An archive as tar makes one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in files.items():
            mode, data = split(content)
            info = tarfile.TarInfo(path)
            if mode == "symlink":
                info.type, info.linkname, data = tarfile.SYMTYPE, data.decode(), b""
            info.size, info.mode = len(data), 0o755 if mode == "executable" else 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def bulk(contents):
    return b"".join(archive.header(digest_of(d).hex(), "file", len(d)) + d + archive.padding(len(d)) for d in contents) + archive.END


def body(files, base=None, removed=()):
    listed = [{"path": e.path, "mode": e.mode, "size": e.size, "digest": shown(e.digest)} for e in entries(files)]
    return {"base": base, "entries": listed, "removed": list(removed)}


def push(client, files, name="lab"):
    answer = client.post(f"/v1/plans/{name}/archive", content=tar_of(files), headers=TAR)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error(answer, status):
    assert answer.status_code == status, answer.text
    inner = answer.json()["error"]
    assert inner["message"]
    return inner


FILES = {
    "a.yaml": b"one\n",
    "bin/run": ("executable", b"#!/bin/sh\n"),
    "link": ("symlink", b"bin/run"),
    "empty": b"",
    "big": os.urandom(700_000),
}


def test_a_push_by_negotiation_sends_only_what_is_missing(client):
    digests = [shown(entry.digest) for entry in entries(FILES)]
    assert client.post("/v1/blobs/missing", json={"digests": digests}).json() == {"missing": digests}
    contents = [split(content)[1] for content in FILES.values()]
    assert client.post("/v1/blobs", content=bulk(contents), headers=TAR).json() == {"received": 5, "stored": 5}
    assert client.post("/v1/blobs/missing", json={"digests": digests}).json() == {"missing": []}
    whole = manifest(entries(FILES))
    answer = client.put(f"/v1/plans/lab/versions/{shown(whole.digest)}", json=body(FILES)).json()
    assert (answer["version"]["number"], answer["created"], answer["version"]["files"]) == (1, True, 5)
    assert answer["version"]["digest"] == shown(whole.digest)
    again = client.put(f"/v1/plans/lab/versions/{shown(whole.digest)}", json=body(FILES)).json()
    assert (again["version"], again["created"]) == (answer["version"], False)


def test_a_one_file_push_upon_a_base_is_a_small_request(client):
    files = {f"dir/file-{n}": b"%d" % n for n in range(500)}
    first = push(client, files)["version"]["digest"]
    changed = files | {"dir/file-7": b"new"}
    del changed["dir/file-9"]
    client.put(f"/v1/blobs/{shown(digest_of(b'new'))}", content=b"new", headers=BYTES)
    request = msgspec.json.encode(body({"dir/file-7": b"new"}, first, ["dir/file-9"]))
    assert len(request) < 1000
    digest = shown(manifest(entries(changed)).digest)
    answer = client.put(f"/v1/plans/lab/versions/{digest}", content=request, headers={"Content-Type": "application/json"})
    assert answer.json()["version"]["number"] == 2
    assert client.get("/v1/plans/lab/versions/2").json()["digest"] == digest


def test_ato_05_a_manifest_with_missing_blobs_is_409_listing_them(client, database):
    push(client, {"a": b"1"})
    before = state(database)
    digest = shown(manifest(entries({"a": b"1", "b": b"2"})).digest)
    inner = error(client.put(f"/v1/plans/lab/versions/{digest}", json=body({"a": b"1", "b": b"2"})), 409)
    assert inner["detail"]["missing"] == [shown(digest_of(b"2"))]
    assert state(database) == before


def test_a_manifest_upon_an_unknown_base_is_409_naming_it(client):
    digest = shown(manifest(entries({"a": b"1"})).digest)
    inner = error(client.put(f"/v1/plans/lab/versions/{digest}", json=body({"a": b"1"}, base=digest)), 409)
    assert inner["detail"] == {"base": digest}


def test_a_manifest_with_another_digest_than_its_name_is_refused(client, database):
    inner = error(client.put(f"/v1/plans/lab/versions/{shown(b'0' * 32)}", json=body({"a": b"1"})), 400)
    assert "nothing was stored" in inner["message"]
    assert state(database)["plan"] == []


@pytest.mark.parametrize(
    "content, says",
    [
        (b"{", "not valid JSON"),
        (b'{"entries": [], "more": 1}', "unknown field `more`"),
        (b'{"entries": [{"path": "a", "mode": "dir", "size": 1, "digest": "x"}]}', "mode"),
        (b'{"entries": [{"path": "a", "mode": "file", "size": 1, "digest": "x"}]}', "malformed"),
        (b'{"entries": "x"}', "entries"),
        (b'{"entries": [], "removed": ["x"]}', "base"),
        (b'{"entries": [{"path": "../a", "mode": "file", "size": 1, "digest": "sha256:%s"}]}' % (b"0" * 64), "'..'"),
    ],
)
def test_a_malformed_manifest_is_400_naming_what_is_wrong(client, content, says):
    answer = client.put(f"/v1/plans/lab/versions/{shown(b'0' * 32)}", content=content, headers={"Content-Type": "application/json"})
    assert says in error(answer, 400)["message"]


@pytest.mark.parametrize(
    "digest", ["sha256:bad", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "sha256:" + "a" * 65, "../", "x" * 10_000, "md5:abc", ""]
)
@pytest.mark.parametrize("verb", ["PUT", "GET", "HEAD"])
def test_sec_13_a_malformed_digest_is_400_on_all_verbs(client, verb, digest):
    address = "/v1/blobs/" + digest.replace("..", "%2e%2e")
    answer = client.request(verb, address, content=b"x" if verb == "PUT" else None, headers=BYTES)
    assert answer.status_code == 400
    assert client.post("/v1/blobs/missing", json={"digests": [digest]}).status_code == 400


@pytest.mark.parametrize("size", [0, 5, 300_000, 3_000_000])
def test_a_blob_goes_in_and_comes_back(client, database, size):
    data = os.urandom(size)
    address = f"/v1/blobs/{shown(digest_of(data))}"
    assert error(client.get(address), 404)["code"] == "not-found"
    assert client.put(address, content=data, headers=BYTES).json() == {"digest": address[10:], "size": size, "stored": True}
    assert client.put(address, content=data, headers=BYTES).json()["stored"] is False
    answer = client.get(address)
    assert answer.content == data
    assert answer.headers["Content-Type"] == "application/octet-stream"
    head = client.head(address)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(size), b"")
    assert client.get(address, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM large WHERE NOT complete")) == 0


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_blob_with_another_digest_is_400_and_nothing_is_stored(client, database, size):
    inner = error(client.put(f"/v1/blobs/{shown(b'0' * 32)}", content=b"x" * size, headers=BYTES), 400)
    assert "nothing was stored" in inner["message"]
    for table in ("blob", "pack", "large", "large_part"):
        assert database.read(lambda tx, table=table: tx.value(f"SELECT count(*) FROM {table}")) == 0


def test_ux_11_an_upload_over_the_limit_is_413_naming_limit_and_size(client, monkeypatch):
    monkeypatch.setattr(blobs, "BLOB_BYTES", 1000)
    address = f"/v1/blobs/{shown(b'0' * 32)}"
    inner = error(client.put(address, content=b"x" * 1001, headers=BYTES), 413)
    assert "1001 bytes" in inner["message"]
    assert "limit of 1000" in inner["message"]
    inner = error(client.put(address, content=iter([b"x" * 600, b"x" * 600]), headers=BYTES), 413)
    assert "limit of 1000" in inner["message"]


def test_a_truncated_upload_is_400_and_nothing_is_stored(app, database):
    """The connection ends in the middle of the body: what the server's protocol then tells the application."""
    messages = [{"type": "http.request", "body": b"x" * 500_000, "more_body": True}, {"type": "http.disconnect"}]
    sent = []
    scope = {
        "type": "http", "method": "PUT", "path": f"/v1/blobs/{shown(digest_of(b'x' * 1_000_000))}", "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", b"Bearer operator-secret"), (b"content-length", b"1000000"),
                    (b"content-type", b"application/octet-stream")],
    }  # fmt: skip

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    anyio.run(app, scope, receive, send)
    assert sent[0]["status"] == 400
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM blob")) == 0
    assert all(path.name.startswith("lab.db") for path in Path(database.path).parent.iterdir())


def test_bulk_members_are_named_by_their_digest_or_nothing_is_stored(client, database):
    good = b"good"
    for bad in (
        archive.header("0" * 64, "file", 3) + b"bad" + archive.padding(3),
        archive.header("readme", "file", 0),
        archive.header(digest_of(b"").hex(), "executable", 0),
        archive.header(digest_of(b"t").hex(), "symlink", 0, b"t"),
    ):
        error(client.post("/v1/blobs", content=bulk([good])[:-1024] + bad + archive.END, headers=TAR), 400)
    error(client.post("/v1/blobs", content=bulk([good])[:-1024], headers=TAR), 400)
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM blob")) == 0


def test_con_05_parallel_uploads_of_one_digest_all_succeed_and_store_one_copy(client, database):
    data = os.urandom(1_500_000)
    address = f"/v1/blobs/{shown(digest_of(data))}"
    codes = []

    def upload():
        codes.append(client.put(address, content=data, headers=BYTES).status_code)

    threads = [threading.Thread(target=upload) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [200] * 20
    counts = database.read(lambda tx: [tx.value(f"SELECT count(*) FROM {table}") for table in ("blob", "large", "large_part")])
    assert counts == [1, 1, 2]
    assert client.get(address).content == data


def test_cra_07_a_damaged_blob_is_an_error_until_the_same_digest_is_uploaded(client, database):
    for data in (b"small", os.urandom(3_000_000)):
        address = f"/v1/blobs/{shown(digest_of(data))}"
        client.put(address, content=data, headers=BYTES)
        database.write(lambda tx: tx.execute("UPDATE pack SET data = x'00'"))
        database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE n = 1"))
        inner = error(client.get(address), 500)
        assert inner["code"] == "corrupt"
        assert "repair" in inner["hint"]
        assert client.put(address, content=data, headers=BYTES).json()["stored"] is True
        assert client.get(address).content == data
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM large")) == 1


def test_a_large_answer_that_turns_out_damaged_is_cut_off(client, database):
    data = os.urandom(12_000_000)
    address = f"/v1/blobs/{shown(digest_of(data))}"
    client.put(address, content=data, headers=BYTES)
    database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE n = 9"))
    with pytest.raises(RuntimeError, match="already started"):  # raised into the server, which then closes the connection
        client.get(address)


def test_con_07_the_intake_takes_few_at_a_time_and_leaves_readers_alone(client):
    contents = [os.urandom(200_000) for _ in range(30)]
    codes = []

    def upload(data):
        codes.append(client.put(f"/v1/blobs/{shown(digest_of(data))}", content=data, headers=BYTES).status_code)

    threads = [threading.Thread(target=upload, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    assert client.get("/v1/plans").status_code == 200
    for thread in threads:
        thread.join()
    assert codes == [200] * 30
    assert intake.AT_ONCE < 6
