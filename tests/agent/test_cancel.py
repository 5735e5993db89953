"""Ending what runs because a person says so."""

from __future__ import annotations

import os

from appliance.agent.passes import Done, Last, Memory, decide

from .conftest import Machine
from .fake import Fake, script
from .test_passes import live, now, parsed, ran, started


def test_a_grant_that_is_cancelled_is_given_back() -> None:
    item = script("true")
    run = live(item)
    found = decide(parsed({**item, "cancel": [run.run]}), Memory(runs=(run,)), now())
    assert (found.release, started(found)) == (((run.run, "cancelled"),), None)


def test_the_cancel_of_another_run_ends_nothing() -> None:
    item = script("true")
    found = decide(parsed({**item, "cancel": [live(item).run]}), Memory(runs=(live(item),)), now())
    assert (found.release, started(found)) == ((), ("base", None))


def test_a_generation_that_failed_unstarted_is_not_repeated() -> None:
    for policy in ("always", "per-boot"):
        item = script("true", policy=policy)
        memory = Memory(
            done={item["generation"]: Done(item["deployment"], 1, "FAILED")}, last={item["deployment"]: Last("boot-before.30", 1, "before")}
        )
        last = {"run": live(item).run, "generation": script("older")["generation"], "boot": "boot-before.30", "changed": 1}
        observed = {item["deployment"]: {"status": "FAILED", "phase": None, "generation": item["generation"], "last": last}}
        assert started(decide(parsed(item, observed=observed), memory, now())) is None
        last["generation"] = item["generation"]
        assert started(decide(parsed(item, observed=observed), memory, now())) is not None


def test_what_was_complete_at_once_is_repeated() -> None:
    item = script("true", policy="always")
    assert started(decide(parsed(item), ran(item, agent_start="before"), now())) == ("base", "agent-start")


def test_pro_10_what_runs_is_ended_with_all_that_it_started(machine: Machine, fake: Fake) -> None:
    item = script(f"trap '' TERM; sh -c 'trap \"\" TERM; sleep 100' & echo $! > {machine.root}/child; sleep 100")
    fake.change([item])
    agent = machine.start()
    fake.wait_for(lambda: (machine.root / "child").exists() and (machine.root / "child").read_text())
    run = fake.wait_for(lambda: fake.of("started"))[0]["run"]
    fake.change([{**item, "cancel": [run]}])
    (found,) = fake.wait_for(lambda: fake.of("finished"))
    assert (found["run"], found["outcome"]) == (run, "cancelled")
    assert found["message"] == "it was cancelled; the process group was ended"
    child = int((machine.root / "child").read_text())
    fake.wait_for(lambda: not os.path.exists(f"/proc/{child}"))  # noqa: PTH110
    machine.kill(agent)


def test_what_is_suspended_or_being_deleted_is_not_repeated() -> None:
    for action in ("SUSPEND", "DELETE", "RESUME", "UPDATE"):
        item = script("true", policy="always", action=action)
        repeated = started(decide(parsed(item), ran(item, agent_start="before"), now()))
        assert (repeated is None) == (action in ("SUSPEND", "DELETE"))
