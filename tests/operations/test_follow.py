"""Following: a new generation of what is followed makes one of those that follow it, in the same commit."""

import pytest

from appliance.errors import Invalid

from ..samples import push, switch_to
from .site import from_plan, script


@pytest.fixture
def pair(site, m):
    site.deploy("m/a")
    site.deploy("m/b", follow=["m/a"])
    m.runs("a")
    m.runs("b")


def test_sem_07_a_follower_is_blocked_until_what_it_follows_is_complete_then_runs_once(site, m, pair):
    site.edit("m/a", config=script("echo other"))
    assert site.stands("m/a", "m/b") == ["pending", "blocked"]
    assert site.of("m/b").generation.cause == "follow"
    assert site.of("m/b").generation.detail == "m/a changed, which it follows"
    assert site.of("m/a").generation.commit == site.of("m/b").generation.commit
    m.runs("a")
    assert site.stands("m/b") == "pending"
    m.runs("b")
    assert site.stands("m/a", "m/b") == ["COMPLETE", "COMPLETE"]
    assert len(site.runs("m/b")) == 2


def test_sem_07_if_what_it_follows_fails_it_does_not_run(site, m, pair):
    site.rerun("m/a")
    m.runs("a", code=1)
    assert site.stands("m/b") == "blocked"
    assert len(site.runs("m/b")) == 1
    site.rerun("m/a")
    m.runs("a")
    assert (site.stands("m/b"), site.number("m/b")) == ("pending", 3)


def test_sem_07_without_follow_a_finished_one_stays_finished_and_an_ungranted_one_is_blocked_again(site, m):
    site.deploy("m/a")
    site.deploy("m/b", depends_on=["m/a"])
    site.deploy("m/c", depends_on=["m/a"])
    m.runs("a")
    m.runs("b")
    site.rerun("m/a")
    assert site.stands("m/b", "m/c") == ["COMPLETE", "blocked"]


def test_it_goes_on_along_a_chain_and_across_servers(site, m):
    other = site.machine("n")
    site.deploy("m/a")
    site.deploy("n/b", follow=["m/a"])
    site.deploy("m/c", follow=["n/b"])
    m.runs("a")
    other.runs("b")
    m.runs("c")
    site.rerun("m/a")
    assert site.stands("n/b", "m/c") == ["blocked", "blocked"]
    m.runs("a")
    other.runs("b")
    m.runs("c")
    assert [len(site.runs(ref)) for ref in ("m/a", "n/b", "m/c")] == [2, 2, 2]


def test_a_switch_by_mistake_and_back_runs_no_follower(site, m):
    one, two = b"#!/bin/sh\necho 1\n", b"#!/bin/sh\necho 2\n"
    push(site.database, "lab", {"a.sh": one})
    switch_to(site.database, "lab", 1)
    site.deploy("m/a", from_plan("lab", "a.sh"))
    site.deploy("m/b", follow=["m/a"])
    m.runs("a")
    m.runs("b")
    push(site.database, "lab", {"a.sh": two})
    switch_to(site.database, "lab", 2)
    assert site.stands("m/a", "m/b") == ["pending", "blocked"]
    switch_to(site.database, "lab", 1)
    assert site.stands("m/a", "m/b") == ["COMPLETE", "COMPLETE"]
    assert [len(site.runs(ref)) for ref in ("m/a", "m/b")] == [1, 1]


def test_what_is_complete_at_once_or_held_moves_nobody(site, m, pair):
    site.edit("m/a", timeout=5)
    assert site.number("m/b") == 1
    site.deploy("m/o", policy="once")
    site.deploy("m/f", follow=["m/o"])
    m.runs("o")
    m.runs("f")
    site.edit("m/o", config=script("echo other"))
    assert (site.stands("m/o"), site.stands("m/f"), site.number("m/f")) == ("COMPLETE held", "COMPLETE", 1)


def test_created_together_in_any_order_each_has_one_generation(site, m):
    site.deploy_all([("m/b", None, {"follow": ["m/a"]}), ("m/a", None, {})])
    assert (site.number("m/a"), site.number("m/b")) == (1, 1)
    m.runs("a")
    m.runs("b")
    assert site.stands("m/a", "m/b") == ["COMPLETE", "COMPLETE"]


def test_following_in_a_circle_is_refused(site, m):
    with pytest.raises(Invalid) as caught:
        site.deploy_all([("m/a", None, {"follow": ["m/b"]}), ("m/b", None, {"follow": ["m/a"]})])
    assert "circle" in caught.value.message


def test_a_reset_moves_followers_elsewhere(site, m):
    other = site.machine("n")
    site.deploy("m/a")
    site.deploy("m/b", follow=["m/a"])
    site.deploy("n/c", follow=["m/b"])
    m.runs("a")
    m.runs("b")
    other.runs("c")
    site.reset("m")
    assert site.stands("m/a", "m/b", "n/c") == ["pending", "blocked", "blocked"]
    m.runs("a")
    m.runs("b")
    other.runs("c")
    assert site.stands("n/c") == "COMPLETE"


def test_what_follows_another_is_changed_and_taken_away(site, m, pair):
    assert site.edit("m/b", depends_on=[]).changes == ["what it follows changed", "dependencies changed"]
    site.rerun("m/a")
    assert site.of("m/b").terms.follows == ()
    assert site.number("m/b") == 2
    assert site.edit("m/b", follow=["m/a"]).did == "updated"
    assert site.of("m/b").terms.follows == (site.of("m/a").id,)


def test_an_equal_update_of_a_follower_changes_nothing(site, m, pair):
    assert site.bring("m/b", update=True, follow=["m/a"]).did == "unchanged"
