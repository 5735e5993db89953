"""Bytes by their digest: fetched once, in parts that go on where they were cut, verified whenever they are used."""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Mapping, Optional, Protocol

from . import files
from .errors import Unreachable
from .log import say
from .manifest import digest_of
from .wire import Answer, Backoff

TRIES = 5  # of what is refused, or comes with the wrong bytes
SMALL = 64 << 10  # what is smaller is asked for with others
TOGETHER = 1 << 20
MANY = 500
PART = 1 << 20
PATIENCE = 3600.0  # where a run has no time limit of its own


class Unavailable(Exception):
    """It cannot be had, in a sentence for people. `late`: there was no more time."""

    def __init__(self, sentence: str, *, late: bool = False) -> None:
        super().__init__(sentence)
        self.late = late


class NotWanted(Exception):
    """The agent is stopping, or nobody wants it any more: nothing was started."""


Take = Callable[[bytes], object]
Open = Callable[[Answer], Optional[Take]]


class Source(Protocol):
    """Who has the bytes."""

    def blob(self, digest: str, start: int, take: Open) -> Answer:
        """Ask for one from byte `start` on. Raises Unreachable when it is cut."""

    def blobs(self, digests: list[str], take: Open) -> Answer:
        """Ask for many, as a tar. Raises Unreachable when it is cut."""


class Patience:
    """How long and how often to try. `go_on(seconds)` waits so long, and raises NotWanted when that is no use any more."""

    def __init__(self, seconds: float | None, backoff: Backoff, go_on: Callable[[float], None]) -> None:
        self._until = time.monotonic() + (PATIENCE if seconds is None else seconds)
        self._backoff, self._failures = backoff, 0
        self.go_on = go_on

    def progress(self) -> None:
        """Something came: the next wait is a short one again."""
        self._backoff.reset()

    def again(self, why: str, answer: Answer | None = None) -> None:
        """Wait for the next try after `why`. Raises Unavailable when there is none, NotWanted."""
        if answer is not None and not answer.retry and not answer.bars:
            self._failures += 1
            if self._failures >= TRIES:
                raise Unavailable(f"its files could not be fetched in {TRIES} tries: {why}")
        wait = self._backoff.after(answer)
        if time.monotonic() + wait > self._until:
            raise Unavailable(f"its files could not be fetched in time: {why}", late=True)
        self.go_on(wait)

    def wrong(self, why: str) -> None:
        """As `again`, after bytes that are not what they must be."""
        self.again(why, Answer(400, {}, b""))


class Content:
    """A directory of bytes by digest, bounded by `prune`."""

    def __init__(self, directory: Path, limit: int) -> None:
        self._directory, self._limit = directory, limit
        self.fetched = 0  # bytes that came over the line
        self.blobs = 0  # and whole blobs

    def has(self, digest: str) -> bool:
        """Whether it is there; not whether it is sound."""
        return (self._directory / digest).exists()

    def read(self, digest: str) -> bytes | None:
        """The verified bytes, or None; damaged ones are removed."""
        try:
            data = (self._directory / digest).read_bytes()
        except OSError:
            return None
        if digest_of(data) == digest:
            return data
        self.drop(digest)
        return None

    def copy(self, digest: str, target: Path, mode: int) -> bool:
        """Write a new file with these bytes; False, and no file, if they are not there or damaged (then they are removed)."""
        path = self._directory / digest
        if copied(path, digest, target, mode):
            with suppress(OSError):
                os.utime(path)  # used just now
            return True
        self.drop(digest)
        return False

    def drop(self, digest: str) -> None:
        """Forget it."""
        (self._directory / digest).unlink(missing_ok=True)

    def fetch(self, source: Source, wanted: Mapping[str, int | None], patience: Patience) -> None:
        """Have all of `wanted` (digest: size, or None if that is not known). Raises Unavailable, NotWanted, OSError if there is no room."""
        files.private_directory(self._directory)
        together: dict[str, int] = {}
        for digest, size in wanted.items():
            if self.has(digest):
                continue
            if size is None or size > SMALL:
                self._one(source, digest, size, patience)
                continue
            if together and (sum(together.values()) + size > TOGETHER or len(together) >= MANY):
                self._many(source, together, patience)
                together = {}
            together[digest] = size
        if together:
            self._many(source, together, patience)

    def _many(self, source: Source, wanted: Mapping[str, int], patience: Patience) -> None:
        """Small ones in one request; what it does not bring is asked for one by one."""
        part = self._directory / "many.part"
        missing = dict(wanted)
        while len(missing) > 1:
            why = ""
            with part.open("wb") as file:
                try:
                    source.blobs(list(missing), lambda answer: self._taking(file.write, patience) if answer.good else None)
                except Unreachable as error:
                    why = error.message
            self._unpack(part, set(missing))
            part.unlink()
            left = {digest: size for digest, size in missing.items() if not self.has(digest)}
            if len(left) < len(missing):
                patience.progress()
            missing = left
            if not why:
                break
            if missing:
                patience.again(why)
        for digest, size in missing.items():
            self._one(source, digest, size, patience)

    def _unpack(self, part: Path, wanted: set[str]) -> None:
        """Keep what came whole, also of an answer that was cut."""
        with suppress(tarfile.TarError, EOFError, OSError), tarfile.open(part, "r:") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() and member.name in wanted and member.size <= SMALL else None
                data = file.read() if file is not None else b""
                if file is not None and digest_of(data) == member.name:
                    self._keep(member.name, data)

    def _keep(self, digest: str, data: bytes) -> None:
        new = self._directory / f"{digest}.new"
        new.write_bytes(data)
        new.replace(self._directory / digest)
        self.blobs += 1

    def _one(self, source: Source, digest: str, size: int | None, patience: Patience) -> None:
        part = self._directory / f"{digest}.part"
        while True:
            start = part.stat().st_size if part.exists() else 0
            if size is None or start != size:
                answer, why = self._attempt(source, digest, part, start, patience)
                came = (part.stat().st_size if part.exists() else 0) > start
                if came:
                    patience.progress()
                if answer is None or not (answer.good or answer.status == 416):  # 416: what we have is whole, or wrong
                    patience.again(why, answer)
                    continue
            if hashed(part) == digest:
                part.replace(self._directory / digest)
                self.blobs += 1
                return
            part.unlink(missing_ok=True)
            patience.wrong("the bytes that came are not those of the digest")

    def _attempt(self, source: Source, digest: str, part: Path, start: int, patience: Patience) -> tuple[Answer | None, str]:
        """One request; (its answer or None if it was cut, why it is not good)."""
        with part.open("ab") as file:

            def opened(answer: Answer) -> Take | None:
                if not answer.good:
                    return None
                if answer.status != 206 or not answer.headers.get("content-range", "").startswith(f"bytes {start}-"):
                    file.truncate(0)  # all of it comes, whatever we asked for
                return self._taking(file.write, patience)

            try:
                answer = source.blob(digest, start, opened)
            except Unreachable as error:
                return None, error.message
        return answer, f"the appliance answered {answer.sentence}"

    def _taking(self, write: Take, patience: Patience) -> Take:
        def take(data: bytes) -> None:
            write(data)
            self.fetched += len(data)
            patience.go_on(0)

        return take

    def prune(self) -> None:
        """Remove what was not used for longest, until the rest fits."""
        found = []
        for path in _listed(self._directory):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                break
            path.unlink(missing_ok=True)
            total -= size


def copied(path: Path, digest: str, target: Path, mode: int) -> bool:
    """Copy a file to a new one, which has the mode and is there only if its bytes are those of the digest."""
    hasher = hashlib.sha256()
    try:
        source = path.open("rb")
    except OSError:
        return False
    with source:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            while data := source.read(PART):
                hasher.update(data)
                file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
    if hasher.hexdigest() == digest:
        return True
    target.unlink()
    return False


def hashed(path: Path) -> str:
    """The digest of a file's bytes."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(PART):
            hasher.update(data)
    return hasher.hexdigest()


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            say(f"{directory} cannot be read: {error.strerror}")
        return []
