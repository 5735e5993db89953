"""Push, switch, rollback, delete: one commit each, or nothing."""

import threading
import time

import pytest

from appliance.errors import Conflict, Invalid, NotFound
from appliance.operations import contents, plans, switches
from appliance.operations.plans import DeletePlan
from appliance.plan import digest_of, manifest, shown
from appliance.store import audit, blobs, listings
from appliance.store import plans as store_plans
from appliance.store.packs import Shelf

from ..samples import entries, opened, push, read_tree, real_plan, roll_back, state, store_small, switch_to


@pytest.fixture
def database(tmp_path):
    yield from opened(tmp_path)


def read_all(database, name, ref):
    """Every file of a version, each step in a snapshot of its own, as an answer is made."""
    _, items = database.read_apart(contents.items, name, ref)
    shelf, found = Shelf(), {}
    while len(found) < len(items):
        for entry, content in database.read_apart(contents.next_files, items, len(found), shelf):
            data = database.read_apart(blobs.content, content) if isinstance(content, blobs.Blob) else content
            found[entry.path] = data if entry.mode == "file" else (entry.mode, data)
    return found


def test_a_push_changes_nothing_that_is_live(database):
    push(database, "lab", {"a": b"1"})
    switch_to(database, "lab", 1)
    pushed = push(database, "lab", {"a": b"2"})
    assert (pushed.version.number, pushed.created, pushed.serial, pushed.current) == (2, True, 1, 1)


def test_pushing_an_equal_manifest_gives_the_version_there_is(database):
    first = push(database, "lab", {"a": b"1"})
    before = state(database)
    again = push(database, "lab", {"a": b"1"})
    assert (again.version, again.created) == (first.version, False)
    assert state(database) == before


def test_two_plans_share_what_is_equal(database):
    push(database, "lab", {"a": b"1"})
    push(database, "web", {"a": b"1"})
    assert len(state(database)["listing"]) == 1


def test_a_push_upon_a_base_sends_only_what_changed(database):
    first = push(database, "lab", {f"f{n}": b"%d" % n for n in range(50)} | {"gone": b"x"})
    base = database.read(plans.base_of, first.version.digest)
    store_small(database, [b"new"])
    command = plans.push_of("lab", base, entries({"f1": b"new"}), ["gone"], "ann")
    pushed = database.write(plans.push_version, command)
    whole = manifest(entries({f"f{n}": b"%d" % n for n in range(50)} | {"f1": b"new"}))
    assert database.read(plans.whole, "lab", "2") == (pushed.version, whole)
    assert len(command.entries) == 1


def test_a_push_upon_an_unknown_base_is_refused_with_what_to_do(database):
    base = manifest(entries({"a": b"1"}))
    store_small(database, [b"2"])
    with pytest.raises(Conflict) as caught:
        database.write(plans.push_version, plans.push_of("lab", base, entries({"b": b"2"}), [], "ann"))
    assert caught.value.detail == {"base": shown(base.digest)}
    assert state(database)["plan"] == []


def test_ato_05_a_manifest_with_missing_blobs_changes_nothing_and_lists_them(database):
    push(database, "lab", {"a": b"1"})
    switch_to(database, "lab", 1)
    before = state(database)
    with pytest.raises(Conflict) as caught:
        database.write(plans.push_version, plans.push_of("lab", None, entries({"a": b"1", "b": b"2", "c": b"3"}), [], "ann"))
    assert set(caught.value.detail["missing"]) == {shown(digest_of(b"2")), shown(digest_of(b"3"))}
    assert state(database) == before


def test_gc_02_a_blob_that_went_after_it_was_said_to_be_there_is_reported_missing(database):
    store_small(database, [b"x"])
    assert database.read(blobs.missing, [digest_of(b"x")]) == []
    database.write(lambda tx: tx.execute("DELETE FROM blob"))
    with pytest.raises(Conflict) as caught:
        database.write(plans.push_version, plans.push_of("lab", None, entries({"a": b"x"}), [], "ann"))
    assert caught.value.detail == {"missing": [shown(digest_of(b"x"))]}
    assert state(database)["version"] == []


@pytest.mark.parametrize("k", range(0, 101, 10))
def test_ato_01_a_push_that_fails_after_any_number_of_files_needs_no_clean_up(database, k):
    files = {f"f{n:03}": b"content %d" % n for n in range(100)}
    push(database, "lab", {"old": b"old"})
    switch_to(database, "lab", 1)
    before = state(database)
    store_small(database, [data for _, data in sorted(files.items())[:k]])
    command = plans.push_of("lab", None, entries(files), [], "ann")
    if k < 100:
        with pytest.raises(Conflict):
            database.write(plans.push_version, command)

    def breaks(tx):
        plans.push_version(tx, plans.push_of("lab", None, entries({"old": b"old", **{p: files[p] for p in sorted(files)[:k]}}), [], "b"))
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        database.write(breaks)
    assert state(database) == before
    assert push(database, "lab", files).version.number == 2


def test_a_wrong_size_is_refused(database):
    store_small(database, [b"four"])
    [entry] = entries({"a": b"four"})
    lie = type(entry)(entry.path, entry.mode, 5, entry.digest)
    with pytest.raises(Invalid, match="4"):
        database.write(plans.push_version, plans.push_of("lab", None, [lie], [], "ann"))


@pytest.mark.parametrize(
    "files",
    [
        {"l": ("symlink", b"/etc/passwd")},
        {"l": ("symlink", b"../x")},
        {"l": ("symlink", b"x" * 5000)},
        {"d/up": ("symlink", b".."), "out": ("symlink", b"d/up/../x")},
    ],
)
def test_sec_04_a_symlink_that_leads_out_is_refused(database, files):
    with pytest.raises(Invalid):
        push(database, "lab", files)
    assert state(database)["version"] == []


def test_sec_04_a_symlink_is_checked_together_with_those_of_the_base(database):
    first = push(database, "lab", {"d/up": ("symlink", b".."), "a": b"1"})
    base = database.read(plans.base_of, first.version.digest)
    store_small(database, [b"d/up/../x"])
    command = plans.push_of("lab", base, entries({"out": ("symlink", b"d/up/../x")}), [], "ann")
    with pytest.raises(Invalid, match="by way of other links"):
        database.write(plans.push_version, command)


@pytest.mark.parametrize("name", ["", ".", "../x", "a/b", "-x", "a b", "x" * 256])
def test_a_plan_name_that_is_not_allowed_is_refused(database, name):
    with pytest.raises(Invalid):
        plans.push_of(name, None, [], [], "ann")


def test_each_operation_is_in_the_audit_and_wakes_who_waits(tmp_path):
    woken = []
    generator = opened(tmp_path, "woken.db")
    database = next(generator)
    database.on_commit = woken.append
    push(database, "lab", {"a": b"1"})
    push(database, "lab", {"a": b"2"})
    switch_to(database, "lab", 1)
    switch_to(database, "lab", 2)
    roll_back(database, "lab")
    database.write(plans.delete_plan, DeletePlan("lab", "ann"))
    verbs = [deed.verb for deed in database.read(audit.newest, limit=10)]
    assert verbs == ["plan delete", "plan rollback", "plan switch", "plan switch", "plan push", "plan push"]
    assert [topics for topics in woken if "plan:lab" in topics] == [{"plan:lab"}] * 6
    generator.close()


def test_ato_07_nothing_of_a_deleted_plan_is_seen_by_a_new_one_of_its_name(database):
    push(database, "lab", {"old": b"old"})
    switch_to(database, "lab", 1)
    database.write(plans.delete_plan, DeletePlan("lab", "ann"))
    with pytest.raises(NotFound):
        database.read(plans.overview, "lab")
    pushed = push(database, "lab", {"new": b"new"})
    assert (pushed.version.number, pushed.serial, pushed.current) == (1, 0, None)
    assert [entry.path for entry in database.read(plans.whole, "lab", "1")[1].entries] == ["new"]
    assert database.read(switches.log, "lab", limit=9) == []


def test_ato_07_a_delete_that_fails_in_the_middle_leaves_the_plan(database):
    push(database, "lab", {"a": b"1"})
    before = state(database)

    def breaks(tx):
        plans.delete_plan(tx, DeletePlan("lab", "ann"))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        database.write(breaks)
    assert state(database) == before


def test_deleting_a_plan_that_deployments_use_is_refused_naming_them(database):
    push(database, "lab", {"a": b"1"})
    plan = database.read(store_plans.find, "lab")

    def use(tx):
        tx.execute("INSERT INTO server (id, name, kind, changed, commit_no, created_at) VALUES ('s', 'web-1', 'agent', 1, 1, 1)")
        tx.execute("INSERT INTO deployment (id, server, commit_no, created_at, by) VALUES ('d', 's', 1, 1, 'ann')")
        tx.execute("INSERT INTO uses (plan, path, kind, deployment) VALUES (?, 'a', 'file', 'd')", (plan.id,))

    database.write(use)
    with pytest.raises(Conflict) as caught:
        database.write(plans.delete_plan, DeletePlan("lab", "ann"))
    assert "web-1/" in caught.value.message
    assert database.read(store_plans.find, "lab") == plan


def test_gc_13_a_plan_of_5000_files_is_deleted_in_one_short_commit(database):
    push(database, "lab", {f"f{n}": b"%d" % n for n in range(5000)})
    began = time.monotonic()
    database.write(plans.delete_plan, DeletePlan("lab", "ann"))
    assert time.monotonic() - began < 1


def test_a_diff_names_what_differs(database):
    push(database, "lab", {"a": b"1", "b": b"1", "c": b"1"})
    push(database, "lab", {"a": b"1", "b": b"2", "d": b"1"})
    before, after, found = database.read(plans.diff, "lab", "1", "2")
    assert (before.number, after.number) == (1, 2)
    assert [(change.path, change.kind) for change in found] == [("b", "changed"), ("c", "removed"), ("d", "added")]


def test_a_file_that_is_not_there_is_not_found_with_a_hint(database):
    push(database, "lab", {"puppet/role.yaml": b"1", "a/b/c": b"2"})
    for path, hint in (("role.yaml", "puppet/role.yaml"), ("a/b", "a/b/c"), ("x", "plan ls")):
        with pytest.raises(NotFound) as caught:
            database.read(plans.file, "lab", "1", path)
        assert hint in caught.value.hint


def test_ato_03_a_reader_sees_one_version_while_many_switches_happen(database):
    versions = [{f"f{n}": b"version %d file %d" % (v, n) for n in range(100)} for v in range(2)]
    for files in versions:
        push(database, "lab", files)
    switch_to(database, "lab", 1)
    _, items = database.read_apart(contents.items, "lab", "current")
    found, at, shelf = {}, 0, Shelf()
    for turn in range(10):
        switch_to(database, "lab", turn % 2 + 1)
        for entry, content in database.read_apart(contents.next_files, items[at : at + 10], 0, shelf):
            found[entry.path] = content
            at += 1
    assert found == versions[0]


def test_ato_09_a_file_that_shrinks_is_read_whole_old_or_whole_new(database):
    sizes = {10_000, 10}
    push(database, "lab", {"f": b"x" * 10_000})
    push(database, "lab", {"f": b"y" * 10})
    switch_to(database, "lab", 1)
    stop = threading.Event()
    seen: set[bytes] = set()

    def read():
        while not stop.is_set():
            seen.add(database.read_apart(lambda tx: blobs.content(tx, plans.file(tx, "lab", "current", "f")[2])))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(60):
        switch_to(database, "lab", turn % 2 + 1)
    stop.set()
    reader.join()
    assert {len(data) for data in seen} <= sizes
    assert all(len(set(data)) == 1 for data in seen)


@pytest.mark.real_input
def test_ato_03_eight_readers_each_see_one_real_version_while_it_is_switched(database, tmp_path):
    a, b = (read_tree(real_plan(which, tmp_path)) for which in "ab")
    push(database, "tht", a)
    push(database, "tht", b)
    found = database.read(plans.diff, "tht", "1", "2")[2]
    kinds = [change.kind for change in found]
    assert (kinds.count("added") + kinds.count("changed"), kinds.count("removed")) == (569, 68)
    switch_to(database, "tht", 1)
    stop = threading.Event()
    torn, seen = [], []

    def read():
        while not stop.is_set():
            whole = read_all(database, "tht", "current")
            if whole not in (a, b):
                torn.append(len(whole))
            seen.append(len(whole))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for turn in range(40):
        switch_to(database, "tht", turn % 2 + 1)
        time.sleep(0.05)
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == []
    assert len(seen) >= 8
    assert set(seen) == {len(a), len(b)}


def test_the_second_of_two_like_versions_is_stored_as_a_delta(database):
    files = {f"f{n}": b"%d" % n for n in range(100)}
    push(database, "lab", files)
    push(database, "lab", files | {"f1": b"new"})
    bases = database.read(lambda tx: [row[0] for row in tx.rows("SELECT base FROM listing ORDER BY id")])
    assert bases == [None, 1]
    assert database.read(listings.read, 2).keys() == files.keys()
