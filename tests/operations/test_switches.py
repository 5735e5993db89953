"""Switching: compare-and-set, force, rollback."""

import pytest

from appliance.errors import Conflict, NotFound
from appliance.operations import switches

from ..samples import opened, push, roll_back, state, switch_to


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def test_a_switch_is_one_row_and_says_what_changed(database):
    push(database, "lab", {"a": b"1", "b": b"1"})
    push(database, "lab", {"a": b"1", "b": b"2", "c": b"3"})
    first = switch_to(database, "lab", 1, expected=0)
    second = switch_to(database, "lab", 2, expected=1)
    assert (first.switch.serial, first.was, first.changed) == (1, None, 2)
    assert (second.switch.serial, second.was, second.changed) == (2, 1, 2)


def test_ops_15_a_switch_to_an_unknown_version_changes_nothing(database):
    push(database, "lab", {"a": b"1"})
    before = state(database)
    for to in (2, 10**14):
        with pytest.raises(NotFound):
            switch_to(database, "lab", to)
    with pytest.raises(NotFound):
        switch_to(database, "web", 1)
    assert state(database) == before


def test_a_switch_to_what_is_current_does_nothing(database):
    push(database, "lab", {"a": b"1"})
    switch_to(database, "lab", 1)
    before = state(database)
    assert switch_to(database, "lab", 1, expected=0).unchanged
    assert state(database) == before


def test_ato_08_a_switch_based_on_an_older_one_is_refused_and_force_is_recorded(database):
    for n in range(3):
        push(database, "lab", {"a": b"%d" % n})
    switch_to(database, "lab", 1, expected=0)
    switch_to(database, "lab", 2, expected=1, by="ann")
    before = state(database)
    with pytest.raises(Conflict) as caught:
        switch_to(database, "lab", 3, expected=1, by="bob")
    assert "switched to version 2 by ann at" in caught.value.message
    assert "--force" in caught.value.hint
    assert caught.value.detail["serial"] == 2
    assert state(database) == before
    assert switch_to(database, "lab", 3, expected=1, by="bob", force=True).switch.forced
    log = database.read(switches.log, "lab", limit=10)
    assert [(row.version, row.by, row.forced) for row in log] == [(3, "bob", True), (2, "ann", False), (1, "ann", False)]


def test_force_without_need_is_not_recorded_as_such(database):
    push(database, "lab", {"a": b"1"})
    assert not switch_to(database, "lab", 1, expected=0, force=True).switch.forced


def test_a_serial_of_a_plan_that_was_made_anew_is_refused(database):
    push(database, "lab", {"a": b"1"})
    with pytest.raises(Conflict, match="never switched"):
        switch_to(database, "lab", 1, expected=7)


def test_rollbacks_go_back_one_by_one_and_then_say_that_there_is_nothing(database):
    for n in range(3):
        push(database, "lab", {"a": b"%d" % n})
        switch_to(database, "lab", n + 1)
    assert [roll_back(database, "lab").switch.version for _ in range(2)] == [2, 1]
    with pytest.raises(Conflict, match="no version to go back to"):
        roll_back(database, "lab")
    assert [row.back_to for row in database.read(switches.log, "lab", limit=9)] == [1, 2, None, None, None]


def test_a_rollback_is_compared_and_set_too(database):
    for n in range(2):
        push(database, "lab", {"a": b"%d" % n})
        switch_to(database, "lab", n + 1)
    with pytest.raises(Conflict):
        roll_back(database, "lab", expected=1)
    assert roll_back(database, "lab", expected=1, force=True).switch.forced
