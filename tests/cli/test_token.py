"""`appliance token ...` and `appliance audit`."""

import json
import subprocess
import sys

import pytest

from .conftest import Cli


def test_create_prints_only_the_token_and_it_opens_what_its_role_may(shell):
    out, err = shell.ok("token", "create", "--role", "viewer", "--name", "ann", "--expires", "30d")
    assert out.startswith("app_")
    assert out.count("\n") == 1
    assert "a token for ann (viewer, until " in err
    token = out.strip()
    assert token not in err
    shell.ok("status", "--token", token)
    line = shell.fails(6, "server", "add", "web-1", "--token", token)
    assert line.startswith("appliance: ")
    assert json.loads(shell.ok("server", "list", "--json")[0]) == []


def test_a_revoked_token_opens_nothing(shell):
    token = shell.ok("token", "create", "--role", "operator", "--name", "ann")[0].strip()
    shell.ok("server", "add", "web-1", "--token", token)
    assert "revoked ann" in shell.ok("token", "revoke", "ann")[1]
    assert "this token is not known, has expired or was revoked" in shell.fails(6, "status", "--token", token)
    out, err = shell.ok("token", "list")
    assert "ann" not in out
    assert "and 1 that open nothing any more (--all)" in err
    assert "revoked 0 s ago" in shell.ok("token", "list", "--all")[0]
    assert token not in "".join(shell.ok("token", "list", "--json"))


def test_the_last_admin_cannot_lock_everybody_out(shell):
    assert "last admin token" in shell.fails(6, "token", "revoke", "admin")
    assert "no token 'nobody'" in shell.fails(5, "token", "revoke", "nobody")


@pytest.mark.parametrize(
    "words, says",
    [
        (["--name", "x"], "the following arguments are required: --role"),
        (["--role", "root", "--name", "x"], "argument --role: invalid choice: 'root'"),
        (["--role", "viewer", "--name", "a b"], "token name 'a b' is not allowed"),
        (["--role", "viewer", "--name", "x", "--expires", "0"], " in 0 s"),
        (["--role", "viewer", "--name", "x", "--expires", "soon"], "'soon' is not a length of time"),
    ],
)
def test_a_token_that_cannot_be_is_refused(shell, words, says):
    before = shell.ok("token", "list", "--json")[0]
    assert says in shell.fails(2, "token", "create", *words)
    assert shell.ok("token", "list", "--json")[0] == before


def test_the_owner_of_a_file_makes_one_while_nobody_serves_it(own, tmp_path, capsys, monkeypatch):
    cli = Cli(own, tmp_path, capsys, monkeypatch)
    create = ["token", "create", "--role", "admin", "--name", "owner", "--db", str(own.db)]
    line = cli.fails(6, *create)
    assert f"pid {own.appliance.pid}" in line
    assert line.endswith("; leave out --db to ask the appliance that serves it")
    own.stop()
    assert "no appliance answers" in cli.fails(7, "token", "list")
    out, err = cli.ok(*create, "--expires", "1h")
    assert f"next: appliance serve --db {own.db}" in err
    own.serve()
    cli.ok("token", "list", "--token", out.strip())
    assert "token create" in cli.ok("audit", "--limit", "1")[0]


def test_a_file_that_is_not_there_is_not_made(tmp_path, capsys, monkeypatch, shell):
    create = ["token", "create", "--role", "admin", "--name", "owner", "--db"]
    assert "there is no database nothing.db" in shell.fails(5, *create, "nothing.db")
    (tmp_path / "empty.db").touch()
    assert "there is no database empty.db" in shell.fails(5, *create, "empty.db")
    (tmp_path / "notes.db").write_text("my notes, not a database at all" * 100)
    assert shell.fails(2, *create, "notes.db").startswith("appliance: ")
    assert sorted(path.name for path in tmp_path.glob("nothing.db*")) == []
    assert (tmp_path / "empty.db").stat().st_size == 0
    assert (tmp_path / "notes.db").read_text().startswith("my notes")


def test_audit_says_who_did_what_the_newest_first(shell):
    token = shell.ok("token", "create", "--role", "operator", "--name", "ann")[0].strip()
    shell.ok("server", "add", "web-1", "--token", token)
    (shell.root / "hello.sh").write_text("#!/bin/sh\n")
    shell.ok("deploy", "base", "--script", "hello.sh", "--token", token)
    shell.ok("deployment", "update", "web-1/base", "--timeout", "5m")
    lines = [line.split() for line in shell.ok("audit", "--limit", "3")[0].splitlines()]
    assert [line[4:] for line in lines[1:]] == [
        ["admin", "deployment", "update", "web-1/base", "changes", "timeout", "300", "s"],
        ["ann", "deployment", "create", "web-1/base", "policy", "on-change"],
        ["ann", "server", "add", "web-1", "kind", "unenrolled"],
    ]
    of_one = json.loads(shell.ok("audit", "--object", "web-1/base", "--json")[0])
    assert [one["verb"] for one in of_one] == ["deployment update", "deployment create"]
    assert [one["verb"] for one in json.loads(shell.ok("audit", "--object", "web-1", "--json")[0])] == ["server add"]
    assert json.loads(shell.ok("audit", "--object", "nothing", "--json")[0]) == []
    assert shell.ok("audit", "--object", "nothing") == ("", "there is nothing about 'nothing'\n")


def test_a_closed_pipe_is_no_error(cli):
    words = [sys.executable, "-m", "appliance", "audit", "--json"]
    done = subprocess.run(["sh", "-c", '"$@" | true', "sh", *words], env=cli.lab.env(), capture_output=True, text=True)
    assert done.stderr == ""
