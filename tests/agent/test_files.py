"""Files beside a run: fetched by content, verified, in bounded time and data, and placed exactly."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.agent import manifest, settings
from appliance.agent.manifest import BadManifest, parse

from .conftest import Machine
from .fake import Fake, after, again, files, script, with_files

TREE: dict[str, Any] = {
    "roles/web/tasks.yml": b"one\n",
    "run": ("executable", b"#!/bin/sh\necho ran\n"),
    "link": ("symlink", b"roles/web"),
    "empty": b"",
    "data": bytes(range(256)) * 1000,
}


def test_a_run_has_exactly_those_files_in_its_working_directory(machine: Machine, fake: Fake) -> None:
    fake.change([with_files(script("./run; cat link/tasks.yml; stat -c %a run empty roles"), files(fake, TREE))])
    machine.one_pass()
    [signal] = fake.of("finished")
    assert (signal["status_code"], signal["stdout"]) == (0, "ran\none\n755\n644\n755\n")
    placed = work_of(machine, fake, 0)
    found = {path.relative_to(placed).as_posix() for path in placed.rglob("*") if not path.is_dir() or path.is_symlink()}
    assert found - {signal["run"]} == set(TREE)
    assert (placed / "data").read_bytes() == TREE["data"]
    assert (placed / "link").readlink() == Path("roles/web")


def test_several_directories_lie_beside_each_other(machine: Machine, fake: Fake) -> None:
    fake.change([with_files(script("cat a/x a/y"), files(fake, {"a/x": b"x\n"}), files(fake, {"a/y": b"y\n"}))])
    machine.one_pass()
    assert fake.of("finished")[0]["stdout"] == "x\ny\n"


def test_what_is_there_is_not_fetched_again(machine: Machine, fake: Fake) -> None:
    item = with_files(script("cat roles/web/tasks.yml"), files(fake, TREE))
    fake.change([item])
    machine.one_pass()
    before = fake.sent
    new = files(fake, {**TREE, "roles/web/tasks.yml": b"two\n"})
    fake.change([with_files(again(item), new)])
    machine.one_pass()
    assert fake.of("finished")[1]["stdout"] == "two\n"
    listed = len(fake.content[new["digest"].partition(":")[2]])
    assert fake.sent - before == listed + len(b"two\n")


def test_many_small_ones_take_few_requests(machine: Machine, fake: Fake) -> None:
    fake.change([with_files(script("ls | wc -l"), files(fake, {f"f{number}": b"%d" % number for number in range(1200)}))])
    machine.one_pass()
    assert fake.of("finished")[0]["stdout"].strip() == "1201"
    assert len([one for one in fake.requests if "/blobs" in one[1]]) == 4  # the list, and three times a tar


def test_cra_02_bytes_that_went_bad_on_the_disk_are_noticed_and_fetched_again(machine: Machine, fake: Fake) -> None:
    item = with_files(script("sh ./run"), files(fake, TREE))
    fake.change([item])
    machine.one_pass()
    for path in (machine.state / "content").iterdir():
        path.write_bytes(b"")  # as after a power cut
    fake.change([again(item)])
    machine.one_pass()
    assert [signal["stdout"] for signal in fake.of("finished")] == ["ran\n", "ran\n"]
    assert (work_of(machine, fake, 1) / "data").read_bytes() == TREE["data"]


def work_of(machine: Machine, fake: Fake, number: int) -> Path:
    return machine.state / "runs" / fake.of("finished")[number]["run"] / "work"


def test_pro_07_a_large_one_that_is_cut_goes_on_where_it_ended(machine: Machine, fake: Fake) -> None:
    large = os.urandom(20 << 20)
    cuts = iter([16 << 20, 2 << 20, 1 << 20])
    fake.cut = lambda size: next(cuts, None) if size > 1 << 20 else None
    fake.change([with_files(script("sha256sum large | cut -c 1-64"), files(fake, {"large": large}))])
    machine.one_pass()
    assert fake.of("finished")[0]["stdout"].strip() == hashlib.sha256(large).hexdigest()
    assert fake.sent <= 1.01 * len(large)


def test_small_ones_that_came_before_a_cut_are_kept(machine: Machine, fake: Fake) -> None:
    cuts = iter([100_000, 100_000])
    fake.cut = lambda size: next(cuts, None) if size > 200_000 else None
    tree: dict[str, Any] = {f"f{number}": os.urandom(10_000) for number in range(50)}
    fake.change([with_files(script("cat f* | wc -c"), files(fake, tree))])
    machine.one_pass()
    assert fake.of("finished")[0]["stdout"].strip() == "500000"
    assert fake.sent < 700_000


def test_a_part_of_other_bytes_is_not_stitched(machine: Machine, fake: Fake) -> None:
    large = os.urandom(300_000)
    digest = hashlib.sha256(large).hexdigest()
    (machine.state / "content").mkdir(mode=0o700)
    for wrong in (b"x" * 1000, b"x" * 300_000, b"x" * 400_000):
        (machine.state / "content" / f"{digest}.part").write_bytes(wrong)
        (machine.state / "content" / digest).unlink(missing_ok=True)
        fake.change([with_files(script("sha256sum large | cut -c 1-64", name=str(len(wrong))), files(fake, {"large": large}))])
        machine.one_pass()
        assert fake.of("finished")[-1]["stdout"].strip() == digest


@pytest.mark.parametrize("status", [403, 404, 410])
def test_pro_06_what_is_refused_is_tried_a_few_times_and_then_failed_with_the_reason(machine: Machine, fake: Fake, status: int) -> None:
    fake.blob_status = lambda digest: status
    fake.change([with_files(script(machine.counter("x")), files(fake, TREE)), script(machine.counter("y"), name="other")])
    machine.one_pass(check=1)
    signal = next(one for one in fake.of("finished") if one["outcome"] != "ended")
    assert (signal["outcome"], signal["status_code"]) == ("invalid", None)
    assert f"could not be fetched in 5 tries: the appliance answered {status} no such blob" in signal["message"]
    assert (machine.count("x"), machine.count("y")) == (0, 1)
    assert len([one for one in fake.requests if "/blobs" in one[1]]) == 5
    assert [one["kind"] for one in fake.signals if one["run"] == signal["run"]] == ["started", "finished"]


def test_pro_06_wrong_bytes_are_tried_a_few_times_and_then_failed(machine: Machine, fake: Fake) -> None:
    listed = files(fake, TREE)
    fake.content[hashlib.sha256(TREE["data"]).hexdigest()] = b"y" * len(TREE["data"])
    fake.change([with_files(script("true"), listed)])
    machine.one_pass(check=1)
    assert "the bytes that came are not those of the digest" in fake.of("finished")[0]["message"]
    assert fake.sent < 6 * len(TREE["data"]) + 10_000


def test_pro_06_what_is_not_wanted_any_more_while_it_is_tried_is_given_back(machine: Machine, fake: Fake) -> None:
    fake.blob_status = lambda digest: 503
    item = with_files(script(machine.counter("old")), files(fake, TREE))
    fake.change([item])
    machine.start()
    fake.wait_for(lambda: len([one for one in fake.requests if "/blobs" in one[1]]) > 2)
    fake.change([again(item, config=script(machine.counter("new"))["config"])])
    fake.wait_for(lambda: fake.of("finished"))
    assert [signal["why"] for signal in fake.of("released")] == ["superseded"]
    assert (machine.count("old"), machine.count("new")) == (0, 1)


def test_pro_06_a_deletion_ends_the_tries(machine: Machine, fake: Fake) -> None:
    fake.blob_status = lambda digest: 503
    item = with_files(script("true"), files(fake, TREE))
    fake.change([item])
    machine.start()
    fake.wait_for(lambda: len([one for one in fake.requests if "/blobs" in one[1]]) > 2)
    fake.change([{"deployment": item["deployment"], "deleted": True}])
    fake.wait_for(lambda: item["deployment"] in fake.forgotten)
    assert fake.of("started") == []


def test_the_time_limit_holds_for_fetching_too(machine: Machine, fake: Fake) -> None:
    fake.blob_status = lambda digest: 503
    fake.change([with_files(script("true", timeout=1), files(fake, TREE))])
    began = time.monotonic()
    machine.one_pass(check=1)
    assert time.monotonic() - began < 10
    [signal] = fake.of("finished")
    assert (signal["outcome"], "could not be fetched in time" in signal["message"]) == ("timeout", True)


def test_an_agent_that_is_stopped_or_killed_while_it_fetches_has_started_nothing_and_goes_on_later(machine: Machine, fake: Fake) -> None:
    fake.blob_status = lambda digest: 503
    fake.change([with_files(script(machine.counter("x")), files(fake, TREE))])
    for number in (15, 9):
        process = machine.start()
        seen = len(fake.requests)
        fake.wait_for(lambda: [one for one in fake.requests[seen:] if "/blobs" in one[1]])  # noqa: B023 - used at once
        machine.kill(process, number)
    assert fake.of("started") == []
    fake.blob_status = lambda digest: None
    machine.one_pass()
    assert (machine.count("x"), len(fake.claims)) == (1, 1)


def test_a_chain_goes_on_without_a_line_when_its_files_are_there(machine: Machine, fake: Fake) -> None:
    first = with_files(script(machine.counter("a"), name="a"), files(fake, TREE))
    second = with_files(after(script(machine.counter("b"), name="b"), first), files(fake, TREE))
    fake.blob_status = lambda digest: 404 if fake.of("started") else None
    fake.change([first, second])
    machine.one_pass()
    assert (machine.count("a"), machine.count("b")) == (1, 1)


def test_the_cache_is_bounded_and_what_was_used_last_stays(machine: Machine, fake: Fake) -> None:
    for number in range(6):
        fake.change([with_files(script("true", name=f"n{number}"), files(fake, {"f": os.urandom(300_000)}))])
        machine.one_pass(APPLIANCE_AGENT_CACHE="1")
    held = sum(path.stat().st_size for path in (machine.state / "content").iterdir())
    assert 300_000 < held <= 1 << 20


@pytest.mark.parametrize(
    "lines",
    [
        ["file 1 DIGEST ../x"], ["file 1 DIGEST /x"], ["file 1 DIGEST a//b"], ["file 1 DIGEST ."], ["file 1 DIGEST "],
        ["device 1 DIGEST x"], ["file -1 DIGEST x"], ["file 1 abc x"], ["file"], ["file 1 DIGEST x", "file 1 DIGEST x"],
        ["file 1 DIGEST x", "file 1 DIGEST x/y"],
    ],
)  # fmt: skip
def test_a_list_that_leads_out_or_makes_no_sense_is_refused(lines: list[str]) -> None:
    text = "appliance manifest 1\n" + "".join(line.replace("DIGEST", "0" * 64) + "\n" for line in lines)
    with pytest.raises(BadManifest):
        parse(text.encode())


@pytest.mark.parametrize("text", [b"", b"appliance manifest 2\n", b"appliance manifest 1\nfile", b"appliance manifest 1\n\xff\n"])
def test_a_list_of_another_kind_is_refused(text: bytes) -> None:
    with pytest.raises(BadManifest):
        parse(text)


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../x", b"a/../../x", b"", b"\xff", b"x" * 5000])
def test_a_link_that_leads_out_is_refused(target: bytes) -> None:
    with pytest.raises(BadManifest):
        manifest.link_target("link", target)


def test_a_link_that_leads_out_fails_the_run_and_is_not_made(machine: Machine, fake: Fake) -> None:
    fake.change([with_files(script("true"), files(fake, {"l": ("symlink", b"../../../identity.json")}))])
    machine.one_pass(check=1)
    assert "leads out of its directory" in fake.of("finished")[0]["message"]
    assert not list((machine.state / "runs").rglob("l"))


def test_a_document_whose_digest_is_none_is_refused_as_a_whole(machine: Machine, fake: Fake) -> None:
    fake.change([with_files(script("true"), {"digest": "sha256:12"})])
    done = machine.one_pass(check=6)
    assert "digest is no digest" in done.stderr
    assert json.dumps(fake.signals) == "[]"


def test_the_size_of_the_cache_is_a_setting() -> None:
    found = settings.read({"APPLIANCE_AGENT_CACHE": "7"}, state="/x", insecure_http=False, umask=0)
    assert found.cache == 7 << 20
