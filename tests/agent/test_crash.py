"""What survives: `kill -9`, a dead line, broken files. Real agents, a real server, real scripts that count their starts."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Machine
from .fake import Fake, after, again, script


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def slow(machine: Machine, name: str = "slow", **more: Any) -> dict[str, Any]:
    """A script that counts its start, says its process id, and then takes long."""
    text = f"{machine.counter(name)}; echo partial; echo $$ > {machine.path}/pid; sleep 1000"
    return script(text, name=name, **more)


def pid_of(machine: Machine, fake: Fake) -> int:
    file = machine.path / "pid"
    return int(fake.wait_for(lambda: file.exists() and file.read_text().strip()))


@pytest.mark.parametrize("policy", ["on-change", "once", "per-boot"])
def test_a_killed_agent_reports_the_run_as_interrupted_and_never_starts_it_again(machine: Machine, fake: Fake, policy: str) -> None:
    fake.change([slow(machine, policy=policy)])
    agent = machine.start()
    pid = pid_of(machine, fake)
    machine.kill(agent)
    assert alive(pid)
    machine.one_pass()
    assert not alive(pid)
    (found,) = fake.of("finished")
    assert (found["outcome"], found["status_code"], found["stdout"]) == ("interrupted", None, "partial\n")
    assert "restarted" in found["message"]
    machine.one_pass()
    assert machine.count("slow") == 1
    assert len(fake.signals) == 2


def test_an_interrupted_always_runs_in_the_next_pass(machine: Machine, fake: Fake) -> None:
    fake.change([slow(machine, policy="always")])
    agent = machine.start()
    pid_of(machine, fake)
    machine.kill(agent)
    agent = machine.start()
    fake.wait_for(lambda: len(fake.of("started")) == 2)
    assert fake.of("started")[1]["repeat"] == "agent-start"
    assert machine.kill(agent, signal.SIGTERM) == 0
    assert machine.count("slow") == 2


def test_a_stopped_agent_ends_its_run_and_says_so_before_it_goes(machine: Machine, fake: Fake) -> None:
    fake.change([slow(machine)])
    agent = machine.start()
    pid = pid_of(machine, fake)
    assert machine.kill(agent, signal.SIGTERM) == 0
    assert not alive(pid)
    (found,) = fake.of("finished")
    assert (found["outcome"], found["message"]) == ("interrupted", "the agent was stopped; the process group was ended")


def test_a_group_that_is_not_the_journaled_one_is_never_ended(machine: Machine, fake: Fake) -> None:
    fake.change([slow(machine)])
    agent = machine.start()
    pid = pid_of(machine, fake)
    machine.kill(agent)
    os.killpg(pid, signal.SIGKILL)
    stranger = os.spawnvpe(os.P_NOWAIT, "setsid", ["setsid", "sleep", "1000"], {"PATH": os.environ["PATH"]})
    with sqlite3.connect(machine.state / "journal.db") as db:
        db.execute("UPDATE run SET pgid = ? WHERE state = 'running'", (stranger,))
    db.close()
    machine.one_pass()
    assert fake.of("finished")[0]["outcome"] == "interrupted"
    assert alive(stranger)
    os.kill(stranger, signal.SIGKILL)
    os.waitpid(stranger, 0)


def test_a_result_made_while_the_appliance_was_down_arrives_once_after_both_restarted(machine: Machine, fake: Fake) -> None:
    gate = machine.path / "gate"
    text = f"{machine.counter('a')}; while [ ! -e {gate} ]; do sleep 0.02; done; printf v > $heat_outputs_path.o; exit 7"
    fake.change([script(text, outputs=[{"name": "o"}])])
    agent = machine.start()
    fake.wait_for(lambda: fake.of("started"))
    fake.stop()
    gate.touch()
    fake.wait_for(lambda: "FAILED (ended 7)" in machine.log.read_text())
    assert [signal["kind"] for signal in machine.status()["undelivered"]] == ["finished"]
    machine.kill(agent)
    machine.start()
    time.sleep(0.3)
    fake.start()
    (found,) = fake.wait_for(lambda: fake.of("finished"))
    assert (found["status_code"], found["outputs"]) == (7, {"o": "v"})
    fake.wait_for(lambda: machine.status()["undelivered"] == [])
    sent = [path for method, path, _, body in fake.requests if method == "POST" and body.get("kind") == "finished"]
    assert len(sent) == 1
    assert machine.count("a") == 1


def test_an_unanswered_claim_is_repeated_with_the_same_ids(machine: Machine, fake: Fake) -> None:
    fake.change([script(machine.counter("a"))])
    fake.claim_status = (503, {"error": {"code": "busy", "message": "try later", "hint": ""}})
    machine.one_pass(check=7)
    asked = [body for _, path, _, body in fake.requests if path.endswith("/claim")]
    fake.claim_status = None
    machine.one_pass()
    assert fake.claims[0]["runs"] == asked[0]["runs"]
    assert machine.count("a") == 1


def test_a_chain_goes_on_without_a_line(machine: Machine, fake: Fake) -> None:
    gate = machine.path / "gate"
    first = script(f"while [ ! -e {gate} ]; do sleep 0.02; done; {machine.counter('a')}", name="a")
    second = after(script(machine.counter("b"), name="b"), first)
    third = script(f"{machine.counter('c')}; exit 1", name="c")
    fourth = after(script(machine.counter("d"), name="d"), third)
    fake.change([first, second, third, fourth])
    machine.start()
    fake.wait_for(lambda: fake.of("started"))
    fake.stop()
    gate.touch()
    fake.wait_for(lambda: machine.count("c") and "FAILED" in machine.log.read_text())
    assert [machine.count(name) for name in "abcd"] == [1, 1, 1, 0]
    fake.start()
    (released,) = fake.wait_for(lambda: fake.of("released"))
    assert (released["deployment"], released["why"]) == (fourth["deployment"], "dependency")


def test_a_grant_is_acted_on_after_a_restart_without_a_line(machine: Machine, fake: Fake) -> None:
    first = slow(machine)
    fake.change([first, script(machine.counter("b"), name="b")])
    agent = machine.start()
    pid = pid_of(machine, fake)
    fake.stop()
    machine.kill(agent)
    machine.reboot()
    os.killpg(pid, signal.SIGKILL)  # the boot is not a real one
    machine.one_pass(check=7)
    assert (machine.count("slow"), machine.count("b")) == (1, 1)
    fake.start()
    machine.one_pass()
    assert [found["outcome"] for found in fake.of("finished")] == ["interrupted", "ended"]


BROKEN = [
    *((name, how) for name in ("journal.db", "journal.db-wal", "identity.json") for how in ("empty", "half", "random", "gone")),
    *((name, how) for name in ("document.json",) for how in ("half", "random")),
    ("status.json", "random"),
    ("lock", "random"),
]


@pytest.mark.parametrize("name,how", BROKEN)
def test_no_broken_state_file_runs_anything_again_or_stops_the_agent(machine: Machine, fake: Fake, name: str, how: str) -> None:
    finished = script(machine.counter("a"), name="a")
    failed = script(f"{machine.counter('b')}; exit 1", name="b", policy="once")
    boot = script(machine.counter("c"), name="c", policy="per-boot")
    items = [finished, failed, boot]
    fake.change(items)
    agent = machine.start()
    fake.wait_for(lambda: len(fake.of("finished")) == 3)
    machine.kill(agent)
    for item, status in zip(items, ("COMPLETE", "FAILED", "COMPLETE"), strict=True):
        last = fake.of("started", item["deployment"])[-1]
        known = {"run": last["run"], "generation": item["generation"], "boot": boot_of(machine), "changed": last["changed"]}
        fake.observed[item["deployment"]] = {"status": status, "generation": item["generation"], "last": known}
    path = machine.state / name
    if not path.exists():
        pytest.skip("there is none just now")
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "random": os.urandom(len(data))}[how])
    fake.change([*items, script(machine.counter("d"), name="d")])
    machine.one_pass(check=None)  # a journal that lost a start calls it interrupted
    assert [machine.count(name) for name in "abcd"] == [1, 1, 1, 1]


def boot_of(machine: Machine) -> str:
    return (machine.root / "proc/sys/kernel/random/boot_id").read_text().strip() + ".30"


def test_a_broken_journal_is_kept_beside_and_a_new_state_begins(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"))
    fake.change([item])
    machine.one_pass()
    before = machine.status()["agent_state"]
    (machine.state / "journal.db").write_bytes(b"rubbish" * 1000)
    fake.observed[item["deployment"]] = {"status": "COMPLETE", "generation": item["generation"], "last": None}
    said = machine.one_pass().stderr
    assert "journal.db.broken-" in said
    assert machine.status()["agent_state"] != before
    assert machine.count("a") == 1
    fake.change([again(item)])
    machine.one_pass()
    assert machine.count("a") == 2


def test_what_a_lost_journal_knew_to_be_running_is_ended_and_daemons_of_ended_runs_are_not(machine: Machine, fake: Fake) -> None:
    daemon = script(f"setsid sleep 1000 & echo $! > {machine.path}/daemon", name="a")
    fake.change([daemon, slow(machine)])
    agent = machine.start()
    pid = pid_of(machine, fake)
    machine.kill(agent)
    (machine.state / "journal.db").write_bytes(b"")
    fake.on_claim = lambda run: {"answer": "refused", "why": "claimed", "message": "it was granted before"}
    machine.one_pass()
    left = int((machine.path / "daemon").read_text())
    assert (alive(pid), alive(left)) == (False, True)
    os.kill(left, signal.SIGKILL)


def test_a_fresh_state_starts_nothing_before_its_first_document(machine: Machine, fake: Fake) -> None:
    fake.change([script(machine.counter("a"), policy="always")])
    machine.one_pass()
    (machine.state / "journal.db").write_bytes(b"")
    fake.stop()
    machine.one_pass(check=7)
    assert machine.count("a") == 1


def test_a_journal_of_a_newer_agent_is_left_alone(machine: Machine, fake: Fake) -> None:
    db = sqlite3.connect(machine.state / "journal.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = (machine.state / "journal.db").read_bytes()
    done = machine.one_pass(check=6)
    assert "format 99" in done.stderr
    assert (machine.state / "journal.db").read_bytes() == before


def test_a_journal_that_forgot_a_start_does_not_repeat_it(machine: Machine, fake: Fake) -> None:
    fake.change([script(machine.counter("a"))])
    machine.one_pass()
    db = sqlite3.connect(machine.state / "journal.db")
    db.execute("UPDATE run SET state = 'granted'")
    for table in ("done", "last", "outbox"):
        db.execute(f"DELETE FROM {table}")
    db.commit()
    db.close()
    fake._seen.clear()
    machine.one_pass(check=1)
    assert machine.count("a") == 1
    assert fake.of("finished")[-1]["outcome"] == "interrupted"


def test_a_second_agent_on_one_state_exits_and_a_kill_frees_the_lock(machine: Machine, fake: Fake) -> None:
    first = machine.start()
    fake.wait_for(lambda: fake.polls)
    done = machine.one_pass(check=6)
    assert f"process {first.pid}" in done.stderr
    assert "--state" in done.stderr
    machine.kill(first)
    (machine.state / "lock").write_text(f"{os.getpid()}\n")
    machine.one_pass()


def test_run_directories_and_journal_rows_are_bounded(machine: Machine, fake: Fake) -> None:
    from appliance.agent import workdir

    for number in range(70):
        path = machine.state / "runs" / f"00000000-0000-4000-8000-{number:012d}"
        path.mkdir(parents=True)
        os.utime(path, (time.time() - number, time.time() - number))
    old = machine.state / "runs" / "00000000-0000-4000-8000-999999999999"
    old.mkdir()
    os.utime(old, (0, 0))
    fake.change([script("true")])
    machine.one_pass()
    kept = {path.name for path in (machine.state / "runs").iterdir()}
    assert len(kept) == workdir.KEEP
    assert old.name not in kept
