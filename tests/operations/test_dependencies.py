"""Dependencies order, across servers, and do not propagate."""

import pytest

from appliance.errors import Conflict
from appliance.operations import explain, servers

from .site import script


def why(site, ref):
    one = site.of(ref)
    return site.database.read(lambda tx: explain.why(tx, one, None))


@pytest.fixture
def two(site, m):
    """b on `m` comes after a on `other`; the machine of `other`."""
    other = site.machine("other")
    site.deploy("other/a")
    site.deploy("m/b", depends_on=["other/a"])
    return other


def test_what_waits_is_blocked_and_says_on_what(site, m, two):
    assert site.stands("m/b") == "blocked"
    item = m.item("b")
    assert (item["ready"], item["after"]) == (False, [])
    assert item["blocked_on"] == [
        {"deployment": site.of("other/a").id, "generation": site.of("other/a").generation.id, "name": "other/a", "here": False}
    ]
    assert "other/a (pending)" in why(site, "m/b").view.sentence


def test_it_is_ready_in_the_commit_that_records_the_last_result(site, m, two):
    ask = two.granted("a")
    two.starts(ask)
    assert m.claim("b") == ["blocked"]
    two.ends(ask)
    assert site.stands("m/b") == "pending"
    assert (m.item("b")["ready"], m.item("b")["blocked_on"]) == (True, [])
    assert site.value("SELECT max(commit_no) FROM state") == site.value("SELECT ended_commit FROM run")


def test_sem_12_a_failed_dependency_keeps_it_blocked_and_ends_a_wait(site, m, two):
    site.deploy("m/c")
    two.runs("a", 1)
    m.runs("c")
    found = why(site, "m/b")
    assert (site.stands("m/b"), found.view.settled, found.next) == ("blocked", "blocked", "appliance rerun other/a")
    assert "other/a (FAILED)" in found.view.sentence
    site.rerun("other/a")
    assert why(site, "m/b").view.settled is None
    two.runs("a")
    assert site.stands("m/b", "m/c") == ["pending", "COMPLETE"]


def test_a_wait_ends_for_what_is_blocked_by_way_of_others(site, m, two):
    site.deploy("m/c", depends_on=["m/b"])
    assert why(site, "m/c").view.settled is None
    two.runs("a", 1)
    assert why(site, "m/c").view.settled == "blocked"


def test_sem_07_a_finished_dependant_stays_finished_and_an_ungranted_one_is_blocked_again(site, m, two):
    two.runs("a")
    site.deploy("m/c", depends_on=["other/a"])
    m.runs("b")
    site.edit("other/a", config=script("new"))
    assert site.stands("m/b", "m/c") == ["COMPLETE", "blocked"]
    two.runs("a")
    assert site.stands("m/b", "m/c") == ["COMPLETE", "pending"]


def test_what_was_granted_may_run_though_its_dependency_changed_since(site, m, two):
    two.runs("a")
    ask = m.granted("b")
    site.edit("other/a", config=script("new"))
    assert site.stands("m/b") == "granted"
    m.starts(ask)
    m.ends(ask)
    assert site.stands("m/b") == "COMPLETE"


def test_a_dependency_that_is_complete_at_once_frees_what_waits(site, m, two):
    two.runs("a")
    site.edit("other/a", config=script("new"))
    assert site.stands("m/b") == "blocked"
    site.edit("other/a", config=script())
    assert site.stands("other/a", "m/b") == ["COMPLETE", "pending"]


def test_sem_08_a_diamond_is_listed_and_granted_in_its_order(site, m):
    needs = {"4": [], "3": ["m/4"], "2": ["m/4"], "1": ["m/2", "m/3"]}
    for name, after in needs.items():
        site.deploy(f"m/{name}", depends_on=after)
    assert [item["name"] for item in m.items()] == ["4", "2", "3", "1"]
    asks = m.asks("4", "2", "3", "1")
    assert m.claim_these(asks) == ["granted"] * 4
    assert sorted(m.after(asks[3])) == sorted([asks[1].generation, asks[2].generation])


def test_of_two_dependencies_one_that_is_done_is_not_waited_for(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {}), ("m/c", None, {"depends_on": ["m/a", "m/b"]})])
    m.runs("a")
    assert [one["name"] for one in m.item("c")["blocked_on"]] == ["m/b"]


def test_deleting_what_is_needed_on_another_server_is_refused_with_its_server_too(site, m, two):
    with pytest.raises(Conflict, match="m/b"):
        site.delete("other/a")
    with pytest.raises(Conflict, match="m/b"):
        site.database.write(servers.remove, "other", "ann")
    site.edit("m/b", depends_on=[])
    site.database.write(servers.remove, "other", "ann")
    assert site.stands("m/b") == "pending"


def test_a_change_is_seen_by_the_documents_of_those_that_wait(site, m, two):
    etags = [m.etag()]
    two.runs("a", 1)
    etags.append(m.etag())
    site.rerun("other/a")
    etags.append(m.etag())
    assert etags[0] == etags[1] != etags[2]
