"""What a run prints: files that are bounded while it runs, and the head and tail of them that are reported."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

LARGEST = 64 << 20  # of one stream on disk; beyond it the middle is dropped
HEAD = 1 << 20  # what is kept of the beginning then
REPORTED = 256 << 10  # of one stream in a signal


class Capture:
    """One output stream of a run: a 0600 file, opened for appending so that it can be cut while it is written to.

    A file and not a pipe: a background process that keeps it open delays nobody.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._dropped = 0

    def bound(self) -> None:
        """Drop the middle if the file has grown too large."""
        size = os.fstat(self.descriptor).st_size
        if size <= LARGEST:
            return
        os.ftruncate(self.descriptor, HEAD)
        mark = f"\n[... {size - HEAD} bytes dropped here to spare the disk ...]\n".encode()
        self._dropped += size - HEAD - len(mark)
        os.write(self.descriptor, mark)

    @property
    def size(self) -> int:
        """How many bytes were written in all."""
        return os.fstat(self.descriptor).st_size + self._dropped

    def head(self, limit: int) -> bytes:
        """The first bytes, at most `limit`."""
        return os.pread(self.descriptor, limit, 0)

    def tail(self, limit: int) -> bytes:
        """The last bytes, at most `limit`."""
        held = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, min(held, limit), max(0, held - limit))

    def report(self) -> tuple[str, bool]:
        """The text to report, and whether it was cut."""
        text, cut = _report(self.descriptor, self._dropped, self.path)
        return text, cut or self._dropped > 0

    def close(self) -> None:
        """Close our end; a background process may go on writing to its own."""
        os.close(self.descriptor)


def left_behind(path: Path) -> tuple[str, int, bool]:
    """Text to report of a run whose agent died, its size, and whether it was cut; empty if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "", 0, False
    try:
        text, cut = _report(descriptor, 0, path)
        return text, os.fstat(descriptor).st_size, cut
    finally:
        os.close(descriptor)


def _report(descriptor: int, dropped: int, path: Path) -> tuple[str, bool]:
    held = os.fstat(descriptor).st_size
    if held <= REPORTED:
        return os.pread(descriptor, held, 0).decode("utf-8", "replace"), False
    half = REPORTED // 2
    head, tail = os.pread(descriptor, half, 0), os.pread(descriptor, half, held - half)
    return join(head, tail, held + dropped, f"whole text on the machine: {path}"), True


def join(head: bytes, tail: bytes, size: int, where: str = "") -> str:
    """Head and tail as valid text, with the cut marked between them."""
    first = codecs.getincrementaldecoder("utf-8")("replace").decode(head)  # leaves a split last character out
    skip = 0
    while skip < min(3, len(tail)) and tail[skip] & 0xC0 == 0x80:
        skip += 1
    last = tail[skip:].decode("utf-8", "replace")
    kept = f"; {where}" if where else ""
    return f"{first}\n[... cut: {size} bytes in all{kept} ...]\n{last}"


def clip(text: str, limit: int) -> tuple[str, int, bool]:
    """A text within `limit` bytes, its whole size, and whether it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, len(data), False
    half = max(0, limit - 100) // 2
    return join(data[:half], data[len(data) - half :], len(data)), len(data), True


def clean(text: str) -> str:
    """Valid Unicode: lone surrogates become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
