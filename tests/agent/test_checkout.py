"""Group `plan`: a directory that is always one whole version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import Machine
from .fake import Fake, again, files, script, with_files

A: dict[str, Any] = {
    "x/one": b"1\n",
    "x/two": b"2\n",
    "run": ("executable", b"#!/bin/sh\n"),
    "link": ("symlink", b"x/one"),
    "big": b"b" * 300_000,
}
B: dict[str, Any] = {**A, "x/two": b"two\n", "new": b"new\n"}


def checkout(fake: Fake, path: Path, tree: dict[str, Any], keep: Any = 3, **more: Any) -> dict[str, Any]:
    item = with_files(script("#!", group="plan", **more), files(fake, tree))
    return {**item, "config": {**item["config"], "config": {"path": str(path), "keep": keep}}}


def moved(fake: Fake, item: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    return again(item, config={**item["config"], "files": [files(fake, tree)]})


def tree_at(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in path.rglob("*"):
        key = one.relative_to(path).as_posix()
        if one.is_symlink():
            found[key] = ("symlink", os.readlink(one).encode())  # noqa: PTH115 - as it is written
        elif not one.is_dir():
            found[key] = ("executable", one.read_bytes()) if one.stat().st_mode & 0o100 else one.read_bytes()
    return found


def versions(path: Path) -> list[str]:
    return sorted(one.name for one in (path.parent / f".{path.name}.versions").iterdir() if one.is_dir())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "srv" / "lab"


def test_a_directory_is_brought_to_a_version_and_to_the_next_with_only_what_changed_fetched(
    machine: Machine, fake: Fake, place: Path
) -> None:
    item = checkout(fake, place, A)
    fake.change([item])
    machine.one_pass()
    assert tree_at(place) == A
    assert place.is_symlink()
    assert (place.parent.stat().st_mode & 0o777, place.stat().st_mode & 0o777, (place / "big").stat().st_mode & 0o777) == (
        0o755,
        0o755,
        0o644,
    )
    sent = fake.sent
    new = moved(fake, item, B)
    fake.change([new])
    machine.one_pass()
    assert tree_at(place) == B
    [_, second] = fake.of("finished")
    listed = len(fake.content[new["config"]["files"][0]["digest"].partition(":")[2]])
    assert second["outputs"]["fetched_blobs"] == 3  # the list, and two files
    assert fake.sent - sent < listed + 11_000
    assert [one["kind"] for one in fake.signals] == ["started", "finished"] * 2


def test_a_to_b_to_a_fetches_nothing_the_second_time(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A)
    for tree in (A, B, A):
        fake.change([moved(fake, item, tree)])
        sent = fake.sent
        machine.one_pass()
        assert tree_at(place) == tree
    assert fake.sent == sent
    assert len(versions(place)) == 2


def test_what_lies_in_the_versions_beside_it_is_not_fetched_though_the_cache_is_gone(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A)
    fake.change([item])
    machine.one_pass(APPLIANCE_AGENT_CACHE="0")
    sent = fake.sent
    fake.change([moved(fake, item, B)])
    machine.one_pass(APPLIANCE_AGENT_CACHE="0")
    assert tree_at(place) == B
    assert fake.sent - sent < 11_000  # two small files and the padding of a tar


def test_ato_09_the_last_few_versions_are_kept_and_a_reader_that_holds_one_open_reads_on(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A, keep=2)
    fake.change([item])
    machine.one_pass()
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    fake.change([moved(fake, item, {"x/two": b"s"})])
    machine.one_pass()
    descriptor = os.open("x/two", os.O_RDONLY, dir_fd=held)
    assert os.read(descriptor, 10) == b"2\n"
    os.close(descriptor)
    os.close(held)
    for number in range(4):
        fake.change([moved(fake, item, {"n": b"%d" % number})])
        machine.one_pass()
    assert tree_at(place) == {"n": b"3"}
    assert len(versions(place)) == 2


def test_foreign_files_are_reported_and_never_removed(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A, keep=1)
    fake.change([item])
    machine.one_pass()
    (place / "x" / "notes").write_text("mine")
    (place / "x" / "one").write_text("changed")
    (place / "run").unlink()
    old = place.resolve()
    fake.change([moved(fake, item, B)])
    machine.one_pass()
    signal = fake.of("finished")[1]
    assert (signal["status_code"], tree_at(place)) == (0, B)
    assert [signal["outputs"][name] for name in ("foreign", "changed", "missing")] == [["x/notes"], ["x/one"], ["run"]]
    assert f"1 files are none of the plan's, 1 were changed, 1 removed (they stay in {old})" in signal["message"]
    assert (old / "x" / "notes").read_text() == "mine"
    assert signal["outputs"]["spared_versions"] == [old.name]


def test_a_version_that_was_changed_on_the_machine_is_made_anew_when_it_is_wanted_again(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A)
    fake.change([item])
    machine.one_pass()
    (place / "x" / "one").write_text("changed")
    fake.change([again(item)])
    machine.one_pass()
    assert tree_at(place) == A
    assert len(versions(place)) == 2


def test_it_works_after_a_reboot_without_a_line_from_what_is_there(machine: Machine, fake: Fake, place: Path) -> None:
    item = checkout(fake, place, A, policy="per-boot")
    fake.change([item])
    machine.one_pass()
    (place / "x" / "one").write_text("changed")
    machine.reboot()
    fake.stop()
    machine.one_pass(check=7)
    assert tree_at(place) == A
    fake.start()
    machine.one_pass()
    assert [signal.get("repeat") for signal in fake.of("started")] == [None, "boot"]


@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_what_is_there_and_none_of_ours_is_left_alone_with_the_reason(machine: Machine, fake: Fake, place: Path, there: str) -> None:
    place.parent.mkdir()
    if there == "directory":
        place.mkdir()
        (place / "mine").write_text("mine")
    elif there == "file":
        place.write_text("mine")
    else:
        place.symlink_to("/etc")
    fake.change([checkout(fake, place, A)])
    machine.one_pass(check=1)
    [signal] = fake.of("finished")
    assert signal["outcome"] == "invalid"
    assert "none of ours; move it away" in signal["message"]


def test_an_empty_directory_gives_way(machine: Machine, fake: Fake, place: Path) -> None:
    place.mkdir(parents=True)
    fake.change([checkout(fake, place, A)])
    machine.one_pass()
    assert tree_at(place) == A


def test_a_place_that_cannot_be_written_is_failed_with_the_reason(machine: Machine, fake: Fake, place: Path) -> None:
    place.parent.write_text("a file")
    fake.change([checkout(fake, place, A)])
    machine.one_pass(check=1)
    assert "cannot be brought to its version" in fake.of("finished")[0]["message"]


@pytest.mark.parametrize("body", ["text", {}, {"path": "srv"}, {"path": "/srv/../x"}, {"path": "/srv/lab", "keep": "x"}])
def test_a_body_that_makes_no_sense_is_failed_with_the_reason(machine: Machine, fake: Fake, place: Path, body: Any) -> None:
    item = checkout(fake, place, A)
    fake.change([{**item, "config": {**item["config"], "config": body}}])
    machine.one_pass(check=1)
    assert fake.of("finished")[0]["outcome"] == "invalid"


def test_what_was_cut_short_is_swept_and_taken_up_again(machine: Machine, fake: Fake, place: Path) -> None:
    store = place.parent / ".lab.versions"
    for name in ("0" * 64 + "-1.part", "0" * 64 + "-2.gone"):
        (store / name).mkdir(parents=True)
        (store / name / "f").write_text("half")
    (store / "link.new").symlink_to("x")
    (store / ("1" * 64 + "-3.manifest")).write_text("x")
    fake.change([checkout(fake, place, A)])
    machine.one_pass()
    assert tree_at(place) == A
    assert len(list(store.iterdir())) == 2
