"""What agents report: each report counts once, and none is dropped without a word."""

import uuid

import msgspec
import pytest

from appliance.config import Output
from appliance.errors import Invalid, NotFound
from appliance.operations.claims import Ask
from appliance.operations.signals import Effect, Finished, signal
from appliance.store import runs

from .site import script

NOWHERE = "00000000-0000-4000-8000-000000000000"


def output(site, ask):
    return site.database.read(runs.output_of, ask.run)


def evidence(site, ask):
    return site.database.read(lambda tx: list(tx.rows("SELECT kind, effect, why FROM signal WHERE run = ? ORDER BY seq", (ask.run,))))


def test_a_run_is_followed_from_its_grant_to_its_end(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    assert site.stands("m/a") == "granted"
    assert m.starts(ask) == Effect("recorded", None, "IN_PROGRESS")
    assert site.stands("m/a") == "running"
    assert m.ends(ask, stdout="hello\n", outputs={"x": 1}) == Effect("recorded", None, "COMPLETE")
    assert site.stands("m/a") == "COMPLETE"
    assert (output(site, ask).stdout, output(site, ask).outputs) == ("hello\n", {"x": 1})


@pytest.mark.parametrize("code, outcome, stands", [(3, "ended", "FAILED exit"), (None, "ended", "COMPLETE")])
def test_sem_11_the_status_decides_whatever_was_printed(site, m, code, outcome, stands):
    site.deploy("m/a")
    ask = m.granted("a")
    m.ends(ask, code, outcome, stdout='{"x": 1}', outputs={"x": 1})
    assert site.stands("m/a") == stands
    assert output(site, ask).outputs == {"x": 1}
    assert site.runs("m/a")[0].status_code == code


@pytest.mark.parametrize("outcome", ["timeout", "interrupted", "no-hook", "invalid"])
def test_other_outcomes_are_failures_with_their_own_reason(site, m, outcome):
    site.deploy("m/a")
    m.ends(m.granted("a"), None, outcome, message="so it was")
    assert (site.stands("m/a"), site.of("m/a").standing.sentence) == (f"FAILED {outcome}", "so it was")


def test_an_error_output_fails_by_what_was_declared_when_the_run_was_granted(site, m):
    flagged = (Output("error", error_output=True),)
    site.deploy("m/a", script(outputs=flagged))
    site.deploy("m/b", script(outputs=()))
    a, b = m.granted("a"), m.granted("b")
    site.edit("m/a", config=script(outputs=()))
    site.edit("m/b", config=script(outputs=flagged))
    assert (site.number("m/a"), site.number("m/b")) == (1, 1)
    m.ends(a, 0, outputs={"error": ""})
    m.ends(b, 0, outputs={"error": "bad"})
    assert site.stands("m/a", "m/b") == ["FAILED error-output", "COMPLETE"]


def test_pro_13_the_same_report_twice_is_one_record_and_one_answer(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    answers = [m.starts(ask), m.starts(ask), m.ends(ask, 3, stdout="x"), m.ends(ask, 3, stdout="x")]
    assert [one.effect for one in answers] == ["recorded"] * 4
    assert evidence(site, ask) == [("started", "recorded", None), ("finished", "recorded", None)]


def test_pro_13_another_result_after_the_end_has_no_effect_and_is_kept_once(site, m):
    site.deploy("m/a")
    ask = m.runs("a")
    for _ in range(2):
        answer = m.ends(ask, 7)
        assert (answer.effect, answer.status) == ("none", "COMPLETE")
        assert "COMPLETE" in answer.why
    assert site.stands("m/a") == "COMPLETE"
    assert [effect for _, effect, _ in evidence(site, ask)] == ["recorded", "recorded", "none"]


def test_another_outcome_without_a_status_is_another_result(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    m.ends(ask, None, "timeout")
    assert m.ends(ask, None, "interrupted").effect == "none"
    assert site.stands("m/a") == "FAILED timeout"


def test_an_end_without_a_start_counts_and_a_start_after_it_does_not(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    assert m.ends(ask).effect == "recorded"
    assert m.starts(ask).effect == "none"
    assert m.starts(ask).effect == "none"
    assert (site.stands("m/a"), site.of("m/a").memory.last_run) == ("COMPLETE", ask.run)


def test_sem_06_the_result_of_an_older_generation_is_evidence_only(site, m):
    site.deploy("m/a")
    first = m.granted("a")
    m.starts(first)
    site.edit("m/a", config=script("new"))
    answer = m.ends(first)
    assert (answer.effect, answer.status, "generation 1" in answer.why) == ("none", "IN_PROGRESS", True)
    assert m.ends(first) == answer
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert [(run.generation == site.of("m/a").generation.id, run.effect) for run in site.runs("m/a")] == [
        (False, "none"),
        (True, "recorded"),
    ]
    assert site.stands("m/a") == "COMPLETE"


def test_a_result_that_comes_after_a_newer_run_has_ended_says_nothing_of_how_the_machine_is(site, m):
    site.deploy("m/a", script("old"))
    first = m.granted("a")
    m.starts(first)
    site.edit("m/a", config=script("new"))
    m.runs("a", 1)
    m.ends(first)
    memory = site.of("m/a").memory
    assert (memory.left, memory.completed, memory.last_generation) == (True, None, site.of("m/a").generation.id)
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_a_late_start_of_an_older_generation_does_not_touch_the_current_one(site, m):
    site.deploy("m/a")
    first = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert m.starts(first).effect == "none"
    assert site.stands("m/a") == "pending"


def test_a_deleted_deployments_run_may_finish_and_has_no_effect(site, m):
    id = site.deploy("m/a")
    ask = m.granted("a")
    site.delete("m/a")
    answers = [m.starts(ask), m.ends(ask), m.ends(ask)]
    assert [(one.effect, one.why) for one in answers] == [("none", "the deployment was deleted")] * 3
    [run] = site.database.read(runs.of_deployment, id)
    assert (run.stands, run.status, run.effect) == ("ended", "COMPLETE", "none")
    assert output(site, ask) is not None


# ---------------------------------------------------------------------------------------------------- what the file does not know


def test_a_run_of_a_known_generation_counts_though_its_grant_is_unknown(site, m):
    site.deploy("m/a")
    [ask] = m.asks("a")
    assert m.starts(ask).effect == "recorded"
    assert site.stands("m/a") == "running"
    assert m.ends(ask).effect == "recorded"
    assert (site.stands("m/a"), m.claim("a")) == ("COMPLETE", ["claimed"])


def test_an_unknown_generation_is_evidence_and_bars_complete_at_once(site, m):
    id = site.deploy("m/a", script("old"))
    m.runs("a")
    newer = Ask(str(uuid.uuid4()), id, str(uuid.uuid4()))
    answer = m.ends(newer)
    assert (answer.effect, answer.status) == ("none", "COMPLETE")
    assert "rerun" in answer.why
    site.edit("m/a", config=script("new"))
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_an_unknown_run_that_was_given_back_is_neither_open_nor_a_start(site, m):
    id = site.deploy("m/a", policy="once")
    answer = m.releases(Ask(str(uuid.uuid4()), id, str(uuid.uuid4())))
    assert answer.effect == "none"
    assert site.database.read(runs.open_of_deployment, id) == []
    assert not site.of("m/a").memory.started


@pytest.mark.parametrize("part", ["run", "deployment", "generation"])
def test_malformed_ids_are_not_found(site, m, part):
    site.deploy("m/a")
    ask = m.granted("a")
    with pytest.raises(NotFound):
        m.starts(msgspec.structs.replace(ask, **{part: "../x"}))


def test_sec_09_another_servers_runs_and_deployments_are_as_if_they_were_not_there(site, m):
    other = site.machine("other")
    site.deploy("other/a")
    site.deploy("m/a")
    theirs, ours = other.granted("a"), m.granted("a")
    before = site.rows()["signal"]
    for ask in (theirs, msgspec.structs.replace(ours, run=theirs.run), msgspec.structs.replace(ours, deployment=NOWHERE)):
        with pytest.raises(NotFound):
            m.starts(ask)
    assert site.rows()["signal"] == before
    assert site.stands("other/a") == "granted"


def test_a_text_over_the_limit_is_refused_whole(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    with pytest.raises(Invalid, match="stdout"):
        m.ends(ask, stdout="x" * (2 << 20) + "x")
    assert site.stands("m/a") == "granted"


@pytest.mark.parametrize("field", ["status_code", "attempt", "leg", "changed"])
def test_a_number_that_no_file_could_hold_is_refused_at_the_door(field):
    raw = {"kind": "finished", "deployment": NOWHERE, "generation": NOWHERE, "outcome": "ended", field: 1 << 63}
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(raw), type=Finished)


# ---------------------------------------------------------------------------------------------------- given back


def test_a_grant_given_back_uses_up_nothing(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    assert m.releases(ask).effect == "recorded"
    assert m.releases(ask).effect == "recorded"
    assert (site.stands("m/a"), m.item("a")["attempt"]) == ("pending", 1)
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"
    assert [run.stands for run in site.runs("m/a")] == ["released", "ended"]


def test_what_has_started_cannot_be_given_back_nor_what_was_given_back_be_reported(site, m):
    site.deploy("m/a")
    first = m.granted("a")
    m.starts(first)
    assert m.releases(first).effect == "none"
    m.ends(first)
    site.rerun("m/a")
    second = m.granted("a")
    m.releases(second)
    third = m.granted("a")
    assert [m.starts(second).effect, m.ends(second).effect] == ["none", "none"]
    assert site.stands("m/a") == "granted"
    assert m.ends(third).effect == "recorded"


def test_a_rerun_given_back_waits_again(site, m):
    site.deploy("m/a", script("old"))
    m.runs("a")
    site.rerun("m/a")
    m.releases(m.granted("a"))
    site.edit("m/a", config=script("new"))
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_a_grant_of_an_older_generation_given_back_lets_the_current_one_be_complete_at_once(site, m):
    site.deploy("m/a", script("old"))
    m.runs("a")
    site.edit("m/a", config=script("new"))
    ask = m.granted("a")
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"
    m.releases(ask)
    assert site.stands("m/a") == "COMPLETE"
    assert m.claim("a") == ["claimed"]


def test_a_rerun_given_back_after_a_newer_run_was_granted_is_not_owed_twice(site, m):
    site.deploy("m/a", script("old"))
    m.runs("a")
    site.rerun("m/a")
    first = m.granted("a")
    site.edit("m/a", config=script("new"))
    second = m.granted("a")
    m.releases(first)
    m.starts(second)
    m.ends(second)
    assert not site.of("m/a").memory.must_run
    site.edit("m/a", config=script("other"))
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "COMPLETE"


def test_a_rerun_is_owed_still_when_both_grants_are_given_back(site, m):
    site.deploy("m/a", script("old"))
    m.runs("a")
    site.rerun("m/a")
    first = m.granted("a")
    site.edit("m/a", config=script("new"))
    second = m.granted("a")
    m.releases(first)
    m.releases(second)
    site.edit("m/a", config=script("old"))
    assert site.stands("m/a") == "pending"


def test_con_01_parallel_reports_for_one_server_are_all_kept(site, m):
    names = [f"d{n}" for n in range(50)]
    site.deploy_all([(f"m/{name}", None, {}) for name in names])
    asks = m.asks(*names)
    assert m.claim_these(asks) == ["granted"] * 50
    waiting = [
        site.database.submit(
            signal,
            m.id,
            m.who,
            None,
            ask.run,
            Finished(deployment=ask.deployment, generation=ask.generation, outcome="ended", status_code=n),
        )
        for n, ask in enumerate(asks)
    ]
    assert [future.result().effect for future in waiting] == ["recorded"] * 50
    assert [site.runs(f"m/{name}")[0].status_code for name in names] == list(range(50))
