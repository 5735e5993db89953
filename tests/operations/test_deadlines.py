"""Silence: when it is overdue, when it is given up, and what a word after that changes. A clock that is set changes nothing."""

import msgspec
import pytest

from appliance.operations.tick import is_due
from appliance.store import file
from appliance.store.database import Database

from ..samples import opened

HOUR = 3600
DAY = 24 * HOUR


def silent(site, machine, name="a", **more):
    site.deploy(f"{machine.name}/{name}", **more)
    return machine.granted(name)


def test_sem_21_a_granted_run_nobody_hears_of_is_overdue_then_lost(site, m):
    ask = silent(site, m, timeout=60)
    site.passes(60 + 59)
    assert site.stands("m/a") == "granted"
    site.passes(1)
    assert site.stands("m/a") == "overdue"
    assert "no word that it has started since it was granted at" in site.of("m/a").standing.sentence
    site.passes(DAY - 61)
    assert site.stands("m/a") == "overdue"
    site.passes(1)
    assert site.stands("m/a") == "FAILED lost"
    [run] = site.runs("m/a")
    assert (run.stands, run.reason, run.started_at, run.effect) == ("ended", "lost", None, "recorded")
    assert m.claim_these([ask]) == ["granted"]  # the same id always gets the same answer


def test_sem_21_a_late_report_of_that_very_run_replaces_lost(site, m):
    ask = silent(site, m, timeout=60)
    site.passes(2 * DAY)
    assert m.starts(ask).effect == "recorded"
    assert site.stands("m/a") == "running"
    site.passes(60 + DAY)
    assert site.stands("m/a") == "FAILED lost"
    assert m.ends(ask).effect == "recorded"
    assert site.stands("m/a") == "COMPLETE"
    assert site.of("m/a").memory.left is False
    [run] = site.runs("m/a")
    assert (run.status, run.reason, run.due, run.deadline) == ("COMPLETE", None, None, None)


def test_sem_21_a_late_report_of_an_older_generation_has_no_effect_and_is_kept(site, m):
    ask = silent(site, m, timeout=60)
    site.passes(2 * DAY)
    site.rerun("m/a")
    effect = m.ends(ask)
    assert (effect.effect, effect.why) == ("none", "generation 1 is not the current one any more")
    assert site.stands("m/a") == "pending"
    assert site.runs("m/a")[0].status == "COMPLETE"


def test_a_run_given_up_and_then_given_back_waits_again(site, m):
    ask = silent(site, m, timeout=60)
    site.passes(2 * DAY)
    assert m.releases(ask, "superseded").effect == "recorded"
    assert site.stands("m/a") == "pending"
    assert site.runs("m/a")[0].stands == "released"


def test_word_of_the_start_counts_silence_anew(site, m):
    ask = silent(site, m, timeout=60)
    site.passes(100)
    m.starts(ask)
    site.passes(60 + 59)
    assert site.stands("m/a") == "running"
    site.passes(1)
    assert site.stands("m/a") == "overdue"
    assert "no word of it since it was started at" in site.of("m/a").standing.sentence
    m.ends(ask)
    assert site.stands("m/a") == "COMPLETE"


def test_a_chain_is_borne_as_long_as_all_of_it_may_take(site, m):
    site.deploy("m/a", timeout=HOUR)
    site.deploy("m/b", timeout=HOUR, depends_on=["m/a"])
    assert m.claim_these(m.asks("a", "b")) == ["granted", "granted"]
    site.passes(HOUR + DAY)
    assert site.stands("m/a", "m/b") == ["FAILED lost", "overdue"]
    site.passes(HOUR)
    assert site.stands("m/b") == "FAILED lost"


def test_what_waits_on_its_machine_for_its_turn_is_not_overdue(site, m):
    for name in "abc":
        site.deploy(f"m/{name}", timeout=600)
    m.claim_these(m.asks("a", "b", "c"))
    site.passes(600 + 61)
    assert site.stands("m/a", "m/b", "m/c") == ["overdue", "granted", "granted"]
    site.passes(600 + 61)
    assert site.stands("m/a", "m/b", "m/c") == ["overdue", "overdue", "granted"]


def test_without_a_time_limit_there_is_no_end_to_wait_for(site, m):
    ask = silent(site, m, timeout=None)
    site.passes(1000 * DAY)
    assert site.stands("m/a") == "granted"
    m.starts(ask)
    site.passes(1000 * DAY)
    assert site.stands("m/a") == "running"


def test_what_came_after_one_without_a_limit_gets_its_own_when_that_is_over(site, m):
    site.deploy("m/a", timeout=None)
    site.deploy("m/b", timeout=60, depends_on=["m/a"])
    a, b = m.asks("a", "b")
    m.claim_these([a, b])
    m.starts(a)
    site.passes(10 * DAY)
    assert site.stands("m/a", "m/b") == ["running", "granted"]
    m.ends(a)
    site.passes(120)
    assert site.stands("m/b") == "overdue"
    site.passes(DAY)
    assert site.stands("m/b") == "FAILED lost"


@pytest.mark.parametrize("made", ["blocked", "pending"])
def test_what_was_not_granted_has_no_deadline(site, m, made):
    site.deploy("m/x")
    site.deploy("m/a", depends_on=["m/x"] if made == "blocked" else [])
    site.passes(1000 * DAY)
    assert site.stands("m/a") == made
    assert not site.database.read(is_due)


def test_a_stock_agent_has_four_hours(site):
    from appliance.operations import stock

    from ..samples import KEY

    server = site.server("s", stock=True)
    site.deploy("s/a", timeout=60)
    site.database.write(stock.deliver, KEY, server.id)
    site.passes(120)
    assert site.stands("s/a") == "overdue"
    site.passes(4 * HOUR - 61)
    assert site.stands("s/a") == "overdue"
    site.passes(1)
    assert site.stands("s/a") == "FAILED lost"
    [run] = site.runs("s/a")
    site.database.write(stock.reported, run, {"deploy_status_code": "0"})
    assert site.stands("s/a") == "COMPLETE"


def test_how_long_silence_is_borne_is_set_in_the_file(site, m):
    site.database.write(file.set_pace, grace_s=5)
    silent(site, m, timeout=60)
    site.passes(65)
    assert site.stands("m/a") == "FAILED lost"


def test_a_repeat_nobody_hears_of_is_lost_too(site, m):
    site.deploy("m/a", policy="always", timeout=60)
    m.runs("a")
    m.repeats("a", "agent-start", code=None)
    site.passes(200)
    assert site.stands("m/a") == "COMPLETE"
    site.passes(DAY)
    assert site.stands("m/a") == "FAILED lost"
    assert site.of("m/a").standing.repeating is None


def test_what_waits_for_a_lost_one_is_told_and_a_late_word_frees_it(site, m):
    ask = silent(site, m, timeout=60)
    other = site.machine("n")
    site.deploy("n/b", depends_on=["m/a"])
    site.passes(2 * DAY)
    assert other.claim("b") == ["blocked"]
    m.ends(ask)
    assert other.claim("b") == ["granted"]


def test_a_deleted_deployments_run_is_lost_without_effect(site, m):
    silent(site, m, timeout=60)
    id = site.of("m/a").id
    site.delete("m/a")
    site.passes(2 * DAY)
    assert site.value("SELECT stands || effect FROM run WHERE deployment = ?", id) == "endednone"


def test_a_clock_that_is_set_moves_no_deadline(site, m):
    up = [0]
    site.database.uptime = lambda: up[0]
    silent(site, m, timeout=60)
    site.passes(1000 * DAY)
    site.passes(-2000 * DAY)
    assert site.stands("m/a") == "granted"
    up[0] = (60 + DAY) * 1000
    site.passes(0)
    assert site.stands("m/a") == "FAILED lost"


def test_uptime_goes_on_where_it_was_when_the_file_is_opened_again(tmp_path):
    for database in opened(tmp_path):
        database.uptime = lambda: 5_000_000
        database.write(lambda tx: tx.touch())
    again = Database(str(tmp_path / "lab.db"))
    try:
        assert 5_000_000 <= again.read(lambda tx: tx.uptime) < 5_100_000
    finally:
        again.close()


def test_a_tick_with_nothing_due_writes_nothing_but_the_uptime(site, m):
    silent(site, m)
    before = site.rows()
    site.passes(30)
    assert site.rows() == before
    assert site.value("SELECT uptime_ms FROM file") == site.clock.now


def test_a_released_run_is_due_no_more(site, m):
    ask = silent(site, m, timeout=60)
    m.releases(ask)
    site.passes(2 * DAY)
    assert site.stands("m/a") == "pending"


def test_overdue_runs_by_the_hundred_take_several_ticks(site, m):
    site.deploy_all([(f"m/d{n}", None, {"timeout": 60}) for n in range(250)])
    m.claim_these(m.asks(*(f"d{n}" for n in range(250))))
    site.passes(300 * 120 + 2 * DAY)
    assert site.database.read(is_due)
    site.passes(0)
    assert site.database.read(is_due) is False
    assert {msgspec.to_builtins(site.stands(f"m/d{n}")) for n in range(250)} == {"FAILED lost"}
