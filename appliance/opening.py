"""Opening an appliance file for writing: its lock, its key, its first row and its first token."""

import os
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import Conflict, Invalid
from appliance.keys import Key
from appliance.operations.servers import add_token, new_secret
from appliance.store import file, keyfile, large
from appliance.store.database import Database
from appliance.store.file import File
from appliance.store.tx import Tx


@dataclass(slots=True)
class Opened:
    """An open file. `admin_token` is the first token of a new file, and None otherwise."""

    database: Database
    key: Key
    row: File
    lock: keyfile.Lock
    admin_token: str | None

    def close(self) -> None:
        """Finish what is queued and give the file back."""
        self.database.close()
        self.lock.release()


def default_path() -> str:
    """/var/lib/appliance/lab.db for root, else below the user's data."""
    if os.geteuid() == 0:
        return "/var/lib/appliance/lab.db"
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(base) / "appliance" / "lab.db")


def open_file(path: str, purpose: str) -> Opened:
    """Open or create an appliance file as its one writer.

    Raises Conflict when it is served already (by whom, since when), is newer than us or has lost its key; Invalid when it is not ours.
    """
    file_path = Path(path).resolve()  # so that a link to the file leads to the same lock and key
    path = str(file_path)
    before = os.umask(0o077)  # the file, its log, its lock and its key, and directories made for them, are the owner's alone
    try:
        _make_room(file_path)
        lock = keyfile.Lock(path, purpose)
        try:
            database = Database(path)
            try:
                keyfile.keep_private(path)  # now that it is known to be ours
                return _opened(path, database, lock)
            except BaseException:
                database.close()
                raise
        except BaseException:
            lock.release(refused=True)
            raise
    finally:
        os.umask(before)


def _make_room(path: Path) -> None:
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"the directory {folder} cannot be made: {error.strerror}", hint="name another file with --db") from None
    if not os.access(folder, os.W_OK):
        raise Invalid(f"the directory {folder} cannot be written", hint="run as its owner, or name another file with --db")
    if path.is_dir():
        raise Invalid(f"{path} is a directory", hint="name a file with --db")


def _birth(tx: Tx, key_id: str, secret: str) -> None:
    file.born(tx, key_id)
    add_token(tx, secret, "admin", "admin", None, "the appliance")


def _opened(path: str, database: Database, lock: keyfile.Lock) -> Opened:
    row = database.read(file.read)
    key = keyfile.load_or_make(path, may_make=row is None)
    secret = None
    if row is None:
        secret = new_secret()
        database.write(_birth, key.id, secret)
        row = database.read(file.read)
        assert row is not None
    if row.key_id != key.id:
        raise Conflict(f"{path}.key is the key of another database", hint="put back the key file that belongs to this one")
    while database.write(large.sweep_incomplete):
        pass
    return Opened(database, key, row, lock, secret)
