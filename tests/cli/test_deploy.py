"""`appliance deploy`: what servers must run, in one commit for all of them."""

import io
import json

import pytest

HOOKED = "#!/bin/sh\necho $who $pass\n"


@pytest.fixture
def three(shell):
    """Three servers, two of them in rack3."""
    for name, label in (("db-1", "rack1"), ("web-1", "rack3"), ("web-2", "rack3")):
        shell.ok("server", "add", name, "--label", label)
    (shell.root / "hello.sh").write_text("#!/bin/sh\necho hello\n")
    (shell.root / "other.sh").write_text("#!/bin/sh\necho other\n")
    return shell


def there(shell) -> set[str]:
    found = json.loads(shell.ok("deployment", "list", "--json")[0])
    return {f"{one['server']['name']}/{one['name']}" for one in found}


def commit(shell) -> int:
    return int(json.loads(shell.ok("audit", "--json", "--limit", "1")[0])[0]["commit"])


def test_with_one_server_it_need_not_be_named(shell):
    shell.ok("server", "add", "web-1")
    (shell.root / "hello.sh").write_text("#!/bin/sh\n")
    _, err = shell.ok("deploy", "base", "--script", "hello.sh")
    assert err.splitlines() == [
        "web-1/base: created; ready; web-1 was never seen, it runs when it joins",
        "next: appliance wait web-1/base",
    ]


def test_with_none_or_several_it_must_be(shell):
    (shell.root / "hello.sh").write_text("#!/bin/sh\n")
    assert "there is no server yet; add one with: appliance server add NAME" in shell.fails(5, "deploy", "base", "--script", "hello.sh")
    shell.ok("server", "add", "web-1")
    shell.ok("server", "add", "web-2")
    assert "there are 2 servers, so say which one it is for; --server takes one of: web-1, web-2" in shell.fails(
        2, "deploy", "base", "--script", "hello.sh"
    )


@pytest.mark.parametrize(
    "words, servers",
    [
        (["web-1"], {"web-1"}),
        (["web-*"], {"web-1", "web-2"}),
        (["label:rack3"], {"web-1", "web-2"}),
        (["db-1", "web-2"], {"db-1", "web-2"}),
        (["*", "label:rack1"], {"db-1", "web-1", "web-2"}),
        (["web-[!1]"], {"web-2"}),
    ],
)
def test_servers_are_chosen_by_name_label_and_pattern_in_one_commit(three, words, servers):
    three.ok("deploy", "base", "--script", "hello.sh", *[word for server in words for word in ("--server", server)])
    assert there(three) == {f"{server}/base" for server in servers}
    found = json.loads(three.ok("deployment", "list", "--json")[0])
    assert len({one["generation"]["commit"] for one in found}) == 1


def test_what_names_no_server_is_refused(three):
    for word in ("web-9", "web-9*", "label:rack9", "WEB-1"):
        assert f"{word!r}; see: appliance server list" in three.fails(5, "deploy", "base", "--script", "hello.sh", "--server", word)
    assert there(three) == set()


def test_it_says_created_changed_or_unchanged_for_each(three):
    deploy = ["deploy", "base", "--server", "web-*"]
    assert "web-2/base: created" in three.ok(*deploy, "--script", "hello.sh")[1]
    before = commit(three)
    _, err = three.ok(*deploy, "--script", "hello.sh")
    assert err.splitlines()[0].startswith("web-1/base: unchanged (ready; ")
    assert commit(three) == before
    _, err = three.ok(*deploy, "--script", "other.sh", "--input", "who=me")
    assert "web-1/base: generation 2 (script changed, input who added); ready" in err
    _, err = three.ok(*deploy, "--script", "other.sh", "--input", "who=me", "--timeout", "10m")
    assert "web-1/base: updated (timeout 600 s); nothing runs for that" in err


def test_of_several_servers_all_or_none_change_and_the_guilty_one_is_named(three):
    three.ok("deploy", "first", "--script", "hello.sh", "--server", "web-1")
    line = three.fails(5, "deploy", "second", "--script", "hello.sh", "--server", "web-*", "--after", "first")
    assert "'web-2/first'" in line
    assert "(for web-2; nothing was changed on any server)" in line
    assert there(three) == {"web-1/first"}


def test_after_takes_a_name_of_the_same_server_or_another_servers(three):
    three.ok("deploy", "schema", "--script", "hello.sh", "--server", "db-1")
    three.ok("deploy", "base", "--script", "hello.sh", "--server", "web-*")
    _, err = three.ok("deploy", "app", "--script", "hello.sh", "--server", "web-*", "--after", "base", "--after", "db-1/schema")
    assert "web-2/app: created; waits for db-1/schema (pending), web-2/base (pending)" in err
    line = three.fails(2, "deploy", "base", "--script", "hello.sh", "--server", "web-1", "--after", "app")
    assert "in a circle: " in line
    assert "itself" in three.fails(2, "deploy", "new", "--script", "hello.sh", "--server", "web-1", "--after", "new")


@pytest.mark.parametrize(
    "content, says",
    [
        (None, "missing.sh cannot be read: No such file or directory"),
        (b"echo hello\n", "line 1 of bad.sh is not a '#!' line: 'echo hello'; begin the script with '#!/bin/sh' or the like"),
        (b"#!/bin/sh\r\necho\r\n", "line 1 of bad.sh ends in CR LF: '#!/bin/sh\\r'; save it with LF line ends"),
        (b"#!/bin/sh\n\xff\xfe\n", "bad.sh is not text: line 2 is not UTF-8"),
        (b"#!/bin/sh\n\0\n", "bad.sh is not text: it has a NUL byte"),
        (b"", "bad.sh is for the hook 'script', but its body is empty"),
    ],
)
def test_what_is_no_script_is_refused_before_anything_is_asked(shell, content, says):
    if content is not None:
        (shell.root / "bad.sh").write_bytes(content)
    shell.environment["APPLIANCE_URL"] = "http://127.0.0.1:1"  # nobody answers there
    line = shell.fails(2, "deploy", "base", "--script", "missing.sh" if content is None else "bad.sh")
    assert says in line


def test_another_hook_takes_any_text(three):
    (three.root / "play.yaml").write_text("- hosts: all\n")
    three.ok("deploy", "play", "--script", "play.yaml", "--hook", "ansible", "--server", "web-1")
    config = json.loads(three.ok("deployment", "show", "web-1/play", "--json")[0])["config"]
    assert config["group"] == "ansible"


@pytest.mark.parametrize(
    "words, says",
    [
        ([], "nothing says what to run; give --script FILE"),
        (["--plan", "lab"], "--plan and --path go together"),
        (["--script", "hello.sh", "--plan", "lab", "--path", "x"], "--script and --plan are two ways"),
        (["--script", "hello.sh", "--config", "x"], "--config says what to run"),
        (["--config", "x", "--output", "y"], "--config says what to run"),
        (["--script", "hello.sh", "--input", "novalue"], "--input takes NAME=VALUE, and got 'novalue'"),
        (["--script", "hello.sh", "--input", "a=1", "--input", "a=2"], "--input a is given twice"),
        (["--script", "hello.sh", "--secret", "hunter2"], "--secret takes NAME=VALUE, and got a value without '='"),
        (["--script", "hello.sh", "--secret", "p=@nofile"], "the file of --secret p cannot be read"),
        (["--script", "hello.sh", "--input", "deploy_x=1"], "names that begin with 'deploy_' are set by the appliance"),
        (["--script", "hello.sh", "--input", "a b=1"], "input name 'a b' is not allowed"),
        (["--script", "hello.sh", "--input", "a=1", "--secret", "a=1"], "given both plain and secret"),
        (["--script", "hello.sh", "--output", "a/b"], "output name 'a/b' is not allowed"),
        (["--script", "hello.sh", "--interval", "5m"], "an interval goes with policy always"),
        (["--script", "hello.sh", "--policy", "always", "--interval", "5s"], "an interval of 5 s is too short; use at least 30 s"),
        (["--script", "hello.sh", "--timeout", "0"], "a timeout of 0 s is out of range"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_changes_nothing(three, words, says):
    before = commit(three)
    code, out, err = three.run("deploy", "base", "--server", "web-1", *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1, err
    assert says in err
    assert "hunter2" not in err
    assert commit(three) == before
    assert there(three) == set()


def test_a_plan_file_is_deployed_by_reference(three):
    (three.root / "lab").mkdir()
    (three.root / "lab" / "a.sh").write_text("#!/bin/sh\necho 1\n")
    base = ["deploy", "base", "--server", "web-1", "--plan", "lab", "--path"]
    assert "no plan 'lab'" in three.fails(5, *base, "a.sh")
    three.ok("plan", "push", "lab")
    assert "has no current version" in three.fails(6, *base, "a.sh")
    three.ok("plan", "switch", "lab", "1")
    assert "has no file 'b.sh' in version 1" in three.fails(5, *base, "b.sh")
    three.ok(*base, "a.sh")
    (three.root / "lab" / "a.sh").write_text("#!/bin/sh\necho 2\n")
    three.ok("plan", "push", "lab", "--switch")
    out, _ = three.ok("deployment", "show", "web-1/base")
    assert "generation  2: switch by admin (file lab:a.sh changed (version 2))" in out
    assert "file a.sh of plan lab" in out


def test_a_script_can_come_from_standard_input(three, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"#!/bin/sh\necho piped\n")))
    three.ok("deploy", "base", "--server", "web-1", "--script", "-")
    config = json.loads(three.ok("deployment", "show", "web-1/base", "--json")[0])["config"]
    assert config["body"] == "#!/bin/sh\necho piped\n"


def test_policies_that_repeat_say_so(three):
    for policy, says in (("per-boot", "it runs at each boot"), ("always", "it runs at each start of the agent")):
        _, err = three.ok("deploy", policy, "--server", "web-*", "--script", "hello.sh", "--policy", policy)
        lines = [line for line in err.splitlines() if "must bear repeating" in line]
        assert len(lines) == 1
        assert lines[0].startswith(f"policy {policy}: {says}")
    assert "must bear" not in three.ok("deploy", "plain", "--server", "web-1", "--script", "hello.sh")[1]
    assert "policy always" in three.ok("deploy", "always", "--server", "web-1", "--script", "hello.sh", "--interval", "5m")[1]


def test_more_than_a_few_names_are_not_listed(three):
    for number in range(3, 8):
        three.ok("server", "add", f"web-{number}")
    _, err = three.ok("deploy", "base", "--server", "*", "--script", "hello.sh")
    assert err.count("created") == 8
    assert err.splitlines()[-1] == "next: appliance status"


# ---------------------------------------------------------------------------------------------------- with real agents


def test_inputs_and_secrets_reach_the_script_and_secrets_are_never_shown(cli, machine):
    cli.file("pass.txt", "hunter2\n")
    script = cli.file("hooked.sh", HOOKED)
    words = ["deploy", "base", "--server", machine.name, "--script", script, "--input", "who=me=you", "--secret", "pass=@pass.txt"]
    _, err = cli.ok(*words)
    machine.one_pass()
    ref = f"{machine.name}/base"
    assert cli.ok("log", ref)[0] == "me=you hunter2\n"
    out, _ = cli.ok("deployment", "show", ref)
    assert "input       pass = (secret)" in out
    assert "input       who = me=you" in out
    shown = [err, out, *cli.ok("deployment", "show", ref, "--json"), *cli.ok("why", ref, "--json"), *cli.ok("audit", "--json")]
    assert "hunter2" not in "".join(shown)
    assert "unchanged" in cli.ok(*words)[1]
    cli.file("pass.txt", "swordfish")
    assert "generation 2 (input pass changed)" in cli.ok(*words)[1]


def test_an_error_output_fails_the_run(cli, machine):
    script = cli.file("oops.sh", "#!/bin/sh\necho disk full > $heat_outputs_path.oops\n")
    cli.ok("deploy", "base", "--server", machine.name, "--script", script, "--output", "fine", "--output", "oops:error")
    machine.one_pass(check=1)
    assert "error output: oops : disk full" in cli.run("wait", f"{machine.name}/base")[2]


def test_a_changed_once_deployment_says_that_it_will_not_run_and_how_to_run_it(cli, machine):
    ref = f"{machine.name}/base"
    words = ["deploy", "base", "--server", machine.name, "--policy", "once"]
    cli.ok(*words, "--script", cli.file("one.sh", machine.script("one")))
    machine.one_pass()
    _, err = cli.ok(*words, "--script", cli.file("two.sh", machine.script("two")))
    assert err.splitlines() == [
        f"{ref}: generation 2 (script changed) is held: it is `once` and has run, so this does not run by itself",
        f"to run it again; next: appliance rerun {ref}",
    ]
    machine.one_pass()
    assert machine.count("two") == 0
    assert "complete, held: changed since it ran" in cli.ok("deployment", "show", ref)[0]
    out = cli.ok("status")[0]
    assert "1 held" in out
    assert f"{ref}: complete, held: changed since it ran; `rerun` applies the change" in out.splitlines()
    _, err = cli.ok("wait", ref)
    assert err.splitlines()[-1] == f"to run it again; next: appliance rerun {ref}"
    cli.ok("rerun", ref)
    machine.one_pass()
    assert machine.count("two") == 1
    assert "held" not in cli.ok("deployment", "show", ref)[0]


def test_a_missing_hook_is_told_at_once(cli, machine):
    _, err = cli.ok("deploy", "play", "--server", machine.name, "--script", cli.file("play.yaml", "- {}\n"), "--hook", "ansible")
    assert f"no hook 'ansible' on {machine.name}; it has: plan, script" in err


def test_deploy_can_wait_for_the_end(cli, machine):
    machine.start()
    words = ["deploy", "base", "--server", machine.name, "--wait"]
    code, _, err = cli.run(*words, "--script", cli.file("good.sh"))
    assert code == 0
    assert err.splitlines()[-2:] == [f"{machine.name}/base: complete", f"next: appliance log {machine.name}/base"]
    code, _, err = cli.run(*words, "--script", cli.file("bad.sh", "#!/bin/sh\nexit 7\n"))
    assert code == 1
    assert "exited with status 7" in err
    code, _, _ = cli.run(*words, "--script", cli.file("slow.sh", "#!/bin/sh\nsleep 9\n"), "--timeout", "1s")
    assert code == 1
    assert "failed (timeout)" in cli.ok("why", f"{machine.name}/base")[0]
