"""`deploy --replace`: the old one goes, with its DELETE work, and a new one comes, in one commit."""

import pytest

from appliance.errors import Conflict, Gone
from appliance.operations import explain

from .site import script

ALL = ["CREATE", "UPDATE", "DELETE"]


def test_without_delete_work_the_new_one_is_there_at_once(site, m):
    old = site.deploy("m/a")
    m.runs("a")
    done = site.bring("m/a", script("echo new"), replace=True)
    assert (done.did, site.stands("m/a"), site.number("m/a")) == ("replaced", "pending", 1)
    assert done.id != old
    with pytest.raises(Gone):
        site.of(old)
    assert m.tombstones() == [old]
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_the_new_one_waits_for_the_delete_work_of_the_old_one(site, m):
    old = site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.bring("m/a", script("echo new"), replace=True)
    assert (site.stands("m/a"), site.of(old).standing.phase, site.of(old).leaving) == ("blocked", "pending", True)
    assert site.of("m/a").generation.commit == site.of(old).generation.commit
    assert [(item["deployment"] == old, item["action"]) for item in m.items()] == [(True, "DELETE"), (False, "CREATE")]
    site.edit("m/a", attempts=2)
    assert (site.stands("m/a"), site.bring("m/a", script("echo new"), update=True, attempts=2).did) == ("blocked", "unchanged")
    [ask] = [one for one in m.asks_of(m.items()) if one.deployment == old]
    m.claim_these([ask])
    m.starts(ask)
    m.ends(ask)
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_failed_delete_work_blocks_the_new_one_and_why_says_how_to_go_on(site, m):
    old = site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.bring("m/a", replace=True)
    site.cancel(old)
    why = site.database.read(explain.why, site.of("m/a"), None)
    assert (why.view.settled, why.next) == ("blocked", f"appliance deployment delete {old} --force")
    site.delete(old, force=True)
    assert site.stands("m/a") == "pending"


def test_what_others_need_is_not_replaced_and_nothing_is_changed(site, m):
    site.deploy("m/a")
    site.deploy("m/b", depends_on=["m/a"])
    before = site.rows()
    with pytest.raises(Conflict):
        site.bring("m/a", replace=True)
    assert site.rows() == before
    site.deploy_all([("m/a", None, {"replace": True}), ("m/b", None, {"replace": True, "depends_on": ["m/a"]})])
    m.runs("a")
    m.runs("b")


def test_where_there_is_none_it_is_created(site, m):
    assert site.bring("m/a", replace=True).did == "created"


def test_one_that_is_being_deleted_is_replaced_too(site, m):
    old = site.deploy("m/a", actions=ALL)
    m.runs("a")
    site.delete("m/a")
    with pytest.raises(Conflict) as caught:
        site.bring("m/a", update=True)
    assert "--replace" in caught.value.hint
    assert site.bring("m/a", replace=True).did == "replaced"
    assert (site.stands("m/a"), site.of(old).leaving) == ("blocked", True)
