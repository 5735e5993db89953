"""The policy `once`: once on this instance, ever."""

from .site import script


def test_sem_14_an_edit_after_its_start_is_held_and_does_not_run(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    assert site.edit("m/a", config=script("new")).did == "updated"
    one = site.of("m/a")
    assert (site.stands("m/a"), one.generation.number) == ("COMPLETE held", 2)
    assert "rerun" in one.standing.sentence
    assert m.claim("a") == ["claimed"]


def test_an_edit_before_its_start_runs(site, m):
    site.deploy("m/a", policy="once")
    site.edit("m/a", config=script("new"))
    assert (site.stands("m/a"), site.number("m/a")) == ("pending", 2)


def test_an_edit_while_it_runs_is_held_and_that_run_decides(site, m):
    site.deploy("m/a", policy="once")
    ask = m.granted("a")
    m.starts(ask)
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "running held"
    assert m.ends(ask, 1).effect == "recorded"
    assert (site.stands("m/a"), site.of("m/a").standing.held) == ("FAILED exit", True)


def test_an_edit_between_the_start_and_the_word_of_it_is_held_by_that_word(site, m):
    site.deploy("m/a", policy="once")
    ask = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "pending"
    m.starts(ask)
    assert site.stands("m/a") == "running held"
    m.ends(ask)
    assert site.stands("m/a") == "COMPLETE held"


def test_an_end_without_a_word_of_the_start_holds_the_edit_too(site, m):
    site.deploy("m/a", policy="once")
    ask = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert m.ends(ask).effect == "recorded"
    assert site.stands("m/a") == "COMPLETE held"


def test_a_failed_first_run_stays_failed_whatever_is_edited(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a", 1)
    site.edit("m/a", config=script("new"))
    site.edit("m/a", config=script("newer"))
    one = site.of("m/a")
    assert (one.standing.status, one.standing.reason, one.standing.held, one.generation.number) == ("FAILED", "exit", True, 3)


def test_a_rerun_runs_what_was_held(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.edit("m/a", config=script("new"))
    site.rerun("m/a")
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_a_reset_runs_it_again(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.reset("m")
    assert site.stands("m/a") == "pending"


def test_a_grant_that_was_never_started_leaves_it_unstarted(site, m):
    site.deploy("m/a", policy="once")
    m.releases(m.granted("a"))
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert [run.stands for run in site.runs("m/a")] == ["released", "ended"]


def test_a_rerun_that_was_changed_and_then_given_back_still_waits_for_its_run(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.rerun("m/a")
    ask = m.granted("a")
    site.edit("m/a", config=script("new"))
    m.releases(ask)
    assert site.stands("m/a") == "pending"
    m.runs("a")
    assert site.stands("m/a") == "COMPLETE"


def test_a_run_of_which_nothing_is_known_any_more_may_have_started(site, m):
    site.deploy("m/a", policy="once")
    m.granted("a")
    m.copy(agent_state="state-2").arrives()
    assert site.stands("m/a") == "FAILED interrupted"
    site.edit("m/a", config=script("new"))
    assert site.of("m/a").standing.held


def test_the_run_of_a_machine_that_was_reset_is_not_a_start_of_the_next(site, m):
    site.deploy("m/a", policy="once")
    old = m.granted("a")
    m.starts(old)
    site.reset("m")
    assert m.ends(old).effect == "none"
    new = m.granted("a")
    m.releases(new)
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "pending"


def test_a_rerun_that_was_changed_while_it_was_granted_is_said_to_run_once_it_has_started(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.rerun("m/a")
    again = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert site.stands("m/a") == "granted held"
    assert m.starts(again).effect == "recorded"
    assert site.stands("m/a") == "running held"
    m.ends(again)
    assert site.stands("m/a") == "COMPLETE held"


def test_a_change_that_is_held_for_a_granted_rerun_is_not_asked_for_until_that_is_given_back(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.rerun("m/a")
    again = m.granted("a")
    site.edit("m/a", config=script("new"))
    assert not m.item("a")["ready"]
    assert m.claim("a") == ["blocked"]  # not `claimed`, which is for good
    m.releases(again)
    assert site.stands("m/a") == "pending"
    assert m.item("a")["ready"]
    assert m.claim("a") == ["granted"]


def test_it_may_become_once_after_it_ran(site, m):
    site.deploy("m/a")
    m.runs("a")
    site.edit("m/a", policy="once", config=script("new"))
    assert site.stands("m/a") == "COMPLETE held"


def test_it_may_cease_to_be_once_and_then_only_a_change_runs(site, m):
    site.deploy("m/a", policy="once")
    m.runs("a")
    site.edit("m/a", config=script("new"))
    site.edit("m/a", policy="on-change")
    assert site.stands("m/a") == "COMPLETE held"
    site.edit("m/a", config=script("newer"))
    assert site.stands("m/a") == "pending"
