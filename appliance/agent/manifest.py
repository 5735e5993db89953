"""The files of a plan's directory: the list that a document names by its digest, checked at the door."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

HEAD = b"appliance manifest 1\n"
DIRECTORY = 0o755
MODES = {"file": 0o644, "executable": 0o755, "symlink": 0}
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_HEX = re.compile(r"[0-9a-f]{64}")
_LINK_BYTES = 4096


class BadManifest(Exception):
    """The list, or what it leads to, cannot be used; the sentence says why."""


@dataclass(frozen=True)
class Entry:
    """One file: its path from the directory on, its mode, and the size and digest (64 hexadecimal digits) of its bytes."""

    path: str
    mode: str
    size: int
    digest: str


def parse(text: bytes) -> tuple[Entry, ...]:
    """The entries of a manifest. Raises BadManifest, whatever the bytes are."""
    if not text.startswith(HEAD) or not text.endswith(b"\n"):
        raise BadManifest("the list of files is of a kind this agent does not know")
    try:
        lines = text.decode("utf-8").split("\n")[1:-1]
    except UnicodeDecodeError as error:
        raise BadManifest(f"the list of files is no text: {error}") from None
    entries = tuple(_entry(line) for line in lines)
    paths = {entry.path for entry in entries}
    if len(paths) < len(entries):
        raise BadManifest("the list of files names a path twice")
    for path in paths:
        parts = path.split("/")
        if any("/".join(parts[:number]) in paths for number in range(1, len(parts))):
            raise BadManifest(f"the list of files has {path!r} below a file")
    return entries


def _entry(line: str) -> Entry:
    parts = line.split(" ", 3)
    if len(parts) != 4 or parts[0] not in MODES or not parts[1].isdigit() or not _HEX.fullmatch(parts[2]):
        raise BadManifest(f"the list of files has a line this agent does not know: {line[:200]!r}")
    if parts[3].startswith("/") or "\0" in parts[3] or any(part in ("", ".", "..") for part in parts[3].split("/")):
        raise BadManifest(f"the list of files has a path that leads out: {parts[3][:200]!r}")
    return Entry(parts[3], parts[0], int(parts[1]), parts[2])


def text_of(entries: tuple[Entry, ...]) -> bytes:
    """The text that the digest is over."""
    lines = [f"{entry.mode} {entry.size} {entry.digest} {entry.path}\n" for entry in entries]
    return HEAD + "".join(lines).encode()


def digest_of(data: bytes) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def link_target(path: str, target: bytes) -> str:
    """The target of a symlink at `path`. Raises BadManifest for one that leads out of the directory."""
    try:
        text = target.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    depth = path.count("/")
    safe = bool(text) and len(target) <= _LINK_BYTES and "\0" not in text and not text.startswith("/")
    for part in text.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        safe = safe and depth >= 0
    if not safe:
        raise BadManifest(f"the link {path!r} leads out of its directory")
    return text
