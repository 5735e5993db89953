"""Attempts: what is tried again, when, how often, and what is not."""

import pytest

from appliance.config import Output
from appliance.errors import Invalid
from appliance.operations import explain, stock
from appliance.operations.deployments import Edit
from appliance.store import file

from ..samples import KEY
from .site import script


def sentence(site, ref):
    one = site.of(ref)
    return site.database.read(explain.view, one, None).sentence


def test_a_failed_attempt_is_followed_by_the_next_when_that_is_due(site, m):
    site.deploy("m/a", attempts=3)
    m.runs("a", code=1)
    assert site.stands("m/a") == "pending"
    assert sentence(site, "m/a") == "attempt 2 of 3 in 10 s: exited with status 1"
    assert (m.item("a")["attempt"], m.item("a")["ready"], m.item("a")["blocked_on"]) == (2, False, [])
    assert m.claim("a") == ["blocked"]
    site.passes(9)
    assert m.claim("a") == ["blocked"]
    assert sentence(site, "m/a") == "attempt 2 of 3 in 1 s: exited with status 1"
    site.passes(1)
    assert m.item("a")["ready"]
    assert m.inputs("a")["deploy_attempt"] == "2"
    assert sentence(site, "m/a").startswith("attempt 2 of 3 (exited with status 1); ready; ")
    m.runs("a", code=1)
    site.passes(19)
    assert not m.item("a")["ready"]
    site.passes(1)
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"
    assert [(run.attempt, run.status) for run in site.runs("m/a")] == [(1, "FAILED"), (2, "FAILED"), (3, "COMPLETE")]


def test_the_last_attempt_decides(site, m):
    site.deploy("m/a", attempts=2)
    m.runs("a", code=1)
    site.passes(10)
    m.runs("a", code=4)
    assert site.stands("m/a") == "FAILED exit"
    assert site.of("m/a").standing.sentence == "exited with status 4"


@pytest.mark.parametrize(
    "outcome, code, retried",
    [("ended", 1, True), ("timeout", None, True), ("interrupted", None, True), ("no-hook", None, False), ("invalid", None, False)],
)
def test_what_is_tried_again(site, m, outcome, code, retried):
    site.deploy("m/a", attempts=2)
    ask = m.granted("a")
    m.starts(ask)
    m.ends(ask, code, outcome)
    assert site.stands("m/a") == ("pending" if retried else f"FAILED {outcome}")


def test_an_error_output_is_tried_again(site, m):
    site.deploy("m/a", script(outputs=(Output("bad", error_output=True),)), attempts=2)
    ask = m.granted("a")
    m.ends(ask, 0, outputs={"bad": "x"})
    assert site.stands("m/a") == "pending"


def test_silence_is_not_tried_again_but_a_lost_agent_state_is(site, m):
    site.deploy("m/a", attempts=2, timeout=60)
    m.granted("a")
    site.passes(2 * 86400)
    assert site.stands("m/a") == "FAILED lost"
    site.rerun("m/a")
    m.starts(m.granted("a"))
    m.says(agent_state="state-2", journal=1)
    m.arrives()
    assert site.stands("m/a") == "pending"
    site.passes(10)
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_the_wait_doubles_up_to_ten_minutes(site, m):
    site.deploy("m/a", attempts=10)
    waits = []
    for _ in range(9):
        m.runs("a", code=1)
        waits.append((site.of("m/a").standing.next_at - site.clock.now) // 1000)
        site.passes(waits[-1])
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_the_first_wait_is_set_in_the_file(site, m):
    site.database.write(file.set_pace, retry_s=1)
    site.deploy("m/a", attempts=2)
    m.runs("a", code=1)
    site.passes(1)
    assert m.claim("a") == ["granted"]


def test_a_new_generation_starts_at_its_first_attempt(site, m):
    site.deploy("m/a", attempts=3)
    m.runs("a", code=1)
    site.rerun("m/a")
    assert (m.item("a")["attempt"], m.item("a")["ready"]) == (1, True)
    m.runs("a", code=1)
    site.edit("m/a", config=script("echo other"))
    assert (m.item("a")["attempt"], m.item("a")["ready"]) == (1, True)


def test_a_grant_given_back_uses_up_no_attempt(site, m):
    site.deploy("m/a", attempts=2)
    m.runs("a", code=1)
    site.passes(10)
    m.releases(m.granted("a"), "superseded")
    assert (site.stands("m/a"), m.item("a")["attempt"]) == ("pending", 2)
    m.runs("a", code=1)
    assert site.stands("m/a") == "FAILED exit"


@pytest.mark.parametrize("policy", ["once", "per-boot"])
def test_the_second_attempt_given_back_waits_whatever_the_policy(site, m, policy):
    site.deploy("m/a", attempts=2, policy=policy)
    m.runs("a", code=1)
    site.passes(10)
    m.releases(m.granted("a"), "superseded")
    assert (site.stands("m/a"), m.item("a")["attempt"]) == ("pending", 2)


def test_a_once_one_is_tried_again_and_then_never(site, m):
    site.deploy("m/a", attempts=2, policy="once")
    m.runs("a", code=1)
    site.passes(10)
    m.runs("a", code=1)
    site.edit("m/a", config=script("echo other"))
    assert site.stands("m/a") == "FAILED exit"


def test_per_boot_is_tried_so_often_in_each_boot(site, m):
    site.deploy("m/a", attempts=2, policy="per-boot")
    m.runs("a")
    m.boots("boot-2")
    m.repeats("a", "boot", code=1)
    assert (site.stands("m/a"), m.item("a")["attempt"]) == ("pending", 2)
    site.passes(10)
    m.runs("a", code=1)
    assert site.stands("m/a") == "FAILED exit"
    m.boots("boot-3")
    m.repeats("a", "boot", code=1)
    assert (site.stands("m/a"), m.item("a")["attempt"]) == ("pending", 3)
    site.passes(10)
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_a_repeat_of_always_is_not_tried_again_it_repeats_by_itself(site, m):
    site.deploy("m/a", attempts=3, policy="always")
    m.runs("a")
    m.repeats("a", "interval", code=1)
    assert site.stands("m/a") == "FAILED exit"


def test_what_waits_for_it_waits_on_and_is_blocked_by_none_that_failed(site, m):
    site.deploy("m/a", attempts=2)
    site.deploy("m/b", depends_on=["m/a"])
    m.runs("a", code=1)
    assert site.stands("m/b") == "blocked"
    assert site.database.read(explain.settled, site.of("m/b")) is None
    site.passes(10)
    m.runs("a")
    assert site.stands("m/b") == "pending"


def test_an_attempt_that_waits_is_blocked_when_what_it_depends_on_changes(site, m):
    site.deploy("m/x")
    site.deploy("m/a", attempts=2, depends_on=["m/x"])
    m.runs("x")
    m.runs("a", code=1)
    site.rerun("m/x")
    assert site.stands("m/a") == "blocked"
    m.runs("x")
    assert (site.stands("m/a"), m.item("a")["ready"]) == ("pending", False)
    site.passes(10)
    m.runs("a")
    assert [run.attempt for run in site.runs("m/a")] == [1, 2]


def test_a_stock_agent_gets_each_attempt_under_a_new_id(site):
    server = site.server("s", stock=True)
    site.deploy("s/a", attempts=2)
    site.database.write(stock.deliver, KEY, server.id)
    site.database.write(stock.reported, site.runs("s/a")[0], {"deploy_status_code": "1"})
    assert not site.database.read(stock.has_news, server.id)
    site.database.write(stock.deliver, KEY, server.id)
    assert len(site.runs("s/a")) == 1
    site.passes(10)
    assert site.database.read(stock.has_news, server.id)
    site.database.write(stock.deliver, KEY, server.id)
    assert [run.attempt for run in site.runs("s/a")] == [1, 2]


def test_attempts_are_changed_without_a_run_and_refused_out_of_range(site, m):
    site.deploy("m/a")
    m.runs("a")
    assert site.edit("m/a", attempts=3).changes == ["attempts 3"]
    assert site.stands("m/a") == "COMPLETE"
    with pytest.raises(Invalid):
        site.edit("m/a", attempts=0)
    assert Edit(attempts=101).attempts == 101
    with pytest.raises(Invalid):
        site.edit("m/a", attempts=101)
