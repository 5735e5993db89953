"""`appliance server ...`: machines, and how they join."""

import json
import shlex
import subprocess
import sys

import pytest

from appliance.web.context import Settings

from .serving import Shell, served


def test_add_prints_what_joins_a_machine_and_that_works(cli, name, tmp_path):
    out, err = cli.ok("server", "add", name, "--label", "rack3", "--label", "x")
    join, run = out.splitlines()
    assert join.startswith(f"appliance agent join {cli.lab.url} app_")
    assert run == "appliance agent run"
    assert f"curl -fsS {cli.lab.url}/agent.pyz -o agent.pyz && python3 agent.pyz join {cli.lab.url} app_" in err
    env = {**cli.lab.env(), "APPLIANCE_AGENT_STATE": str(tmp_path / "agent")}
    words = [sys.executable, "-m", *shlex.split(join)]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"joined {cli.lab.url} as {name}" in done.stdout
    out, err = cli.ok("server", "show", name)
    assert "labels     rack3 x" in out
    assert "hooks      plan, script" in out


def test_add_on_loopback_says_that_only_this_machine_can_join_and_how_to_be_reachable(cli, name):
    _, err = cli.ok("server", "add", name)
    assert "these lines work on this machine only" in err
    assert "appliance serve --listen ADDRESS:PORT --url https://NAME:PORT --tls-cert FILE --tls-key FILE" in err
    assert "--insecure-http" in err


@pytest.mark.parametrize("url, flag", [("https://lab.example:8642", ""), ("http://lab.example:8642", " --insecure-http")])
def test_add_on_a_network_prints_lines_for_other_machines(database, tmp_path, capsys, monkeypatch, url, flag):
    with served(database, Settings(url=url, hosts=frozenset({"127.0.0.1"}), loopback=False)) as here:
        out, err = Shell(tmp_path, here, capsys, monkeypatch).ok("server", "add", "web-1")
    join, run = out.splitlines()
    assert join.startswith(f"appliance agent join {url} app_")
    assert join.endswith(flag or join[-1])
    assert run == f"appliance agent run{flag}"
    assert "this machine only" not in err


def test_a_stock_server_has_its_whole_configuration_alone_on_standard_output(cli, name):
    out, err = cli.ok("server", "add", name, "--stock")
    assert out.startswith("[DEFAULT]\n")
    assert f"metadata_url = {cli.lab.url}/metadata/" in out
    assert "/etc/os-collect-config.conf" in err
    again, _ = cli.ok("server", "show", name, "--stock")
    assert again == out
    assert "does not join" in cli.fails(6, "server", "token", name)
    assert "its agent has never asked" in cli.ok("server", "show", name)[1]
    assert "is not marked for a stock agent" in cli.fails(6, "server", "show", cli.json("server", "add", name + "b")["name"], "--stock")


def test_token_prints_only_the_token_and_revokes_the_one_before(cli, name, tmp_path):
    first = cli.json("server", "add", name)["join_token"]
    out, err = cli.ok("server", "token", name)
    assert out.startswith("app_")
    assert out.count("\n") == 1
    assert out.strip() not in err
    env = {**cli.lab.env(), "APPLIANCE_AGENT_STATE": str(tmp_path / "agent")}
    join = [sys.executable, "-m", "appliance", "agent", "join", cli.lab.url]
    refused = subprocess.run([*join, first], env=env, capture_output=True, text=True)
    assert refused.returncode == 6
    assert subprocess.run([*join, out.strip()], env=env, capture_output=True, text=True).returncode == 0


def test_labels_are_added_and_taken_away(cli, name):
    cli.ok("server", "add", name, "--label", "old")
    _, err = cli.ok("server", "label", name, "--add", f"new-{name}", "--remove", "old")
    assert err.splitlines()[0] == f"{name}: labels new-{name}"
    assert [one["name"] for one in cli.json("server", "list", "--label", f"new-{name}")] == [name]
    out, err = cli.ok("server", "list", "--label", "nothing-has-this")
    assert out == ""
    assert "no server has the label 'nothing-has-this'" in err


def test_list_of_nothing_names_the_next_step(shell):
    assert shell.ok("server", "list") == ("", "there is no server yet; next: appliance server add NAME\n")


def test_a_server_can_be_renamed_and_keeps_what_it_has(cli, name):
    cli.ok("server", "add", name)
    cli.ok("deploy", "base", "--server", name, "--script", cli.file("hello.sh"))
    cli.ok("server", "rename", name, f"{name}-new")
    assert cli.json("deployment", "show", f"{name}-new/base")["generation"]["number"] == 1
    assert f"no server '{name}'" in cli.fails(5, "server", "show", name)


def test_reset_says_what_it_would_do_and_runs_all_again(cli, machine):
    cli.ok("deploy", "a", "--server", machine.name, "--script", cli.file("a.sh", machine.script("a")))
    cli.ok("deploy", "b", "--server", machine.name, "--script", cli.file("b.sh", machine.script("b")), "--policy", "once")
    machine.one_pass()
    line = cli.fails(2, "server", "reset", machine.name)
    assert line.startswith(
        f"appliance: this would forget what was done on {machine.name}: 2 deployments will run again on the next machine"
    )
    machine.one_pass()
    assert (machine.count("a"), machine.count("b")) == (1, 1)
    assert f"reset {machine.name}: 2 deployments will run again" in cli.ok("server", "reset", machine.name, "--yes")[1]
    machine.one_pass()
    assert (machine.count("a"), machine.count("b")) == (2, 2)


def test_what_cannot_be_undone_asks_on_a_terminal(cli, name, monkeypatch):
    class Terminal:
        answer = "no"

        def isatty(self):
            return True

        def readline(self):
            return self.answer + "\n"

    cli.ok("server", "add", name)
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert "nothing was changed" in cli.fails(2, "server", "remove", name)
    cli.ok("server", "show", name)
    monkeypatch.setattr(Terminal, "answer", name)
    _, err = cli.ok("server", "remove", name)
    assert f"remove {name} with 0 deployments? type {name} to go on:" in err
    assert f"no server '{name}'" in cli.fails(5, "server", "show", name)


def test_remove_takes_the_deployments_along(cli, name):
    cli.ok("server", "add", name)
    cli.ok("deploy", "base", "--server", name, "--script", cli.file("hello.sh"))
    id = cli.json("deployment", "show", f"{name}/base")["id"]
    assert f"removed {name} with 1 deployment;" in cli.ok("server", "remove", name, "--yes")[1]
    assert "was deleted" in cli.fails(5, "deployment", "show", id)
    assert f"no server '{name}'" in cli.fails(5, "server", "remove", name, "--yes")


def test_names_of_servers_are_quoted_in_urls(cli):
    for odd in ("a/b", "a b", "ä", "..", "a?b=c", "a#b", "%2e"):
        assert "not allowed" in cli.fails(2, "server", "add", odd)
        assert f"no server {odd!r}" in cli.fails(5, "server", "show", odd)


def test_show_as_json_holds_the_deployments(cli, name):
    cli.ok("server", "add", name)
    cli.ok("deploy", "base", "--server", name, "--script", cli.file("hello.sh"))
    found = cli.json("server", "show", name)
    assert [one["name"] for one in found["deployments"]] == ["base"]
    assert found["counts"] == {"pending": 1}
    out, _ = cli.ok("server", "list", "--json")
    assert name in [one["name"] for one in json.loads(out)]
