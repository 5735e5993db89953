"""Plans to test with: made of a few lines, or real ones."""

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance.keys import Key
from appliance.operations import plans
from appliance.operations.plans import Pushed
from appliance.operations.switches import RollbackPlan, Switched, SwitchPlan, rollback, switch
from appliance.plan import Entry, Mode, digest_of, storage_order
from appliance.store import file, packs
from appliance.store.database import Database

from .conftest import shared_directory

KEY = Key("k", b"1" * 32, b"2" * 32)

Content = bytes | tuple[Mode, bytes]


def opened(directory: Path, name: str = "lab.db") -> Iterator[Database]:
    """A database on a real file, closed at the end."""
    database = Database(str(directory / name))
    if database.is_new:
        database.write(file.born, KEY.id)
    try:
        yield database
    finally:
        database.close()


def split(content: Content) -> tuple[Mode, bytes]:
    return ("file", content) if isinstance(content, bytes) else content


def entries(files: Mapping[str, Content]) -> list[Entry]:
    return [Entry(path, mode, len(data), digest_of(data)) for path, (mode, data) in ((p, split(c)) for p, c in files.items())]


def store_small(database: Database, contents: list[bytes]) -> int:
    """Store small blobs as an edge does; how many were new."""
    return database.write(packs.store, list(packs.packed((digest_of(data), data) for data in contents)))


def push(database: Database, name: str, files: Mapping[str, Content], by: str = "ann") -> Pushed:
    """Store the blobs and push the version."""
    ordered = sorted(files.items(), key=lambda item: storage_order(item[0]))
    store_small(database, [split(content)[1] for _, content in ordered])
    return database.write(plans.push_version, plans.push_of(name, None, entries(files), (), by))


def switch_to(database: Database, name: str, to: int, expected: int | None = None, by: str = "ann", force: bool = False) -> Switched:
    return database.write(switch, KEY, SwitchPlan(name, str(to), expected, force, by))


def roll_back(database: Database, name: str, expected: int | None = None, force: bool = False) -> Switched:
    return database.write(rollback, KEY, RollbackPlan(name, expected, force, "ann"))


def state(database: Database) -> dict[str, list[tuple]]:
    """Everything that a reader of plans could see."""
    tables = ("plan", "version", "switch", "listing", "names", "audit", "generation")
    return database.read(lambda tx: {table: list(tx.rows(f"SELECT * FROM {table}")) for table in tables})


def read_tree(root: Path) -> dict[str, Content]:
    """A directory as it is on disk."""
    found: dict[str, Content] = {}
    for path in root.rglob("*"):
        key = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[key] = ("symlink", str(path.readlink()).encode())
        elif not path.is_dir():
            data = path.read_bytes()
            found[key] = ("executable", data) if path.stat().st_mode & 0o100 else data
    return found


def write_tree(root: Path, files: Mapping[str, Content]) -> Path:
    for path, content in files.items():
        mode, data = split(content)
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == "symlink":
            target.symlink_to(data.decode())
        else:
            target.write_bytes(data)
            target.chmod(0o755 if mode == "executable" else 0o644)
    return root


def shared() -> Path:
    """The same for a test that is marked as needing it: conftest.py leaves those out where it is missing."""
    where = shared_directory()
    assert where is not None, "mark this test real_input or real_peer"
    return where


def real_plan(which: str, directory: Path) -> Path:
    """The real plan `a` or `b`, unpacked below `directory`."""
    target = directory / which
    with tarfile.open(shared() / "inputs" / f"tripleo-heat-templates-{which}.tar.gz") as packed:
        packed.extractall(target, filter="tar")
    [root] = target.iterdir()
    return root
