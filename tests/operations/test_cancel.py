"""Cancelling in every phase: it always comes to an end, and what came first stands."""

import pytest

from appliance.errors import Conflict
from appliance.operations import explain, stock

from ..samples import KEY
from .site import script


def sentence(site, ref):
    one = site.of(ref)
    return site.database.read(explain.view, one, None).sentence


def test_pro_10_what_is_not_granted_is_cancelled_at_once(site, m):
    site.deploy("m/x")
    site.deploy("m/a")
    site.deploy("m/b", depends_on=["m/x"])
    asks = m.asks("a", "b")
    site.cancel("m/a", "m/b")
    assert site.stands("m/a", "m/b") == ["FAILED cancelled"] * 2
    assert sentence(site, "m/a") == "cancelled by ann before it was granted"
    assert m.claim_these(asks) == ["cancelled", "cancelled"]
    m.runs("x")
    assert site.stands("m/b") == "FAILED cancelled"
    assert [m.item(name)["cancel"] for name in "ab"] == [[], []]


def test_pro_10_a_grant_is_given_back_cancelled(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    site.cancel("m/a")
    assert site.stands("m/a") == "granted"
    assert sentence(site, "m/a") == "granted; no word that it has started; ann asked its machine to cancel it"
    assert m.item("a")["cancel"] == [ask.run]
    m.releases(ask, "cancelled")
    assert site.stands("m/a") == "FAILED cancelled"
    assert m.item("a")["cancel"] == []
    assert not site.of("m/a").memory.must_run


def test_pro_10_what_runs_is_ended_by_its_machine(site, m):
    site.deploy("m/a", attempts=3)
    ask = m.granted("a")
    m.starts(ask)
    site.cancel("m/a")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("running", [ask.run])
    m.ends(ask, None, "cancelled", message="it was cancelled; the process group was ended")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("FAILED cancelled", [])


@pytest.mark.parametrize("code, stands", [(0, "COMPLETE"), (3, "FAILED exit")])
def test_pro_10_a_script_that_won_the_race_stands_and_is_labelled_so(site, m, code, stands):
    site.deploy("m/a", attempts=3)
    ask = m.granted("a")
    m.starts(ask)
    site.cancel("m/a")
    m.ends(ask, code)
    assert site.stands("m/a") == stands
    assert sentence(site, "m/a").endswith("it ended before the cancel reached it")
    assert m.item("a")["cancel"] == []


def test_pro_10_cut_short_while_its_cancel_was_on_the_way_is_cancelled(site, m):
    site.deploy("m/a", attempts=3)
    ask = m.granted("a")
    m.starts(ask)
    site.cancel("m/a")
    m.ends(ask, None, "interrupted")
    assert site.stands("m/a") == "FAILED cancelled"


@pytest.mark.parametrize("code, stands", [(0, "COMPLETE"), (1, "FAILED exit")])
def test_pro_10_what_is_over_is_refused_saying_so(site, m, code, stands):
    site.deploy("m/a")
    m.runs("a", code=code)
    with pytest.raises(Conflict) as caught:
        site.cancel("m/a")
    assert caught.value.message.startswith(f"m/a is {stands.split()[0]} (")
    assert site.stands("m/a") == stands


def test_pro_10_an_absent_machines_run_ends_at_its_deadline(site, m):
    site.deploy("m/a", timeout=60)
    ask = m.granted("a")
    site.cancel("m/a")
    site.passes(2 * 86400)
    assert site.stands("m/a") == "FAILED lost"
    assert "it was asked to cancel it" in sentence(site, "m/a")
    assert m.item("a")["cancel"] == [ask.run]
    m.releases(ask, "cancelled")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("FAILED cancelled", [])


@pytest.mark.parametrize("started", [True, False])
def test_pro_10_by_force_it_is_over_at_once_and_its_machine_still_hears_of_it(site, m, started):
    site.deploy("m/a", attempts=3)
    ask = m.granted("a")
    if started:
        m.starts(ask)
    site.cancel("m/a", force=True)
    assert site.stands("m/a") == "FAILED cancelled"
    assert m.item("a")["cancel"] == [ask.run]
    effect = m.ends(ask)
    assert (effect.effect, site.stands("m/a")) == ("none", "FAILED cancelled")
    assert m.item("a")["cancel"] == []
    assert site.runs("m/a")[0].reason == "cancelled"


def test_a_repeat_is_ended_too_and_that_is_its_end(site, m):
    site.deploy("m/a", policy="always")
    m.runs("a")
    repeat = m.repeats("a", "interval", code=None)
    site.cancel("m/a")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("COMPLETE", [repeat.run])
    m.ends(repeat, None, "cancelled", repeat="interval")
    assert site.stands("m/a") == "FAILED cancelled"


def test_the_run_of_an_older_generation_is_ended_with_the_one_that_waits(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    m.starts(ask)
    site.edit("m/a", config=script("echo other"))
    site.cancel("m/a")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("FAILED cancelled", [ask.run])
    m.ends(ask, None, "cancelled")
    assert site.stands("m/a") == "FAILED cancelled"


def test_an_attempt_that_waits_is_cancelled(site, m):
    site.deploy("m/a", attempts=3)
    m.runs("a", code=1)
    site.cancel("m/a")
    site.passes(100)
    assert site.stands("m/a") == "FAILED cancelled"
    assert m.claim("a") == ["cancelled"]


def test_all_of_several_or_none(site, m):
    site.deploy("m/a")
    site.deploy("m/b")
    m.runs("b")
    with pytest.raises(Conflict):
        site.cancel("m/a", "m/b")
    assert site.stands("m/a") == "pending"


def test_a_cancelled_one_runs_when_it_is_rerun_or_changed(site, m):
    for name in "ab":
        site.deploy(f"m/{name}")
        m.runs(name)
        site.rerun(f"m/{name}")
    site.cancel("m/a", "m/b")
    site.rerun("m/a")
    site.edit("m/b", config=script("echo other"))
    assert site.stands("m/a", "m/b") == ["pending", "pending"]


def test_a_cancelled_rerun_waits_no_more(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.rerun("m/a")
    site.cancel("m/a")
    site.edit("m/a", config=script("echo other"))
    site.edit("m/a", config=script())
    assert site.stands("m/a") == "COMPLETE"


def test_what_depends_on_a_cancelled_one_is_blocked_for_good(site, m):
    site.deploy("m/a")
    site.deploy("m/b", depends_on=["m/a"])
    site.cancel("m/a")
    assert site.database.read(explain.settled, site.of("m/b")) == "blocked"


def test_a_stock_agent_cannot_be_asked_but_it_can_be_closed_here(site):
    server = site.server("s", stock=True)
    site.deploy("s/a")
    site.deploy("s/b")
    site.cancel("s/b")
    assert site.stands("s/b") == "FAILED cancelled"
    site.database.write(stock.deliver, KEY, server.id)
    with pytest.raises(Conflict) as caught:
        site.cancel("s/a")
    assert "stock agent" in caught.value.message
    assert "--force" in caught.value.hint
    site.cancel("s/a", force=True)
    assert site.stands("s/a") == "FAILED cancelled"
    effect = site.database.write(stock.reported, site.runs("s/a")[0], {"deploy_status_code": "0"})
    assert (effect.effect, site.stands("s/a")) == ("none", "FAILED cancelled")


def test_a_reset_forgets_what_was_asked_of_the_machine(site, m):
    site.deploy("m/a")
    m.granted("a")
    site.cancel("m/a")
    site.reset("m")
    assert (site.stands("m/a"), m.item("a")["cancel"]) == ("pending", [])
