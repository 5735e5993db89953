"""The directories of runs: made fresh, named by ids we checked, bounded by count, age and size."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from . import files
from .capture import HEAD, LARGEST

KEEP = 50
DAYS = 14
RELEASED = "released"
ENDED = "ended"


def make(runs: Path, run: str) -> Path:
    """A fresh directory for `run`."""
    if not files.is_uuid(run):
        raise ValueError("a run id is a uuid")
    path = runs / run
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(mode=0o700)
    return path


def was_released(runs: Path, run: str) -> bool:
    """Whether this run's leader was ever released, by a witness outside of the journal."""
    return (runs / run / RELEASED).exists()


def mark_released(path: Path) -> None:
    """Leave the witness, durably."""
    files.write_whole(path / RELEASED, b"")


def leftovers(runs: Path) -> list[str]:
    """Runs that were released and did not come to their end, by witnesses outside of the journal."""
    return [path.name for path in _directories(runs) if (path / RELEASED).exists() and not (path / ENDED).exists()]


def wipe(path: Path) -> None:
    """After the end the inputs go; what was printed stays for people, the rest for background processes."""
    with suppress(OSError):
        (path / ENDED).touch(mode=0o600)
    with suppress(OSError):
        (path / "item.json").unlink()


def prune(runs: Path, *, keep: int = KEEP, days: float = DAYS) -> None:
    """Remove old run directories, and cut what background processes still write to."""
    found = []
    for path in _directories(runs):
        with suppress(OSError):
            found.append((path.stat().st_mtime, path))
    found.sort(reverse=True)
    oldest = time.time() - days * 86400
    for number, (changed, path) in enumerate(found):
        if number >= keep or changed < oldest:
            shutil.rmtree(path, ignore_errors=True)
            continue
        for name in ("stdout", "stderr"):
            with suppress(OSError):
                if (path / name).stat().st_size > LARGEST:
                    os.truncate(path / name, HEAD)


def _directories(runs: Path) -> list[Path]:
    try:
        return [path for path in runs.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []
