"""The small parts as values: facts, texts that are cut, environments, what is on disk."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.agent import capture, environment, facts, ledger, results, settings, signals, workdir
from appliance.agent import document as documents
from appliance.agent.errors import Usage
from appliance.agent.files import is_uuid, write_whole
from appliance.agent.journal import Journal
from appliance.agent.signals import Result

from .fake import SERVER, script


def root(path: Path, **files: str) -> Path:
    for name, text in files.items():
        file = path / name.replace("__", "/").replace("_dash_", "-")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


def test_the_facts_of_this_very_machine_can_be_read() -> None:
    found = facts.gather(Path("/"))
    assert found.boot.count(".") == 1
    assert set(found.instance) <= {"machine", "root", "cloud"}


def test_missing_facts_are_unknown(tmp_path: Path) -> None:
    assert facts.gather(tmp_path) == facts.Facts({}, "unknown.unknown")


@pytest.mark.parametrize(
    "mount,link,cmdline,expected",
    [
        ("1 0 8:1 / / rw - ext4 /dev/sda1 rw", "../../sda1", "", "uuid-1"),
        ("1 0 0:33 / / rw shared:1 - btrfs /dev/mapper/root rw", "../../dm-0", "", "uuid-1"),
        ("1 0 8:2 / / rw - ext4 /dev/sda2 rw", "../../sda1", "", ""),
        ("1 0 8:2 / / rw - ext4 /dev/root rw", "../../sda1", "ro root=UUID=uuid-2 quiet", "uuid-2"),
        ("1 0 0:40 / / rw - overlay overlay rw", "../../sda1", "root=UUID=host", ""),
        ("garbage", "../../sda1", "", ""),
    ],
)
def test_the_root_file_system_is_known_by_its_uuid(tmp_path: Path, mount: str, link: str, cmdline: str, expected: str) -> None:
    root(tmp_path, proc__self__mountinfo=f"0 0 8:9 / /boot rw - ext4 /dev/sda9 rw\n{mount}\n", proc__cmdline=cmdline)
    by_uuid = tmp_path / "dev/disk/by-uuid"
    by_uuid.mkdir(parents=True)
    (by_uuid / "uuid-1").symlink_to(link)
    (tmp_path / "dev/mapper").mkdir()
    (tmp_path / "dev/mapper/root").symlink_to("../dm-0")
    assert facts.gather(tmp_path).instance.get("root", "") == expected


def test_a_boot_is_the_kernels_and_that_of_process_1(tmp_path: Path) -> None:
    stat = "1 (a (b) c) S " + " ".join(["0"] * 18) + " 42 1 1"
    root(tmp_path, proc__sys__kernel__random__boot_id="abc\n", proc__1__stat=stat)
    assert facts.gather(tmp_path).boot == "abc.42"


@pytest.mark.parametrize(
    "one,other,same",
    [
        ({}, {}, True),
        ({"machine": "a"}, {"machine": "a", "cloud": "i"}, True),
        ({"machine": "a"}, {"cloud": "i"}, True),
        ({"machine": "a", "cloud": "i"}, {"machine": "a", "cloud": "j"}, False),
    ],
)
def test_instances_differ_by_what_both_know(one: dict[str, str], other: dict[str, str], same: bool) -> None:
    assert facts.same_instance(one, other) is same


def test_a_cut_never_splits_a_character() -> None:
    data = "ä€😀".encode() * 1000
    for at in range(12):
        text = capture.join(data[: 100 + at], data[-(100 + at) :], len(data))
        assert "\ufffd" not in text
        assert f"{len(data)} bytes in all" in text


def test_a_stream_on_disk_is_bounded_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LARGEST", 100_000)
    monkeypatch.setattr(capture, "HEAD", 1_000)
    stream = capture.Capture(tmp_path / "stdout")
    writer = os.open(tmp_path / "stdout", os.O_WRONLY | os.O_APPEND)
    for number in range(100):
        os.write(writer, b"%05d" % number * 1000)
        stream.bound()
        assert (tmp_path / "stdout").stat().st_size <= 105_000
    os.close(writer)
    text, cut = stream.report()
    assert (cut, stream.size) == (True, 500_000)
    assert text.startswith("00000")
    assert text.endswith("00099")
    assert "dropped here" in text
    stream.close()


def test_the_longest_outputs_are_cut_until_all_fit() -> None:
    outputs: dict[str, Any] = {"a": "x" * 1_000_000, "b": "y" * 500_000, "c": "short", "d": {"deep": "z" * 800_000}}
    assert sorted(results.limit(outputs)) == ["a", "b", "d"]
    assert sum(len(text.encode()) for text in outputs.values()) <= results.OUTPUTS
    assert outputs["c"] == "short"
    assert len(json.dumps(outputs)) <= results.OUTPUTS + 100
    few: dict[str, Any] = {"a": 1, "b": None, "c": ["x"]}
    assert results.limit(few) == []
    assert few == {"a": 1, "b": None, "c": ["x"]}


@pytest.mark.parametrize("text", ["\0" * 600_000, "ä" * 300_000, "x" * 400_000 + "\0" * 200_000, "\0x" * 250_000, '"' * 650_000])
def test_outputs_are_measured_as_the_json_that_is_sent(text: str) -> None:
    outputs: dict[str, Any] = {"a": text, "b": "kept"}
    assert results.limit(outputs) == ["a"]
    assert results.OUTPUTS // 2 < len(json.dumps(outputs)) <= results.OUTPUTS + 100
    assert outputs["b"] == "kept"
    assert "bytes in all" in outputs["a"]


def test_a_signal_is_always_json_that_everyone_can_read() -> None:
    with pytest.raises(ValueError, match="JSON"):
        signals.dumps({"a": float("inf")})
    assert signals.loads('{"a": Infinity, "b": NaN}') == {"a": "Infinity", "b": "NaN"}


@pytest.mark.parametrize(
    "value,expected",
    [("x", "x"), (None, None), (True, "true"), (0, "0"), (-1.5, "-1.5"), (1e-9, "0.000000001"), ([1, "ä"], '[1, "\\u00e4"]')],
)
def test_inputs_as_text(value: object, expected: str | None) -> None:
    assert environment.text(value) == expected


def test_lone_surrogates_and_nul_bytes_do_not_reach_an_environment() -> None:
    inputs = [{"name": "a", "value": "x\ud800"}, {"name": "b", "value": "x\0"}, {"name": "c\ud800", "value": ""}]
    env, dropped = environment.with_inputs({}, inputs, None)
    assert env == {"a": "x\ufffd"}
    assert dropped == ["b", "c\ud800"]


@pytest.mark.parametrize(
    "result,outputs,expected",
    [
        ({"outcome": "ended", "status_code": 0}, [], "COMPLETE"),
        ({"outcome": "ended", "status_code": 1}, [], "FAILED"),
        ({"outcome": "ended", "status_code": None}, [], "FAILED"),
        ({"outcome": "timeout", "status_code": 0}, [], "FAILED"),
        ({"outcome": "invalid", "status_code": 0}, [], "FAILED"),
        ({"outcome": "ended", "status_code": 0, "outputs": {"e": ""}}, [{"name": "e", "error_output": True}], "FAILED"),
        ({"outcome": "ended", "status_code": 0, "outputs": {"e": ""}}, [{"name": "e", "error_output": False}], "COMPLETE"),
        ({"outcome": "ended", "status_code": 0}, [{"name": "e", "error_output": True}], "COMPLETE"),
    ],
)
def test_verdicts(result: dict[str, Any], outputs: list[dict[str, Any]], expected: str) -> None:
    assert signals.verdict(Result(started_at="", ended_at="", **result), outputs) == expected


def test_a_file_is_replaced_whole_and_private(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("old and much longer")
    file.chmod(0o666)
    write_whole(file, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_background_processes_still_write_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "LARGEST", 1000)
    monkeypatch.setattr(workdir, "HEAD", 10)
    run = tmp_path / "11111111-1111-4111-8111-111111111111"
    run.mkdir()
    (run / "stdout").write_bytes(b"x" * 2000)
    workdir.prune(tmp_path)
    assert (run / "stdout").stat().st_size == 10


def test_only_uuids_become_directories(tmp_path: Path) -> None:
    assert is_uuid("11111111-1111-4111-8111-111111111111")
    for name in ("../x", "", "11111111-1111-4111-8111-11111111111G", None, "11111111-1111-4111-8111-111111111111\n"):
        assert not is_uuid(name)
        with pytest.raises((ValueError, TypeError)):
            workdir.make(tmp_path, name)  # type: ignore[arg-type]


def test_settings_come_from_flags_then_environment() -> None:
    read = settings.read({"APPLIANCE_AGENT_STATE": "/e"}, state="/f", insecure_http=False, umask=0o22)
    assert read.state == Path("/f")
    assert settings.read({"APPLIANCE_AGENT_STATE": "/e"}, state=None, insecure_http=False, umask=0).state == Path("/e")
    assert read.hooks[0] == Path("/f/hooks")
    with pytest.raises(Usage, match="APPLIANCE_AGENT_WAIT"):
        settings.read({"APPLIANCE_AGENT_WAIT": "soon"}, state="/f", insecure_http=False, umask=0)


def test_wall_time_is_rfc_3339() -> None:
    assert signals.wall(0.5) == "1970-01-01T00:00:00.500Z"
    assert time.strptime(signals.wall()[:19], "%Y-%m-%dT%H:%M:%S")


def journal_with(path: Path, count: int, size: int, *, acknowledged: bool) -> Journal:
    """A journal in which one deployment ran `count` times with `size` bytes of output."""
    journal = Journal(path / "journal.db")
    item = documents.parse(json.dumps(document_of(script("true", policy="always"))).encode()).items[0]
    for number in range(count):
        run = f"00000000-0000-4000-8000-{number:012d}"
        ledger.running(journal, ledger.Running(run, item, "interval", 1, "boot", "start", ""), None, None)
        outcome = Result("ended", "", "", 0, outputs={"o": "kept"}, stdout="x" * size)
        ledger.finished(journal, run, outcome, "COMPLETE", 1.0)
        while acknowledged and (waiting := ledger.pending(journal)):
            ledger.acknowledged(journal, waiting[0]["seq"])
    return journal


def document_of(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "server": {"id": SERVER, "name": "x"},
        "epoch": {"number": 1, "id": "e"},
        "desired": {"changed": 1, "items": list(items)},
        "observed": {},
    }


def test_the_journal_keeps_the_last_results_and_all_memory_of_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "KEEP_RUNS", 10)
    journal = journal_with(tmp_path, 30, 10, acknowledged=True)
    ledger.prune(journal)
    kept = [row["run"] for row in journal.rows("SELECT run FROM run ORDER BY seq")]
    assert kept == [f"00000000-0000-4000-8000-{number:012d}" for number in range(20, 30)]
    assert len(ledger.memory(journal).done) == 1
    journal.close()


def test_results_that_cannot_be_delivered_lose_their_texts_before_they_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "KEEP_BYTES", 200_000)
    monkeypatch.setattr(ledger, "SHORT", 1_000)
    journal = journal_with(tmp_path, 10, 50_000, acknowledged=False)
    ledger.prune(journal)
    bodies = [json.loads(row["body"]) for row in journal.rows("SELECT body FROM outbox WHERE kind = 'finished' ORDER BY seq")]
    assert [body["status_code"] for body in bodies] == [0] * 10
    assert [len(body["stdout"]) < 1_000 for body in bodies] == [True] * 7 + [False] * 3
    assert bodies[0]["truncated"] == ["o", "stdout"]
    assert bodies[9]["truncated"] == []
    journal.close()


def test_each_commit_raises_the_counter_and_a_failed_one_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    before = journal.counter
    with pytest.raises(sqlite3.IntegrityError), journal.write() as tx:
        tx.executemany("INSERT INTO meta VALUES (?, 'y')", [("x",), ("agent_state",)])
    assert (journal.counter, journal.meta("x")) == (before, None)
    journal.set_meta("x", "y")
    assert (journal.counter, journal.meta("x")) == (before + 1, "y")
    journal.close()
    again = Journal(tmp_path / "journal.db")
    assert (again.counter, again.agent_state, again.set_aside) == (before + 1, journal.agent_state, None)
    again.close()
