"""Actions: what there is work for, suspending and resuming, and deleting with work."""

import pytest

from appliance.errors import Conflict, Gone, Invalid, NotFound
from appliance.operations import servers, stock

from ..samples import KEY
from .site import script

ALL = ["CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME"]


def action(site, ref):
    return site.of(ref).generation.action


def gone(site, ref):
    with pytest.raises((Gone, NotFound)):
        site.of(ref)
    return True


# ---------------------------------------------------------------------------------------------------- no work


def test_sem_18_suspending_what_has_no_work_for_it_is_complete_at_once(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.suspend("m/a")
    assert (site.stands("m/a"), action(site, "m/a"), site.number("m/a")) == ("COMPLETE", "SUSPEND", 2)
    assert site.of("m/a").standing.sentence == "nothing to do for SUSPEND"
    assert m.claim("a") == ["claimed"]
    site.resume("m/a")
    assert (site.stands("m/a"), site.of("m/a").standing.sentence) == ("COMPLETE", "nothing to do for RESUME")
    assert len(site.runs("m/a")) == 1


def test_what_has_no_work_for_create_runs_at_its_first_update(site, m):
    site.deploy("m/a", actions=["UPDATE"])
    assert (site.stands("m/a"), site.of("m/a").standing.sentence) == ("COMPLETE", "nothing to do for CREATE")
    site.edit("m/a", config=script("echo other"))
    assert (site.stands("m/a"), action(site, "m/a")) == ("pending", "UPDATE")


def test_an_update_of_what_has_none_for_it_leaves_a_run_under_way_to_decide(site, m):
    site.deploy("m/a", actions=["CREATE"])
    ask = m.granted("a")
    m.starts(ask)
    site.edit("m/a", config=script("echo other"))
    assert site.stands("m/a") == "running"
    m.ends(ask, 3)
    assert site.stands("m/a") == "FAILED exit"
    site.rerun("m/a")
    assert (site.stands("m/a"), action(site, "m/a")) == ("pending", "CREATE")


def test_actions_are_changed_without_a_run(site, m):
    site.deploy("m/a")
    m.runs("a")
    assert site.edit("m/a", actions=["DELETE", "CREATE"]).changes == ["actions CREATE, DELETE"]
    assert site.stands("m/a") == "COMPLETE"
    with pytest.raises(Invalid):
        site.edit("m/a", actions=[])


# ---------------------------------------------------------------------------------------------------- suspend and resume


def test_suspending_and_resuming_run_their_work(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.suspend("m/a")
    assert (site.stands("m/a"), m.inputs("a")["deploy_action"]) == ("pending", "SUSPEND")
    with pytest.raises(Conflict):
        site.suspend("m/a")
    with pytest.raises(Conflict):
        site.resume("m/a")
    m.runs("a")
    with pytest.raises(Conflict) as caught:
        site.suspend("m/a")
    assert "suspended already" in caught.value.message
    site.resume("m/a")
    assert m.inputs("a")["deploy_action"] == "RESUME"
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"
    with pytest.raises(Conflict):
        site.resume("m/a")
    assert [run.status for run in site.runs("m/a")] == ["COMPLETE"] * 3


def test_only_what_is_complete_is_suspended(site, m):
    site.deploy("m/a", actions=ALL)
    with pytest.raises(Conflict) as caught:
        site.suspend("m/a")
    assert "only what is COMPLETE" in caught.value.message
    m.runs("a", code=1)
    with pytest.raises(Conflict):
        site.suspend("m/a")


def test_a_failed_suspend_is_rerun_suspended_again_or_resumed(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.suspend("m/a")
    m.runs("a", code=1)
    site.rerun("m/a")
    assert action(site, "m/a") == "SUSPEND"
    m.runs("a", code=1)
    site.suspend("m/a")
    m.runs("a", code=1)
    site.resume("m/a")
    assert (action(site, "m/a"), site.stands("m/a")) == ("RESUME", "pending")


def test_the_machine_has_left_what_was_suspended_with_work(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.suspend("m/a")
    m.runs("a")
    site.edit("m/a", config=script("echo other"))
    site.edit("m/a", config=script())
    assert site.stands("m/a") == "pending"
    m.runs("a")
    site.suspend("m/a")
    m.runs("a")
    site.resume("m/a")
    m.runs("a")
    site.edit("m/a", config=script("echo other"))
    site.edit("m/a", config=script())
    assert site.stands("m/a") == "COMPLETE"


# ---------------------------------------------------------------------------------------------------- delete with work


def test_deleting_runs_the_work_and_then_it_is_gone(site, m):
    id = site.deploy("m/a", actions=ALL)
    m.runs("a")
    assert site.delete("m/a") == [id]
    assert (site.stands("m/a"), m.inputs("a")["deploy_action"], m.tombstones()) == ("pending", "DELETE", [])
    with pytest.raises(Conflict) as caught:
        site.delete("m/a")
    assert "is being deleted already (pending)" in caught.value.message
    with pytest.raises(Conflict):
        site.edit("m/a", timeout=5)
    m.runs("a")
    assert gone(site, "m/a")
    assert m.tombstones() == [id]


def test_what_never_started_or_has_no_work_is_gone_at_once(site, m):
    site.deploy("m/a", actions=ALL)
    site.deploy("m/b")
    m.runs("b")
    assert site.delete("m/a", "m/b") == []
    assert gone(site, "m/a")
    assert gone(site, "m/b")


def test_what_was_granted_may_finish_before_its_delete_work(site, m):
    site.deploy("m/a", actions=ALL)
    ask = m.granted("a")
    site.delete("m/a")
    m.starts(ask)
    m.ends(ask)
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert gone(site, "m/a")


def test_failed_delete_work_stays_for_a_rerun_or_force(site, m):
    for name in "ab":
        site.deploy(f"m/{name}", actions=ALL)
        m.runs(name)
    site.delete("m/a", "m/b")
    for name in "ab":
        m.runs(name, code=1)
    assert site.stands("m/a", "m/b") == ["FAILED exit", "FAILED exit"]
    site.rerun("m/a")
    assert m.inputs("a")["deploy_action"] == "DELETE"
    m.runs("a")
    assert gone(site, "m/a")
    assert site.delete("m/b", force=True) == []
    assert gone(site, "m/b")


def test_sem_20_delete_work_nobody_does_is_lost_at_its_deadline(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    site.passes(4 * 3600 - 1)
    assert site.stands("m/a") == "pending"
    site.passes(1)
    assert site.stands("m/a") == "FAILED lost"
    assert site.of("m/a").standing.sentence.startswith("its DELETE work was not done in time; m was ")
    site.delete("m/a", force=True)
    assert gone(site, "m/a")


def test_sem_20_granted_delete_work_has_the_same_deadline_and_a_late_report_ends_it(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    site.passes(3600)
    ask = m.granted("a")
    site.passes(3 * 3600)
    assert site.stands("m/a") == "FAILED lost"
    m.ends(ask)
    assert gone(site, "m/a")


def test_sem_20_removing_the_server_never_waits(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    site.database.write(servers.remove, "m", "ann")
    assert gone(site, site.value("SELECT id FROM deployment"))


def test_of_those_deleted_together_dependants_go_first(site, m):
    site.deploy("m/a", actions=ALL)
    site.deploy("m/b", actions=ALL, depends_on=["m/a"])
    m.runs("a")
    m.runs("b")
    site.delete("m/a", "m/b")
    assert site.stands("m/a", "m/b") == ["blocked", "pending"]
    site.passes(4 * 3600 - 1)
    m.runs("b", code=1)
    assert site.stands("m/a", "m/b") == ["blocked", "FAILED exit"]
    site.delete("m/b", force=True)
    assert site.stands("m/a") == "pending"
    site.passes(4 * 3600 - 1)  # counted from when it was ready
    m.runs("a")
    assert gone(site, "m/a")


def test_what_others_need_is_not_deleted(site, m):
    site.deploy("m/a", actions=ALL)
    site.deploy("m/b", depends_on=["m/a"])
    with pytest.raises(Conflict):
        site.delete("m/a")


def test_a_reset_buries_what_was_being_deleted(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    site.reset("m")
    assert gone(site, site.value("SELECT id FROM deployment"))


def test_a_cancelled_deletion_stays_failed(site, m):
    site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    site.cancel("m/a")
    assert site.stands("m/a") == "FAILED cancelled"
    site.passes(10 * 3600)
    assert site.stands("m/a") == "FAILED cancelled"
    site.rerun("m/a")
    m.runs("a")
    assert gone(site, "m/a")


def test_a_stock_agent_does_delete_work_as_any_other(site):
    server = site.server("s", stock=True)
    site.deploy("s/a", actions=ALL)
    site.database.write(stock.deliver, KEY, server.id)
    site.database.write(stock.reported, site.runs("s/a")[-1], {"deploy_status_code": "0"})
    site.delete("s/a")
    site.database.write(stock.deliver, KEY, server.id)
    run = site.runs("s/a")[-1]
    site.database.write(stock.reported, run, {"deploy_status_code": "0"})
    assert gone(site, run.deployment)
