"""Who is asking: a machine that is known, one that lost its state, another one, a clone."""

import msgspec
import pytest

from appliance.errors import Busy, Conflict, Unauthorized
from appliance.identity import ALIVE_MS, DOUBT_MS, Instance, Who
from appliance.operations import servers
from appliance.operations.arrivals import Clone, Troubled
from appliance.operations.servers import new_secret

from ..samples import KEY
from .site import script

OTHER = Instance("another machine", None, "i-other")


def trouble(site, name="m"):
    found = site.row(name).trouble
    return None if found is None else found.kind


def join(site, secret, who):
    return site.database.write(servers.join, KEY, secret, who, new_secret())


def token(site, name="m"):
    return site.database.write(servers.renew_join_token, name, new_secret(), "ann").join_token


def test_a_reboot_is_nothing_special(site, m):
    m.boots("boot-2")
    m.arrives()
    assert (site.row("m").boot, site.row("m").boots, trouble(site)) == ("boot-2", ["boot-1", "boot-2"], None)


def test_what_an_agent_says_of_itself_is_kept(site, m):
    m.says(version="2", hooks=["ansible", "script"])
    m.arrives()
    assert (site.row("m").agent_version, site.row("m").hooks) == ("2", ["ansible", "script"])


# ---------------------------------------------------------------------------------------------------- a lost state


def test_a_machine_that_lost_its_state_keeps_what_is_finished_and_open_runs_are_closed(site, m):
    site.deploy_all([(f"m/{name}", None, {}) for name in ("done", "granted", "running", "waiting")])
    m.runs("done")
    m.granted("granted")
    m.starts(m.granted("running"))
    lost = m.copy(agent_state="state-2", journal=1)
    lost.arrives()
    assert site.stands("m/done", "m/granted", "m/running", "m/waiting") == [
        "COMPLETE",
        "FAILED interrupted",
        "FAILED interrupted",
        "pending",
    ]
    assert (site.row("m").agent_state, trouble(site)) == ("state-2", None)
    assert lost.claim("waiting") == ["granted"]
    assert "state was lost" in site.of("m/running").standing.sentence


def test_a_lost_state_during_a_repeat_of_an_older_generation_ends_that_repeat(site, m):
    site.deploy("m/a", policy="always")
    m.runs("a")
    m.repeats("a", "interval", None)
    site.edit("m/a", config=script("new"))
    m.copy(agent_state="state-2").arrives()
    assert (site.stands("m/a"), site.of("m/a").standing.repeating) == ("pending", None)


def test_what_a_lost_state_was_granted_is_over_for_its_late_report_too(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    m.copy(agent_state="state-2").arrives()
    answer = m.copy(agent_state="state-2", journal=5).ends(ask)
    assert (answer.effect, site.stands("m/a")) == ("none", "FAILED interrupted")


def test_in_a_container_a_lost_state_is_another_instance(site):
    m = site.machine("c", cloud=None)
    m.copy(agent_state="state-2").arrives()
    assert trouble(site, "c") == "other-instance"


# ---------------------------------------------------------------------------------------------------- rivals


def test_a_second_agent_gets_nothing_while_the_first_is_alive_and_the_first_goes_on(site, m):
    site.deploy("m/a")
    m.alive_at = site.clock.now
    second = m.copy(agent_state="state-2")
    site.clock.pass_(ALIVE_MS - 1)
    with pytest.raises(Clone):
        second.claim("a")
    assert site.row("m").rival.agent_state == "state-2"
    assert (trouble(site), m.claim("a")) == (None, ["granted"])


def test_a_second_agent_is_accepted_when_the_first_has_been_silent_for_two_minutes(site, m):
    site.deploy("m/a")
    m.granted("a")
    m.alive_at = site.clock.now
    second = m.copy(agent_state="state-2")
    site.clock.pass_(ALIVE_MS)
    second.arrives()
    assert (site.row("m").agent_state, site.row("m").rival) == ("state-2", None)
    assert site.stands("m/a") == "FAILED interrupted"


# ---------------------------------------------------------------------------------------------------- trouble


def test_another_machine_gets_nothing_until_a_person_decides(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    ours = m.granted("b")
    other = m.copy(instance=OTHER)
    assert other.claim("a") == ["other-instance"]
    assert trouble(site) == "other-instance"
    assert site.stands("m/a") == "pending"
    assert m.claim("a") == ["other-instance"]
    for asks in ([ours], []):  # a copied journal does not inherit a grant, nor does a claim of nothing end the trouble
        with pytest.raises(Troubled, match="another machine"):
            other.claim_these(asks)


def test_what_was_refused_then_is_refused_for_good_and_a_new_id_is_granted_after_the_reset(site, m):
    site.deploy("m/a")
    other = m.copy(instance=OTHER)
    asks = other.asks("a")
    other.claim_these(asks)
    site.reset("m")
    other.arrives()
    assert trouble(site) is None
    assert other.claim_these(asks) == ["other-instance"]
    assert other.claim("a") == ["granted"]


def test_reports_are_taken_whoever_makes_them(site, m):
    site.deploy("m/a")
    ask = m.granted("a")
    m.copy(instance=OTHER).arrives()
    assert m.ends(ask).effect == "recorded"
    assert (site.stands("m/a"), trouble(site)) == ("COMPLETE", "other-instance")


def test_a_boot_that_returns_is_a_clone(site, m):
    m.boots("boot-2")
    m.arrives()
    m.boots("boot-1")
    m.arrives()
    assert trouble(site) == "clone"


def test_a_journal_that_fell_by_a_reboot_was_reverted(site, m):
    site.deploy("m/a")
    m.runs("a")
    m.copy(boot="boot-2", journal=1).arrives()
    assert trouble(site) == "reverted"


def test_a_request_that_was_overtaken_is_asked_again_and_makes_no_trouble(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    overtaken = m.copy()
    m.runs("a")
    with pytest.raises(Busy):
        overtaken.claim("b")
    site.clock.pass_(DOUBT_MS + 1)
    assert m.claim("b") == ["granted"]
    assert (site.row("m").doubted_at, trouble(site)) == (None, None)


def test_a_journal_that_stays_behind_was_reverted(site, m):
    site.deploy_all([("m/a", None, {}), ("m/b", None, {})])
    snapshot = m.copy()
    m.runs("a")
    with pytest.raises(Busy):
        snapshot.copy().claim("b")
    site.clock.pass_(DOUBT_MS)
    assert snapshot.claim("b") == ["other-instance"]
    assert (trouble(site), site.stands("m/b")) == ("reverted", "pending")


# ---------------------------------------------------------------------------------------------------- joining


def test_joining_again_from_the_same_machine_resets_nothing(site, m):
    site.deploy("m/a")
    m.runs("a")
    for state in ("state-1", "state-2"):
        assert not join(site, token(site), msgspec.structs.replace(m.who, agent_state=state)).reset
        assert site.stands("m/a") == "COMPLETE"
    assert site.row("m").agent_state == "state-2"


def test_joining_from_another_machine_with_a_new_token_resets(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    other = Who(OTHER, "state-9", "boot-9", 1)
    assert join(site, token(site), other).reset
    assert (site.stands("m/a"), m.item("a")["action"], site.row("m").instance) == ("pending", "CREATE", OTHER)
    assert site.row("m").boots == ["boot-9"]


def test_a_lost_answer_is_asked_for_again_with_the_same_token_and_the_one_before_opens_nothing(site):
    secret = new_secret()
    site.database.write(servers.add, servers.NewServer("m"), secret, "ann")
    who = Who(Instance("one", None, "i-m"), "state-1", "boot-1", 1)
    first = join(site, secret, who)
    second = join(site, secret, who)
    assert first.token != second.token
    living = "SELECT count(*) FROM token WHERE role = 'agent' AND revoked_at IS NULL"
    assert site.value(living) == 1


@pytest.mark.parametrize("change", [{"instance": OTHER}, {"agent_state": "state-2"}])
def test_a_used_join_token_serves_nobody_else(site, change):
    secret = new_secret()
    site.database.write(servers.add, servers.NewServer("m"), secret, "ann")
    who = Who(Instance("one", None, "i-m"), "state-1", "boot-1", 1)
    join(site, secret, who)
    site.deploy("m/a")
    before = site.rows()
    with pytest.raises(Unauthorized):
        join(site, secret, msgspec.structs.replace(who, **change))
    assert site.rows() == before


def test_a_clone_cannot_end_its_trouble_with_the_join_token_it_was_copied_with(site):
    secret = new_secret()
    site.database.write(servers.add, servers.NewServer("m"), secret, "ann")
    who = Who(Instance("one", None, "i-m"), "state-1", "boot-1", 1)
    join(site, secret, who)
    site.database.write(lambda tx: tx.execute("UPDATE server SET trouble = ?", ('{"kind": "clone", "sentence": "two", "at": 1}',)))
    with pytest.raises(Unauthorized):
        join(site, secret, who)
    assert not join(site, token(site), who).reset
    assert trouble(site) is None


def test_a_new_join_token_ends_the_one_before_and_expires(site):
    secret = new_secret()
    site.database.write(servers.add, servers.NewServer("m"), secret, "ann")
    newer = token(site)
    who = Who(Instance("one"), "state-1", "boot-1", 1)
    with pytest.raises(Unauthorized):
        join(site, secret, who)
    site.clock.pass_(25 * 3600 * 1000)
    with pytest.raises(Unauthorized, match="expired"):
        join(site, newer, who)


def test_a_stock_server_is_joined_by_nobody(site):
    site.server("s", stock=True)
    with pytest.raises(Conflict):
        token(site, "s")
