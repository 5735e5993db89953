"""What runs, and how often: cases from the field, with a real appliance and a real agent."""

import uuid

from appliance.client import part

from ..lab import Lab, Machine, until


def counts(machine: Machine, names: str) -> list[int]:
    return [machine.count(name) for name in names]


def test_sem_01_a_new_deployment_runs_no_other_one_again(lab: Lab, machine: Machine) -> None:
    machine.start()
    for name, policy in (("a", "once"), ("b", "on-change")):
        lab.deploy(machine, name, machine.script(name), policy=policy)
        lab.wait(f"m1/{name}")
    lab.deploy(machine, "c", machine.script("c"))
    lab.wait("m1/c")
    machine.stop()
    for _ in range(5):
        machine.one_pass()
    assert counts(machine, "abc") == [1, 1, 1]


def test_sem_02_a_reboot_runs_what_its_policy_says_and_all_of_it_is_reported(lab: Lab, machine: Machine) -> None:
    machine.start()
    for name, policy in (("a", "once"), ("b", "per-boot"), ("c", "always"), ("d", "on-change")):
        lab.deploy(machine, name, machine.script(name), policy=policy)
    for name in "abcd":
        lab.wait(f"m1/{name}")
    until("always to have followed the last change", lambda: machine.count("c") >= 1)
    machine.stop()
    before = machine.count("c")
    machine.boot()
    machine.start()
    until("the runs of this boot", lambda: (len(lab.runs("m1/b")), len(lab.runs("m1/c"))) == (2, before + 1))
    until("their reports", lambda: all(run["status"] == "COMPLETE" for name in "abcd" for run in lab.runs(f"m1/{name}")))
    machine.stop()
    assert counts(machine, "abcd") == [1, 2, before + 1, 1]
    assert [run["repeat"] for run in lab.runs("m1/b")] == [None, "boot"]


def test_sem_03_purged_history_runs_nothing_again(lab: Lab, machine: Machine) -> None:
    machine.start()
    for name, policy in (("a", "once"), ("b", "on-change"), ("c", "per-boot")):
        lab.deploy(machine, name, machine.script(name), policy=policy)
        lab.wait(f"m1/{name}")
    machine.stop()
    assert lab.stop() == 0
    with lab.database() as database:
        database.execute("PRAGMA foreign_keys = OFF")
        evidence = ("run", "run_output", "claim", "signal", "audit", "idempotency")
        there = {row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        purged = [name for name in evidence if name in there]
        triggers = list(database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        for name in purged:
            database.execute(f"DELETE FROM {name}")
        for _, sql in triggers:
            database.execute(sql)
    assert "run" in purged
    lab.serve()
    machine.start()
    lab.deploy(machine, "d", machine.script("d"))
    lab.wait("m1/d")
    machine.restart()
    lab.deploy(machine, "e", machine.script("e"))
    lab.wait("m1/e")
    assert counts(machine, "abcde") == [1, 1, 1, 1, 1]
    assert [lab.of(f"m1/{name}")["status"] for name in "abc"] == ["COMPLETE"] * 3


def test_sem_06_an_update_of_what_is_running_runs_afterwards_and_only_once(lab: Lab, machine: Machine) -> None:
    machine.start()
    gate = machine.root / "gate"
    lab.deploy(machine, "a", machine.script("first", f"while [ ! -e {gate} ]; do sleep 0.02; done"))
    until("the first one to run", lambda: machine.count("first"))
    lab.client.patch("/v1/deployments/m1/a", {"config": {"body": machine.script("second", "sleep 0.3")}})
    assert lab.client.get("/v1/deployments/m1/a", wait=0.2, generation=2)["settled"] is None
    gate.touch()
    until("the report of the first one", lambda: lab.runs("m1/a")[0]["status"] == "COMPLETE")
    if machine.count("second") == 0:
        assert lab.of("m1/a")["status"] == "IN_PROGRESS"
    found = lab.wait("m1/a")
    assert found["generation"]["number"] == 2
    first, second = lab.runs("m1/a")
    assert first["generation"] != second["generation"] == found["generation"]["id"]
    assert (first["effect"], second["effect"]) == ("none", "recorded")
    assert (machine.count("first"), machine.count("second")) == (1, 1)


def test_sem_10_twenty_polls_with_nothing_changed_run_nothing(lab: Lab, machine: Machine) -> None:
    machine.more["APPLIANCE_AGENT_WAIT"] = "0"
    for name, policy in (("a", "always"), ("b", "always"), ("c", "on-change"), ("d", "on-change")):
        lab.deploy(machine, name, machine.script(name), policy=policy)
    machine.start()
    for name in "abcd":
        lab.wait(f"m1/{name}")
    until("the document to settle", lambda: machine.count("a") == machine.count("b") == 1)
    machine.polled()
    fetched = (machine.state / "document.json").stat().st_mtime_ns
    for _ in range(20):
        machine.polled()
    assert (machine.state / "document.json").stat().st_mtime_ns == fetched, "an answer was not 304"
    assert counts(machine, "abcd") == [1, 1, 1, 1]
    machine.stop()
    machine.one_pass()
    assert counts(machine, "abcd") == [2, 2, 1, 1]


def test_sem_11_a_failing_script_that_prints_json_failed(lab: Lab, machine: Machine) -> None:
    outputs = [{"name": "x"}]
    text = "printf 1 > $heat_outputs_path.x; echo '{\"x\": 1}'; exit 3"
    lab.deploy(machine, "a", machine.script("a", text), outputs=outputs)
    lab.deploy(machine, "b", machine.script("b", "echo 123"))
    machine.one_pass(check=1)
    found = lab.of("m1/a")
    assert (found["status"], found["reason"]) == ("FAILED", "exit")
    (run,) = lab.runs("m1/a")
    assert (run["status_code"], run["outputs"], run["stdout"]) == (3, {"x": "1"}, '{"x": 1}\n')
    assert lab.of("m1/b")["status"] == "COMPLETE"
    assert lab.runs("m1/b")[0]["stdout"] == "123\n"


def test_sem_15_a_rerun_is_exactly_one_more_run(lab: Lab, machine: Machine) -> None:
    machine.start()
    lab.deploy(machine, "a", machine.script("a", f"wc -l < {machine.root}/counts"), policy="once")
    lab.wait("m1/a")
    key = {"Idempotency-Key": str(uuid.uuid4())}
    path = f"/v1/deployments/{part('m1')}/a/rerun"
    answers = [lab.client.send("POST", path, b"{}", kind="application/json", headers=key) for _ in range(2)]
    assert answers[0]["generation"] == answers[1]["generation"]
    assert answers[0]["generation"]["number"] == 2
    lab.wait("m1/a")
    lab.client.send("POST", path, b"{}", kind="application/json", headers=key)
    machine.restart()
    lab.deploy(machine, "b", machine.script("b"))
    lab.wait("m1/b")
    assert machine.count("a") == 2
    assert [run["stdout"].strip() for run in lab.runs("m1/a")] == ["1", "2"]
    assert len({run["id"] for run in lab.runs("m1/a")}) == 2
