"""`appliance plan switch` and `rollback`: what they tell before they do it."""

import json

import pytest

from ..samples import push, switch_to

A1, A2 = b"#!/bin/sh\necho 1\n", b"#!/bin/sh\necho 2\n"


@pytest.fixture
def lab(shell, database):
    push(database, "lab", {"a": A1, "b": b"x"})
    push(database, "lab", {"a": A2})
    switch_to(database, "lab", 1)
    for name in ("web-1", "web-2"):
        shell.ok("server", "add", name)
    shell.ok("deploy", "base", "--server", "web-*", "--plan", "lab", "--path", "a")
    (shell.root / "x.sh").write_text("#!/bin/sh\n")
    shell.ok("deploy", "after", "--server", "web-1", "--script", "x.sh", "--after", "base")
    return shell


def current(lab):
    return json.loads(lab.ok("plan", "show", "lab", "--json")[0])["current"]


def test_a_dry_run_tells_what_would_run_where_and_names_the_command_that_does_it(lab):
    out, err = lab.ok("plan", "switch", "lab", "2", "--dry-run")
    assert out.splitlines() == [
        "web-1 (never seen: runs when it joins)",
        "  after: does not change; waits for web-1/base",
        "  base: runs: file lab:a changed (version 2)",
        "web-2 (never seen: runs when it joins)",
        "  base: runs: file lab:a changed (version 2)",
    ]
    first, *rest = err.splitlines()
    assert first.startswith("lab from version 1 to version 2: 2 files differ, 1 of them removed; as of commit ")
    assert rest == [
        "moves 2 deployments on 2 servers (2 will run, 1 wait); nothing was changed",
        "next: appliance plan switch lab 2",
    ]
    assert current(lab) == 1
    told = json.loads(lab.ok("plan", "switch", "lab", "2", "--dry-run", "--json")[0])
    assert [one["name"] for one in told["preview"]] == ["web-1", "web-2"]


def test_a_switch_and_a_rollback_say_how_many_they_move_before_they_do(lab):
    _, err = lab.ok("plan", "switch", "lab", "2")
    assert err.splitlines()[0] == "switch lab to version 2: moves 2 deployments on 2 servers (2 will run, 1 wait)"
    assert err.splitlines()[1].startswith("lab is at version 2 now")
    _, err = lab.ok("plan", "rollback", "lab", "--dry-run")
    assert err.splitlines()[-1] == "next: appliance plan rollback lab"
    assert current(lab) == 2
    _, err = lab.ok("plan", "rollback", "lab")
    assert err.splitlines()[0] == "rollback lab to version 1: moves 2 deployments on 2 servers (2 will run, 1 wait)"


def test_max_affected_refuses_what_moves_more(lab):
    said = lab.fails(6, "plan", "switch", "lab", "2", "--max-affected", "1")
    assert said.startswith("appliance: this moves 2 of 3 deployments, and the limit is 1; 'lab' was not switched to version 2; see which")
    assert current(lab) == 1
    lab.fails(6, "plan", "switch", "lab", "2", "--max-affected", "1", "--dry-run")
    assert "neither a number nor a part" in lab.fails(2, "plan", "switch", "lab", "2", "--max-affected", "lots")
    lab.ok("plan", "switch", "lab", "2", "--max-affected", "2")
    lab.fails(6, "plan", "rollback", "lab", "--max-affected", "0")
    assert current(lab) == 2


def test_what_moves_nothing_says_so(lab, database):
    push(database, "lab", {"a": A1, "b": b"y"})
    out, err = lab.ok("plan", "switch", "lab", "3", "--dry-run")
    assert out == ""
    assert "no deployment uses a file that differs; nothing was changed" in err
    _, err = lab.ok("plan", "switch", "lab", "1", "--dry-run")
    assert "lab is at version 1 already: a switch to it does nothing" in err
