"""A preview of a switch tells what the switch then does: to each deployment, and to those that wait for it."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.errors import Conflict, Invalid
from appliance.operations import previews
from appliance.operations.switches import RollbackPlan, SwitchPlan, rollback, switch
from appliance.plan import Share, share

from ..samples import KEY, push, switch_to
from .site import Site, from_plan, new_site, script


def text(word):
    return f"#!/bin/sh\necho {word}\n".encode()


def switching(to, limit=None):
    return lambda tx: switch(tx, KEY, SwitchPlan("lab", str(to), None, False, "ann", limit))


def previewed(site, operation):
    """What a preview tells, which must have changed nothing."""
    before = site.rows()
    found = site.database.preview(previews.told, operation)
    assert site.rows() == before
    assert found.commit == site.database.commit_no
    return found.result


@pytest.fixture
def lab(site, m):
    """`lab` has versions 1 (current) and 2, which differ in `a` and `c`; `m/a` uses `a`, `m/b` `b`, and `m/after` comes after `m/a`."""
    push(site.database, "lab", {"a": text("a1"), "b": text("b"), "c": b"1"})
    push(site.database, "lab", {"a": text("a2"), "b": text("b")})
    switch_to(site.database, "lab", 1)
    site.deploy("m/a", from_plan("lab", "a"))
    site.deploy("m/b", from_plan("lab", "b"))
    site.deploy("m/after", script(), depends_on=["m/a"])
    return site


def test_it_tells_what_runs_and_which_file_is_why_and_what_waits_for_it(lab, m):
    m.runs("b")
    switched, effects = previewed(lab, switching(2))
    assert (switched.switch.version, switched.was, switched.changed, switched.removed) == (2, 1, 2, ["c"])
    assert [(one.label, one.does, one.moved, one.why, one.waits_for) for one in effects] == [
        ("m/a", "runs", True, "file lab:a changed (version 2)", []),
        ("m/after", "waits", False, None, ["m/a"]),
    ]
    assert lab.number("m/a") == 1


def test_it_tells_what_is_complete_at_once_and_what_is_held(lab, m):
    m.runs("a")
    m.runs("after")
    lab.deploy("m/once", from_plan("lab", "a"), policy="once")
    m.runs("once")
    _, effects = previewed(lab, switching(2))
    assert {one.label: one.does for one in effects} == {"m/a": "runs", "m/once": "held"}  # `m/after` is finished and stays so
    switch_to(lab.database, "lab", 2)
    _, effects = previewed(lab, lambda tx: rollback(tx, KEY, RollbackPlan("lab", None, False, "ann")))
    assert {one.label: one.does for one in effects} == {"m/a": "complete", "m/once": "held"}


def test_what_would_be_refused_is_refused_in_the_same_words(lab):
    push(lab.database, "lab", {"b": text("b")})
    for attempt in (lambda: previewed(lab, switching(3)), lambda: lab.database.write(switching(3))):
        with pytest.raises(Conflict, match="no file 'a' in version 3; m/a uses it, so nothing was switched"):
            attempt()


# ---------------------------------------------------------------------------------------------------- how many at most


@pytest.mark.parametrize(
    "limit, passes", [("0", False), ("1", False), ("2", True), ("39%", False), ("40%", True), ("100%", True), (2, True), (" 2 ", True)]
)
def test_a_switch_that_moves_more_than_it_may_is_refused_with_the_count(lab, limit, passes):
    lab.deploy("m/a2", from_plan("lab", "a"))
    lab.deploy("m/c", script())
    lab.deploy("m/gone", script())
    lab.delete("m/gone")
    before = lab.rows()
    if passes:
        assert len(lab.database.write(switching(2, share(limit, "max_affected"))).deployments) == 2
        return
    for attempt in (lab.database.write, lab.database.preview):
        with pytest.raises(Conflict, match=f"this moves 2 of 5 deployments, and the limit is {limit};") as refused:
            attempt(switching(2, share(limit, "max_affected")))
        assert refused.value.detail == {"affected": 2, "total": 5, "max_affected": limit}
    assert lab.rows() == before


def test_a_rollback_is_held_to_it_too(lab):
    switch_to(lab.database, "lab", 2)
    with pytest.raises(Conflict, match="this moves 1 of 3"):
        lab.database.write(rollback, KEY, RollbackPlan("lab", None, False, "ann", Share(0)))


@pytest.mark.parametrize("wrong", ["", "%", "-1", "1.5", "101%", "x", "1%%", "9" * 30, "٣"])
def test_what_is_no_share_is_refused(wrong):
    with pytest.raises(Invalid, match="neither a number nor a part of all"):
        share(wrong, "max_affected")


# ---------------------------------------------------------------------------------------------------- any lab

FILES = ("a", "b", "c")
FAST = next((place for place in ("/dev/shm",) if Path(place).is_dir()), None)  # where no disk is waited for
NAMES = [f"{server}/{number}" for server in ("m", "n") for number in range(3)]
VERSIONS = st.lists(
    st.fixed_dictionaries({path: st.sampled_from("xyz") for path in FILES}),
    min_size=2,
    max_size=3,
    unique_by=lambda one: tuple(one[path] for path in FILES),
)
DEPLOYMENTS = st.lists(
    st.tuples(
        st.sampled_from(FILES),
        st.sampled_from(["on-change", "once", "per-boot", "always"]),
        st.integers(0, 31),  # which of those before it this one comes after
        st.sampled_from(["nothing", "granted", "started", "complete", "failed"]),
    ),
    min_size=1,
    max_size=len(NAMES),
)


def furnish(site: Site, versions, wanted, path_taken) -> None:
    machines = {name: site.machine(name) for name in ("m", "n")}
    for version in versions:
        push(site.database, "lab", {path: text(word) for path, word in version.items()})
    switch_to(site.database, "lab", path_taken[0])
    for number, (path, policy, after, _) in enumerate(wanted):
        needs = [NAMES[other] for other in range(number) if after >> other & 1]
        site.deploy(NAMES[number], from_plan("lab", path), policy=policy, depends_on=needs)
    for to in path_taken[1:]:
        for number, (*_, progress) in enumerate(wanted):
            server, name = NAMES[number].split("/")
            if progress != "nothing" and site.stands(NAMES[number]) == "pending":
                advance(machines[server], name, progress)
        switch_to(site.database, "lab", to)


def advance(machine, name, progress) -> None:
    [ask] = machine.asks(name)
    if machine.claim_these([ask]) != ["granted"]:  # a `once` one waits for the word of its own earlier run
        return
    if progress != "granted":
        machine.starts(ask)
    if progress in ("complete", "failed"):
        machine.ends(ask, int(progress == "failed"))


@settings(max_examples=40, deadline=None)
@given(VERSIONS, DEPLOYMENTS, st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(0, 2))
def test_promise_8_a_preview_tells_what_the_apply_does_on_a_copy(versions, wanted, path_taken, target):
    """Also the rows: all that both leave is equal but for ids, which are minted anew."""
    numbers = [1 + step % len(versions) for step in [*path_taken, target]]
    with tempfile.TemporaryDirectory(dir=FAST) as place:
        for site in new_site(Path(place)):
            furnish(site, versions, wanted, numbers[:-1])
            there = NAMES[: len(wanted)]
            before = {name: site.of(name) for name in there}
            told, effects = previewed(site, switching(numbers[-1]))
            copy = Path(place) / "copy"
            copy.mkdir()
            site.database.write(lambda tx: None)
            site.database.close()
            shutil.copy(Path(place) / "lab.db", copy / "lab.db")
        for site in new_site(copy):
            done, again = site.database.write(lambda tx: previews.told(tx, switching(numbers[-1])))
            assert (told, effects) == (msgspec_without_commit(done, told), again)
            after = {name: site.of(name) for name in there}
            assert {one.label for one in effects if one.moved} == {n for n in there if after[n].generation.id != before[n].generation.id}
            for one in effects:
                standing = after[one.label].standing
                assert one.sentence == standing.sentence
                words = {"blocked": "waits", "pending": "runs"}
                assert one.does == ("held" if standing.held else words.get(str(standing.phase), "complete"))
            waiting = {name for name in there if after[name].standing.phase == "blocked" and before[name].standing.phase != "blocked"}
            assert waiting <= {one.label for one in effects}
            touched = {one.label for one in effects}
            assert all(after[name].standing == before[name].standing for name in there if name not in touched)


def msgspec_without_commit(done, told):
    """`done` with the commit number of the preview: the write above used one up."""
    import msgspec

    return msgspec.structs.replace(done, switch=msgspec.structs.replace(done.switch, commit=told.switch.commit))
