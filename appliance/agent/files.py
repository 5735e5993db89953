"""Files that survive a power cut, and that nobody else may read."""

from __future__ import annotations

import fcntl
import json
import os
import re
from pathlib import Path
from typing import Any, Mapping

from .errors import Refused

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_uuid(text: object) -> bool:
    """Whether `text` is a uuid in its usual spelling: the only names from elsewhere that become file names here."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


def private_directory(path: Path) -> None:
    """Make `path` (and what is above it) 0700, or tighten it to that."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace `path` by `data`: after a crash there is the old content or the new, never a part. Durable on return."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`, or None if there is none that can be read."""
    try:
        return parse_object(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def parse_object(text: str | None) -> dict[str, Any] | None:
    """The JSON object in `text`, or None."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def compact(found: Mapping[str, object]) -> str:
    """An object as one line of JSON."""
    return json.dumps(found, sort_keys=True)


class Lock:
    """One agent per state directory: a kernel lock, which `kill -9` frees and a recycled process id cannot hold."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise Refused(
                f"another agent (process {holder}) is running on {path.parent}",
                "stop it first, or give this one its own directory with --state",
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next agent in."""
        os.close(self._file)
