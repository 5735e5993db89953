"""Group `plan`: a directory of this machine that is always one whole version of a plan's files.

The directory is a link to one of the versions beside it, and is put in place by one rename. So whoever reads it sees a
version whole, whenever this process is killed, and after a reboot it is there without anybody's help. A checkout that was
cut short is taken up again: it is no start of anything, and doing it twice does nothing twice.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from . import files, manifest
from .content import Unavailable, hashed
from .document import Item
from .manifest import DIRECTORY, MODES, Entry
from .signals import Result, wall
from .supply import Supply

GROUP = "plan"
KEEP = 3
NAMED = 100  # files that are none of ours, in a report
_VERSION = re.compile(r"([0-9a-f]{64})-([0-9]{1,9})")


@dataclass(frozen=True)
class Version:
    """One whole version beside the link: its directory, the digest of its list, the list, and when it was last put in place."""

    path: Path
    digest: str
    number: int
    entries: tuple[Entry, ...]
    used: float

    @property
    def list(self) -> Path:
        """The file that holds its list."""
        return self.path.with_name(self.path.name + ".manifest")


@dataclass(frozen=True)
class Differences:
    """What of a directory is not as its list says: files that are changed or missing, and files that the list does not have."""

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    foreign: tuple[str, ...]


def run(item: Item, supply: Supply) -> Result:
    """Bring the directory to the item's files. Raises Unavailable, NotWanted, BadManifest: then it is as it was."""
    began = wall()
    body = item.config.get("config")
    path = body.get("path") if isinstance(body, dict) else None
    keep = body.get("keep", KEEP) if isinstance(body, dict) else KEEP
    fits = isinstance(path, str) and path.startswith("/") and not {"", ".", ".."}.intersection(path.split("/")[1:])
    if not fits or not isinstance(keep, int) or len(item.files) != 1:
        raise Unavailable("a config of group `plan` has files of one plan, and a body with an absolute path and a number to keep")
    try:
        return _Place(Path(str(path)), max(1, keep), supply).bring(item.files[0], began)
    except OSError as error:
        raise Unavailable(f"{path} cannot be brought to its version: {error.filename or ''} {error.strerror}") from None


class _Place:
    """One such directory: `path` is the link, `store` holds the versions."""

    def __init__(self, path: Path, keep: int, supply: Supply) -> None:
        self.path, self.keep, self.supply = path, keep, supply
        self.store = path.with_name(f".{path.name}.versions")

    def bring(self, digest: str, began: str) -> Result:
        self._check()
        for directory in [*reversed(self.store.parents), self.store]:
            if not directory.is_dir():
                directory.mkdir()
                directory.chmod(DIRECTORY)  # not what the umask makes of it
        self._sweep()
        there = sorted(self._versions(), key=lambda one: (one.used, one.number))
        before = next((one for one in there if one.path == self._current()), None)
        found = differences(before.path, before.entries) if before is not None else None
        target = self._sound(there, digest) or self._made(there, digest)
        self._put(target)
        gone, spared = self._prune([one for one in there if one.path != target.path])
        return self._result(began, target, before, found, gone, spared)

    def _check(self) -> None:
        """Refuse what is not ours to replace. Raises Unavailable."""
        if self.path.is_symlink():
            if self._current() is None:
                raise Unavailable(f"{self.path} is a link to {os.readlink(self.path)}, which is none of ours; move it away")  # noqa: PTH115
        elif self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise Unavailable(f"{self.path} is there and none of ours; move it away")

    def _current(self) -> Path | None:
        """The version the link leads to."""
        with suppress(OSError):
            target = Path(os.readlink(self.path))  # noqa: PTH115 - as it is written
            if target.parent == Path(self.store.name) and _VERSION.fullmatch(target.name):
                return self.store / target.name
        return None

    def _sweep(self) -> None:
        """Remove what was cut short."""
        for path in self.store.iterdir():
            if path.suffix in (".part", ".gone"):
                shutil.rmtree(path)
            elif path.suffix == ".new" or (path.suffix == ".manifest" and not path.with_suffix("").is_dir()):
                path.unlink()

    def _versions(self) -> Iterator[Version]:
        for path in self.store.iterdir():
            name = _VERSION.fullmatch(path.name)
            if name is None:
                continue
            listed = path.with_name(path.name + ".manifest")
            try:
                text = listed.read_bytes()
                if manifest.digest_of(text) == name[1]:
                    yield Version(path, name[1], int(name[2]), manifest.parse(text), listed.stat().st_mtime)
            except (OSError, manifest.BadManifest):
                continue

    def _sound(self, there: list[Version], digest: str) -> Version | None:
        """The version with this list, if every file of it is as it must be."""
        for one in reversed(there):
            if one.digest == digest:
                found = differences(one.path, one.entries)
                if not found.changed and not found.missing:
                    return one
        return None

    def _made(self, there: list[Version], digest: str) -> Version:
        """A new version, whole and on disk, not in place yet."""
        entries = next((one.entries for one in there if one.digest == digest), None) or self.supply.listed(digest)
        self.supply.nearby = {entry.digest: one.path / entry.path for one in there for entry in one.entries if entry.mode != "symlink"}
        self.supply.fetch(entries)
        names = [_VERSION.fullmatch(path.name) for path in self.store.iterdir()]
        number = 1 + max((int(name[2]) for name in names if name is not None), default=0)
        part = self.store / f"{digest}-{number}.part"
        part.mkdir()
        part.chmod(DIRECTORY)
        self.supply.place(entries, part)
        made = Version(part.with_suffix(""), digest, number, entries, 0.0)
        files.write_whole(made.list, manifest.text_of(entries), mode=0o644)
        os.sync()
        part.rename(made.path)
        files.sync_directory(self.store)
        return made

    def _put(self, target: Version) -> None:
        """Have the link lead to a version: the one moment in which anything changes."""
        os.utime(target.list)
        if self._current() == target.path:
            return
        new = self.store / "link.new"
        if self.path.is_dir() and not self.path.is_symlink():
            self.path.rmdir()  # an empty one that was there before us
        new.symlink_to(Path(self.store.name) / target.path.name)
        new.replace(self.path)
        files.sync_directory(self.path.parent)

    def _prune(self, others: list[Version]) -> tuple[int, list[str]]:
        """Remove the versions before the last few; (how many, those that stay since files in them are none of ours)."""
        gone, spared = 0, []
        for one in others[: max(0, len(others) - (self.keep - 1))]:
            found = differences(one.path, one.entries)
            if found.foreign or found.changed:
                spared.append(one.path.name)
                continue
            away = one.path.with_name(one.path.name + ".gone")
            one.path.rename(away)
            shutil.rmtree(away)
            one.list.unlink()
            gone += 1
        return gone, spared

    def _result(
        self, began: str, target: Version, before: Version | None, found: Differences | None, gone: int, spared: list[str]
    ) -> Result:
        content = self.supply.content
        outputs: dict[str, object] = {
            "path": str(self.path),
            "digest": f"sha256:{target.digest}",
            "files": len(target.entries),
            "fetched_blobs": content.blobs,
            "fetched_bytes": content.fetched,
            "removed_versions": gone,
        }
        lines = [f"{self.path}: {len(target.entries)} files, {content.blobs} blobs ({content.fetched} bytes) fetched"]
        remark = None
        if before is not None and found is not None and (found.foreign or found.changed or found.missing):
            outputs["foreign"], outputs["changed"] = list(found.foreign[:NAMED]), list(found.changed[:NAMED])
            outputs["missing"] = list(found.missing[:NAMED])
            lines += [f"none of the plan's: {one}" for one in found.foreign[:NAMED]]
            lines += [f"was changed on the machine: {one}" for one in found.changed[:NAMED]]
            lines += [f"was removed on the machine: {one}" for one in found.missing[:NAMED]]
            counts = f"{len(found.foreign)} files are none of the plan's, {len(found.changed)} were changed, {len(found.missing)} removed"
            stays = "" if before.path == target.path else f" (they stay in {before.path})"
            remark = f"{self.path} was not as the plan says: {counts}{stays}"
        if spared:
            outputs["spared_versions"] = spared
            lines += [f"{self.store / one} is not removed: it has files that are none of the plan's" for one in spared]
        text = "\n".join(lines) + "\n"
        sizes = {"stdout": len(text.encode()), "stderr": 0}
        return Result("ended", began, wall(), 0, outputs, text, sizes=sizes, message=remark)


def differences(root: Path, entries: tuple[Entry, ...]) -> Differences:
    """What below `root` is not as `entries` say."""
    wanted = {entry.path: entry for entry in entries}
    seen, changed, foreign = set(), [], []
    for path, status in _walk(root, ""):
        entry = wanted.get(path)
        if entry is None:
            foreign.append(path)
            continue
        seen.add(path)
        if not _is(root / path, entry, status):
            changed.append(path)
    return Differences(tuple(sorted(changed)), tuple(sorted(wanted.keys() - seen)), tuple(sorted(foreign)))


def _walk(root: Path, below: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / below) as found:
        for one in found:
            path = f"{below}/{one.name}" if below else one.name
            if one.is_dir(follow_symlinks=False):
                yield from _walk(root, path)
            else:
                yield path, one.stat(follow_symlinks=False)


def _is(path: Path, entry: Entry, status: os.stat_result) -> bool:
    if entry.mode == "symlink":
        return path.is_symlink() and manifest.digest_of(os.readlink(path).encode("utf-8", "surrogateescape")) == entry.digest  # noqa: PTH115
    if path.is_symlink() or not path.is_file() or status.st_size != entry.size or status.st_mode & 0o777 != MODES[entry.mode]:
        return False
    return hashed(path) == entry.digest
