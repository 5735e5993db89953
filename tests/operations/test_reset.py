"""`server reset`: everything runs again, in one commit."""

import pytest

from appliance.errors import NotFound

from .site import script


def test_a_reset_makes_a_create_of_everything_in_one_commit(site, m):
    for name, policy in (("a", "on-change"), ("b", "once"), ("c", "per-boot"), ("d", "always")):
        site.deploy(f"m/{name}", policy=policy)
        m.runs(name)
    assert site.reset("m") == 4
    made = [site.of(f"m/{name}").generation for name in "abcd"]
    assert [(one.action, one.cause, one.number) for one in made] == [("CREATE", "reset", 2)] * 4
    assert len({one.commit for one in made}) == 1
    assert site.stands("m/a", "m/b", "m/c", "m/d") == ["pending"] * 4
    assert site.row("m").agent_state is None


def test_open_runs_end_interrupted_and_their_late_reports_have_no_effect(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    started, granted = m.granted("a"), m.granted("b")
    m.starts(started)
    site.reset("m")
    assert [(run.status, run.reason) for name in "ab" for run in site.runs(f"m/{name}")] == [("FAILED", "interrupted")] * 2
    assert site.runs("m/b")[0].started_at is None
    assert [m.ends(started).effect, m.starts(granted).effect] == ["none", "none"]
    assert site.stands("m/a", "m/b") == ["pending", "pending"]


def test_nothing_is_remembered_of_the_machine_before(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.reset("m")
    memory = site.of("m/a").memory
    assert (memory.started, memory.completed, memory.last_run, memory.must_run) == (False, None, None, True)
    assert m.document()["observed"]["items"][site.of("m/a").id]["last"] is None


def test_an_edit_before_the_first_run_after_a_reset_is_still_a_create(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.reset("m")
    site.edit("m/a", config=script("new"))
    assert m.inputs("a")["deploy_action"] == "CREATE"


def test_dependencies_hold_after_a_reset_whatever_the_order_of_the_names(site, m):
    other = site.machine("other")
    site.deploy_all([("m/z", None, {}), ("m/a", None, {"depends_on": ["m/z"]}), ("other/x", None, {"depends_on": ["m/a"]})])
    m.runs("z")
    m.runs("a")
    site.reset("m")
    assert site.stands("m/z", "m/a", "other/x") == ["pending", "blocked", "blocked"]
    m.runs("z")
    m.runs("a")
    other.runs("x")
    site.reset("m")
    assert site.stands("m/z", "m/a", "other/x") == ["pending", "blocked", "COMPLETE"]


def test_deleted_deployments_stay_deleted(site, m):
    id = site.deploy("m/a")
    site.delete("m/a")
    assert site.reset("m") == 0
    assert m.tombstones() == [id]


def test_whoever_speaks_next_is_the_machine(site, m):
    site.deploy("m/a")
    site.reset("m")
    other = m.copy(agent_state="state-7", boot="boot-7", journal=1)
    assert other.claim("a") == ["granted"]
    assert site.row("m").agent_state == "state-7"


def test_a_reset_of_nothing_is_not_found(site):
    with pytest.raises(NotFound):
        site.reset("nothing")
