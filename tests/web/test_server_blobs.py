"""What an agent fetches: the manifest of its files, blobs one by one and in parts, and many small ones at once."""

import contextlib
import hashlib
import io
import os
import tarfile

import pytest

from appliance.errors import Corrupt
from appliance.plan import digest_of, shown

from ..samples import push, switch_to
from .talking import Agent, deploy

BIG = os.urandom(3 << 20)
FILES = {"site/a": b"a\n", "site/b": b"bb\n", "site/big": BIG, "other": b"not yours\n"}


@pytest.fixture
def agent(application):
    for content in FILES.values():
        application.ok(
            "PUT", f"/v1/blobs/{shown(digest_of(content))}", content=content, headers={"Content-Type": "application/octet-stream"}
        )
    small = {path: content for path, content in FILES.items() if content is not BIG}
    push(application.database, "lab", small)
    _push_big(application)
    switch_to(application.database, "lab", 2)
    agent = Agent(application, "m")
    deploy(application, "m", "x", config={"group": "script", "body": "#!/bin/sh\n", "files": [{"plan": "lab", "prefix": "site"}]})
    return agent


def _push_big(application):
    from appliance.operations import plans

    from ..samples import entries

    application.database.write(plans.push_version, plans.push_of("lab", None, entries(FILES), (), "ann"))


def get(agent, digest, **headers):
    return agent.application.call("GET", f"/v1/servers/{agent.server}/blobs/{digest}", None, headers=agent.headers(**headers))


def many(agent, digests):
    path = f"/v1/servers/{agent.server}/blobs"
    return agent.application.call("POST", path, None, headers=agent.headers(), json={"digests": digests})


def test_the_manifest_is_fetched_by_the_digest_the_document_names(agent):
    [files] = agent.items()["x"]["config"]["files"]
    answer = get(agent, files["digest"])
    assert answer.status_code == 200
    assert "sha256:" + hashlib.sha256(answer.content).hexdigest() == files["digest"]
    lines = answer.text.splitlines()
    assert lines[0] == "appliance manifest 1"
    assert [line.split(" ")[3] for line in lines[1:]] == ["a", "b", "big"]


def test_pro_07_what_was_cut_goes_on_where_it_ended_and_other_bytes_are_not_stitched_to_it(agent):
    digest = shown(digest_of(BIG))
    whole = get(agent, digest)
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, BIG, "bytes")
    for start in (1, 1 << 20, (2 << 20) + 7, len(BIG) - 1):
        rest = get(agent, digest, Range=f"bytes={start}-")
        assert (rest.status_code, rest.content) == (206, BIG[start:])
        assert rest.headers["content-range"] == f"bytes {start}-{len(BIG) - 1}/{len(BIG)}"
        assert rest.headers["etag"] == f'"{digest}"'
    middle = get(agent, digest, Range="bytes=1000000-2000000")
    assert middle.content == BIG[1000000:2000001]
    assert get(agent, digest, Range="bytes=-5").content == BIG[-5:]
    assert get(agent, digest, Range="bytes=7-", **{"If-Range": '"another"'}).status_code == 200
    small = get(agent, shown(digest_of(b"bb\n")), Range="bytes=1-")
    assert (small.status_code, small.content) == (206, b"b\n")


def test_pro_08_a_part_that_is_not_there_is_416_with_the_size(agent):
    for asked in (f"bytes={len(BIG)}-", "bytes=9999999-", "bytes=5-2", "bytes=-0"):
        answer = get(agent, shown(digest_of(BIG)), Range=asked)
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(BIG)}"), asked
        assert answer.json()["error"]["code"] == "range"
    for ignored in ("bytes=", "bytes=-", "lines=1-2", "bytes=1-2,5-6", "bytes=x-"):
        assert get(agent, shown(digest_of(BIG)), Range=ignored).status_code == 200


def test_pro_08_an_upload_cannot_be_continued_at_a_wrong_offset_since_it_is_never_continued(agent, application):
    new = b"new bytes"
    headers = {"Content-Type": "application/octet-stream", "Content-Range": "bytes 4-8/9"}
    path = f"/v1/blobs/{shown(digest_of(new))}"
    assert (
        application.fails(400, "PUT", path, content=new[4:], headers=headers)["message"] == "a blob is sent whole, and nothing was stored"
    )


def test_a_persons_blob_can_be_read_in_parts_too(agent, application):
    answer = application.call("GET", f"/v1/blobs/{shown(digest_of(BIG))}", headers={"Range": "bytes=2000000-"})
    assert (answer.status_code, answer.content) == (206, BIG[2000000:])


def test_what_no_generation_of_this_server_names_is_404_and_another_servers_agent_gets_nothing(agent, application):
    other = Agent(application, "n")
    assert get(agent, shown(digest_of(b"not yours\n"))).status_code == 404
    assert get(agent, "sha256:12").status_code == 400
    assert get(other, shown(digest_of(b"a\n"))).status_code == 404
    path = f"/v1/servers/{agent.server}/blobs/{shown(digest_of(b'a' + bytes([10])))}"
    assert application.call("GET", path, None, headers=other.headers()).status_code == 404
    assert application.call("GET", path, "admin").status_code == 404
    assert application.call("GET", path, None).status_code == 401


def test_many_small_ones_come_in_one_tar_in_the_order_asked_for(agent):
    digests = [shown(digest_of(content)) for content in (b"bb\n", b"a\n")]
    answer = many(agent, digests)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        found = [(member.name, tar.extractfile(member).read()) for member in tar]
    assert found == [(digest_of(content).hex(), content) for content in (b"bb\n", b"a\n")]
    assert many(agent, [*digests, shown(digest_of(b"not yours\n"))]).status_code == 404
    assert many(agent, [shown(digest_of(BIG))]).status_code == 413
    assert many(agent, digests * 501).status_code == 413


def test_damaged_bytes_are_an_error_and_never_an_answer(agent, application):
    application.database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE n = 1"))
    answers = []
    with contextlib.suppress(Corrupt):  # the connection is cut in the middle
        answers.append(get(agent, shown(digest_of(BIG)), Range="bytes=5-"))
    assert all(answer.status_code == 500 or len(answer.content) < len(BIG) - 5 for answer in answers)


def test_a_switch_is_told_by_the_document_and_the_new_files_may_be_fetched(agent, application):
    [before] = agent.items()["x"]["config"]["files"]
    push(application.database, "lab", {"site/a": b"another a\n"})
    switch_to(application.database, "lab", 3)
    [after] = agent.items()["x"]["config"]["files"]
    assert before["digest"] != after["digest"]
    assert get(agent, shown(digest_of(b"another a\n"))).content == b"another a\n"
    assert get(agent, before["digest"]).status_code == 404
