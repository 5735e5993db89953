"""A switch moves the deployments that use what it changes, in its own commit, and no others."""

import pytest

from appliance.errors import Conflict, Invalid, NotFound
from appliance.operations import plans
from appliance.operations.plans import DeletePlan

from ..samples import push, roll_back, switch_to
from .site import from_plan, script

A1, A2, B = b"#!/bin/sh\necho a1\n", b"#!/bin/sh\necho a2\n", b"#!/bin/sh\necho b\n"


@pytest.fixture
def lab(site, m):
    """Plan `lab` with versions 1 and 2, which differ in `a`; `m/a` and `m/b` use a file each, and version 1 is current."""
    push(site.database, "lab", {"a": A1, "b": B, "other": b"1"})
    push(site.database, "lab", {"a": A2, "b": B, "other": b"2"})
    switch_to(site.database, "lab", 1)
    site.deploy("m/a", from_plan("lab", "a"))
    site.deploy("m/b", from_plan("lab", "b"))
    return site.database


def test_ato_02_a_switch_makes_a_generation_of_exactly_the_users_of_what_it_changed_in_its_own_commit(site, m, lab):
    m.runs("a")
    m.runs("b")
    done = switch_to(lab, "lab", 2)
    assert done.deployments == [site.of("m/a").id]
    one = site.of("m/a")
    assert (site.stands("m/a", "m/b"), one.generation.number, site.number("m/b")) == (["pending", "COMPLETE"], 2, 1)
    assert (one.generation.cause, one.generation.detail) == ("switch", "file lab:a changed (version 2)")
    commits = "SELECT (SELECT max(commit_no) FROM switch), (SELECT max(commit_no) FROM generation), (SELECT changed FROM server)"
    assert len(set(lab.read(lambda tx: tx.row(commits)))) == 1
    assert m.item("a")["config"]["config"] == A2.decode()


def test_bytes_that_did_not_change_make_none(site, m, lab):
    push(lab, "lab", {"a": ("executable", A1), "b": B, "new": b"x"})
    etag = m.etag()
    assert switch_to(lab, "lab", 3).deployments == []
    assert m.etag() == etag


def test_a_switch_by_mistake_and_back_runs_nothing(site, m, lab):
    m.runs("a")
    switch_to(lab, "lab", 2)
    switch_to(lab, "lab", 1)
    assert (site.stands("m/a"), site.number("m/a"), m.claim("a")) == ("COMPLETE", 3, ["claimed"])


def test_a_rollback_by_mistake_and_back_runs_nothing_either(site, m, lab):
    m.runs("a")
    switch_to(lab, "lab", 2)
    roll_back(lab, "lab")
    assert site.stands("m/a") == "COMPLETE"


def test_a_rollback_of_what_ran_runs_the_older_one(site, m, lab):
    m.runs("a")
    switch_to(lab, "lab", 2)
    m.runs("a")
    assert roll_back(lab, "lab").deployments == [site.of("m/a").id]
    assert (site.stands("m/a"), m.item("a")["config"]["config"]) == ("pending", A1.decode())


def test_back_while_the_mistake_is_granted_waits_for_the_machines_word(site, m, lab):
    m.runs("a")
    switch_to(lab, "lab", 2)
    ask = m.granted("a")
    switch_to(lab, "lab", 1)
    assert site.stands("m/a") == "pending"
    m.releases(ask)
    assert site.stands("m/a") == "COMPLETE"


@pytest.mark.parametrize("code", [0, 1])
def test_back_while_the_mistake_runs_runs_what_is_wanted_afterwards(site, m, lab, code):
    m.runs("a")
    switch_to(lab, "lab", 2)
    ask = m.granted("a")
    m.starts(ask)
    switch_to(lab, "lab", 1)
    assert m.ends(ask, code).effect == "none"
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_back_while_a_rerun_waits_keeps_the_rerun(site, m, lab):
    m.runs("a")
    site.rerun("m/a")
    switch_to(lab, "lab", 2)
    switch_to(lab, "lab", 1)
    assert site.stands("m/a") == "pending"


def test_what_never_ran_waits_on_its_newest_generation(site, m, lab):
    switch_to(lab, "lab", 2)
    assert (site.stands("m/a"), site.number("m/a"), m.inputs("a")["deploy_action"]) == ("pending", 2, "CREATE")


def test_a_switch_blocks_what_waits_for_what_it_moved(site, m, lab):
    m.runs("a")
    site.deploy("m/c", depends_on=["m/a"])
    assert site.stands("m/c") == "pending"
    switch_to(lab, "lab", 2)
    assert site.stands("m/c") == "blocked"
    switch_to(lab, "lab", 1)
    assert site.stands("m/c") == "pending"


def test_a_held_once_deployment_is_moved_and_not_run(site, m, lab):
    site.deploy("m/o", from_plan("lab", "a"), policy="once")
    m.runs("o")
    switch_to(lab, "lab", 2)
    assert (site.stands("m/o"), m.claim("o")) == ("COMPLETE held", ["claimed"])


@pytest.mark.parametrize(
    "files, kind, words",
    [
        ({"b": B}, Conflict, "no file 'a'"),
        ({"a": b"#!/bin/sh\n\xff\n", "b": B}, Invalid, "line 2, column 1"),
        ({"a": b"echo a\n", "b": B}, Invalid, "line 1"),
        ({"a": b"#!/bin/sh\r\n", "b": B}, Invalid, "CR LF"),
        ({"a": ("symlink", b"b"), "b": B}, Invalid, "symlink"),
        ({"a": b"", "b": B}, Invalid, "empty"),
        ({"a": b"#!/bin/sh\n" + b"x" * (1 << 20), "b": B}, Invalid, "bytes"),
    ],
)
def test_ato_07_a_version_that_could_not_run_is_refused_and_nothing_is_switched(site, m, lab, files, kind, words):
    push(lab, "lab", files)
    before = site.rows()
    with pytest.raises(kind) as caught:
        switch_to(lab, "lab", 3)
    assert words in caught.value.message
    assert "m/a uses it" in caught.value.message
    assert site.rows() == before


def test_a_plan_cannot_be_deleted_while_it_is_used(site, m, lab):
    with pytest.raises(Conflict) as caught:
        lab.write(plans.delete_plan, DeletePlan("lab", "ann"))
    assert "m/a" in caught.value.message
    site.delete("m/a", "m/b")
    lab.write(plans.delete_plan, DeletePlan("lab", "ann"))


def test_the_same_bytes_from_another_place_run_nothing_and_follow_that_place(site, m, lab):
    m.runs("a")
    push(lab, "copy", {"x": A1})
    switch_to(lab, "copy", 1)
    done = site.edit("m/a", config=from_plan("copy", "x"))
    assert (done.changes, site.stands("m/a"), site.number("m/a")) == (["the body comes from another place"], "COMPLETE", 1)
    assert switch_to(lab, "lab", 2).deployments == []
    assert m.item("a")["config"]["config"] == A1.decode()
    push(lab, "copy", {"x": A2})
    assert switch_to(lab, "copy", 2).deployments == [site.of("m/a").id]
    assert m.item("a")["config"]["config"] == A2.decode()


def test_a_script_that_moves_into_a_plan_while_it_runs_does_not_run_again(site, m, lab):
    site.deploy("m/s", script("echo hello"))
    ask = m.granted("s")
    m.starts(ask)
    push(lab, "copy", {"s": b"#!/bin/sh\necho hello\n"})
    switch_to(lab, "copy", 1)
    site.edit("m/s", config=from_plan("copy", "s"))
    assert (site.stands("m/s"), site.number("m/s")) == ("running", 1)
    m.ends(ask)
    assert (site.stands("m/s"), m.item("s")["config"]["config"]) == ("COMPLETE", "#!/bin/sh\necho hello\n")


def test_a_plan_with_nothing_current_or_nothing_of_that_name_cannot_be_deployed(site, m):
    push(site.database, "lab", {"a": A1})
    with pytest.raises(Conflict, match="no current version"):
        site.deploy("m/a", from_plan("lab", "a"))
    switch_to(site.database, "lab", 1)
    with pytest.raises(NotFound, match="no file 'x'"):
        site.deploy("m/a", from_plan("lab", "x"))
    with pytest.raises(Exception, match="no plan"):
        site.deploy("m/a", from_plan("nothing", "a"))


def test_a_run_uses_the_bytes_it_was_granted_and_they_are_pinned(site, m, lab):
    m.granted("a")
    pinned = site.value("SELECT count(*) FROM pin WHERE generation = ?", site.of("m/a").generation.id)
    assert pinned == 1
