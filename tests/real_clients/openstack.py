"""OpenStack's own clients, fetched once from the package index into a directory of their own, and run as they are."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ("python-openstackclient==10.5.0", "python-heatclient==5.3.0")
SECONDS = 120


def cache() -> Path:
    """Where fetched programs are kept: $APPLIANCE_CACHE, else .cache here."""
    found = Path(os.environ.get("APPLIANCE_CACHE") or TOP / ".cache").absolute()
    found.mkdir(parents=True, exist_ok=True)
    return found


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def bin_directory() -> Path:
    """The clients' programs. That they cannot be fetched is a failure, never a reason to leave a test out."""
    where = cache() / "openstack-clients"
    with alone(where):
        ready = where / "installed"
        if not ready.exists() or ready.read_text() != "\n".join(PACKAGES):
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(where)], check=True)
            pip = [str(where / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *PACKAGES], check=True)
            ready.write_text("\n".join(PACKAGES))
    return where / "bin"


class Client:
    """One user of the clients: an environment of its own."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.bin = bin_directory()
        self.settings = {f"OS_{name.upper()}": value for name, value in settings.items()}

    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "APPLIANCE_", "XDG_"))}
        return kept | {"HOME": str(self.home), "PYTHONWARNINGS": "ignore"} | self.settings

    def run(self, *words: str, program: str = "openstack") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.bin / program), *words], env=self.env(), cwd=self.home, capture_output=True, text=True, timeout=SECONDS
        )

    def ok(self, *words: str, program: str = "openstack") -> str:
        done = self.run(*words, program=program)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "-f", "json"))

    def fails(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr
