"""A start is a grant: what an agent may start, and what it is told when it may not."""

import uuid

import msgspec
import pytest

from appliance.errors import Invalid, NotFound
from appliance.operations.claims import Ask
from appliance.store import runs

from .site import script


def test_a_ready_generation_is_granted_once(site, m):
    site.deploy("m/a")
    assert m.claim("a") == ["granted"]
    assert site.stands("m/a") == "granted"
    assert m.claim("a") == ["claimed"]


def test_the_same_run_id_always_gets_the_same_answer(site, m):
    site.deploy("m/a")
    asks = m.asks("a")
    assert m.claim_these(asks) == ["granted"]
    refused = m.asks("a")
    assert m.claim_these(refused) == ["claimed"]
    m.starts(asks[0])
    m.ends(asks[0], 1)
    site.rerun("m/a")
    before = site.rows()
    assert m.claim_these(asks + refused) == ["granted", "claimed"]
    after = site.rows()
    assert {name for name in before if before[name] != after[name]} == {"server"}  # only the journal counter
    assert len(site.runs("m/a")) == 1


def test_every_refusal_says_why(site, m):
    for name in ("old", "done", "blocked", "gone", "attempt"):
        site.deploy(f"m/{name}", depends_on=["m/done"] if name == "blocked" else [])
    asks = {name: m.asks(name)[0] for name in ("old", "blocked", "gone", "done", "attempt")}
    site.edit("m/old", config=script("new"))
    site.delete("m/gone")
    answers = m.claim_these([asks["old"], asks["blocked"], asks["gone"], msgspec.structs.replace(asks["attempt"], attempt=2)])
    assert answers == ["superseded", "blocked", "deleted", "claimed"]
    m.runs("done", 3)
    assert m.claim("done", "blocked") == ["claimed", "blocked"]


def test_sec_09_another_servers_deployment_is_as_if_it_were_not_there(site, m):
    other = site.machine("other")
    site.deploy("other/a")
    [foreign] = other.asks("a")
    unknown = Ask(str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4()))
    assert m.claim_these([foreign, unknown]) == ["deleted", "deleted"]
    assert site.stands("other/a") == "pending"
    [ask] = other.asks("a")
    other.claim_these([ask])
    with pytest.raises(NotFound):
        m.claim_these([ask])


def test_malformed_ids_and_used_ones_are_refused_whole(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    good, bad = m.asks("a", "b")
    with pytest.raises(Invalid):
        m.claim_these([good, msgspec.structs.replace(bad, run="not a uuid")])
    assert site.stands("m/a", "m/b") == ["pending", "pending"]
    m.claim_these([good])
    repeat = m.asks("a")[0]
    m.starts(good)
    m.ends(good)
    m.starts(repeat, repeat="boot")
    with pytest.raises(Invalid, match="used already"):
        m.claim_these([msgspec.structs.replace(bad, run=repeat.run)])


def test_the_file_itself_refuses_a_second_grant_of_one_attempt(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    again = str(uuid.uuid4())
    with pytest.raises(Exception, match="UNIQUE"):
        site.database.write(lambda tx: runs.grant(tx, again, m.id, ask.deployment, ask.generation, 1))
    m.releases(ask)
    site.database.write(lambda tx: runs.grant(tx, again, m.id, ask.deployment, ask.generation, 1))


# ---------------------------------------------------------------------------------------------------- chains


def chain(site, *refs):
    for before, ref in zip((None, *refs), refs, strict=False):
        site.deploy(ref, depends_on=[before] if before else [])


def test_a_chain_on_one_server_is_granted_at_once_each_after_the_one_before(site, m):
    chain(site, "m/a", "m/b", "m/c")
    asks = m.asks("a", "b", "c")
    assert m.claim_these(asks) == ["granted"] * 3
    assert [m.after(ask) for ask in asks] == [[], [asks[0].generation], [asks[1].generation]]


def test_a_chain_may_go_on_while_its_first_part_runs(site, m):
    chain(site, "m/a", "m/b")
    first = m.granted("a")
    m.starts(first)
    [second] = m.asks("b")
    assert m.claim_these([second]) == ["granted"]
    assert m.after(second) == [first.generation]


def test_what_is_asked_for_before_what_it_comes_after_is_blocked(site, m):
    chain(site, "m/a", "m/b")
    assert m.claim("b", "a") == ["blocked", "granted"]


def test_a_chain_across_two_servers_waits_for_the_result(site, m):
    other = site.machine("other")
    chain(site, "other/a", "m/b", "m/c")
    other.granted("a")
    assert m.claim("b", "c") == ["blocked", "blocked"]


def test_a_repeated_claim_is_no_licence_to_follow_what_has_failed(site, m):
    chain(site, "m/a", "m/b")
    first = m.asks("a")
    m.claim_these(first)
    m.starts(first[0])
    m.ends(first[0], 1)
    assert m.claim_these(first + m.asks("b")) == ["granted", "blocked"]


def test_a_running_older_generation_is_nothing_to_follow(site, m):
    chain(site, "m/a", "m/b")
    first = m.granted("a")
    m.starts(first)
    site.edit("m/a", config=script("new"))
    assert m.claim("b") == ["blocked"]


def test_a_grant_given_back_gives_back_those_that_would_have_followed(site, m):
    chain(site, "m/a", "m/b")
    first, second = m.asks("a", "b")
    m.claim_these([first, second])
    m.starts(first)
    m.ends(first, 1)
    assert m.releases(second, "dependency").effect == "recorded"
    assert site.stands("m/a", "m/b") == ["FAILED exit", "blocked"]


# ---------------------------------------------------------------------------------------------------- once


def test_a_changed_once_deployment_waits_for_the_word_of_its_own_run(site, m):
    site.deploy("m/a", policy="once")
    first = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert (site.stands("m/a"), m.item("a")["ready"], m.item("a")["blocked_on"]) == ("pending", False, [])
    assert m.claim("a") == ["blocked"]
    etag = m.etag()
    m.releases(first)
    assert m.etag() != etag
    assert m.item("a")["ready"]
    assert m.claim("a") == ["granted"]


def test_a_rerun_of_once_need_not_wait_for_that_word(site, m):
    site.deploy("m/a", policy="once")
    m.granted("a")
    site.rerun("m/a")
    assert m.item("a")["ready"]
    assert m.claim("a") == ["granted"]
