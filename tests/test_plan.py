"""Plans as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance import plan
from appliance.errors import Invalid
from appliance.plan import Entry, Switch, changed, diff, digest_of, manifest, rollback_target

from .samples import entries


def file(path, content=b"x"):
    return Entry(path, "file", len(content), digest_of(content))


def test_the_digest_of_a_manifest_is_pinned():
    found = manifest(entries({"b/c.yaml": b"c\n", "a": ("executable", b"#!/bin/sh\n"), "l": ("symlink", b"b/c.yaml")}))
    assert [entry.path for entry in found.entries] == ["a", "b/c.yaml", "l"]
    assert found.digest.hex() == "c745c7500055ac4350b7bd8a953a1730f9d8e44935a3da260cd1acee09d5f2ef"
    assert found.bytes == 20


def test_equal_entries_in_any_order_have_equal_digests():
    one, two = file("a/b"), file("a-b")
    assert manifest([one, two]) == manifest([two, one])


@pytest.mark.parametrize(
    "path",
    ["", "/x", "../x", "a/../../x", "a/./b", "a//b", "a/", ".", "..", "a\nb", "a\0b", "\x7f", "x" * 256, "é" * 128, "/".join(["d"] * 2100),
     "\ud800"],
)  # fmt: skip
def test_sec_04_a_path_that_escapes_or_is_malformed_is_refused(path):
    with pytest.raises(Invalid):
        manifest([file(path)])


@pytest.mark.parametrize("path", ["a", ".x", "...", "..a/b..", "a b", "-", "~", "ä/ß", "x" * 255, ".../..x", "a.b/.c", "日本/語"])
def test_an_ordinary_path_is_accepted(path):
    assert manifest([file(path)]).entries[0].path == path


@given(st.text(max_size=40))
def test_the_quick_check_of_a_path_agrees_with_the_whole_one(text):
    quick = plan.path_problem(text)
    parts = text.split("/")
    bad = not text or text[0] == "/" or any(part in ("", ".", "..") for part in parts)
    bad = bad or any(char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" for char in text)
    bad = bad or any(ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000 for char in text)
    bad = bad or any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)
    assert (quick is not None) == bad


@pytest.mark.parametrize(
    "one, two",
    [
        ("a", "a"),
        ("README", "readme"),
        ("caf\u00e9", "cafe\u0301"),
        ("Straße", "STRASSE"),
        ("a", "a/b"),
        ("A", "a/b"),
        ("a/b", "A/B/c"),
    ],
)
def test_sec_04_two_paths_that_some_file_system_cannot_keep_apart_are_refused(one, two):
    with pytest.raises(Invalid) as caught:
        manifest([file(one), file(two, b"y")])
    assert repr(two) in caught.value.message or repr(one) in caught.value.message


def test_every_problem_is_named_at_once():
    with pytest.raises(Invalid) as caught:
        manifest([file("../x"), file("b"), file("B"), file("/y")])
    for part in ("'../x'", "'/y'", "differs from 'B'"):
        assert part in caught.value.message


@pytest.mark.parametrize(
    "path, target, problem",
    [
        ("l", b"a", None),
        ("d/l", b"../a", None),
        ("d/l", b"..", None),
        ("l", b"./a/../b", None),
        ("l", b"/etc/passwd", "absolute"),
        ("l", b"../a", "outside"),
        ("d/l", b"../../a", "outside"),
        ("l", b"a/../../b", "outside"),
        ("l", b"", "empty"),
        ("l", b"a\0b", "control"),
        ("l", b"\xff", "UTF-8"),
    ],
)
def test_sec_04_a_symlink_stays_inside(path, target, problem):
    found = plan.symlink_problem(path, target)
    assert (found is None) if problem is None else problem in found


def test_sec_04_several_symlinks_together_cannot_lead_out():
    assert plan.symlink_problems({"d/up": b"..", "out": b"d/up/../x"}) != []
    assert plan.symlink_problems({"d/up": b"..", "in": b"d/up/x"}) == []
    assert plan.symlink_problems({"a": b"b", "b": b"a"}) == []
    assert plan.symlink_problems({"a/b/c": b"..", "x": b"a/b/c/../y", "z": b"x/../../q"}) != []


def test_changes_to_a_base_make_the_same_manifest_as_the_whole():
    base = manifest(entries({"a": b"1", "b": b"2", "c": b"3"}))
    assert changed(base, entries({"b": b"9", "d": b"4"}), ["c"]) == manifest(entries({"a": b"1", "b": b"9", "d": b"4"}))


def test_changes_that_do_not_fit_their_base_are_refused():
    base = manifest(entries({"a": b"1"}))
    with pytest.raises(Invalid, match="not in the base"):
        changed(base, [], ["b"])
    with pytest.raises(Invalid, match="twice"):
        changed(base, [file("b"), file("b", b"y")], [])
    with pytest.raises(Invalid, match="directory"):
        changed(base, [file("a/b")], [])


def test_diff_says_what_was_added_removed_and_changed():
    found = diff(entries({"a": b"1", "b": b"2", "c": b"3"}), entries({"a": b"1", "b": ("executable", b"2"), "d": b"4"}))
    assert [(change.path, change.kind) for change in found] == [("b", "changed"), ("c", "removed"), ("d", "added")]


def log(*rows):
    return [Switch(serial, version, back_to, False, serial, 0, "ann") for serial, (version, back_to) in enumerate(rows, 1)]


@pytest.mark.parametrize(
    "rows, serial",
    [
        ([], None),
        ([(1, None)], None),
        ([(1, None), (2, None)], 1),
        ([(1, None), (2, None), (3, None), (2, 2)], 1),
        ([(1, None), (2, None), (3, None), (2, 2), (1, 1)], None),
        ([(1, None), (2, None), (1, 1), (3, None)], 1),
        ([(1, None), (2, None), (1, 1), (3, None), (1, 1)], None),
    ],
)
def test_a_rollback_looks_past_rollbacks_so_two_go_back_two(rows, serial):
    target = rollback_target(log(*rows))
    assert (target and target.serial) == serial


@pytest.mark.parametrize(
    "text",
    ["", "sha256:bad", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "sha256:" + "a" * 65, "../", "x" * 10_000, "md5:" + "a" * 32,
     "sha256:" + "a" * 64 + "\n"],
)  # fmt: skip
def test_sec_13_a_malformed_digest_is_refused(text):
    with pytest.raises(Invalid):
        plan.parse_digest(text)


def test_version_control_is_recognised_at_any_depth():
    assert plan.is_version_control("a/.git/config") == "a/.git"
    assert plan.is_version_control(".git") == ".git"
    assert plan.is_version_control(".gitignore") is None


@pytest.mark.parametrize("path", ["/".join(["d"] * 101), "a\u202eb", "a\x85b"])
def test_paths_that_no_machine_or_terminal_handles_well_are_refused(path):
    assert plan.path_problem(path) is not None


def test_a_path_may_be_a_hundred_directories_deep():
    assert plan.path_problem("/".join(["d"] * 100)) is None
