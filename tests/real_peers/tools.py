"""Programs no one here wrote, fetched from the package index once and kept in a cache: $APPLIANCE_CACHE, or .cache beside the tests."""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def cache() -> Path:
    """Where they are kept."""
    return Path(os.environ.get("APPLIANCE_CACHE") or TOP / ".cache").absolute()


@contextmanager
def alone(name: str) -> Iterator[Path]:
    """A directory of the cache, for one process at a time."""
    where = cache()
    where.mkdir(parents=True, exist_ok=True)
    with (where / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield where / name


@contextmanager
def once(directory: Path) -> Iterator[bool]:
    """Whether `directory` is still to be filled. One that was not filled to the end is begun anew."""
    done = directory.with_name(f"{directory.name}.done")
    if done.exists() and directory.is_dir():
        yield False
        return
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    yield True
    done.touch()


def ansible() -> Path:
    """The bin directory of an environment with ansible-core, and with what the hooks of heat-agents import."""
    with alone("ansible") as where, once(where) as empty:
        if empty:
            venv.create(where, with_pip=True)
            pip(where / "bin/python", "install", "ansible-core", "PyYAML", "requests")
        return where / "bin"


def heat_agents() -> Path:
    """The unpacked source distribution of heat-agents, which has every hook."""
    with alone("heat-agents") as where, once(where) as empty:
        if empty:
            pip(Path(sys.executable), "download", "--no-deps", "--no-binary", ":all:", "--dest", str(where), "heat-agents")
            (archive,) = where.glob("heat[_-]agents-*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(where, filter="data")
        (root,) = [path for path in where.iterdir() if path.is_dir()]
        return root


def pip(python: Path, *words: str) -> None:
    """Run pip; its output is shown if it fails."""
    done = subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"pip {' '.join(words)}:\n{done.stdout}{done.stderr}"
