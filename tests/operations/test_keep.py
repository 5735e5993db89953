"""`server keep`: whoever speaks next is its machine, and nothing runs again for that."""

import pytest

from appliance.errors import Conflict
from appliance.identity import ALIVE_MS, Instance

OTHER = Instance("another machine", None, "i-other")


def troubled(site):
    found = site.row("m").trouble
    return None if found is None else found.kind


def test_another_machine_goes_on_where_the_first_one_was(site, m):
    site.deploy("m/done")
    site.deploy("m/waits")
    site.deploy("m/runs")
    m.runs("done")
    lost = m.granted("runs")
    m.starts(lost)
    other = m.copy(instance=OTHER, agent_state="state-2", boot="boot-9", journal=1)
    other.arrives()
    assert troubled(site) == "other-instance"
    site.keep("m")
    assert troubled(site) is None
    assert other.claim("waits") == ["granted"]
    assert site.stands("m/done", "m/runs") == ["COMPLETE", "FAILED interrupted"]
    assert site.number("m/done") == 1
    assert troubled(site) is None
    assert site.row("m").instance == OTHER


def test_the_first_one_may_come_back_and_its_runs_go_on(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    m.copy(instance=OTHER, agent_state="state-2").arrives()
    site.keep("m")
    m.starts(ask)
    m.ends(ask)
    assert site.stands("m/a") == "COMPLETE"


def test_a_journal_that_was_set_back_ends_what_it_was_granted(site, m):
    site.deploy("m/a", attempts=1)
    site.deploy("m/b")
    m.granted("a")
    m.says(journal=50)
    m.arrives()
    back = m.copy(journal=3, boot="boot-2")
    back.arrives()
    assert troubled(site) == "reverted"
    site.keep("m")
    assert site.stands("m/a") == "FAILED interrupted"
    assert back.claim("b") == ["granted"]
    assert site.row("m").journal == 4


def test_of_two_clones_the_one_that_speaks_next_is_the_machine(site, m):
    m.boots("boot-2")
    m.arrives()
    m.copy(boot="boot-1", journal=9).arrives()
    assert troubled(site) == "clone"
    site.keep("m")
    m.arrives()
    assert (troubled(site), site.row("m").boot) == (None, "boot-2")


def test_a_rival_may_be_the_right_one(site, m):
    site.deploy("m/a")
    m.alive_at = site.clock.now
    rival = m.copy(agent_state="state-2", journal=1)
    rival.arrives()
    assert site.row("m").rival is not None
    site.keep("m")
    rival.alive_at = None
    assert rival.claim("a") == ["granted"]
    assert site.clock.now - m.alive_at < ALIVE_MS


def test_what_was_asked_of_the_machine_that_comes_back_is_still_asked(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    site.cancel("m/a")
    m.copy(instance=OTHER, agent_state="state-2").arrives()
    site.keep("m")
    m.arrives()
    assert m.item("a")["cancel"] == [ask.run]


def test_where_there_is_nothing_to_decide_it_says_so(site, m):
    with pytest.raises(Conflict) as caught:
        site.keep("m")
    assert caught.value.message == "there is nothing to decide about m"
