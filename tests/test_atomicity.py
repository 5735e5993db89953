"""Every write, sync, truncate and delete of a push and a switch fails once: what is then on disk is the old or the new, never torn.

The files are copied as they lie at that moment, as a crash would leave them, and the copy is opened again.
"""

import contextlib
import io
import shutil
from pathlib import Path

import apsw
import pytest

from appliance.errors import ApplianceError, Conflict
from appliance.operations import contents, plans
from appliance.plan import digest_of, manifest
from appliance.store import blobs, large
from appliance.store import plans as store_plans
from appliance.store.database import Database
from appliance.store.packs import Shelf
from appliance.web.native import intake
from appliance.web.native.intake import Found

from .samples import entries, opened, push, switch_to

OLD = {f"d{n % 5}/f{n}": b"old %d" % n for n in range(60)} | {"gone": b"gone"}
NEW = {path: data.replace(b"old", b"new") for path, data in OLD.items() if path != "gone"} | {"large": b"large" * 300_000}


class Faults(apsw.VFS):
    """The disk, of which the n-th effect fails (and with `dead` each one after it)."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.fired = False
        self.dead = False
        super().__init__("faults", "unix", makedefault=True)

    def arm(self, left: int, *, dead: bool) -> None:
        self.left, self.dead, self.fired = left, dead, False

    def effect(self) -> None:
        if self.left is None:
            return
        if self.left == 0 or (self.fired and self.dead):
            self.fired = True
            self.left = self.left - 1 if not self.dead else 0
            raise apsw.IOError("a fault on purpose")
        self.left -= 1

    def excepthook(self, kind, error, trace) -> None:
        """Faults are expected and not printed."""

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return FaultyFile(self, name, flags)

    def xDelete(self, name, sync):  # noqa: N802
        self.effect()
        return super().xDelete(name, sync)


class FaultyFile(apsw.VFSFile):
    """A file of that disk."""

    def __init__(self, faults: Faults, name, flags) -> None:
        self._faults = faults
        super().__init__("unix", name, flags)

    def excepthook(self, kind, error, trace) -> None:
        """Faults are expected and not printed."""

    def xWrite(self, data, offset):  # noqa: N802
        self._faults.effect()
        return super().xWrite(data, offset)

    def xSync(self, flags):  # noqa: N802
        self._faults.effect()
        return super().xSync(flags)

    def xTruncate(self, size):  # noqa: N802
        self._faults.effect()
        return super().xTruncate(size)


@pytest.fixture
def faults():
    disk = Faults()
    yield disk
    disk.left = None
    disk.unregister()


@pytest.fixture
def old_file(tmp_path):
    """A file with version 1 current, closed."""
    (tmp_path / "old").mkdir()
    for database in opened(tmp_path / "old"):
        push(database, "lab", OLD)
        switch_to(database, "lab", 1)
    return tmp_path / "old" / "lab.db"


def move(database: Database, acknowledged: list[str]) -> None:
    """Push version 2 and switch to it, noting what was acknowledged."""
    spool = io.BytesIO(b"".join(NEW.values()))
    found, at = [], 0
    for path, data in NEW.items():
        found.append(Found(path, "file", len(data), digest_of(data), at))
        at += len(data)
    intake.store(database, found, spool, mend=False)
    acknowledged.append("blobs")
    database.write(plans.push_version, plans.push_of("lab", None, entries(NEW), [], "ann"))
    acknowledged.append("version")
    switch_to(database, "lab", 2, expected=1)
    acknowledged.append("switch")


def read_current(database: Database) -> dict[str, bytes]:
    _, items = database.read_apart(contents.items, "lab", "current")
    shelf, found = Shelf(), {}
    while len(found) < len(items):
        for entry, content in database.read_apart(contents.next_files, items, len(found), shelf):
            found[entry.path] = content if isinstance(content, bytes) else database.read_apart(blobs.content, content)
    return found


def is_sound(path: Path) -> bool:
    db = apsw.Connection(str(path))
    try:
        return db.pragma("integrity_check") == "ok" and not list(db.execute("PRAGMA foreign_key_check"))
    finally:
        db.close()


@pytest.mark.parametrize("dead", [False, True], ids=["one-fault", "disk-stays-dead"])
def test_ato_01_whatever_effect_of_a_push_and_switch_fails_the_disk_has_old_or_new(faults, old_file, tmp_path, dead):
    outcomes: dict[str, int] = {}
    number, fired = 0, True
    while fired:
        here = tmp_path / f"run-{number}"
        shutil.copytree(old_file.parent, here / "live")
        generator = opened(here / "live")
        database = next(generator)
        acknowledged: list[str] = []
        faults.arm(number, dead=dead)
        with contextlib.suppress(ApplianceError):
            move(database, acknowledged)
        fired, faults.left = faults.fired, None
        (here / "crashed").mkdir()
        for path in (here / "live").glob("lab.db*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, here / "crashed" / path.name)
        generator.close()

        again = opened(here / "crashed")
        database = next(again)
        while database.write(large.sweep_incomplete):
            pass
        plan = database.read(store_plans.find, "lab")
        current = database.read(store_plans.current, plan.id).version
        versions = [one.number for one in database.read(store_plans.versions, plan.id)]
        assert read_current(database) == {1: OLD, 2: NEW}[current]
        assert versions in ([1], [2, 1])
        assert "version" not in acknowledged or versions == [2, 1]
        assert "switch" not in acknowledged or current == 2
        outcomes["new" if current == 2 else "old"] = outcomes.get("new" if current == 2 else "old", 0) + 1
        if current == 1:
            move(database, [])  # trying again needs no clean-up
        assert database.read(plans.whole, "lab", "current")[1] == manifest(entries(NEW))
        assert database.read(lambda tx: tx.value("SELECT count(*) FROM large")) == 1
        again.close()
        assert is_sound(here / "crashed" / "lab.db")
        shutil.rmtree(here)
        number += 1
    assert number > 30
    assert outcomes["old"] > 20
    assert outcomes["new"] >= 1


def test_after_a_fault_the_open_appliance_goes_on(faults, old_file):
    """Readers of the running process see the old version, and the next attempt succeeds."""
    for number in (0, 3, 7):
        generator = opened(old_file.parent)
        database = next(generator)
        faults.arm(number, dead=False)
        with pytest.raises(ApplianceError, match="nothing was changed"):
            push(database, "lab", {"only": b"%d" % number})
        faults.left = None
        assert read_current(database) == OLD
        push(database, "lab", {"only": b"%d" % number})
        with pytest.raises(Conflict):
            switch_to(database, "lab", 2, expected=9)
        generator.close()
