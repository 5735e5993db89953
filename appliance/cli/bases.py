"""What a directory was based on: remembered per directory, appliance and plan, below the user's state directory.

`serial` is the switch the directory's content builds upon; it is always sent along with a switch, so that overwriting somebody else's
is noticed. `digest` is the version last pushed from or exported to the directory; its manifest is kept too, so that the next push sends
only what changed.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from appliance.cli.common import Failure
from appliance.errors import ApplianceError
from appliance.plan import Entry, Manifest, manifest, shown


@dataclass(frozen=True, slots=True)
class Base:
    """One remembered directory (its real path). `at` is when it was written, in seconds since 1970."""

    directory: str
    url: str
    plan: str
    serial: int
    digest: str
    at: float


class Bases:
    """The remembered directories. Each change is whole or not at all, also with several commands at once."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or state_path()
        self._path = self.root / "bases.json"

    def find(self, directory: Path, url: str, plan: str) -> Base | None:
        """What is remembered of a directory, or None."""
        real = str(directory.resolve())
        return next((one for one in self._all() if (one.directory, one.url, one.plan) == (real, url, plan)), None)

    def who_pushed(self, digest: str, url: str, plan: str) -> Base | None:
        """The directory that pushed (or was exported from) this version most recently, or None."""
        found = [one for one in self._all() if (one.digest, one.url, one.plan) == (digest, url, plan)]
        return max(found, key=lambda one: one.at) if found else None

    def remember(self, directory: Path, url: str, plan: str, serial: int, digest: str, whole: Manifest | None = None) -> None:
        """Remember, in place of what was remembered of this directory."""
        new = Base(str(directory.resolve()), url, plan, serial, digest, time.time())
        with self._changing() as bases:
            bases[:] = [one for one in bases if (one.directory, one.url, one.plan) != (new.directory, url, plan)] + [new]
            if whole is not None:
                self._keep(new, whole)

    def follow(self, url: str, plan: str, before: int, serial: int) -> None:
        """A switch from `before` to `serial` was made from none of the directories: those that built upon `before` now build upon it."""
        if any((one.url, one.plan, one.serial) == (url, plan, before) for one in self._all()):
            with self._changing() as bases:
                bases[:] = [replace(one, serial=serial) if (one.url, one.plan, one.serial) == (url, plan, before) else one for one in bases]

    def manifest(self, base: Base) -> Manifest | None:
        """The manifest of the version `base` names, if it was kept and is sound."""
        try:
            rows = json.loads(zlib.decompress(self._manifest_path(base).read_bytes()))
            found = manifest(Entry(path, mode, size, bytes.fromhex(digest)) for path, mode, size, digest in rows)
        except (OSError, ValueError, TypeError, zlib.error, ApplianceError):
            return None
        return found if shown(found.digest) == base.digest else None

    def _keep(self, base: Base, whole: Manifest) -> None:
        rows = [(one.path, one.mode, one.size, one.digest.hex()) for one in whole.entries]
        path = self._manifest_path(base)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        _replace(path, zlib.compress(json.dumps(rows).encode(), 1))

    def _manifest_path(self, base: Base) -> Path:
        key = "\n".join((base.directory, base.url, base.plan)).encode("utf-8", "surrogateescape")
        return self.root / "manifests" / hashlib.sha256(key).hexdigest()

    def _all(self) -> list[Base]:
        try:
            return [Base(**one) for one in json.loads(self._path.read_bytes())["bases"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Failure(
                f"{self._path} cannot be read ({error})", "move it away: then a switch is compared with what is current just now"
            ) from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Base]]:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.root / "bases.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Failure(f"{self.root} cannot be written ({error.strerror})", "set XDG_STATE_HOME to a directory of yours") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            bases = self._all()
            yield bases
            _replace(self._path, json.dumps({"bases": [asdict(one) for one in bases]}, indent=1).encode("utf-8", "surrogateescape"))
        finally:
            os.close(lock)


def state_path() -> Path:
    """$XDG_STATE_HOME/appliance, or ~/.local/state/appliance."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "appliance"


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.rename(path)
