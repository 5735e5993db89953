"""`status`, `why`, `log`, `wait`, `rerun`: against a serving process, with real agents."""

import json
import time

import pytest

from ..lab import PATIENCE
from .conftest import Cli

TALKATIVE = """#!/bin/sh
echo to stdout
echo to stderr >&2
printf 'one\\ntwo' > $heat_outputs_path.lines
"""
LOUD = "#!/bin/sh\nyes 0123456789 | head -c 3000000\n"
RED = "#!/bin/sh\nprintf '\\033[31mred' > $heat_outputs_path.oops\nprintf '\\033[31mred\\033[0m\\n'\n"


@pytest.fixture(scope="module")
def ran(serving):
    """A machine on which these have run: good, bad (FAILED), after bad (blocked), loud, red (error output), odd (no hook)."""
    machine = serving.machine("ran")
    serving.deploy(machine, "good", TALKATIVE, outputs=[{"name": "lines"}])
    serving.deploy(machine, "bad", "#!/bin/sh\necho no\nexit 3\n")
    serving.deploy(machine, "waits", "#!/bin/sh\n", depends_on=["ran/bad"])
    serving.deploy(machine, "loud", LOUD)
    serving.deploy(machine, "red", RED, outputs=[{"name": "oops", "error_output": True}])
    serving.deploy(machine, "odd", "text", group="unheard-of")
    machine.one_pass(check=None)
    return machine


# ---------------------------------------------------------------------------------------------------- status


def test_status_of_nothing_names_the_first_step(shell):
    out, err = shell.ok("status")
    assert out == "no servers yet\n"
    assert err == "next: appliance server add NAME\n"
    out, err = shell.ok("status", "--json")
    assert json.loads(out)["servers"] == []
    assert err == ""


def test_status_of_a_fresh_server_says_that_it_has_not_joined(shell):
    shell.ok("server", "add", "web-1")
    out, err = shell.ok("status")
    assert out.splitlines()[1].split() == ["web-1", "not", "joined", "never", "none"]
    assert err == "next: appliance deploy NAME --script FILE\n"


def test_status_shows_failures_first_and_says_why(cli, ran, machine):
    out, err = cli.ok("status")
    lines = out.splitlines()
    assert lines[0].split() == ["SERVER", "AGENT", "SEEN", "DEPLOYMENTS"]
    assert lines[1].startswith("ran ")
    assert "3 failed, 1 blocked, 2 complete" in lines[1]
    assert "agent 0." in lines[1]
    assert " s ago" in lines[1]
    assert "ran/bad: failed (exit): exited with status 3" in lines
    assert "ran/waits: blocked: waits for ran/bad (FAILED)" in lines
    assert any(line.startswith("ran/odd: failed (no-hook): ") for line in lines)
    assert "\x1b" not in out
    assert err.splitlines()[-1].startswith("next: appliance why ")  # of the first failed one, which may be another test's


def test_status_as_json_holds_what_needs_a_look(cli, ran):
    found = cli.json("status")
    assert {one["name"] for one in found["attention"] if one["server"]["name"] == "ran"} == {"bad", "red", "odd", "waits"}
    assert found["insecure"] is False
    assert any(one["name"] == "ran" and one["deployments"]["FAILED"] == 3 for one in found["servers"])


def test_status_shows_trouble_with_its_remedy(own, tmp_path, capsys, monkeypatch):
    machine = own.machine("web-1")
    machine._fact("etc/machine-id", "1" * 32)
    machine._fact("var/lib/cloud/data/instance-id", "i-other")
    machine.one_pass(check=None)
    out, err = Cli(own, tmp_path, capsys, monkeypatch).ok("status")
    assert "web-1: nothing runs there: " in out
    assert "appliance server reset web-1" in out
    assert "next: appliance server show web-1" in err


def test_status_names_the_silent_server_that_holds_others_up(own, tmp_path, capsys, monkeypatch):
    cli = Cli(own, tmp_path, capsys, monkeypatch)
    for name in ("db-1", "web-1"):
        own.machine(name)
    script = cli.file("hello.sh")
    cli.ok("deploy", "base", "--server", "db-1", "--script", script)
    cli.ok("deploy", "app", "--server", "web-1", "--script", script, "--after", "db-1/base")
    own.stop()
    with own.database() as database:
        database.execute("UPDATE seen SET at = at - 250000")
    own.serve()
    own.machines["web-1"].one_pass()
    out, err = cli.ok("status")
    assert "db-1 was last seen 4 min ago; 2 deployments wait for it: db-1/base, web-1/app" in out
    assert "  start the agent there: appliance agent run" in out.splitlines()
    assert err.splitlines()[-1] == "next: appliance why db-1/base"
    assert [(one["server"], one["waiting"]) for one in cli.json("status")["silent"]] == [("db-1", ["db-1/base", "web-1/app"])]
    out, _ = cli.ok("why", "db-1/base")
    assert "start the agent on db-1, as root: appliance agent run" in out
    assert "db-1 was last seen 4 min ago" in out
    assert cli.ok("why", "web-1/app")[1] == "next: appliance why db-1/base\n"


# ---------------------------------------------------------------------------------------------------- why


def test_why_says_what_failed_and_what_to_do(cli, ran):
    out, err = cli.ok("why", "ran/bad")
    assert out.splitlines()[0] == "ran/bad: failed (exit)"
    assert "exited with status 3" in out
    assert err == "next: appliance rerun ran/bad\n"
    out, err = cli.ok("why", "ran/waits")
    assert "waits for ran/bad (FAILED)" in out
    assert err == "next: appliance rerun ran/bad\n"
    assert cli.json("why", "ran/bad")["next"] == "appliance rerun ran/bad"


def test_what_a_machine_says_cannot_steer_the_terminal(cli, ran):
    for words in (["why", "ran/red"], ["status"], ["deployment", "show", "ran/red"], ["log", "ran/red", "--output", "oops", "--json"]):
        out, err = cli.ok(*words)
        assert "red" in out
        assert "\x1b" not in out + err


def test_a_deployment_may_have_the_name_of_a_verb(cli, name):
    cli.ok("server", "add", name)
    script = cli.file("hello.sh")
    for verb in ("why", "runs", "rerun"):
        cli.ok("deploy", verb, "--server", name, "--script", script)
        assert cli.ok("why", f"{name}/{verb}")[0].startswith(f"{name}/{verb}: pending")
        cli.ok("rerun", f"{name}/{verb}")
        assert cli.json("deployment", "show", f"{name}/{verb}")["generation"]["number"] == 2
    assert f"no deployment '{name}/cancel'" in cli.fails(5, "why", f"{name}/cancel")


# ---------------------------------------------------------------------------------------------------- log


def test_log_puts_what_was_printed_on_standard_output_and_all_else_beside_it(cli, ran):
    out, err = cli.ok("log", "ran/good")
    assert out == "to stdout\n"
    lines = err.splitlines()
    assert lines[0].startswith("ran/good: run ")
    assert " of generation 1: " in lines[0]
    assert "to stderr" in lines
    assert "output lines: one" in err
    assert cli.ok("log", "ran/good", "--output", "lines")[0] == "one\ntwo\n"
    assert cli.json("log", "ran/good")["outputs"] == {"lines": "one\ntwo"}
    assert "has put out no 'x'; it has: lines" in cli.fails(5, "log", "ran/good", "--output", "x")


def test_log_of_a_failed_run_names_the_way_to_run_it_again(cli, ran):
    out, err = cli.ok("log", "ran/bad")
    assert out == "no\n"
    assert "next: appliance rerun ran/bad" in err


def test_log_marks_what_was_cut_with_the_whole_size(cli, ran):
    out, err = cli.ok("log", "ran/loud")
    assert "3000000 bytes in all" in out
    assert "[stdout was cut: 25" in err
    assert "of 2.9 MiB are shown]" in err


def test_log_of_what_has_not_run_says_so(cli, ran):
    assert "ran/waits has not run yet (waits for ran/bad (FAILED))" in cli.fails(5, "log", "ran/waits")
    assert "no run 'ffff'" in cli.fails(5, "log", "ran/good", "--run", "ffff")


# ---------------------------------------------------------------------------------------------------- wait


def test_wait_ends_with_a_code_for_each_end(cli, ran, machine):
    assert cli.ok("wait", "ran/good")[1].splitlines() == ["ran/good: complete", "next: appliance log ran/good"]
    assert cli.run("wait", "ran/bad")[0] == 1
    assert "ran/odd: failed (no-hook): " in cli.run("wait", "ran/odd")[2]
    code, _, err = cli.run("wait", "ran/waits")
    assert code == 4
    assert "ran/waits: blocked: waits for ran/bad (FAILED)" in err
    cli.ok("deploy", "later", "--server", machine.name, "--script", cli.file("later.sh"))
    began = time.monotonic()
    code, _, err = cli.run("wait", f"{machine.name}/later", "--timeout", "1s")
    assert code == 3
    assert 0.9 < time.monotonic() - began < PATIENCE
    assert f"{machine.name}/later: still pending: ready; " in err
    assert err.splitlines()[-1] == f"next: appliance why {machine.name}/later"
    assert "no deployment 'ran/unknown'" in cli.fails(5, "wait", "ran/good", "ran/unknown")
    assert "no server 'nobody'" in cli.fails(5, "wait", "nobody/x")


def test_wait_for_several_awaits_all_and_has_the_worst_code(cli, ran):
    code, _, err = cli.run("wait", "ran/good", "ran/waits", "ran/bad", "ran/loud")
    assert code == 1
    assert [line.partition(":")[0] for line in err.splitlines()] == ["ran/good", "ran/waits", "ran/bad", "ran/loud", "next"]
    assert cli.run("wait", "ran/good", "ran/waits")[0] == 4
    code, out, _ = cli.run("wait", "ran/good", "ran/bad", "--json")
    assert [one["exit_code"] for one in json.loads(out)] == [0, 1]


def test_wait_sees_the_end_of_what_runs_now(cli, machine):
    ref = f"{machine.name}/slow"
    cli.ok("deploy", "slow", "--server", machine.name, "--script", cli.file("slow.sh", "#!/bin/sh\nsleep 0.7\n"))
    with cli.waiting(ref) as waiting:
        machine.start()
        assert waiting.wait(PATIENCE) == 0
        assert f"{ref}: complete" in waiting.stderr.read().decode()


def test_wait_ends_when_what_it_waits_for_is_deleted(cli, name):
    cli.ok("server", "add", name)
    cli.ok("deploy", "gone", "--server", name, "--script", cli.file("hello.sh"))
    with cli.waiting(f"{name}/gone") as waiting:
        cli.ok("deployment", "delete", f"{name}/gone", "--yes")
        assert waiting.wait(PATIENCE) == 5
        assert f"{name}/gone: was deleted" in waiting.stderr.read().decode()


def test_wait_goes_on_with_the_generation_that_took_the_place(cli, machine):
    ref = f"{machine.name}/moving"
    cli.ok("deploy", "moving", "--server", machine.name, "--script", cli.file("hello.sh"))
    with cli.waiting(ref) as waiting:
        cli.ok("deployment", "update", ref, "--input", "who=you")
        machine.one_pass()
        assert waiting.wait(PATIENCE) == 0
        err = waiting.stderr.read().decode()
    assert f"{ref}: generation 2 (update by admin) took its place; waiting for that" in err
    assert f"{ref}: complete" in err


def test_wait_goes_on_through_a_restart_of_the_appliance(own, tmp_path, capsys, monkeypatch):
    cli = Cli(own, tmp_path, capsys, monkeypatch)
    machine = own.machine("web-1")
    cli.ok("deploy", "base", "--script", cli.file("hello.sh"))
    with cli.waiting("web-1/base", "--timeout", "90s") as waiting:
        own.kill()
        assert b"trying again" in waiting.stderr.readline()
        own.serve()
        machine.one_pass()
        assert waiting.wait(PATIENCE) == 0
        assert "web-1/base: complete" in waiting.stderr.read().decode()
    own.stop()
    assert "no appliance answers" in cli.fails(7, "wait", "web-1/base")


def test_wait_gives_up_at_its_timeout_while_nothing_answers(own, tmp_path, capsys, monkeypatch):
    cli = Cli(own, tmp_path, capsys, monkeypatch)
    cli.ok("server", "add", "web-1")
    cli.ok("deploy", "base", "--script", cli.file("hello.sh"))
    with cli.waiting("web-1/base", "--timeout", "4s") as waiting:
        own.kill()
        assert waiting.wait(PATIENCE) == 3
        assert "web-1/base: not known: no appliance answers" in waiting.stderr.read().decode()


# ---------------------------------------------------------------------------------------------------- rerun


def test_rerun_runs_it_exactly_once_more_and_keeps_the_earlier_result(cli, machine):
    ref = f"{machine.name}/counted"
    cli.ok(
        "deploy",
        "counted",
        "--server",
        machine.name,
        "--script",
        cli.file("counted.sh", machine.script("counted", "echo $deploy_generation")),
    )
    machine.one_pass()
    _, err = cli.ok("rerun", ref)
    assert err.splitlines()[0].startswith(f"{ref}: generation 2 (rerun); ready; ")
    assert err.splitlines()[-1] == f"next: appliance wait {ref}"
    machine.one_pass()
    machine.one_pass()
    assert machine.count("counted") == 2
    newest, first = cli.json("deployment", "runs", ref)["runs"]
    assert cli.ok("log", ref)[0] == "2\n"
    assert cli.ok("log", ref, "--run", first["id"][:8])[0] == "1\n"
    assert cli.ok("log", ref, "--run", newest["id"])[0] == "2\n"


def test_rerun_of_several_is_all_or_nothing(cli, ran):
    before = cli.json("deployment", "show", "ran/good")["generation"]["number"]
    assert "no deployment 'ran/unknown'" in cli.fails(5, "rerun", "ran/good", "ran/unknown")
    assert cli.json("deployment", "show", "ran/good")["generation"]["number"] == before


def test_rerun_can_wait_for_the_end(cli, machine):
    ref = f"{machine.name}/bad"
    cli.ok("deploy", "bad", "--server", machine.name, "--script", cli.file("bad.sh", "#!/bin/sh\nexit 1\n"))
    machine.start()
    assert cli.run("wait", ref)[0] == 1
    code, _, err = cli.run("rerun", ref, "--wait")
    assert code == 1
    assert f"{ref}: failed (exit): exited with status 1" in err
