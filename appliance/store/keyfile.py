"""The two files beside the database: the key (0600), and the lock of whoever writes."""

import fcntl
import json
import os
import secrets
import time
from pathlib import Path

from appliance.errors import Conflict, Corrupt, Invalid
from appliance.keys import Key

KEY_BYTES = 32


def load_or_make(database: str, *, may_make: bool) -> Key:
    """The key that lies beside `database`. Makes it for a new database only.

    Raises Conflict when an existing database has lost its key, Corrupt when the file is not a key, Invalid when others may read it and
    its mode cannot be mended.
    """
    path = Path(database + ".key")
    if not path.exists():
        if not may_make:
            raise Conflict(
                f"the key file {path} is missing",
                hint="put back the key file that belongs to this database (it is part of a backup)",
            )
        _write(path, {"id": secrets.token_hex(8), "mac": secrets.token_hex(KEY_BYTES), "seal": secrets.token_hex(KEY_BYTES)})
    try:
        _close_to_others(path)
        found = json.loads(path.read_text())
        id, mac, seal = str(found["id"]), bytes.fromhex(found["mac"]), bytes.fromhex(found["seal"])
        if len(mac) != KEY_BYTES or len(seal) != KEY_BYTES:
            raise ValueError("a key is of another length")
        return Key(id, mac, seal)
    except PermissionError:
        raise Invalid(f"{path} cannot be read", hint="run as the owner of the database") from None
    except (ValueError, KeyError, TypeError):
        raise Corrupt(f"{path} is not a key file", hint="put back the key file that belongs to this database") from None


def keep_private(database: str) -> None:
    """Take away what others may do with an existing database and what lies beside it. Raises Invalid when it is not ours to change."""
    for suffix in ("", "-wal", "-shm"):
        path = Path(database + suffix)
        try:
            _close_to_others(path)
        except FileNotFoundError:
            continue
        except PermissionError:
            raise Invalid(f"{path} belongs to another account, and others may read it", hint="run as its owner") from None


def _close_to_others(path: Path) -> None:
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _write(path: Path, content: dict[str, str]) -> None:
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Lock:
    """Held by the one process that may write the database; the kernel frees it when that process ends, however it ends."""

    def __init__(self, database: str, purpose: str) -> None:
        """Take it. Raises Conflict naming who holds it, and since when."""
        self.path = database + ".lock"
        self._was_there = Path(self.path).exists()
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _close_to_others(Path(self.path))
        except PermissionError:
            raise Invalid(f"{self.path} belongs to another account", hint="run as the owner of the database") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 4096).decode("utf-8", "replace").strip() or "another process"
            os.close(self._descriptor)
            raise Conflict(f"{database} is already served by {holder}", hint="use that appliance, or stop it first") from None
        os.ftruncate(self._descriptor, 0)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.pwrite(self._descriptor, f"{purpose}, pid {os.getpid()}, since {since}\n".encode(), 0)

    def release(self, *, refused: bool = False) -> None:
        """Give it back; `refused`: and leave nothing behind of a database that is not ours."""
        if refused and not self._was_there:
            Path(self.path).unlink(missing_ok=True)
        os.close(self._descriptor)
