"""`appliance` itself: help, usage errors, settings, start-up."""

import argparse
import shlex
import subprocess
import sys

import pytest

from appliance.cli.common import INTERNAL, run_command
from appliance.cli.main import GROUPS, ROOMS, main, parser


def leaves(one: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Every command that has none of its own."""
    groups = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
    return [leaf for group in groups for choice in group.choices.values() for leaf in leaves(choice)] if groups else [one]


COMMANDS = leaves(parser(None))


def examples(one: argparse.ArgumentParser) -> list[str]:
    lines = (one.epilog or "").split("\n\n")[0].splitlines()
    assert lines[0] == "example:", f"{one.prog} shows no example"
    return [line.strip() for line in lines[1:]]


def one_line(capsys) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip("\n")


def test_alone_it_says_how_to_begin(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "appliance serve" in err
    assert "appliance --help" in err
    assert len(err.splitlines()) < 12


def test_help_lists_every_command_in_its_group(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for title, names in GROUPS.items():
        assert f"\n{title}:\n" in out
        for name in names:
            assert f"\n  {name:<11} " in out
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(["agent", *(n for names in ROOMS.values() for n in names)])
    assert max(map(len, out.splitlines())) <= 140


def test_help_may_be_a_word(capsys):
    for words in (["help"], ["help", "server", "add"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: appliance {'COMMAND' if len(words) == 1 else 'server add'} ")


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: one.prog)
def test_every_command_has_help_and_examples_that_it_understands(one, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*one.prog.split()[1:], "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert (one.description or "") != ""
    for example in examples(one):
        assert example in out
        if not example.startswith("appliance "):
            continue
        words = shlex.split(example.partition(" > ")[0])
        args, unknown = parser(words[1]).parse_known_args(words[1:])
        assert unknown == []
        assert args.prog == one.prog, "the example is of another command"


def test_the_agent_has_its_own_help(capsys):
    done = subprocess.run([sys.executable, "-m", "appliance", "agent", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "join" in done.stdout
    assert "examples:" in done.stdout


@pytest.mark.parametrize(
    "words, says",
    [
        (["stat"], "appliance: unknown command 'stat'; did you mean status?; see: appliance --help"),
        (["\x1b[31m"], "appliance: unknown command '\\x1b[31m'; see: appliance --help"),
        (["--token", "x", "status"], "appliance: the command comes first, then --token; see: appliance --help"),
        (["server"], "appliance server: a command is missing; see: appliance server --help"),
        (["server", "ad"], "appliance server: unknown command 'ad'; there is: add, list"),
        (["server", "add"], "appliance server add: the following arguments are required: NAME; see: appliance server add --help"),
        (["server", "list", "--lab", "x"], "appliance server list: unknown argument --lab x; see: appliance server list --help"),
        (["status", "extra"], "appliance status: unknown argument extra"),
        (["deploy", "a", "--policy", "daily"], "appliance deploy: argument --policy: invalid choice: 'daily'"),
        (["wait", "a/b", "--timeout", "soon"], "appliance wait: argument --timeout: 'soon' is not a length of time (like 90s, 5m, 1h, 2d)"),
        (["wait"], "appliance wait: the following arguments are required: X"),
    ],
)
def test_what_is_not_understood_is_one_line_and_exit_code_2(words, says, capsys):
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert one_line(capsys).startswith(says)


def test_a_bug_is_one_line_and_exit_code_70(capsys, monkeypatch):
    monkeypatch.delenv("APPLIANCE_DEBUG", raising=False)

    def buggy(args, console):
        raise ValueError("odd\nvalue")

    assert run_command(buggy, argparse.Namespace()) == INTERNAL
    line = one_line(capsys)
    assert line.startswith("appliance: internal error (ValueError: odd value); ")
    assert "APPLIANCE_DEBUG=1" in line
    monkeypatch.setenv("APPLIANCE_DEBUG", "1")
    assert run_command(buggy, argparse.Namespace()) == INTERNAL
    assert "Traceback" in capsys.readouterr().err


def test_flags_come_before_the_environment_and_that_before_the_profile(tmp_path, capsys, monkeypatch):
    profile = tmp_path / "client.toml"
    monkeypatch.setenv("APPLIANCE_CONFIG", str(profile))
    for name in ("APPLIANCE_URL", "APPLIANCE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main(["status"]) == 7
    assert "nothing says where the appliance is" in one_line(capsys)
    profile.write_text('url = "http://127.0.0.1:1"\n')
    assert main(["status"]) == 7
    line = one_line(capsys)
    assert line.startswith("appliance: no appliance answers at http://127.0.0.1:1 (Connection refused); start it with `appliance serve`")
    assert str(profile) in line
    monkeypatch.setenv("APPLIANCE_URL", "http://127.0.0.1:2")
    assert main(["status"]) == 7
    line = one_line(capsys)
    assert "http://127.0.0.1:2" in line
    assert "from APPLIANCE_URL" in line
    assert main(["status", "--url", "http://127.0.0.1:3"]) == 7
    assert "http://127.0.0.1:3" in one_line(capsys)
    profile.write_text("url = [")
    assert main(["status"]) == 2
    assert "cannot be read" in one_line(capsys)


def test_the_token_too_is_taken_from_the_flag_first(shell):
    shell.environment["APPLIANCE_TOKEN"] = "wrong"
    assert "this token is not known" in shell.fails(6, "status")
    shell.ok("status", "--token", "admin-secret")
    shell.environment["APPLIANCE_TOKEN"] = ""
    assert "give it with --token, in APPLIANCE_TOKEN, or in client.toml" in shell.fails(6, "status")


def test_what_is_no_appliance_is_named_as_such(tmp_path, capsys):
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            assert main(["status", "--url", f"http://127.0.0.1:{other.server_port}"]) == 7
        finally:
            other.shutdown()
            thread.join()
    assert "is not an appliance" in one_line(capsys)


def test_a_daily_verb_loads_nothing_heavy():
    code = (
        "import sys; from appliance.cli.main import parser; parser('status');"
        "print([name for name in ('msgspec', 'rich', 'apsw', 'starlette', 'uvicorn', 'pathspec', 'zstandard') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
