"""`on-change`, `per-boot` and `always`: what a generation needs, and what repeats do beside it."""

import pytest

from appliance.errors import Conflict

from .site import script


def test_sem_15_a_rerun_of_what_is_unchanged_is_one_more_run_and_the_earlier_result_stays(site, m):
    site.deploy("m/a")
    first = m.runs("a", 3)
    site.rerun("m/a")
    assert (site.stands("m/a"), site.number("m/a")) == ("pending", 2)
    m.runs("a")
    assert [(run.id == first.run, run.status_code) for run in site.runs("m/a")] == [(True, 3), (False, 0)]


def test_what_failed_runs_again_only_when_told_to(site, m):
    site.deploy("m/a")
    m.runs("a", 1)
    assert m.claim("a") == ["claimed"]
    assert site.bring("m/a", update=True).did == "unchanged"
    site.rerun("m/a")
    assert m.claim("a") == ["granted"]


def test_the_machine_may_have_left_a_state_by_a_run_that_failed(site, m):
    site.deploy("m/a", script("old"))
    m.runs("a")
    site.edit("m/a", config=script("new"))
    m.runs("a", 1)
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_reruns_are_made_all_or_none(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    before = site.rows()
    with pytest.raises(Exception, match="nothing"):
        site.rerun("m/a", "m/nothing")
    assert site.rows() == before
    site.rerun("m/a", "m/b")
    assert len({site.of(f"m/{name}").generation.commit for name in "ab"}) == 1


@pytest.mark.parametrize("policy, repeat", [("per-boot", "boot"), ("always", "agent-start"), ("always", "changed"), ("always", "interval")])
def test_a_repeat_shows_beside_the_status_and_its_end_sets_it(site, m, policy, repeat):
    site.deploy("m/a", policy=policy)
    m.runs("a")
    ask = m.repeats("a", repeat, None)
    assert (site.stands("m/a"), site.of("m/a").standing.repeating) == ("COMPLETE", ask.run)
    m.ends(ask, 4, repeat=repeat)
    assert (site.stands("m/a"), site.of("m/a").standing.repeating) == ("FAILED exit", None)
    m.repeats("a", repeat)
    assert site.stands("m/a") == "COMPLETE"
    assert [run.repeat for run in site.runs("m/a")] == [None, repeat, repeat]


def test_sem_10_no_status_grant_report_or_repeat_changes_the_document(site, m):
    site.deploy("m/a", policy="always")
    site.deploy("m/b")
    site.deploy("m/c", policy="per-boot")
    etag, changed = m.etag(), site.row("m").changed
    for name in "abc":
        m.runs(name)
        assert m.etag() == etag
    m.repeats("a", "agent-start", 3)
    m.repeats("c", "boot")
    m.releases(m.repeats("a", "changed", None))
    assert (m.etag(), site.row("m").changed) == (etag, changed)


def test_a_repeat_of_an_older_generation_is_evidence_and_does_not_stay_shown(site, m):
    site.deploy("m/a", policy="always")
    m.runs("a")
    ask = m.repeats("a", "interval", None)
    site.edit("m/a", config=script("new"))
    assert (site.stands("m/a"), site.of("m/a").standing.repeating) == ("pending", ask.run)
    assert m.ends(ask, 1, repeat="interval").effect == "none"
    assert (site.stands("m/a"), site.of("m/a").standing.repeating) == ("pending", None)


def test_a_failed_repeat_bars_complete_at_once(site, m):
    site.deploy("m/a", script("old"), policy="per-boot")
    m.runs("a")
    m.repeats("a", "boot", 1)
    site.edit("m/a", config=script("new"))
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_the_document_remembers_the_last_start_for_a_machine_that_forgot(site, m):
    site.deploy("m/a", policy="per-boot")
    m.runs("a")
    m.boots("boot-2")
    ask = m.repeats("a", "boot")
    last = m.document()["observed"]["items"][ask.deployment]["last"]
    assert (last["run"], last["boot"], last["generation"]) == (ask.run, "boot-2", ask.generation)


def test_sem_03_what_is_done_stays_done_when_all_evidence_is_purged(site, m):
    for name, policy in (("a", "once"), ("b", "on-change"), ("c", "per-boot")):
        site.deploy(f"m/{name}", script("old"), policy=policy)
        m.runs(name)

    def purge(tx):
        for table in ("run_output", "signal", "claim", "run", "idempotency"):
            tx.execute(f"DELETE FROM {table}")

    etag = m.etag()
    site.database.write(purge)
    assert m.etag() == etag
    assert m.claim("a", "b", "c") == ["claimed"] * 3
    site.edit("m/b", config=script("new"))
    site.edit("m/b", config=script("old"))
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a", "m/b", "m/c") == ["COMPLETE held", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("policy", ["once", "per-boot", "always"])
def test_a_stock_server_takes_no_policy_its_agent_cannot_keep(site, policy):
    site.server("s", stock=True)
    with pytest.raises(Conflict, match="stock agent"):
        site.deploy("s/a", policy=policy)
    site.deploy("s/a")
    with pytest.raises(Conflict, match="stock agent"):
        site.edit("s/a", policy=policy)


def test_sem_01_what_is_added_leaves_what_is_finished_alone(site, m):
    for name, policy in (("a", "once"), ("b", "on-change")):
        site.deploy(f"m/{name}", policy=policy)
        m.runs(name)
    site.deploy("m/c")
    m.runs("c")
    for _ in range(5):
        assert m.claim("a", "b", "c") == ["claimed"] * 3
    assert [len(site.runs(f"m/{name}")) for name in "abc"] == [1, 1, 1]


def test_sem_02_after_a_boot_only_repeats_run_and_each_is_a_row(site, m):
    for name, policy in (("a", "once"), ("b", "per-boot"), ("c", "always"), ("d", "on-change")):
        site.deploy(f"m/{name}", policy=policy)
        m.runs(name)
    m.boots("boot-2")
    m.arrives()
    assert m.claim("a", "b", "c", "d") == ["claimed"] * 4
    m.repeats("b", "boot")
    m.repeats("c", "agent-start")
    assert [[run.boot for run in site.runs(f"m/{name}")] for name in "abcd"] == [
        ["boot-1"],
        ["boot-1", "boot-2"],
        ["boot-1", "boot-2"],
        ["boot-1"],
    ]
