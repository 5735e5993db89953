"""Every rule of how one event moves a deployment, as tables."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.deployment import Memory, Standing, Verdict, begin, cycle, finished, granted, judge, run_order, started, waiting

A, B = b"a" * 32, b"b" * 32
PENDING = waiting(blocked=False)
BLOCKED = waiting(blocked=True)
GRANTED = granted(PENDING, "r1", follows=False)
RUNNING = started(GRANTED, "r1", None)
DONE = finished(RUNNING, "r1", Verdict("COMPLETE", None, "complete"))
FAILED = finished(RUNNING, "r1", Verdict("FAILED", "exit", "exited with status 1"))
HELD = begin("once", Memory(must_run=False, started=True, completed=A, completed_generation="g"), B, DONE, blocked=False, busy=False)


def words(standing):
    parts = [standing.phase or standing.status, standing.reason, "held" if standing.held else None]
    return " ".join(part for part in parts if part)


def remembered(text, fingerprint=A):
    """A memory in words: ran (to the end, with A), failed (after that), unfinished (started only), owed (a rerun waits)."""
    memory = Memory(must_run="owed" in text or "new" in text)
    if "ran" in text:
        memory = Memory("g1", fingerprint, False, "owed" in text, True)
    if "failed" in text:
        memory = Memory("g1" if "ran" in text else None, fingerprint if "ran" in text else None, True, "owed" in text, True)
    if "unfinished" in text:
        memory = Memory(must_run=False, started=True)
    if "untouched" in text:
        memory = Memory(must_run=False)
    return memory


#   policy       memory           fingerprint  before   busy    -> stands
BEGIN = [
    ("on-change", "new",            A, None,    False, "pending"),
    ("on-change", "ran",            B, DONE,    False, "pending"),
    ("on-change", "ran",            A, DONE,    False, "COMPLETE"),
    ("on-change", "ran",            A, PENDING, False, "COMPLETE"),
    ("on-change", "ran",            A, BLOCKED, False, "COMPLETE"),
    ("on-change", "ran",            A, GRANTED, True,  "pending"),
    ("on-change", "ran",            A, RUNNING, True,  "pending"),
    ("on-change", "ran failed",     A, FAILED,  False, "pending"),
    ("on-change", "failed",         A, FAILED,  False, "pending"),
    ("on-change", "ran owed",       A, DONE,    False, "pending"),
    ("on-change", "ran owed",       B, DONE,    False, "pending"),
    ("per-boot",  "ran",            A, DONE,    False, "COMPLETE"),
    ("per-boot",  "ran",            B, DONE,    False, "pending"),
    ("always",    "ran",            A, DONE,    False, "COMPLETE"),
    ("always",    "ran",            B, DONE,    False, "pending"),
    ("once",      "new",            A, None,    False, "pending"),
    ("once",      "untouched",      B, PENDING, False, "pending"),
    ("once",      "untouched",      B, GRANTED, True,  "pending"),
    ("once",      "unfinished",     B, RUNNING, True,  "running held"),
    ("once",      "ran",            B, DONE,    False, "COMPLETE held"),
    ("once",      "ran",            A, HELD,    False, "COMPLETE held"),
    ("once",      "ran",            B, PENDING, False, "COMPLETE held"),
    ("once",      "failed",         B, FAILED,  False, "FAILED exit held"),
    ("once",      "failed",         B, PENDING, False, "FAILED interrupted held"),
    ("once",      "ran owed",       B, DONE,    False, "pending"),
    ("once",      "failed owed",    A, FAILED,  False, "pending"),
]  # fmt: skip


@pytest.mark.parametrize("policy, memory, fingerprint, before, busy, stands", BEGIN)
def test_where_a_deployment_stands_on_a_new_generation(policy, memory, fingerprint, before, busy, stands):
    found = begin(policy, remembered(memory), fingerprint, before, blocked=False, busy=busy)
    assert words(found) == stands
    blocked = begin(policy, remembered(memory), fingerprint, before, blocked=True, busy=busy)
    assert words(blocked) == ("blocked" if stands == "pending" else stands)


#  before   event                                                    -> stands
EVENTS = [
    (PENDING, lambda s: granted(s, "r1", follows=False),                "granted"),
    (PENDING, lambda s: started(s, "r1", None),                         "running"),
    (GRANTED, lambda s: started(s, "r1", None),                         "running"),
    (RUNNING, lambda s: started(s, "r1", None),                         "running"),
    (DONE,    lambda s: started(s, "r1", None),                         "COMPLETE"),
    (FAILED,  lambda s: started(s, "r1", None),                         "FAILED exit"),
    (DONE,    lambda s: started(s, "r2", "boot"),                       "COMPLETE"),
    (FAILED,  lambda s: started(s, "r2", "boot"),                       "FAILED exit"),
    (PENDING, lambda s: started(s, "r2", "boot"),                       "running"),
    (GRANTED, lambda s: finished(s, "r1", Verdict("COMPLETE", None, "")), "COMPLETE"),
    (RUNNING, lambda s: finished(s, "r1", Verdict("FAILED", "timeout", "")), "FAILED timeout"),
    (FAILED,  lambda s: finished(s, "r2", Verdict("COMPLETE", None, "")), "COMPLETE"),
    (HELD,    lambda s: finished(s, "r2", Verdict("FAILED", "exit", "")), "FAILED exit held"),
]  # fmt: skip


@pytest.mark.parametrize("before, event, stands", EVENTS)
def test_where_an_event_of_a_run_leaves_it(before, event, stands):
    after = event(before)
    assert words(after) == stands
    assert (after.status == "IN_PROGRESS") == (after.phase is not None)
    assert (after.status == "FAILED") == (after.reason is not None)


def test_a_repeat_is_shown_beside_the_status_until_it_ends():
    beside = started(DONE, "r2", "interval")
    assert (beside.status, beside.run, beside.repeating) == ("COMPLETE", "r1", "r2")
    over = finished(beside, "r2", Verdict("FAILED", "exit", "exited with status 1"))
    assert (over.status, over.run, over.repeating) == ("FAILED", "r2", None)


def test_the_sentence_of_what_is_held_says_so_once_however_often_it_is_changed():
    standing, memory = DONE, remembered("ran")
    for _ in range(3):
        standing = begin("once", memory, B, standing, blocked=False, busy=False)
    assert standing.sentence.count("changed since it ran") == 1
    assert finished(standing, "r2", Verdict("COMPLETE", None, "complete")).sentence == standing.sentence


def test_complete_at_once_names_the_run_that_did_it_unless_something_else_was_shown():
    assert begin("on-change", remembered("ran"), A, DONE, blocked=False, busy=False).run == "r1"
    assert begin("on-change", remembered("ran"), A, PENDING, blocked=False, busy=False).run is None


@pytest.mark.parametrize("phase", ["blocked", "pending", "delivered", "granted", "running", "rebooting", "overdue"])
def test_what_is_ungranted(phase):
    assert Standing("IN_PROGRESS", phase, None, "").ungranted == (phase in ("blocked", "pending", "delivered"))


@pytest.mark.parametrize("policy", ["on-change", "once", "per-boot", "always"])
def test_what_must_run_runs_whatever_else_is_true(policy):
    for text, fingerprint, before, busy in itertools.product(
        ("ran owed", "failed owed"), (A, B), (None, DONE, FAILED, RUNNING), (True, False)
    ):
        assert words(begin(policy, remembered(text), fingerprint, before, blocked=False, busy=busy)) == "pending"


# ---------------------------------------------------------------------------------------------------- outcomes

#   outcome       status  outputs         flagged   -> verdict
JUDGED = [
    ("ended",       0,    {},              [],       "COMPLETE", None),
    ("ended",       None, {},              [],       "COMPLETE", None),
    ("ended",       "0",  {},              [],       "COMPLETE", None),
    ("ended",       3,    {"x": 1},        [],       "FAILED", "exit"),
    ("ended",       "3",  {},              [],       "FAILED", "exit"),
    ("ended",       -9,   {},              [],       "FAILED", "exit"),
    ("ended",       "",   {},              [],       "FAILED", "exit"),
    ("ended",       0,    {"error": "bad"}, ["error"], "FAILED", "error-output"),
    ("ended",       0,    {"error": ""},   ["error"], "FAILED", "error-output"),
    ("ended",       0,    {"error": None}, ["error"], "FAILED", "error-output"),
    ("ended",       0,    {"other": "x"},  ["error"], "COMPLETE", None),
    ("ended",       3,    {"error": "bad"}, ["error"], "FAILED", "exit"),
    ("timeout",     0,    {},              [],       "FAILED", "timeout"),
    ("interrupted", None, {},              [],       "FAILED", "interrupted"),
    ("no-hook",     None, {},              [],       "FAILED", "no-hook"),
    ("invalid",     None, {},              [],       "FAILED", "invalid"),
]  # fmt: skip


@pytest.mark.parametrize("outcome, code, outputs, flagged, status, reason", JUDGED)
def test_sem_11_what_a_run_came_to(outcome, code, outputs, flagged, status, reason):
    verdict = judge(outcome, code, outputs, flagged, None, 60)
    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.sentence


def test_a_verdict_is_a_short_sentence_however_long_the_output():
    assert len(judge("ended", 0, {"error": "x" * 100_000}, ["error"], None, None).sentence) < 300
    assert "60 s" in judge("timeout", None, {}, [], None, 60).sentence
    assert judge("invalid", None, {}, [], "line 1 is no #! line", None).sentence == "line 1 is no #! line"


# ---------------------------------------------------------------------------------------------------- order


def order(**needs):
    return run_order((name, name, n, after) for n, (name, after) in enumerate(needs.items()))


def test_sem_08_dependencies_come_first_then_names():
    assert order(d="", b="a", a="", c="a") == ["a", "b", "c", "d"]
    assert order(a="bc", b="d", c="d", d="") == ["d", "b", "c", "a"]


def test_sem_09_names_stand_in_byte_order_and_equal_ones_by_age():
    names = ["é", "a", "B", "9", "10", "a"]
    items = [(f"id-{n}", name, n, []) for n, name in enumerate(names)]
    expected = ["10", "9", "B", "a", "a", "é"]
    for shuffled in itertools.permutations(items):
        found = run_order(shuffled)
        assert [names[int(id[3:])] for id in found] == expected
        assert found.index("id-1") < found.index("id-5")


def test_what_depends_on_others_than_these_is_still_listed():
    assert order(b="ax", a="y") == ["a", "b"]


def test_a_deployment_without_a_name_comes_first():
    assert run_order([("x", "a", 1, []), ("y", None, 2, [])]) == ["y", "x"]


graphs = st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefghxyz"), max_size=4), max_size=8)


@given(graphs)
def test_an_order_keeps_every_dependency_and_leaves_out_only_what_a_circle_holds_up(edges):
    found = run_order((id, id, 0, needs) for id, needs in edges.items())
    assert len(found) == len(set(found))
    for n, id in enumerate(found):
        assert edges[id] & edges.keys() <= set(found[:n])
    stuck = edges.keys() - set(found)
    assert bool(stuck) == any(cycle(edges, id) for id in edges)
    for id in edges:
        path = cycle(edges, id)
        if path:
            assert path[0] == id
            assert all(after in edges[before] for before, after in itertools.pairwise([*path, id]))
