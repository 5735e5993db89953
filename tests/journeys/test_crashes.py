"""Killed agents, appliances and clients, and a line that is down: cases from the field, with real processes."""

import ctypes
import os
import random
import signal
import time
from pathlib import Path

import pytest

from ..lab import Lab, Machine, until


def gate_of(machine: Machine) -> tuple[Path, str]:
    """A file, and shell text that waits for it."""
    gate = machine.root / "gate"
    return gate, f"while [ ! -e {gate} ]; do sleep 0.02; done"


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("policy", ["once", "on-change"])
def test_cra_01_a_killed_agent_reports_the_interrupted_run_and_repeats_nothing(lab: Lab, machine: Machine, policy: str) -> None:
    pid = machine.root / "pid"
    machine.start()
    lab.deploy(machine, "a", machine.script("a", f"echo $$ > {pid}; sleep 600 & wait"), policy=policy)
    lab.deploy(machine, "b", machine.script("b"), depends_on=["m1/a"])
    until("the script to run", lambda: pid.exists() and pid.read_text().strip())
    until("the appliance to know", lambda: lab.of("m1/a")["phase"] == "running")
    machine.kill()
    assert alive(int(pid.read_text()))
    machine.start()
    found = lab.wait("m1/a", "FAILED")
    assert found["reason"] == "interrupted"
    assert not alive(int(pid.read_text()))
    until("the one after it to be given back", lambda: lab.of("m1/b")["phase"] == "blocked")
    machine.restart()
    lab.deploy(machine, "c", machine.script("c"))
    lab.wait("m1/c")
    assert (machine.count("a"), machine.count("b")) == (1, 0)
    lab.client.patch("/v1/deployments/m1/a", {"config": {"body": machine.script("a")}})
    if policy == "once":
        lab.client.post("/v1/deployments/m1/a/rerun")
    lab.wait("m1/a")
    lab.wait("m1/b")
    assert (machine.count("a"), machine.count("b")) == (2, 1)


def test_cra_05_a_result_that_came_while_the_appliance_was_down_arrives_once(lab: Lab, machine: Machine) -> None:
    gate, wait = gate_of(machine)
    machine.start()
    text = machine.script("a", f"{wait}; echo said; printf out > $heat_outputs_path.x; exit 7")
    lab.deploy(machine, "a", text, outputs=[{"name": "x"}])
    until("the script to run", lambda: machine.count("a"))
    until("the appliance to know", lambda: lab.of("m1/a")["phase"] == "running")
    lab.kill()
    gate.touch()
    machine.ended(1)
    machine.kill()
    machine.start()
    lab.serve()
    found = lab.wait("m1/a", "FAILED")
    assert found["reason"] == "exit"
    machine.restart()
    lab.deploy(machine, "b", machine.script("b"))
    lab.wait("m1/b")
    (run,) = lab.runs("m1/a")
    assert (run["status"], run["status_code"], run["stdout"], run["outputs"]) == ("FAILED", 7, "said\n", {"x": "out"})
    assert machine.count("a") == 1


def test_a_granted_chain_goes_on_without_a_line(lab: Lab, machine: Machine) -> None:
    gate, wait = gate_of(machine)
    order = machine.root / "order"
    parts = [("a", wait, []), ("b", "", ["m1/a"]), ("c", "", ["m1/b"])]
    items = [
        {"server": "m1", "name": name, "config": {"body": machine.script(name, f"{text}\necho {name} >> {order}")}, "depends_on": needs}
        for name, text, needs in parts
    ]
    lab.client.post("/v1/deployments", items)
    machine.start()
    until("the first to run", lambda: machine.count("a"))
    assert [lab.of(f"m1/{name}")["phase"] for name in "bc"] == ["granted", "granted"]
    lab.kill()
    gate.touch()
    machine.ended(3)
    assert order.read_text().split() == ["a", "b", "c"]
    lab.serve()
    for name in "abc":
        lab.wait(f"m1/{name}")
    assert [machine.count(name) for name in "abc"] == [1, 1, 1]


def test_a_boot_without_a_line_runs_what_was_granted_before_it(lab: Lab, machine: Machine) -> None:
    machine.start()
    lab.deploy(machine, "a", machine.script("a"), policy="per-boot")
    lab.wait("m1/a")
    machine.stop()
    lab.stop()
    machine.boot()
    machine.start()
    machine.ended(2)
    lab.serve()
    until("both reports", lambda: [run["status"] for run in lab.runs("m1/a")] == ["COMPLETE", "COMPLETE"])
    assert machine.count("a") == 2


def others(plan: Path, chosen: random.Random) -> None:
    """Four hundred files of which no byte is known."""
    for n in range(400):
        (plan / f"new-{n}").write_bytes(chosen.randbytes(200_000 if n % 20 == 0 else 2000))


def test_ato_02_a_push_killed_at_any_point_changes_nothing_that_is_seen(lab: Lab) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    plan = lab.path / "plan"
    plan.mkdir()
    (plan / "old").write_text("old\n")
    lab.command("plan", "push", "plan", "p", "--switch")
    digest = lab.client.get("/v1/plans/p/versions/current")["digest"]
    others(plan, chosen)
    began = time.monotonic()
    lab.command("plan", "push", "plan", "q")
    whole = time.monotonic() - began
    for _ in range(10):
        others(plan, chosen)
        push = lab.begin("plan", "push", "plan", "p", "--switch")
        time.sleep(chosen.uniform(0.1, whole))
        push.end(signal.SIGKILL)
        seen = lab.client.get("/v1/plans/p/versions/current")
        assert seen["digest"] == digest or len(seen["entries"]) == 401
        digest = seen["digest"]
    lab.command("plan", "push", "plan", "p", "--switch", "--force")
    seen = lab.client.get("/v1/plans/p/versions/current")
    assert len(seen["entries"]) == 401
    lab.command("plan", "export", "p", "copy")
    for entry in plan.iterdir():
        assert (lab.path / "copy" / entry.name).read_bytes() == entry.read_bytes()


def test_con_08_a_second_agent_on_one_state_is_refused_and_a_killed_one_leaves_no_lock(lab: Lab, machine: Machine) -> None:
    machine.start()
    machine.in_contact()
    second = machine.run("run", "--one-pass", check=None)
    assert second.returncode != 0
    assert str(machine.state) in second.stderr or "another agent" in second.stderr
    machine.kill()
    (machine.state / "lock").write_text(str(os.getpid()))  # a stale pid, taken by somebody else
    lab.deploy(machine, "a", machine.script("a"))
    machine.one_pass()
    assert machine.count("a") == 1


def test_an_idle_agent_ends_at_once_whichever_of_its_threads_the_signal_reaches(lab: Lab, machine: Machine) -> None:
    libc = ctypes.CDLL(None)
    for _ in range(2):
        agent = machine.start()
        machine.in_contact()
        others = [int(task.name) for task in Path(f"/proc/{agent.pid}/task").iterdir() if int(task.name) != agent.pid]
        assert libc.tgkill(agent.pid, min(others), signal.SIGTERM) == 0
        until("the agent to end", lambda: not agent.alive, seconds=10)  # noqa: B023 - it is waited for here
        assert agent.end() == 0
