"""A local directory as a plan would have it."""

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.cli.common import Failure
from appliance.cli.tree import ChangedMeanwhile, walked
from appliance.plan import manifest

from ..samples import entries, write_tree


@contextmanager
def as_nobody():
    """Without root's right to read everything; whoever is not root has not got it anyway."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_directory():
    """A directory that other accounts may enter."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        yield root
        for path in root.rglob("*"):
            path.chmod(0o755)


def test_a_tree_is_what_is_on_disk(tmp_path):
    files = {"a": b"1", "d/run": ("executable", b"#!"), "d/link": ("symlink", b"run"), "d/e/dir": ("symlink", b"..")}
    tree = walked(write_tree(tmp_path / "t", files))
    assert tree.problems == []
    assert manifest(tree.entries.values()) == manifest(entries(files))
    assert tree.content(tree.entries["d/link"]) == b"run"
    (tmp_path / "t" / "a").write_bytes(b"2")
    with pytest.raises(ChangedMeanwhile):
        tree.content(tree.entries["a"])


def test_times_owners_and_other_bits_are_no_part_of_it(tmp_path):
    one, two = (write_tree(tmp_path / name, {"a": b"1", "b": ("executable", b"2")}) for name in ("one", "two"))
    os.utime(two / "a", (1, 1))
    (two / "a").chmod(0o600)
    (two / "b").chmod(0o700)
    assert manifest(walked(one).entries.values()) == manifest(walked(two).entries.values())


def test_unreadable_files_and_directories_are_all_listed(open_directory):
    write_tree(open_directory, {"a": b"1", "secret": b"2", "closed/b": b"3"})
    (open_directory / "secret").chmod(0)
    (open_directory / "closed").chmod(0)
    with as_nobody():
        found = walked(open_directory).problems
    assert sorted(found) == ["closed/: cannot be read (Permission denied)", "secret: cannot be read (Permission denied)"]


def test_symlinks_are_kept_and_never_followed(tmp_path):
    outside = write_tree(tmp_path / "outside", {"x": b"1"})
    root = write_tree(tmp_path / "t", {"a": b"1"})
    (root / "loop").symlink_to("loop")
    (root / "broken").symlink_to("nowhere")
    (root / "out").symlink_to(outside)
    tree = walked(root)
    assert [problem.split(":")[0] for problem in tree.problems] == ["'out'"]
    assert set(tree.targets) == {"loop", "broken", "out"}


def test_ignore_patterns_are_those_of_git(tmp_path):
    root = write_tree(tmp_path / "t", {"a.pyc": b"", "keep.pyc": b"", "x/__pycache__/y": b"", "x/a.pyc": b"", "top": b"", "x/top": b""})
    (root / ".applianceignore").write_text("# comment\n*.pyc\n!/keep.pyc\n__pycache__/\n/top\n")
    tree = walked(root)
    assert sorted(tree.entries) == [".applianceignore", "keep.pyc", "x/top"]
    assert tree.ignored == ["a.pyc", "top", "x/__pycache__", "x/a.pyc"]
    assert sorted(walked(root, ["x/"]).entries) == [".applianceignore", "keep.pyc"]
    (root / ".applianceignore").write_bytes(b"\xff")
    with pytest.raises(Failure, match="cannot be read"):
        walked(root)


def test_a_git_work_tree_whose_git_is_a_file_is_recognised(tmp_path):
    tree = walked(write_tree(tmp_path / "t", {"sub/.git": b"gitdir: elsewhere", "a": b"1"}))
    assert (sorted(tree.entries), tree.left_out) == (["a"], ["sub/.git"])


def test_ux_11_a_file_over_the_limit_is_refused_unread_naming_limit_and_size(tmp_path):
    root = write_tree(tmp_path / "t", {"a": b"1"})
    with open(root / "huge", "wb") as file:
        file.truncate((1 << 30) + 1)
    began = time.monotonic()
    assert walked(root).problems == ["huge: 1073741825 bytes is over the limit of 1073741824 for one file"]
    assert time.monotonic() - began < 1
