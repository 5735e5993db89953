"""Plans, versions and the switch log, as the schema keeps them."""

import pytest

from appliance.errors import Conflict, Invalid, NotFound
from appliance.plan import shown
from appliance.store import plans
from appliance.store.tx import ConstraintFailed

from ..samples import opened, push, switch_to


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def test_ux_07_an_unknown_plan_is_not_found_with_what_there_is(database):
    with pytest.raises(NotFound) as caught:
        database.read(plans.find, "lab")
    assert "plan push" in caught.value.hint
    push(database, "web", {"a": b"1"})
    with pytest.raises(NotFound) as caught:
        database.read(plans.find, "lab")
    assert caught.value.hint == "there is web"


def test_a_version_is_found_by_number_by_digest_and_as_current(database):
    pushed = push(database, "lab", {"a": b"1"})
    plan = database.read(plans.find, "lab")
    for ref in ("1", shown(pushed.version.digest)):
        assert database.read(plans.resolve, plan, ref) == pushed.version
    with pytest.raises(NotFound, match="never switched"):
        database.read(plans.resolve, plan, "current")
    switch_to(database, "lab", 1)
    assert database.read(plans.resolve, plan, "current") == pushed.version


@pytest.mark.parametrize("ref", ["0", "2", "99999999", "sha256:" + "0" * 64])
def test_ops_15_an_unknown_version_is_not_found_with_what_there_is(database, ref):
    push(database, "lab", {"a": b"1"})
    plan = database.read(plans.find, "lab")
    with pytest.raises(NotFound) as caught:
        database.read(plans.resolve, plan, ref)
    assert "it has only 1" in caught.value.hint


@pytest.mark.parametrize("ref", ["", "latest", "-1", "1.0", "1e9", "٣", "9" * 40, "sha256:bad"])
def test_sec_13_a_malformed_version_is_refused(database, ref):
    push(database, "lab", {"a": b"1"})
    with pytest.raises(Invalid):
        database.read(plans.resolve, database.read(plans.find, "lab"), ref)


def test_the_newest_switch_is_what_the_view_calls_current(database):
    for n in range(3):
        push(database, "lab", {"a": b"%d" % n})
        switch_to(database, "lab", n + 1)
    plan = database.read(plans.find, "lab")
    row = database.read(lambda tx: tx.row("SELECT serial, version FROM current WHERE plan = ?", (plan.id,)))
    current = database.read(plans.current, plan.id)
    assert row == (current.serial, current.version) == (3, 3)


def test_of_two_switches_with_one_serial_the_schema_takes_one(database):
    push(database, "lab", {"a": b"1"})
    plan = database.read(plans.find, "lab")
    database.write(plans.add_switch, plan, 1, 1, "ann")
    with pytest.raises(Conflict):
        database.write(plans.add_switch, plan, 1, 1, "bob")


def test_a_switch_to_a_version_that_is_not_there_is_refused_by_the_schema(database):
    push(database, "lab", {"a": b"1"})
    plan = database.read(plans.find, "lab")
    with pytest.raises(ConstraintFailed):
        database.write(plans.add_switch, plan, 1, 7, "ann")


@pytest.mark.parametrize(
    "sql", ["UPDATE switch SET version = 1", "DELETE FROM switch", "UPDATE version SET by = ''", "DELETE FROM version"]
)
def test_history_cannot_be_rewritten(database, sql):
    push(database, "lab", {"a": b"1"})
    switch_to(database, "lab", 1)
    with pytest.raises(ConstraintFailed):
        database.write(lambda tx: tx.execute(sql))


def test_overviews_say_where_each_plan_stands(database):
    push(database, "lab", {"a": b"1"})
    push(database, "lab", {"a": b"2"})
    push(database, "web", {"a": b"1"})
    switch_to(database, "lab", 1)
    found = [(one.plan.name, one.serial, one.current, one.versions, one.newest) for one in database.read(plans.overviews)]
    assert found == [("lab", 1, 1, 2, 2), ("web", 0, None, 1, 1)]


def test_versions_and_switches_come_in_pages_from_the_newest(database):
    for n in range(5):
        push(database, "lab", {"a": b"%d" % n})
        switch_to(database, "lab", n + 1)
    plan = database.read(plans.find, "lab")
    assert [one.number for one in database.read(plans.versions, plan.id, limit=2)] == [5, 4]
    assert [one.number for one in database.read(plans.versions, plan.id, limit=2, before=4)] == [3, 2]
    assert [one.serial for one in database.read(plans.switches, plan.id, limit=2, before=2)] == [1]
