"""`appliance deployment ...` and `appliance config ...`."""

import json

import pytest


@pytest.fixture
def base(cli, name) -> str:
    """A deployment that has not run."""
    cli.ok("server", "add", name)
    cli.ok("deploy", "base", "--server", name, "--script", cli.file("hello.sh"), "--input", "who=me")
    return f"{name}/base"


def generation(cli, ref) -> int:
    number: int = cli.json("deployment", "show", ref)["generation"]["number"]
    return number


# ---------------------------------------------------------------------------------------------------- looking


def test_list_of_nothing_names_the_next_step(shell):
    shell.ok("server", "add", "web-1")
    assert shell.ok("deployment", "list") == ("", "nothing is deployed yet; next: appliance deploy NAME --script FILE\n")
    assert shell.ok("config", "list") == ("", "there is no config yet; next: appliance config create NAME --script FILE\n")


def test_list_is_narrowed_by_server_and_status(cli, base, name):
    out, _ = cli.ok("deployment", "list", "--server", name)
    assert out.splitlines()[0].split() == ["DEPLOYMENT", "STANDS", "SINCE", "GENERATION", "POLICY"]
    assert out.splitlines()[1].split()[:2] == [base, "pending"]
    assert [one["name"] for one in cli.json("deployment", "list", "--server", name, "--status", "in-progress")] == ["base"]
    assert cli.json("deployment", "list", "--server", name, "--status", "FAILED") == []
    assert "there is no such deployment" in cli.ok("deployment", "list", "--server", name, "--status", "complete")[1]
    with_typo = cli.fails(2, "deployment", "list", "--status", "done")
    assert "'done' is no status; there is: IN_PROGRESS, COMPLETE, FAILED" in with_typo
    assert "no server 'nobody'" in cli.fails(5, "deployment", "list", "--server", "nobody")


def test_show_says_what_it_is_and_where_it_stands(cli, base, name):
    cli.ok(
        "deploy",
        "app",
        "--server",
        name,
        "--script",
        cli.file("hello.sh"),
        "--after",
        "base",
        "--output",
        "oops:error",
        "--timeout",
        "90s",
    )
    out, err = cli.ok("deployment", "show", f"{name}/app")
    lines = [line.strip() for line in out.splitlines()]
    assert f"stands      blocked: waits for {base} (pending)" in lines
    assert "timeout     90 s" in lines
    assert "output      oops (an error)" in lines
    assert f"after       {base}" in lines
    assert err == f"next: appliance why {name}/app\n"
    by_id = cli.json("deployment", "show", cli.json("deployment", "show", base)["id"])
    assert by_id["name"] == "base"


@pytest.mark.parametrize(
    "ref", ["", "/", "x", "x/", "/x", "nobody/x", "00000000-0000-4000-8000-000000000000", "a b/c d", "../..", "x/y/z", "?/#"]
)
def test_what_names_no_deployment_is_one_line(cli, ref):
    for verb in (
        ["why"],
        ["log"],
        ["wait"],
        ["rerun"],
        ["deployment", "show"],
        ["deployment", "runs"],
        ["deployment", "update", "--drop", "x"],
    ):
        code, out, err = cli.run(*verb, ref)
        assert code in (2, 5)
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("appliance: ")


def test_runs_lists_generations_and_runs(cli, machine):
    ref = f"{machine.name}/base"
    cli.ok("deploy", "base", "--server", machine.name, "--script", cli.file("bad.sh", "#!/bin/sh\nexit 4\n"))
    out, err = cli.ok("deployment", "runs", ref)
    assert "it has not run yet" in err
    machine.one_pass(check=1)
    cli.ok("rerun", ref)
    out, err = cli.ok("deployment", "runs", ref)
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][0] == "2"
    assert lines[1][-3:] == ["rerun", "by", "admin"]
    assert "FAILED (exited with status 4)" in out
    assert err.startswith(f"next: appliance log {ref} --run ")


# ---------------------------------------------------------------------------------------------------- update


@pytest.mark.parametrize(
    "words, says",
    [
        (["--input", "who=you"], "generation 2 (input who changed)"),
        (["--drop", "who"], "generation 2 (input who removed)"),
        (["--secret", "who=me"], "updated (inputs changed that trigger nothing)"),
        (["--script", "other.sh"], "generation 2 (script changed)"),
        (["--timeout", "none"], "updated (no timeout); nothing runs for that"),
        (["--policy", "per-boot"], "updated (policy per-boot); nothing runs for that"),
        (["--policy", "always", "--interval", "5m"], "generation 2 (policy always, interval 300 s)"),
        (["--output", "x"], "updated (declarations of the config changed); nothing runs for that"),
        (["--input", "who=me"], "unchanged (ready; "),
    ],
)
def test_update_changes_what_is_said_and_tells_what_that_does(cli, base, words, says):
    cli.file("other.sh", "#!/bin/sh\necho other\n")
    _, err = cli.ok("deployment", "update", base, *words)
    assert err.startswith(f"{base}: {says}")
    assert cli.json("deployment", "show", base)["inputs"].keys() == ({"who"} if "--drop" not in words else set())


def test_update_of_the_script_leaves_the_rest_of_the_config(cli, base, name):
    cli.ok("deploy", "play", "--server", name, "--script", cli.file("a.yaml", "a: 1\n"), "--hook", "ansible", "--output", "x:error")
    cli.ok("deployment", "update", f"{name}/play", "--script", cli.file("b.yaml", "b: 2\n"))
    config = cli.json("deployment", "show", f"{name}/play")["config"]
    assert (config["group"], config["body"]) == ("ansible", "b: 2\n")
    assert [(one["name"], one["error_output"]) for one in config["outputs"]] == [("x", True)]
    assert "is not a '#!' line" in cli.fails(2, "deployment", "update", base, "--script", "b.yaml")


def test_update_can_rename_and_move_in_the_order(cli, base, name):
    cli.ok("deploy", "app", "--server", name, "--script", cli.file("hello.sh"), "--after", "base")
    cli.ok("deployment", "update", base, "--rename", "first")
    assert generation(cli, f"{name}/first") == 1
    cli.ok("deployment", "update", f"{name}/app", "--no-after")
    assert cli.json("deployment", "show", f"{name}/app")["depends_on"] == []
    cli.ok("deployment", "update", f"{name}/app", "--after", "first")
    assert "in a circle" in cli.fails(2, "deployment", "update", f"{name}/first", "--after", "app")
    assert "exists already" in cli.fails(6, "deployment", "update", f"{name}/first", "--rename", "app")


def test_update_needs_something_to_change(cli, base):
    assert "nothing says what to change" in cli.fails(2, "deployment", "update", base)
    assert "--no-after contradicts --after" in cli.fails(2, "deployment", "update", base, "--after", "x", "--no-after")
    assert "there is no input 'x' to take away" in cli.fails(2, "deployment", "update", base, "--drop", "x")


# ---------------------------------------------------------------------------------------------------- delete


def test_delete_is_all_or_nothing_and_names_who_depends_on_it(cli, base, name):
    cli.ok("deploy", "app", "--server", name, "--script", cli.file("hello.sh"), "--after", "base")
    assert f"{base} is needed by {name}/app" in cli.fails(6, "deployment", "delete", base, "--yes")
    assert "no deployment" in cli.fails(5, "deployment", "delete", f"{name}/app", f"{name}/nothing", "--yes")
    assert len(cli.json("deployment", "list", "--server", name)) == 2
    line = cli.fails(2, "deployment", "delete", base, f"{name}/app")
    assert line == f"appliance: this would delete {base}, {name}/app; say --yes if that is meant"
    cli.ok("deployment", "delete", base, f"{name}/app", "--yes")
    assert cli.json("deployment", "list", "--server", name) == []


def test_what_a_deleted_one_did_can_still_be_read(cli, machine):
    ref = f"{machine.name}/base"
    cli.ok("deploy", "base", "--server", machine.name, "--script", cli.file("hello.sh"))
    machine.one_pass()
    id = cli.json("deployment", "show", ref)["id"]
    cli.ok("deployment", "delete", ref, "--yes")
    assert "was deleted" in cli.fails(5, "why", id)
    assert cli.ok("log", id)[0] == "hello\n"


# ---------------------------------------------------------------------------------------------------- configs


def test_a_config_declares_inputs_and_is_shared(cli, name):
    for server in (f"{name}a", f"{name}b"):
        cli.ok("server", "add", server)
    declared = ["--input", "who", "--input", "count:number=3", "--input", "many:Json=[1]", "--output", "result", "--output", "oops:error"]
    id = cli.ok("config", "create", name, "--script", cli.file("hello.sh"), *declared)[0].strip()
    found = cli.json("config", "show", id)
    assert [one["name"] for one in found["inputs"]] == ["who", "count", "many"]
    assert [one["error_output"] for one in found["outputs"]] == [False, True]
    out, err = cli.ok("config", "show", name)
    assert "input   who (String, required)" in out
    assert 'input   count (Number, default "3")' in out
    assert out.endswith("#!/bin/sh\necho hello $who\n")
    assert err == f"next: appliance deploy NAME --config {id}\n"
    deploy = ["deploy", "shared", "--server", f"{name}*", "--config"]
    assert "required input without a value: who " in cli.fails(2, *deploy, name)
    assert "input 'count' is of type Number" in cli.fails(2, *deploy, name, "--input", "who=x", "--input", "count=many")
    assert "the config has no input 'other' " in cli.fails(2, *deploy, id, "--input", "who=x", "--input", "other=x")
    cli.ok(*deploy, name, "--input", "who=x")
    assert {one["config"] for one in cli.json("deployment", "list", "--server", f"{name}a")} == {id}
    assert f"config {id} is used by {name}a/shared, {name}b/shared" in cli.fails(6, "config", "delete", name)
    cli.ok("deployment", "delete", f"{name}a/shared", f"{name}b/shared", "--yes")
    cli.ok("config", "delete", id)
    assert f"config {id!r}" in cli.fails(5, *deploy, id, "--input", "who=x")


def test_a_name_that_several_configs_have_is_refused_with_their_ids(cli, name):
    ids = [cli.ok("config", "create", name, "--script", cli.file("hello.sh"))[0].strip() for _ in range(2)]
    line = cli.fails(6, "config", "show", name)
    assert f"2 configs are named {name!r}" in line
    assert all(id in line for id in ids)
    assert "no config 'unknown'" in cli.fails(5, "config", "show", "unknown")


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "nothing says what to run"),
        (["--script", "hello.sh", "--input", "x:Colour"], "there is no type 'Colour'; types are String, Number"),
        (["--script", "hello.sh", "--input", "x:number=many"], "input 'x' is of type Number"),
        (["--script", "hello.sh", "--input", "x", "--input", "x"], "input 'x' is declared twice"),
        (["--script", "hello.sh", "--hook", "a b"], "group name 'a b' is not allowed"),
    ],
)
def test_a_config_that_cannot_be_is_refused(cli, words, says):
    cli.file("hello.sh")
    before = cli.lab.client.get("/v1/audit", limit=1)
    assert says in cli.fails(2, "config", "create", "new", *words)
    assert cli.lab.client.get("/v1/audit", limit=1) == before


def test_config_list_leaves_the_bodies_out(cli, name):
    cli.ok("config", "create", name, "--script", cli.file("hello.sh"))
    found = cli.json("config", "list")
    assert next(one for one in found if one["name"] == name)["size"] == 26
    assert not any("body" in one for one in found)
    assert json.dumps(found)
