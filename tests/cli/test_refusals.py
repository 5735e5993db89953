"""What is refused: the right exit code, exactly one line that says what and where, and nothing changed."""

import sqlite3

import pytest

from ..lab import Lab
from .conftest import Cli

OWN = "#!/bin/sh\n"


@pytest.fixture(scope="module")
def peopled(tmp_path_factory):
    """Two servers, a plan, a config with a required input, and deployments that depend on each other; no agents, so nothing moves."""
    lab = Lab(tmp_path_factory.mktemp("peopled"))
    lab.serve()
    files = {"good.sh": OWN, "crlf.sh": "#!/bin/sh\r\n", "plain.sh": "echo\n", "plan/a.sh": OWN, "plan/crlf.sh": "#!/bin/sh\r\n"}
    (lab.path / "plan").mkdir()
    for name, text in files.items():
        (lab.path / name).write_text(text)
    for words in (
        "plan push plan lab --switch",
        "server add web-1",
        "server add web-2",
        "server add old-1 --stock",
        "config create needy --script good.sh --input who",
        "deploy base --server web-1 --script good.sh",
        "deploy app --server web-1 --script good.sh --after base",
        "token create --role viewer --name looker",
    ):
        lab.command(*words.split())
    yield lab
    lab.close()


@pytest.mark.parametrize(
    "words, code, says",
    [
        # unknown
        ("server show web-9", 5, "no server 'web-9'"),
        ("server label web-9 --add x", 5, "no server 'web-9'"),
        ("server reset web-9 --yes", 5, "no server 'web-9'"),
        ("server token web-9", 5, "no server 'web-9'"),
        ("why web-1/nothing", 5, "no deployment 'web-1/nothing'; web-1 has: base, app"),
        ("deploy x --server web-9 --script good.sh", 5, "no server 'web-9'"),
        ("deploy x --server web-1 --plan nothing --path a.sh", 5, "no plan 'nothing'"),
        ("deploy x --server web-1 --plan lab --path b.sh", 5, "plan 'lab' has no file 'b.sh' in version 1"),
        ("deploy x --server web-1 --config nothing", 5, "no config 'nothing'"),
        ("deploy x --server web-1 --config 00000000-0000-4000-8000-000000000000", 5, "no config '00000000-0000-4000-8000-000000000000'"),
        ("deploy x --server web-1 --script good.sh --after web-2/base", 5, "'web-2/base', and there is no such deployment"),
        ("config delete nothing", 5, "no config 'nothing'"),
        ("token revoke nothing", 5, "no token 'nothing'"),
        ("plan ls lab --path nothing", 5, "version 1 of plan 'lab' has nothing that begins with 'nothing'; see: appliance plan ls lab 1"),
        ("plan log lab -n 0", 2, "'0' is not a number from 1 to 1000"),
        ("audit --limit 5000", 2, "'5000' is not a number from 1 to 1000"),
        ("server add web-3 --collector heat", 2, "--collector goes with --stock"),
        ("plan switch nothing 1", 5, "no plan 'nothing'"),
        # names that are taken, or not allowed
        ("server add web-1", 6, "there is a server 'web-1' already; see it with: appliance server show web-1"),
        ("server rename web-2 web-1", 6, "there is a server 'web-1' already"),
        ("deployment update web-1/app --rename base", 6, "web-1/base exists already"),
        ("server add web/1", 2, "server name 'web/1' is not allowed"),
        ("server add web-3 --label a/b", 2, "label 'a/b' is not allowed"),
        ("deploy a/b --server web-1 --script good.sh", 2, "deployment name 'a/b' is not allowed"),
        # what cannot be
        ("deploy base --server web-1 --script good.sh --after app", 2, "these depend on each other in a circle: web-1/"),
        ("deployment update web-1/base --after app", 2, "these depend on each other in a circle: web-1/"),
        ("deployment delete web-1/base --yes", 6, "web-1/base is needed by web-1/app; delete those first"),
        ("deploy x --server web-1 --config needy", 2, "required input without a value: who; give it with --input"),
        ("deploy x --server web-1 --config needy --input who=1 --input why=2", 2, "the config has no input 'why'; it has: who"),
        ("deploy x --server web-1 --script plain.sh", 2, "line 1 of plain.sh is not a '#!' line: 'echo'"),
        ("deploy x --server web-1 --script crlf.sh", 2, "line 1 of crlf.sh ends in CR LF: '#!/bin/sh\\r'"),
        ("deploy x --server web-1 --plan lab --path crlf.sh", 2, "line 1 of lab:crlf.sh ends in CR LF: '#!/bin/sh\\r'"),
        ("deploy x --server old-1 --script good.sh --policy always", 6, "'old-1' runs a stock agent"),
        ("deploy x --server web-1 --script good.sh --interval 5m", 2, "an interval goes with policy always"),
        ("server remove web-1", 2, "this would remove web-1 with 2 deployments; say --yes if that is meant"),
        # access
        ("status --token wrong", 6, "this token is not known, has expired or was revoked; ask an admin for a new one"),
        ("status --url http://localhost:1", 7, "no appliance answers at http://localhost:1 (Connection refused)"),
        ("status --url nonsense", 2, "'nonsense' is not an http or https URL"),
    ],
)
def test_what_is_refused_is_one_line_and_changes_nothing(peopled, tmp_path, capsys, monkeypatch, words, code, says):
    cli = Cli(peopled, peopled.path, capsys, monkeypatch)
    before = state(peopled)
    found, out, err = cli.run(*words.split())
    assert (found, out) == (code, ""), err
    assert err.count("\n") == 1, err
    assert err.startswith(("appliance: ", f"appliance {words.split()[0]}"))
    assert says in err
    assert state(peopled) == before


def test_a_viewer_may_look_and_not_touch(peopled, tmp_path, capsys, monkeypatch):
    cli = Cli(peopled, peopled.path, capsys, monkeypatch)
    cli.environment["APPLIANCE_TOKEN"] = cli.ok("token", "create", "--role", "viewer", "--name", "looker-2")[0].strip()
    before = state(peopled)
    for words in ("status", "why web-1/base", "deployment list", "server list", "config list", "audit"):
        cli.ok(*words.split())
    for words in (
        "server add web-3",
        "rerun web-1/base",
        "deploy x --server web-1 --script good.sh",
        "deployment delete web-1/app --yes",
        "token list",
        "server show old-1 --stock",
    ):
        assert "appliance: " in cli.fails(6, *words.split())
    assert state(peopled) == before


def state(lab: Lab) -> object:
    """Everything a command could have changed. Not the commit number: a refused operation may use one up."""
    ask = lab.client.get
    return (
        ask("/v1/audit", limit=1),
        ask("/v1/servers"),
        [{**one, "sentence": ""} for one in ask("/v1/deployments")["deployments"]],
        ask("/v1/configs"),
        ask("/v1/plans"),
        ask("/v1/tokens"),
    )


# ---------------------------------------------------------------------------------------------------- serve


def refused(lab: Lab, code: int, *words: str) -> str:
    done = lab.command(*words, check=code)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("appliance: ")
    return done.stderr


def test_a_file_that_is_served_already_is_refused_naming_who_serves_it(peopled):
    assert peopled.appliance is not None
    line = refused(peopled, 6, "serve", "--db", str(peopled.db), "--listen", "127.0.0.1:0")
    assert f"is already served by appliance serve on 127.0.0.1:{peopled.port}, pid {peopled.appliance.pid}, since 20" in line


def test_a_port_that_is_taken_is_refused(peopled, tmp_path):
    line = refused(peopled, 6, "serve", "--db", str(tmp_path / "new.db"), "--listen", f"127.0.0.1:{peopled.port}")
    assert f"port {peopled.port} on 127.0.0.1 is taken" in line
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_ours_or_newer_is_refused_and_left_alone(peopled, tmp_path):
    other, newer = tmp_path / "other.db", tmp_path / "newer.db"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE notes (text)")
    with sqlite3.connect(peopled.db) as source, sqlite3.connect(newer) as copy:
        source.backup(copy)
        copy.execute("PRAGMA user_version = 9999")
    for path, says in ((other, "not"), (newer, "newer")):
        before = path.read_bytes()
        assert says in refused(peopled, 6 if path is newer else 2, "serve", "--db", str(path), "--listen", "127.0.0.1:0")
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "words, says",
    [
        (["--listen", "8642"], "--listen '8642' is not HOST:PORT"),
        (["--listen", "0.0.0.0:0"], "refusing to serve plain http on 0.0.0.0"),
        (["--tls-cert", "x"], "--tls-cert and --tls-key go together"),
        (["--url", "lab"], "--url 'lab' is not a base URL"),
    ],
)
def test_a_way_to_listen_that_cannot_be_is_refused(peopled, tmp_path, words, says):
    rest = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    line = refused(peopled, 2, "serve", "--db", str(tmp_path / "new.db"), *words, *rest)
    assert says in line
