"""`appliance plan ...` against a real appliance on a real port."""

import json
import os
import random
import socket
import time

import pytest

from appliance.operations import plans
from appliance.plan import manifest, shown
from appliance.store import plans as store_plans

from ..samples import entries, opened, push, read_tree, real_plan, split, switch_to, write_tree
from .serving import Shell, served

FILES = {
    "heat/a.yaml": b"one\n",
    "bin/run": ("executable", b"#!/bin/sh\necho hello\n"),
    "link": ("symlink", b"bin/run"),
    "dirlink": ("symlink", b"heat"),
    ".hidden": b"kept\n",
    "empty": b"",
    "big": os.urandom(900_000),
}


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


@pytest.fixture
def url(database):
    with served(database) as url:
        yield url


@pytest.fixture
def shell(tmp_path, url, capsys, monkeypatch):
    (tmp_path / "ann").mkdir()
    return Shell(tmp_path / "ann", url, capsys, monkeypatch)


@pytest.fixture
def lab(tmp_path):
    return write_tree(tmp_path / "lab", FILES)


def test_a_directory_goes_in_and_comes_back_byte_for_byte(shell, lab, tmp_path):
    _, err = shell.ok("plan", "push", str(lab))
    assert "pushed lab version 1: 7 files" in err
    assert "sending 7 files" in err
    assert err.splitlines()[-1] == "version 1 is not current; next: appliance plan switch lab 1"
    _, err = shell.ok("plan", "switch", "lab", "1")
    assert "lab is at version 1 now (first version; switch 1)" in err
    _, err = shell.ok("plan", "export", "lab", str(tmp_path / "out"))
    assert "next: appliance plan push" in err
    assert read_tree(tmp_path / "out") == read_tree(lab) == FILES
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".partial")]


def test_a_second_push_sends_only_what_changed(shell, lab, database):
    shell.ok("plan", "push", str(lab))
    (lab / "heat" / "a.yaml").write_bytes(b"two\n")
    (lab / "empty").unlink()
    out, _ = shell.ok("plan", "push", str(lab), "--json")
    answer = json.loads(out)
    assert answer["sent"]["files"] == 1
    assert answer["sent"]["bytes"] < 300
    assert answer["version"]["number"] == 2
    whole = manifest(entries({**{p: c for p, c in FILES.items() if p != "empty"}, "heat/a.yaml": b"two\n"}))
    assert database.read(plans.whole, "lab", "2")[1] == whole
    _, err = shell.ok("plan", "push", str(lab))
    assert "unchanged: this already is lab version 2" in err
    assert "nothing to send" in err


def test_a_push_whose_remembered_base_is_gone_sends_the_whole_manifest(shell, lab, database, tmp_path):
    shell.ok("plan", "push", str(lab))
    (tmp_path / "two").mkdir()
    other = opened(tmp_path / "two")
    with served(next(other)) as url:
        remembered = next((shell.root / "state").rglob("bases.json"))
        remembered.write_text(remembered.read_text().replace(shell.environment["APPLIANCE_URL"], url))
        for path in (shell.root / "state" / "appliance" / "manifests").iterdir():
            key = f"{lab.resolve()}\n{url}\nlab".encode()
            path.rename(path.with_name(__import__("hashlib").sha256(key).hexdigest()))
        shell.environment["APPLIANCE_URL"] = url
        _, err = shell.ok("plan", "push", str(lab))
        assert "pushed lab version 1" in err
    other.close()


def test_ignored_and_version_control_files_are_left_out_and_that_is_said(shell, lab):
    write_tree(lab, {".git/HEAD": b"x", "sub/.hg/y": b"y", "a.log": b"", "keep.log": b"", "build/x": b"", ".gitignore": b"kept"})
    (lab / ".applianceignore").write_text("*.log\n!keep.log\nbuild/\n")
    _, err = shell.ok("plan", "push", str(lab), "lab", "--exclude", "/heat")
    assert "left out (version control): .git, sub/.hg" in err
    assert "a.log, build, heat" in err
    out, _ = shell.ok("plan", "ls", "lab", "1")
    assert out.split() == [".applianceignore", ".gitignore", ".hidden", "big", "bin/run", "dirlink", "empty", "keep.log", "link"]


def test_everything_that_is_wrong_is_listed_before_anything_is_sent(shell, lab, database):
    write_tree(lab, {"README": b"", "readme": b"", "out": ("symlink", b"../x"), "abs": ("symlink", b"/etc/passwd")})
    os.mkfifo(lab / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(lab / "socket"))
    (lab / "bad\nname").write_bytes(b"")
    with open(os.fsencode(lab) + b"/\xff", "wb"):
        pass
    code, _, err = shell.run("plan", "push", str(lab))
    listener.close()
    assert code == 2
    for part in ("fifo: is a FIFO", "socket: is a socket", "'out'", "'abs'", "'readme'", "not valid UTF-8", "control characters"):
        assert part in err, part
    assert "nothing was sent" in err.splitlines()[-1]
    assert database.read(lambda tx: tx.value("SELECT count(*) FROM blob")) == 0


def test_a_file_that_vanishes_or_changes_during_the_push_is_named(shell, lab, monkeypatch):
    from appliance.cli import push as room

    real = room._missing

    def meanwhile(console, digests):
        found = real(console, digests)
        (lab / path).write_bytes(b"changed meanwhile")
        return found

    monkeypatch.setattr(room, "_missing", meanwhile)
    for path in ("heat/a.yaml", "big"):
        assert f"{path} changed during the push" in shell.fails(2, "plan", "push", str(lab))
    assert "no plan 'lab'" in shell.fails(5, "plan", "show", "lab")
    monkeypatch.undo()
    shell.ok("plan", "push", str(lab))


def test_a_plan_name_comes_from_the_directory_or_must_be_given(shell, tmp_path):
    odd = write_tree(tmp_path / "odd name", {"a": b"1"})
    assert "name the plan" in shell.fails(2, "plan", "push", str(odd))
    shell.ok("plan", "push", str(odd), "odd")
    assert "no files" in shell.fails(2, "plan", "push", str(write_tree(tmp_path / "none", {".git/x": b""})))
    assert "not a directory" in shell.fails(2, "plan", "push", str(tmp_path / "nowhere"))


# ---------------------------------------------------------------------------------------------------- what it is based on


def test_ato_08_of_two_who_began_at_the_same_switch_the_second_is_refused(tmp_path, url, capsys, monkeypatch):
    ann, bob = (Shell(tmp_path / name, url, capsys, monkeypatch, role) for name, role in (("ann", "admin"), ("bob", "operator")))
    for one in (ann, bob):
        one.root.mkdir()
    first = write_tree(tmp_path / "lab", {"a": b"1"})
    ann.ok("plan", "push", str(first), "--switch")
    for one in (ann, bob):
        one.ok("plan", "export", "lab", str(one.root / "work"))
    (ann.root / "work" / "a").write_bytes(b"ann")
    (bob.root / "work" / "a").write_bytes(b"bob")
    ann.ok("plan", "push", "work", "lab", "--switch")
    line = bob.fails(6, "plan", "push", "work", "lab", "--switch")
    assert "switched to version 2 by admin at" in line
    assert "--force" in line
    bob.fails(6, "plan", "push", "work", "lab", "--switch")  # pushing again does not move what it was based on
    bob.ok("plan", "push", "work", "lab", "--switch", "--force")
    bob.ok("plan", "push", "work", "lab", "--switch")
    out, _ = ann.ok("plan", "log", "lab", "--json")
    log = json.loads(out)
    assert [(row["version"], row["by"], row["forced"]) for row in log] == [(3, "operator", True), (2, "admin", False), (1, "admin", False)]


def test_a_directory_of_which_nothing_is_known_replaces_nothing_of_somebody_elses(shell, lab, database, tmp_path):
    push(database, "lab", {"x": b"1"})
    switch_to(database, "lab", 1, by="bob")
    for _ in range(2):  # trying again changes nothing
        line = shell.fails(6, "plan", "push", str(lab), "--switch")
        assert "version 2 is stored but not current: bob switched lab to version 1 " in line
        for remedy in ("appliance plan diff lab", "appliance plan export lab DIR", "--force"):
            assert remedy in line
        assert database.read(plans.overview, "lab").current == 1
    shell.ok("plan", "export", "lab", str(tmp_path / "copy"))
    (tmp_path / "copy" / "more").write_bytes(b"x")
    shell.ok("plan", "push", str(tmp_path / "copy"), "lab", "--switch")
    shell.ok("plan", "push", str(lab), "lab", "--switch", "--force")
    shell.ok("plan", "push", str(lab), "--switch")
    assert database.read(plans.overview, "lab").current == 2


def test_a_first_push_remembers_the_serial_of_that_time(shell, lab, database):
    push(database, "lab", {"x": b"1"})
    push(database, "lab", {"x": b"2"})
    shell.ok("plan", "push", str(lab))
    switch_to(database, "lab", 1, by="bob")
    assert "by bob at" in shell.fails(6, "plan", "switch", "lab", "3")
    shell.ok("plan", "switch", "lab", "3", "--force")
    shell.ok("plan", "switch", "lab", "2", cwd=lab)
    shell.ok("plan", "rollback", "lab", cwd=lab)
    switch_to(database, "lab", 1, by="bob")
    assert "by bob at" in shell.fails(6, "plan", "rollback", "lab", cwd=lab)


def test_switches_back_and_forth_from_elsewhere_are_not_taken_for_somebody_elses(shell, lab, database):
    shell.ok("plan", "push", str(lab), "--switch")
    (lab / "more").write_bytes(b"x")
    shell.ok("plan", "push", str(lab), "--switch")
    shell.ok("plan", "switch", "lab", "1")
    shell.ok("plan", "switch", "lab", "2")
    shell.ok("plan", "rollback", "lab")
    shell.ok("plan", "push", str(lab), "--switch")
    switch_to(database, "lab", 1, by="bob")
    assert "by bob at" in shell.fails(6, "plan", "push", str(lab), "--switch")


def test_without_memory_a_switch_is_based_on_what_is_current_just_now(shell, database):
    for n in range(2):
        push(database, "lab", {"a": b"%d" % n})
    switch_to(database, "lab", 1, by="bob")
    _, err = shell.ok("plan", "switch", "lab", "2")
    assert "lab is at version 2 now (was 1; switch 2): 1 file differs" in err
    _, err = shell.ok("plan", "switch", "lab", "2")
    assert "already" in err


def test_the_memory_is_private_and_a_damaged_one_says_what_to_do(shell, lab):
    shell.ok("plan", "push", str(lab))
    path = next((shell.root / "state").rglob("bases.json"))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{")
    assert "move it away" in shell.fails(2, "plan", "push", str(lab))


# ---------------------------------------------------------------------------------------------------- looking


def test_reading_commands_and_their_json(shell, lab):
    shell.ok("plan", "list")
    shell.ok("plan", "push", str(lab), "--switch")
    (lab / "heat" / "a.yaml").write_bytes(b"two\n")
    (lab / "empty").unlink()
    (lab / "new").write_bytes(b"new\n")
    shell.ok("plan", "push", str(lab))
    out, _ = shell.ok("plan", "list")
    assert out.splitlines()[1].split()[:4] == ["lab", "1", "2", "2"]
    out, err = shell.ok("plan", "show", "lab")
    assert "version 1 is current" in out
    assert "next: appliance plan diff lab" in err
    out, _ = shell.ok("plan", "show", "lab", "1")
    assert "7 files" in out
    out, _ = shell.ok("plan", "ls", "lab")
    assert out.split() == sorted(FILES)
    out, _ = shell.ok("plan", "ls", "lab", "2", "-l", "--path", "bin/")
    assert out.split()[4:6] == ["executable", "21"]
    out, _ = shell.ok("plan", "cat", "lab", "bin/run")
    assert out == "#!/bin/sh\necho hello\n"
    out, err = shell.ok("plan", "diff", "lab")
    assert out.splitlines() == ["D  empty", "M  heat/a.yaml", "A  new"]
    assert "from version 1 to 2: 1 added, 1 changed, 1 removed" in err
    out, _ = shell.ok("plan", "diff", "lab", "1", "2", "--patch")
    assert "-one\n+two\n" in out
    assert "--- /dev/null" in out
    out, _ = shell.ok("plan", "log", "lab")
    assert out.splitlines()[1].split()[:2] == ["1", "1"]
    for arguments in (["list"], ["show", "lab"], ["show", "lab", "1"], ["ls", "lab"], ["diff", "lab"], ["log", "lab"]):
        out, err = shell.ok("plan", *arguments, "--json")
        assert json.loads(out)
        assert err == ""


def test_ux_07_what_is_unknown_is_one_line_and_exit_code_5(shell, lab):
    shell.ok("plan", "push", str(lab), "--switch")
    assert "there is lab" in shell.fails(5, "plan", "show", "web")
    assert "it has only 1" in shell.fails(5, "plan", "switch", "lab", "9")
    assert "did you mean heat/a.yaml" in shell.fails(5, "plan", "cat", "lab", "a.yaml")
    shell.fails(5, "plan", "export", "web", "out")
    shell.fails(2, "plan", "ls", "lab", "latest")
    shell.fails(2, "plan", "frobnicate")
    shell.environment["APPLIANCE_TOKEN"] = "wrong"
    assert "not known" in shell.fails(6, "plan", "list")
    shell.environment["APPLIANCE_URL"] = "http://127.0.0.1:9"
    assert "no appliance answers" in shell.fails(7, "plan", "list")


def test_a_viewer_may_not_push(tmp_path, url, capsys, monkeypatch, lab):
    viewer = Shell(tmp_path, url, capsys, monkeypatch, "viewer")
    assert "operator" in viewer.fails(6, "plan", "push", str(lab))


def test_delete_asks_and_then_the_name_is_free(shell, lab):
    shell.ok("plan", "push", str(lab))
    assert "--yes" in shell.fails(2, "plan", "delete", "lab")
    shell.ok("plan", "delete", "lab", "--yes")
    shell.fails(5, "plan", "show", "lab")


def test_every_command_has_help_with_an_example(shell):
    for name in ("push", "list", "show", "ls", "cat", "diff", "switch", "rollback", "log", "export", "delete"):
        out, _ = shell.ok("plan", name, "--help")
        assert f"example:\n  appliance plan {name}" in out


# ---------------------------------------------------------------------------------------------------- export


def test_an_export_refuses_a_directory_in_use_and_force_keeps_what_was_there(shell, lab, tmp_path):
    shell.ok("plan", "push", str(lab), "--switch")
    target = write_tree(tmp_path / "out", {"mine": b"precious"})
    assert "not empty" in shell.fails(6, "plan", "export", "lab", str(target))
    assert read_tree(target) == {"mine": b"precious"}
    _, err = shell.ok("plan", "export", "lab", str(target), "--force")
    assert "out.before-export-1" in err
    assert read_tree(target) == FILES
    assert read_tree(tmp_path / "out.before-export-1") == {"mine": b"precious"}
    empty = tmp_path / "empty"
    empty.mkdir()
    shell.ok("plan", "export", "lab", str(empty))
    assert read_tree(empty) == FILES


def test_a_damaged_blob_stops_an_export_and_leaves_nothing(shell, lab, database, tmp_path):
    shell.ok("plan", "push", str(lab), "--switch")
    database.write(lambda tx: tx.execute("UPDATE large_part SET data = zeroblob(length(data)) WHERE n = 0"))
    shell.fails(1, "plan", "export", "lab", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    shell.ok("plan", "push", str(lab), "--resend")
    shell.ok("plan", "export", "lab", str(tmp_path / "out"))
    assert read_tree(tmp_path / "out") == FILES


# ---------------------------------------------------------------------------------------------------- killed in the middle


def test_ato_02_a_push_that_is_killed_changes_nothing_and_the_next_sends_only_the_rest(shell, database, tmp_path):
    dice = random.Random(2)
    small = {f"d{n % 9}/f{n}": dice.randbytes(40_000) for n in range(1500)}
    root = write_tree(tmp_path / "lab", small)
    push(database, "lab", {"old": b"old"})
    switch_to(database, "lab", 1)
    for _ in range(10):
        with shell.started("plan", "push", str(root), "lab"):
            time.sleep(dice.uniform(0.15, 1.2))
        overview = database.read(plans.overview, "lab")
        assert (overview.current, overview.serial) == (1, 1)
        assert database.read(plans.whole, "lab", "current")[1] == manifest(entries({"old": b"old"}))
    there = database.read(lambda tx: tx.value("SELECT count(*) FROM blob"))
    out, _ = shell.ok("plan", "push", str(root), "lab", "--json")
    answer = json.loads(out)
    assert answer["sent"]["files"] <= 1501 - there
    assert database.read(plans.whole, "lab", str(answer["version"]["number"]))[1] == manifest(entries(small))


@pytest.mark.real_input
def test_real_plans_go_in_and_come_back_byte_for_byte(shell, database, tmp_path):
    roots = {which: real_plan(which, tmp_path) for which in "ab"}
    work = tmp_path / "tht"
    roots["a"].rename(work)
    originals = {"a": read_tree(work)}
    shell.ok("plan", "push", str(work), "--switch")
    work.rename(roots["a"])
    roots["b"].rename(work)
    originals["b"] = read_tree(work)
    out, _ = shell.ok("plan", "push", str(work), "--switch", "--json")
    answer = json.loads(out)
    assert answer["switched"]["changed"] == 569 + 68
    for number, which in enumerate("ab", 1):
        shell.ok("plan", "export", "tht", str(tmp_path / f"out-{which}"), "--version", str(number))
        found = read_tree(tmp_path / f"out-{which}")
        assert found == originals[which]
        assert sum(split(content)[0] == "executable" for content in found.values()) >= 29
    plan = database.read(store_plans.find, "tht")
    first, second = (database.read(store_plans.version, plan, number) for number in (1, 2))
    assert shown(first.digest) != shown(second.digest)
    assert (first.files, second.files) == (len(originals["a"]), len(originals["b"]))
