"""Repeats over polls, agent starts and boots; new generations; tombstones; restored appliances."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest

from .conftest import Machine
from .fake import Fake, after, again, script


def observe(fake: Fake, item: dict[str, Any], status: str = "COMPLETE") -> None:
    """Let the appliance say what came of an item."""
    last = fake.of("started", item["deployment"])[-1]
    known = {"run": last["run"], "generation": item["generation"], "boot": "elsewhere", "changed": last["changed"]}
    fake.observed[item["deployment"]] = {"status": status, "generation": item["generation"], "last": known}


def test_a_neighbour_runs_nothing_again_and_twenty_polls_run_nothing_at_all(machine: Machine, fake: Fake) -> None:
    done = [script(machine.counter(name), name=name) for name in "ab"]
    often = [script(machine.counter(name), name=name, policy="always") for name in "yz"]
    fake.change([*done, *often])
    machine.start(APPLIANCE_AGENT_WAIT="0")
    fake.wait_for(lambda: len(fake.of("finished")) == 4)
    polls = fake.polls
    fake.wait_for(lambda: fake.polls > polls + 20)
    assert [machine.count(name) for name in "abyz"] == [1, 1, 1, 1]
    fake.change([*done, *often, script(machine.counter("c"), name="c")], changed=False)
    fake.wait_for(lambda: len(fake.of("finished")) == 5)
    assert [machine.count(name) for name in "abyzc"] == [1, 1, 1, 1, 1]
    fake.change()
    fake.wait_for(lambda: len(fake.of("finished")) == 7)
    assert [machine.count(name) for name in "abyzc"] == [1, 1, 2, 2, 1]
    assert [signal["repeat"] for signal in fake.of("started")[-2:]] == ["changed", "changed"]


def test_boots_and_agent_starts_run_what_their_policies_say(machine: Machine, fake: Fake) -> None:
    policies = {"a": "on-change", "b": "once", "c": "per-boot", "d": "always"}
    items = [script(machine.counter(name), name=name, policy=policy) for name, policy in policies.items()]
    fake.change(items)
    machine.one_pass()
    machine.one_pass()
    assert [machine.count(name) for name in "abcd"] == [1, 1, 1, 2]
    machine.reboot()
    machine.one_pass()
    assert [machine.count(name) for name in "abcd"] == [1, 1, 2, 3]
    fake.stop()
    machine.reboot()
    machine.one_pass(check=7)
    assert [machine.count(name) for name in "abcd"] == [1, 1, 3, 4]
    fake.start()
    machine.one_pass()
    assert [machine.count(name) for name in "abcd"] == [1, 1, 3, 5]
    assert len(fake.of("finished")) == 10
    assert [signal["repeat"] for signal in fake.of("started", items[2]["deployment"])] == [None, "boot", "boot"]


def test_an_interval_repeats_by_itself(machine: Machine, fake: Fake) -> None:
    fake.change([script(machine.counter("a"), policy="always", interval=0.2)])
    machine.start()
    fake.wait_for(lambda: len(fake.of("finished")) >= 3)
    assert {signal["repeat"] for signal in fake.of("started")[1:]} == {"interval"}


def test_a_change_of_policy_runs_nothing_by_itself_except_to_always(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"))
    fake.change([item])
    machine.one_pass()
    machine.reboot()
    machine.one_pass()
    fake.change([{**item, "policy": "per-boot"}], changed=False)
    machine.one_pass()
    assert machine.count("a") == 1
    machine.reboot()
    machine.one_pass()
    assert machine.count("a") == 2


def test_per_boot_items_follow_their_dependencies_after_a_boot(machine: Machine, fake: Fake) -> None:
    log = machine.path / "order"
    first = script(f"echo a >> {log}; test ! -e {machine.path}/fail", name="z-first", policy="per-boot")
    second = {**script(f"echo b >> {log}", name="a-second", policy="per-boot"), "after": [first["deployment"]]}
    fake.change([first, second])
    machine.one_pass()
    machine.reboot()
    machine.one_pass()
    assert log.read_text().split() == ["a", "b", "a", "b"]
    (machine.path / "fail").touch()
    machine.reboot()
    machine.one_pass(check=1)
    assert log.read_text().split() == ["a", "b", "a", "b", "a"]


def test_a_new_generation_while_the_old_one_runs_waits_and_both_are_reported(machine: Machine, fake: Fake) -> None:
    gate = machine.path / "gate"
    text = f"{machine.counter('a')}; while [ ! -e {gate} ]; do sleep 0.02; done"
    old = script(text, name="a")
    fake.change([old])
    machine.start()
    fake.wait_for(lambda: fake.of("started"))
    polls = fake.polls
    skipped, last = again(old), again(old, config={**old["config"], "config": f"#!/bin/sh\n{machine.counter('a')}\n"})
    fake.change([skipped])
    fake.change([last])
    fake.wait_for(lambda: fake.polls > polls)  # it polls while a hook runs
    gate.touch()
    fake.wait_for(lambda: len(fake.of("finished")) == 2)
    assert [signal["generation"] for signal in fake.of("finished")] == [old["generation"], last["generation"]]
    assert machine.count("a") == 2


def test_a_granted_run_that_was_superseded_meanwhile_is_given_back(machine: Machine, fake: Fake) -> None:
    gate = machine.path / "gate"
    first = script(f"while [ ! -e {gate} ]; do sleep 0.02; done", name="a")
    second = script(machine.counter("old"), name="b")
    fake.change([first, second])
    machine.start()
    fake.wait_for(lambda: fake.of("started"))
    newer = again(second, config={**second["config"], "config": f"#!/bin/sh\n{machine.counter('new')}\n"})
    polls = fake.polls
    fake.change([first, newer])
    fake.wait_for(lambda: fake.polls > polls)
    gate.touch()
    fake.wait_for(lambda: len(fake.of("finished")) == 2)
    assert (machine.count("old"), machine.count("new")) == (0, 1)
    (released,) = fake.of("released")
    assert (released["generation"], released["why"]) == (second["generation"], "superseded")


def test_a_rerun_is_one_more_run(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"), policy="once")
    fake.change([item])
    machine.one_pass()
    fake.change([again(item)])
    machine.one_pass()
    machine.one_pass()
    assert machine.count("a") == 2
    assert len({signal["run"] for signal in fake.of("finished")}) == 2


def test_a_tombstone_is_the_only_reason_to_forget_and_is_named_in_a_claim(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"))
    fake.change([item])
    machine.one_pass()
    fake.change([])
    machine.one_pass()
    assert machine.status()["deployments"] != []
    fake.change([{"deployment": item["deployment"], "deleted": True}])
    machine.one_pass()
    assert fake.forgotten == [item["deployment"]]
    assert machine.status()["deployments"] == []


def test_a_result_lost_by_a_restore_is_sent_again_and_nothing_runs(machine: Machine, fake: Fake) -> None:
    item = script(f"{machine.counter('a')}; echo said", name="a")
    fake.change([item])
    machine.one_pass()
    observe(fake, item, "IN_PROGRESS")
    fake.signals.clear()
    fake._seen.clear()
    fake.epoch = {"number": 2, "id": "e2"}
    machine.one_pass()
    (found,) = fake.of("finished")
    assert (found["stdout"], found["generation"]) == ("said\n", item["generation"])
    assert machine.count("a") == 1


def test_another_machine_with_this_memory_runs_nothing_until_it_is_decided(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"), policy="always")
    fake.change([item])
    machine.one_pass()
    (machine.root / "var/lib/cloud/data/instance-id").write_text("i-2\n")
    fake.claim_status = (409, {"error": {"code": "clone", "message": "another agent is alive", "hint": ""}})
    for _ in range(2):
        machine.reboot()
        machine.one_pass(check=6)
    assert machine.count("a") == 1
    fake.claim_status = None
    machine.one_pass()
    assert machine.count("a") == 2
    machine.one_pass()
    assert machine.count("a") == 3


@pytest.mark.parametrize("code", ["clone", "trouble"])
def test_while_a_person_has_to_decide_not_even_repeats_run(machine: Machine, fake: Fake, code: str) -> None:
    fake.change([script(machine.counter("a"), policy="always")])
    machine.one_pass()
    fake.document_status = (409, {"error": {"code": code, "message": "two machines speak", "hint": "decide"}})
    machine.one_pass(check=6)
    assert machine.count("a") == 1
    assert machine.status()["problem"] == "the appliance answered 409 two machines speak; decide"
    fake.document_status = None
    machine.one_pass()
    assert machine.count("a") == 2


def test_refused_as_another_instance_it_asks_with_new_ids_until_it_is_decided(machine: Machine, fake: Fake) -> None:
    fake.on_claim = lambda run: {"answer": "refused", "why": "other-instance", "message": "decide"}
    fake.change([script(machine.counter("a"))])
    machine.start()
    fake.wait_for(lambda: len(fake.claims) > 2)
    assert machine.count("a") == 0
    fake.on_claim = lambda run: None
    fake.wait_for(lambda: fake.of("finished"))
    runs = [run["run"] for claim in fake.claims for run in claim["runs"]]
    assert len(set(runs)) >= 2


def test_after_a_refusal_the_document_is_fetched_anew_and_decides(machine: Machine, fake: Fake) -> None:
    item = script(machine.counter("a"))
    blocker = {"deployment": str(uuid.uuid4()), "generation": str(uuid.uuid4()), "name": "x/y", "here": False}

    def refuse(run: Any) -> dict[str, Any]:
        fake.items = [{**item, "ready": False, "blocked_on": [blocker]}]  # and nobody who waits is told
        return {"answer": "refused", "why": "blocked", "message": "not yet"}

    fake.on_claim = refuse
    fake.change([item])
    machine.start()
    fake.wait_for(lambda: fake.claims)
    polls = fake.polls
    fake.wait_for(lambda: fake.polls > polls)
    time.sleep(0.5)
    assert len(fake.claims) == 1
    fake.on_claim = lambda run: None
    fake.change([item])  # to the byte what was refused
    fake.wait_for(lambda: fake.of("finished"))
    assert len(fake.claims) == 2


def test_a_grant_given_back_is_asked_for_again_only_when_the_appliance_knows(machine: Machine, fake: Fake) -> None:
    first = script("exit 1", name="a")
    second = script(machine.counter("b"), name="b")
    fake.change([first, after(second, first)])
    known = threading.Event()
    fake.signal_status = lambda body: (503, {}) if body["kind"] == "released" and not known.is_set() else None
    granted = [first, {**second, "after": [first["deployment"]]}]  # as the appliance shows what it has granted: nothing blocks it
    fake.on_claim = lambda run: fake.change(granted)
    machine.start()
    fake.wait_for(lambda: fake.of("finished"))
    time.sleep(0.5)
    assert len([run for claim in fake.claims for run in claim["runs"]]) == 2
    fake.on_claim = lambda run: None
    known.set()
    fake.wait_for(lambda: machine.count("b") == 1)


def test_a_dependency_that_failed_frees_its_dependant_by_a_rerun(machine: Machine, fake: Fake) -> None:
    first = script("exit 1", name="a")
    second = after(script(machine.counter("b"), name="b"), first)
    fake.change([first, second])
    machine.one_pass(check=1)
    assert (len(fake.of("released")), machine.count("b")) == (1, 0)
    rerun = again(first, config={**first["config"], "config": "#!/bin/sh\n"})
    fake.change([rerun, after(second, rerun)])
    machine.one_pass()
    assert machine.count("b") == 1
