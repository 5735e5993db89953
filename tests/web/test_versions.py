"""Versions, archives, files, switches over HTTP."""

import gzip
import io
import tarfile

import pytest
import zstandard

from appliance.plan import manifest, shown

from ..samples import entries, split, state
from .test_plans import FILES, TAR, app, client, client_of, database, error, push, tar_of

__all__ = ["app", "client", "database"]


def switch(client, to, **more):
    return client.post("/v1/plans/lab/switch", json={"to": to, **more})


def unpacked(raw):
    found = {}
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        for info in tar:
            mode = "symlink" if info.issym() else "executable" if info.mode & 0o100 else "file"
            found[info.name] = (mode, info.linkname.encode() if info.issym() else tar.extractfile(info).read())
    return found


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress])
def test_an_archive_becomes_a_version_however_it_is_packed(client, pack):
    kind = {bytes: "application/x-tar", gzip.compress: "application/gzip"}.get(pack, "application/zstd")
    answer = client.post("/v1/plans/lab/archive", content=pack(tar_of(FILES)), headers={"Content-Type": kind}).json()
    assert answer["version"]["digest"] == shown(manifest(entries(FILES)).digest)
    assert answer["left_out"] == []


def test_version_control_in_an_archive_is_left_out_and_said_so(client):
    answer = push(client, {"a": b"1", ".git/HEAD": b"x", "sub/.hg/y": b"y", ".gitignore": b"kept"})
    assert answer["left_out"] == [".git", "sub/.hg"]
    assert answer["version"]["files"] == 2


@pytest.mark.parametrize("format", ["tar", "tar.gz", "tar.zst"])
def test_an_archive_comes_down_as_it_went_up(client, format):
    push(client, FILES)
    answers = [client.get(f"/v1/plans/lab/versions/1/archive?format={format}") for _ in range(2)]
    assert answers[0].content == answers[1].content
    raw = answers[0].content
    if format == "tar.zst":
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    assert unpacked(raw) == {path: split(content) for path, content in FILES.items()}
    assert f'filename="lab-1.{format}"' in answers[0].headers["Content-Disposition"]


def test_the_format_may_be_asked_for_by_accept(client):
    push(client, FILES)
    for accept, kind in (
        ("application/gzip", "application/gzip"),
        ("application/zstd, */*", "application/zstd"),
        ("*/*", "application/x-tar"),
    ):
        assert client.get("/v1/plans/lab/versions/1/archive", headers={"Accept": accept}).headers["Content-Type"] == kind
    assert "formats are" in error(client.get("/v1/plans/lab/versions/1/archive?format=zip"), 400)["hint"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no archive at all" * 99,
        tar_of({"a": b"x" * 5000})[:2000],
        tar_of({"../a": b""}),
        tar_of({"a": b"", "A": b""}),
        gzip.compress(b"", mtime=0),
    ],
)
def test_a_bad_archive_is_400_and_makes_no_version(client, database, raw):
    error(client.post("/v1/plans/lab/archive", content=raw, headers=TAR), 400)
    assert state(database)["plan"] == []
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM blob")) == 0


def test_current_is_resolved_once(client):
    push(client, FILES)
    assert error(client.get("/v1/plans/lab/versions/current"), 404)["hint"]
    switch(client, 1)
    for rest in ("", "/archive?format=tar.gz", "/files/bin/run"):
        answer = client.get(f"/v1/plans/lab/versions/current{rest}", follow_redirects=False)
        assert (answer.status_code, answer.headers["Appliance-Version"]) == (307, "1")
        assert answer.headers["Location"] == f"/v1/plans/lab/versions/1{rest}"
        assert client.get(answer.headers["Location"]).status_code == 200


def test_a_version_shows_its_manifest(client):
    digest = push(client, FILES)["version"]["digest"]
    for ref in ("1", digest):
        found = client.get(f"/v1/plans/lab/versions/{ref}").json()
        assert [entry["path"] for entry in found["entries"]] == sorted(FILES)
        assert found["bytes"] == sum(len(split(content)[1]) for content in FILES.values())


def test_a_file_is_served_as_bytes_that_no_browser_runs(client):
    push(client, FILES | {"x.html": b"<script>"})
    answer = client.get("/v1/plans/lab/versions/1/files/x.html")
    assert answer.content == b"<script>"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert client.get("/v1/plans/lab/versions/1/files/bin/run").headers["Appliance-Mode"] == "executable"
    assert client.get("/v1/plans/lab/versions/1/files/link").content == b"bin/run"


def test_paths_with_odd_characters_are_reached(client):
    push(client, {"a b/ä?#%.txt": b"odd"})
    switch(client, 1)
    assert client.get("/v1/plans/lab/versions/current/files/a%20b/%C3%A4%3F%23%25.txt").content == b"odd"


def test_a_diff_defaults_to_from_current_to_newest(client):
    push(client, {"a": b"1", "b": b"1"})
    switch(client, 1)
    push(client, {"a": b"2", "c": b"1"})
    found = client.get("/v1/plans/lab/diff").json()
    assert (found["from"]["number"], found["to"]["number"]) == (1, 2)
    assert [(one["path"], one["kind"]) for one in found["changes"]] == [("a", "changed"), ("b", "removed"), ("c", "added")]
    assert client.get("/v1/plans/lab/diff?from=2&to=1").json()["changes"][1]["kind"] == "added"


def test_switch_rollback_and_their_log(client):
    for n in range(2):
        push(client, {"a": b"%d" % n})
    assert switch(client, 1, expected=0).json()["serial"] == 1
    assert switch(client, "2", expected=1).json()["was"] == 1
    assert client.post("/v1/plans/lab/rollback", json={}).json()["version"] == 1
    log = client.get("/v1/plans/lab/switches").json()
    assert [(row["serial"], row["version"], row["back_to"]) for row in log["switches"]] == [(3, 1, 1), (2, 2, None), (1, 1, None)]
    assert [row["serial"] for row in client.get("/v1/plans/lab/switches?limit=1&before=3").json()["switches"]] == [2]


def test_ato_08_a_switch_based_on_an_older_one_is_409_and_says_who(app, client, database):
    for n in range(3):
        push(client, {"a": b"%d" % n})
    switch(client, 1, expected=0)
    switch(client, 2, expected=1)
    before = state(database)
    with client_of(app, "admin") as other:
        inner = error(switch(other, 3, expected=1), 409)
    assert "by operator at" in inner["message"]
    assert (inner["detail"]["serial"], inner["detail"]["version"]) == (2, 2)
    assert state(database) == before
    assert switch(client, 3, expected=1, force=True).json()["forced"] is True


def test_a_switch_under_one_idempotency_key_happens_once(client):
    for n in range(2):
        push(client, {"a": b"%d" % n})
    headers = {"Idempotency-Key": "k1"}
    answers = [client.post("/v1/plans/lab/switch", json={"to": 1, "expected": 0}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(client.get("/v1/plans/lab/switches").json()["switches"]) == 1
    archive = [
        client.post("/v1/plans/web/archive", content=tar_of({"a": b"1"}), headers={**TAR, "Idempotency-Key": "k2"}) for _ in range(2)
    ]
    assert archive[0].json() == archive[1].json()
    error(client.post("/v1/plans/web/archive", content=tar_of({"a": b"2"}), headers={**TAR, "Idempotency-Key": "k2"}), 409)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"to": 1.5}', b'{"to": 1, "dry": true}', b'{"to": "latest"}', b'{"to": 1, "expected": "x"}']
)
def test_a_malformed_switch_is_400(client, content):
    push(client, {"a": b"1"})
    error(client.post("/v1/plans/lab/switch", content=content, headers={"Content-Type": "application/json"}), 400)


def test_ux_07_what_is_unknown_is_404_with_a_hint(client):
    push(client, {"a": b"1"})
    for method, address in (
        ("GET", "/v1/plans/web"),
        ("GET", "/v1/plans/web/versions"),
        ("GET", "/v1/plans/lab/versions/9"),
        ("GET", "/v1/plans/lab/versions/1/files/b"),
        ("GET", "/v1/plans/lab/diff?from=1&to=9"),
        ("GET", "/v1/plans/web/switches"),
        ("POST", "/v1/plans/web/rollback"),
        ("GET", "/v1/plans/lab/versions/9/archive"),
    ):
        answer = client.request(method, address, json={} if method == "POST" else None)
        assert error(answer, 404)["hint"], address


def test_versions_are_listed_in_pages(client):
    for n in range(3):
        push(client, {"a": b"%d" % n})
    switch(client, 2)
    found = client.get("/v1/plans/lab/versions?limit=2").json()
    assert ([one["number"] for one in found["versions"]], found["current"], found["next"]) == ([3, 2], 2, 2)
    assert [one["number"] for one in client.get("/v1/plans/lab/versions?before=2").json()["versions"]] == [1]
    error(client.get("/v1/plans/lab/versions?limit=x"), 400)


def test_plans_are_listed_and_deleted(app, client):
    push(client, {"a": b"1"})
    assert [one["name"] for one in client.get("/v1/plans").json()["plans"]] == ["lab"]
    error(client.delete("/v1/plans/lab"), 403)
    with client_of(app, "admin") as admin:
        assert admin.delete("/v1/plans/lab").json() == {"deleted": "lab"}
    assert client.get("/v1/plans").json() == {"plans": []}


def test_a_viewer_reads_and_nothing_else(app, client):
    push(client, {"a": b"1"})
    digest = shown(entries({"a": b"1"})[0].digest)
    with client_of(app, "viewer") as viewer:
        for address in ("/v1/plans", "/v1/plans/lab", "/v1/plans/lab/versions/1/archive", f"/v1/blobs/{digest}"):
            assert viewer.get(address).status_code == 200
        error(viewer.post("/v1/blobs/missing", json={"digests": []}), 403)
        error(viewer.put(f"/v1/blobs/{digest}", content=b"1", headers={"Content-Type": "application/octet-stream"}), 403)
        error(viewer.post("/v1/blobs", content=b"", headers=TAR), 403)
        error(viewer.put(f"/v1/plans/lab/versions/{digest}", json={"entries": []}), 403)
        error(viewer.post("/v1/plans/lab/archive", content=b"", headers=TAR), 403)
        error(switch(viewer, 1), 403)
        error(viewer.post("/v1/plans/lab/rollback", json={}), 403)


def test_an_agents_token_opens_none_of_these(app, database):
    def add(tx):
        tx.execute("INSERT INTO server (id, name, kind, changed, commit_no, created_at) VALUES ('s', 'web-1', 'agent', 1, 1, 1)")
        tx.execute(
            "INSERT INTO token (id, secret, role, server, name, commit_no, created_at) VALUES ('t', ?, 'agent', 's', 'web-1', 1, 1)",
            (__import__("hashlib").sha256(b"agent-secret").digest(),),
        )

    database.write(add)
    with client_of(app, "agent") as agent:
        for address in ("/v1/plans", "/v1/plans/lab", f"/v1/blobs/sha256:{'0' * 64}"):
            error(agent.get(address), 403)
    with client_of(app, "unknown") as unknown:
        error(unknown.get("/v1/plans"), 401)
