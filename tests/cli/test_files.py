"""`--files` and `--directory`: files of a plan beside a run, or as a directory of the machine."""

import json

import pytest

from ..samples import push, switch_to


@pytest.fixture
def lab(shell, database):
    push(database, "lab", {"ansible/site.yml": b"- hosts: all\n", "ansible/roles/x": b"x\n", "web/index": b"i\n"})
    switch_to(database, "lab", 1)
    shell.ok("server", "add", "web-1")
    (shell.root / "x.sh").write_text("#!/bin/sh\n")
    return shell


def config(lab):
    return json.loads(lab.ok("config", "list", "--json")[0])[0]


def test_files_beside_a_run_are_said_with_it_and_shown(lab):
    lab.ok(
        "deploy",
        "site",
        "--plan",
        "lab",
        "--path",
        "ansible/site.yml",
        "--hook",
        "ansible",
        "--files",
        "lab/ansible/",
        "--files",
        "lab/web",
    )
    assert config(lab)["files"] == [{"plan": "lab", "prefix": "ansible"}, {"plan": "lab", "prefix": "web"}]
    out, _ = lab.ok("deployment", "show", "web-1/site")
    assert "file ansible/site.yml of plan lab, with files lab/ansible, lab/web" in out
    _, err = lab.ok("deploy", "site", "--plan", "lab", "--path", "ansible/site.yml", "--hook", "ansible", "--files", "lab/ansible")
    assert "(files lab/web removed)" in err
    _, err = lab.ok("deployment", "update", "web-1/site", "--files", "lab/web")
    assert "(files lab/ansible removed, files lab/web added)" in err
    _, err = lab.ok("deployment", "update", "web-1/site", "--input", "a=b")
    assert config(lab)["files"] == [{"plan": "lab", "prefix": "web"}]


def test_a_directory_is_kept_by_the_hook_plan(lab):
    _, err = lab.ok("deploy", "tree", "--files", "lab", "--directory", "/srv/lab")
    assert err.startswith("web-1/tree: created; ready")
    assert config(lab)["group"] == "plan"
    assert json.loads(lab.ok("config", "show", "tree", "--json")[0])["body"] == {"path": "/srv/lab"}
    out, _ = lab.ok("deployment", "show", "web-1/tree")
    assert "keeps files lab as a directory" in out
    _, err = lab.ok("deploy", "tree", "--files", "lab/web", "--directory", "/srv/lab", "--keep", "5")
    assert "(body changed, files lab removed, files lab/web added)" in err
    push_dry = lab.ok("plan", "switch", "lab", "1", "--dry-run")[1]
    assert "already" in push_dry


@pytest.mark.parametrize(
    "words, said",
    [
        (["--files", "lab"], "nothing says what to run"),
        (["--files", "lab", "--keep", "3", "--script", "x.sh"], "--keep goes with --directory"),
        (["--directory", "/srv/lab"], "--directory needs the files of one plan"),
        (["--directory", "/srv/lab", "--files", "lab", "--script", "x.sh"], "--directory keeps files and runs nothing"),
        (["--directory", "/srv", "--files", "lab"], "no directory to keep files in"),
        (["--directory", "srv/lab", "--files", "lab"], "no directory to keep files in"),
        (["--directory", "/srv/lab", "--files", "lab", "--keep", "0"], "out of range"),
        (["--script", "x.sh", "--files", "lab/../x"], "'.' and '..' parts are not allowed"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(lab, words, said):
    assert said in lab.fails(2, "deploy", "x", *words)


def test_what_is_not_there_is_named(lab):
    assert "plan 'lab' has no directory 'nowhere'" in lab.fails(5, "deploy", "x", "--script", "x.sh", "--files", "lab/nowhere")
    assert "no plan 'web'" in lab.fails(5, "deploy", "x", "--script", "x.sh", "--files", "web")
