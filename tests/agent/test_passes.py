"""The decision as tables: what the machine remembers and what is desired go in, actions come out."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from appliance.agent import document as documents
from appliance.agent.document import Document, Epoch, acceptable
from appliance.agent.passes import Decision, Done, Last, Memory, Moment, Run, decide, unreported

from .fake import SERVER, after, again, script

BOOT, EARLIER = "boot-now.30", "boot-before.30"
NOW = 1000.0


def parsed(
    *items: dict[str, Any],
    deleted: list[str] | None = None,
    observed: dict[str, Any] | None = None,
    changed: int = 5,
    fetched: float | None = 1.0,
) -> Document:
    tombstones = [{"deployment": name, "deleted": True} for name in deleted or []]
    raw = {
        "server": {"id": SERVER, "name": "web-1"},
        "epoch": {"number": 1, "id": "e"},
        "desired": {"changed": changed, "items": [*items, *tombstones]},
        "observed": {"items": observed or {}},
    }
    return documents.parse(json.dumps(raw).encode(), fetched=fetched)


def now(**more: Any) -> Moment:
    return Moment(**{"boot": BOOT, "agent_start": "start-now", "now": NOW, **more})


def ran(item: dict[str, Any], verdict: str = "COMPLETE", attempt: int = 1, **last: Any) -> Memory:
    """A memory in which this item's generation has run to its end, in this boot and agent start unless told otherwise."""
    known = {
        "boot": BOOT,
        "changed": 5,
        "agent_start": "start-now",
        "ended": 990.0,
        "verdict": verdict,
        "policy": item["policy"],
        **last,
    }
    done = Done(item["deployment"], attempt, verdict, "the run that did it")
    return Memory(done={item["generation"]: done}, last={item["deployment"]: Last(**known)})


def both(*memories: Memory, runs: tuple[Run, ...] = ()) -> Memory:
    done = {key: value for memory in memories for key, value in memory.done.items()}
    last = {key: value for memory in memories for key, value in memory.last.items()}
    return Memory(done, last, (*(run for memory in memories for run in memory.runs), *runs))


def live(item: dict[str, Any], state: str = "granted", **more: Any) -> Run:
    fields = {"deployment": item["deployment"], "generation": item["generation"], "attempt": 1}
    return Run(**{"run": str(uuid.uuid4()), **fields, "state": state, **more})


def minted(decision: Decision) -> list[str]:
    return [mint.generation for mint in decision.mint]


def started(decision: Decision) -> tuple[str, str | None] | None:
    return None if decision.start is None else (decision.start.item.name, decision.start.repeat)


# -- first runs and grants


@pytest.mark.parametrize("policy", ["on-change", "once", "per-boot", "always"])
def test_the_first_run_of_a_generation_needs_a_grant_whatever_the_policy(policy: str) -> None:
    item = script("true", policy=policy)
    asked = decide(parsed(item), Memory(), now())
    assert (minted(asked), started(asked)) == ([item["generation"]], None)
    granted = decide(parsed(item), Memory(runs=(live(item),)), now())
    assert (minted(granted), started(granted)) == ([], ("base", None))


@pytest.mark.parametrize("policy", ["on-change", "once", "per-boot", "always"])
def test_a_new_generation_needs_a_grant_though_the_old_one_would_repeat(policy: str) -> None:
    old = script("true", policy=policy)
    new = again(old)
    decision = decide(parsed(new), ran(old, boot=EARLIER, agent_start="before"), now())
    assert (minted(decision), started(decision)) == ([new["generation"]], None)


@pytest.mark.parametrize("state", ["claimed", "granted", "running"])
def test_what_is_under_way_is_not_asked_for_again(state: str) -> None:
    item = script("true")
    assert minted(decide(parsed(item), Memory(runs=(live(item, state),)), now())) == []


def test_a_claim_without_an_answer_starts_nothing() -> None:
    item = script("true")
    assert started(decide(parsed(item), Memory(runs=(live(item, "claimed"),)), now())) is None


@pytest.mark.parametrize("why", ["superseded", "blocked", "cancelled", "deleted"])
def test_a_refused_item_is_asked_for_again_only_by_a_newer_document(why: str) -> None:
    item = script("true")
    run = live(item, "refused", why=why)
    memory = Memory(runs=(run,))
    assert minted(decide(parsed(item), memory, now(ahead=frozenset([run.run])))) == []
    assert minted(decide(parsed(item), memory, now())) == [item["generation"]]


def test_what_was_claimed_elsewhere_is_never_asked_for_again_but_its_next_generation_is() -> None:
    item = script("true")
    memory = Memory(runs=(live(item, "refused", why="claimed"),))
    assert minted(decide(parsed({**item, "timeout": 61}), memory, now())) == []
    assert len(minted(decide(parsed(again(item)), memory, now()))) == 1


def test_after_another_instance_was_decided_upon_the_same_item_is_asked_for_again() -> None:
    item = script("true")
    memory = Memory(runs=(live(item, "refused", why="other-instance"),))
    assert minted(decide(parsed(item), memory, now())) == [item["generation"]]


def test_the_next_attempt_of_a_generation_is_another_grant() -> None:
    item = script("true", attempt=2)
    assert minted(decide(parsed(item), ran(item, "FAILED", attempt=1), now())) == [item["generation"]]
    assert minted(decide(parsed(item), ran(item, "FAILED", attempt=2), now())) == []


# -- grants given back


def test_a_grant_of_an_older_generation_is_given_back() -> None:
    old = script("true")
    run = live(old)
    decision = decide(parsed(again(old)), Memory(runs=(run,)), now())
    assert (decision.release, decision.start) == (((run.run, "superseded"),), None)


def test_a_grant_of_a_deleted_deployment_is_given_back_before_it_is_forgotten() -> None:
    item = script("true")
    run = live(item)
    decision = decide(parsed(deleted=[item["deployment"]]), Memory(runs=(run,)), now())
    assert (decision.release, decision.forget) == (((run.run, "deleted"),), ())
    gone = live(item, "released", why="deleted")
    assert decide(parsed(deleted=[item["deployment"]]), Memory(runs=(gone,)), now()).forget == (item["deployment"],)


def test_a_deployment_missing_from_a_short_list_is_neither_started_nor_forgotten() -> None:
    item = script("true")
    decision = decide(parsed(), both(ran(script("true")), runs=(live(item),)), now())
    assert decision == Decision()


def test_a_tombstone_is_acted_upon_once_and_not_while_its_run_runs() -> None:
    item = script("true")
    name = item["deployment"]
    assert decide(parsed(deleted=[name]), Memory(runs=(live(item, "running"),)), now()).forget == ()
    assert decide(parsed(deleted=[name]), ran(item), now()).forget == (name,)
    assert decide(parsed(deleted=[name]), ran(item), now(forgotten=frozenset([name]))).forget == ()


# -- chains


def test_a_chain_on_this_server_is_asked_for_in_one_claim() -> None:
    first = script("true", name="a")
    second = after(script("true", name="b"), first)
    third = after(script("true", name="c"), second)
    decision = decide(parsed(first, second, third), Memory(), now())
    assert minted(decision) == [first["generation"], second["generation"], third["generation"]]


def test_an_item_that_waits_for_another_server_is_not_asked_for() -> None:
    first, elsewhere = script("true", name="a"), script("true", name="x")
    blocked = after(script("true", name="b"), first)
    blocked["blocked_on"] += after(script("true"), elsewhere, here=False)["blocked_on"]
    assert minted(decide(parsed(first, blocked), Memory(), now())) == [first["generation"]]


@pytest.mark.parametrize(
    "first_state,expected",
    [("running", None), ("COMPLETE", "start"), ("FAILED", "dependency"), ("gone", "dependency")],
)
def test_a_dependant_starts_only_once_its_dependency_is_complete_here(first_state: str, expected: str | None) -> None:
    first = script("true", name="a")
    second = after(script("true", name="b"), first)
    run = live(second, after=(first["generation"],))
    memory = Memory(runs=(run,))
    if first_state == "running":
        memory = both(memory, runs=(live(first, "running"),))
    elif first_state != "gone":
        memory = both(ran(first, first_state), memory)
    first = first if first_state != "gone" else {**again(first), "ready": False}
    decision = decide(parsed(first, second), memory, now())
    assert started(decision) == (("b", None) if expected == "start" else None)
    assert decision.release == (((run.run, "dependency"),) if expected == "dependency" else ())


def test_what_was_released_for_its_dependency_is_asked_for_again_when_the_document_frees_it() -> None:
    first = script("true", name="a")
    second = after(script("true", name="b"), first)
    memory = both(ran(first, "FAILED"), runs=(live(second, "released", why="dependency"),))
    assert minted(decide(parsed(first, second), memory, now())) == []
    rerun = again(first)
    freed = after({**second}, rerun)
    assert minted(decide(parsed(rerun, freed), memory, now())) == [rerun["generation"], second["generation"]]


def test_one_at_a_time_in_run_order_and_a_failure_does_not_stop_the_others() -> None:
    first, second = script("true", name="a"), script("true", name="b")
    runs = (live(second), live(first))
    assert started(decide(parsed(first, second), Memory(runs=runs), now())) == ("a", None)
    assert started(decide(parsed(first, second), both(ran(first, "FAILED"), runs=runs[:1]), now())) == ("b", None)


# -- repeats


@pytest.mark.parametrize("verdict", ["COMPLETE", "FAILED"])
@pytest.mark.parametrize(
    "policy,last,changed,expected",
    [
        ("on-change", {}, 5, None),
        ("on-change", {"boot": EARLIER, "agent_start": "before"}, 9, None),
        ("once", {"boot": EARLIER, "agent_start": "before"}, 9, None),
        ("per-boot", {}, 9, None),
        ("per-boot", {"agent_start": "before"}, 9, None),
        ("per-boot", {"boot": EARLIER}, 5, "boot"),
        ("per-boot", {"boot": EARLIER, "other_boot": BOOT}, 5, None),
        ("per-boot", {"boot": EARLIER, "other_boot": EARLIER}, 5, "boot"),
        ("always", {}, 5, None),
        ("always", {"agent_start": "before"}, 5, "agent-start"),
        ("always", {"boot": EARLIER, "agent_start": "before"}, 5, "agent-start"),
        ("always", {}, 6, "changed"),
        ("always", {"changed": 9}, 6, None),
        ("always", {"policy": "on-change"}, 5, "changed"),
    ],
)
def test_repeats(policy: str, last: dict[str, Any], changed: int, expected: str | None, verdict: str) -> None:
    item = script("true", policy=policy)
    decision = decide(parsed(item, changed=changed), ran(item, verdict, **last), now())
    assert started(decision) == (None if expected is None else ("base", expected))
    assert minted(decision) == []


@pytest.mark.parametrize("since,expected,wake", [(29.0, None, NOW + 1), (30.0, "interval", None), (31.0, "interval", None)])
def test_an_interval_counts_from_the_end_of_the_last_run(since: float, expected: str | None, wake: float | None) -> None:
    item = script("true", policy="always", interval=30)
    decision = decide(parsed(item), ran(item, ended=NOW - since), now())
    assert started(decision) == (None if expected is None else ("base", expected))
    assert decision.wake_at == wake


def test_a_generation_that_ended_without_any_run_here_does_not_repeat() -> None:
    item = script("true", policy="always")
    memory = Memory(done={item["generation"]: Done(item["deployment"], 1, "COMPLETE")})
    assert decide(parsed(item), memory, now()) == Decision()


@pytest.mark.parametrize(
    "dependency,expected",
    [
        ({"boot": BOOT}, "b"),
        ({"boot": BOOT, "verdict": "FAILED"}, None),
        ({"boot": EARLIER}, "a"),
        ({"boot": EARLIER, "other_boot": BOOT}, "b"),
    ],
)
def test_after_a_boot_a_per_boot_item_waits_for_its_per_boot_dependencies(dependency: dict[str, Any], expected: str | None) -> None:
    first = script("true", name="a", policy="per-boot")
    second = {**script("true", name="b", policy="per-boot"), "after": [first["deployment"]]}
    memory = both(ran(first, **dependency), ran(second, boot=EARLIER))
    found = started(decide(parsed(first, second, fetched=None), memory, now()))
    assert (found[0] if found else None) == expected


def test_a_policy_seen_in_this_boot_is_noted_once_and_only_from_a_fetched_document() -> None:
    item = script("true")
    assert decide(parsed(item), ran(item), now()).other_policy == (item["deployment"],)
    assert decide(parsed(item), ran(item, other_boot=BOOT), now()).other_policy == ()
    assert decide(parsed(item, fetched=None), ran(item), now()).other_policy == ()
    assert decide(parsed({**item, "policy": "per-boot"}), ran(item), now()).other_policy == ()


# -- a lost memory


def observed(item: dict[str, Any], status: str, **last: Any) -> dict[str, Any]:
    known = {"run": str(uuid.uuid4()), "generation": item["generation"], "boot": EARLIER, "changed": 5, **last}
    seen = {"status": status, "phase": None, "generation": item["generation"], "last": known if last else None}
    return {item["deployment"]: seen}


@pytest.mark.parametrize("status", ["COMPLETE", "FAILED"])
def test_what_the_appliance_calls_finished_is_adopted_and_not_asked_for(status: str) -> None:
    item = script("true")
    decision = decide(parsed(item, observed=observed(item, status)), Memory(), now())
    assert [(found.generation, found.verdict) for found in decision.adopt] == [(item["generation"], status)]
    assert (decision.mint, decision.start) == ((), None)


def test_an_older_generation_that_is_finished_is_no_reason_to_adopt_the_new_one() -> None:
    old = script("true")
    new = again(old)
    decision = decide(parsed(new, observed=observed(old, "COMPLETE")), Memory(), now())
    assert (decision.adopt, minted(decision)) == ((), [new["generation"]])


def test_the_last_run_the_appliance_knows_becomes_the_memory_of_this_boot() -> None:
    item = script("true", policy="per-boot")
    document = parsed(item, observed=observed(item, "COMPLETE", boot=BOOT))
    assert decide(document, Memory(), now()).adopt[0].last is not None
    assert decide(document, ran(item, boot=EARLIER), now()).adopt[0].last is not None
    assert decide(document, ran(item), now()).adopt == ()
    assert decide(parsed(item, observed=observed(item, "COMPLETE", boot=EARLIER)), ran(item), now()).adopt == ()


def test_a_granted_run_is_not_overtaken_by_what_the_appliance_says_meanwhile() -> None:
    item = script("true")
    decision = decide(parsed(item, observed=observed(item, "COMPLETE")), Memory(runs=(live(item),)), now())
    assert (decision.adopt, started(decision)) == ((), ("base", None))


def test_a_result_that_the_appliance_lost_is_named() -> None:
    item = script("true")
    assert unreported(parsed(item, observed=observed(item, "IN_PROGRESS")), ran(item)) == [item["generation"]]
    assert unreported(parsed(item, observed=observed(item, "COMPLETE")), ran(item)) == []
    assert unreported(parsed(item, observed=observed(again(item), "IN_PROGRESS")), ran(item)) == []


# -- documents


@pytest.mark.parametrize(
    "known,found,refused",
    [
        (None, (1, "a"), False),
        ((1, "a"), (1, "a"), False),
        ((1, "a"), (2, "b"), False),
        ((2, "b"), (1, "a"), True),
        ((1, "a"), (1, "b"), True),
    ],
)
def test_an_epoch_never_goes_back(known: tuple[int, str] | None, found: tuple[int, str], refused: bool) -> None:
    assert (acceptable(Epoch(*known) if known else None, Epoch(*found)) is not None) is refused


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"server": {}}', b'{"server": {"id": "../x"}, "desired": {}}',
        json.dumps({"server": {"id": SERVER}, "epoch": {"number": 1, "id": "e"}, "desired": {"changed": 1, "items": [1]}}).encode(),
        json.dumps({"server": {"id": SERVER}, "epoch": {"number": 1, "id": "e"}, "desired": {"changed": 1, "items": {}}}).encode(),
        json.dumps({"server": {"id": SERVER}, "epoch": None, "desired": {"changed": 1, "items": []}}).encode(),
    ],
)  # fmt: skip
def test_a_bad_document_is_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(documents.BadDocument):
        documents.parse(body)


@pytest.mark.parametrize(
    "change",
    [
        {"deployment": "../../etc/passwd"}, {"generation": None}, {"policy": "sometimes"}, {"config": "x"},
        {"timeout": -1}, {"timeout": True}, {"attempt": "1"}, {"after": ["x"]}, {"blocked_on": [1]},
    ],
)  # fmt: skip
def test_a_bad_item_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(documents.BadDocument):
        parsed({**script("true"), **change})


def test_unknown_fields_are_no_error() -> None:
    assert parsed({**script("true"), "from_the_future": {"x": 1}}).items[0].name == "base"
