"""Plans as values: digests, entries, manifests, what differs between two of them.

Pure: no clock, no random, no I/O.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Literal

import msgspec

from appliance.errors import Invalid

Mode = Literal["file", "executable", "symlink"]
MODES: tuple[Mode, ...] = ("file", "executable", "symlink")

PATH_BYTES = 4096
PART_BYTES = 255
PATH_PARTS = 100
ENTRIES = 200_000
BLOB_BYTES = 1 << 30
SYMLINK_BYTES = 4096
SYMLINK_HOPS = 40  # as the kernel: a chain longer than this leads nowhere

# Folders (or files of that name, as in a work tree of git's) that version control keeps for itself. They are never part of a plan.
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", "_darcs", "CVS", ".jj", ".pijul"})

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # also those that turn the direction of what is shown
_PLAIN = re.compile(r"(?:(?!\.{1,2}(?:/|\Z))[ -.0-~]+(?:/(?!\Z)|\Z))+\Z")  # nothing wrong with it if it is no longer than one part may be


def digest_of(data: bytes) -> bytes:
    """SHA-256 of `data`, 32 bytes."""
    return hashlib.sha256(data).digest()


def shown(digest: bytes) -> str:
    """`sha256:<64 lower-case hex>`."""
    return "sha256:" + digest.hex()


def parse_digest(text: str) -> bytes:
    """The 32 bytes of `sha256:<64 lower-case hex>`. Raises Invalid for any other spelling."""
    found = _DIGEST.match(text)
    if not found:
        raise Invalid(f"digest {text[:80]!r} is malformed", hint="a digest is 'sha256:' and 64 lower-case hexadecimal digits")
    return bytes.fromhex(found[1])


class Entry(msgspec.Struct, frozen=True, order=True):
    """One line of a manifest. `size` in bytes; `digest` is 32 bytes; a symlink's blob is its target."""

    path: str
    mode: Mode
    size: int
    digest: bytes


class Manifest(msgspec.Struct, frozen=True):
    """The full sorted list of entries, with its own digest. Make one with `manifest()`."""

    entries: tuple[Entry, ...]
    digest: bytes

    @property
    def bytes(self) -> int:
        """Sum of the sizes of the entries."""
        return sum(entry.size for entry in self.entries)


def manifest(entries: Iterable[Entry]) -> Manifest:
    """Sort, check and digest. Equal directories give equal digests: nothing but path, mode, size and content goes in.

    Raises Invalid naming every offending path (the first twenty): see `problems`.
    """
    ordered = tuple(sorted(entries, key=attrgetter("path")))  # code points sort as their UTF-8 bytes do
    refuse(problems(ordered))
    return Manifest(ordered, digest_of_entries(ordered))


def digest_of_entries(ordered: Iterable[Entry]) -> bytes:
    """The digest of a manifest with these entries, which are sorted and without problems."""
    return hashlib.sha256(text_of_entries(ordered)).digest()


def text_of_entries(ordered: Iterable[Entry]) -> bytes:
    """The canonical text of a manifest with these entries, which its digest is over."""
    lines = [f"{entry.mode} {entry.size} {entry.digest.hex()} {entry.path}\n" for entry in ordered]
    return b"appliance manifest 1\n" + "".join(lines).encode()


def changed(base: Manifest, entries: Iterable[Entry], removed: Iterable[str]) -> Manifest:
    """`base` without the paths `removed` and with `entries` added or put in place. Raises Invalid, as `manifest` does."""
    by_path = {entry.path: entry for entry in base.entries}
    unknown = [path for path in removed if by_path.pop(path, None) is None]
    if unknown:
        raise Invalid(f"{unknown[0]!r} is to be removed and is not in the base", hint="send the whole manifest, with base null")
    entries = tuple(entries)
    new = {entry.path: entry for entry in entries}
    if len(new) < len(entries) and (twice := _twice(entries)) is not None:
        raise Invalid(f"{twice!r} is there twice", hint="nothing was stored; mend this path and push again")
    return manifest((by_path | new).values())


def _twice(entries: Iterable[Entry]) -> str | None:
    seen: set[str] = set()
    for entry in entries:
        if entry.path in seen:
            return entry.path
        seen.add(entry.path)
    return None


def refuse(found: list[str]) -> None:
    """Raise Invalid naming the first twenty of `found`, if there are any."""
    if found:
        more = f" (and {len(found) - 20} more)" if len(found) > 20 else ""
        raise Invalid("; ".join(found[:20]) + more, hint="nothing was stored; mend these paths and push again")


def problems(ordered: tuple[Entry, ...]) -> list[str]:
    """Everything wrong with a sorted list of entries, one sentence each; empty when it may become a manifest."""
    found: list[str] = []
    if len(ordered) > ENTRIES:
        return [f"{len(ordered)} files are more than the {ENTRIES} a plan may have"]
    seen: dict[str, str] = {}
    parents: dict[str, str] = {}
    for entry in ordered:
        wrong = path_problem(entry.path)
        if wrong:
            found.append(f"{entry.path[:200]!r}: {wrong}")
            continue
        if entry.mode not in MODES:
            found.append(f"{entry.path!r}: mode {entry.mode!r} is none of {', '.join(MODES)}")
        if not 0 <= entry.size <= BLOB_BYTES:
            found.append(f"{entry.path!r}: {entry.size} bytes is over the limit of {BLOB_BYTES} for one file")
        folded = fold(entry.path)
        if folded in seen:
            same = "is there twice" if seen[folded] == entry.path else f"differs from {seen[folded]!r} in case or accents only"
            found.append(f"{entry.path!r} {same}")
        else:
            seen[folded] = entry.path
        slash = folded.rfind("/")
        while slash > 0 and folded[:slash] not in parents:  # one that is known has its own parents known
            parents[folded[:slash]] = entry.path
            slash = folded.rfind("/", 0, slash)
    found += [f"{seen[folded]!r} is a file and {below!r} needs it to be a directory" for folded, below in parents.items() if folded in seen]
    return found


def fold(path: str) -> str:
    """What must be unique in a plan: file systems that fold case or accents would lose one of two."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def path_problem(path: str) -> str | None:
    """Why `path` cannot be in a plan, or None."""
    if len(path) <= PART_BYTES and path.count("/") < PATH_PARTS and _PLAIN.match(path):
        return None
    if not path:
        return "an empty path"
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return "the name is not valid UTF-8"
    if len(raw) > PATH_BYTES:
        return f"the path is longer than {PATH_BYTES} bytes"
    if _CONTROL.search(path):
        return "control characters are not allowed in a path"
    if path[0] == "/":
        return "the path is absolute"
    parts = path.split("/")
    if len(parts) > PATH_PARTS:
        return f"the path is more than {PATH_PARTS} directories deep"
    for part in parts:
        if part in ("", ".", ".."):
            return "empty, '.' and '..' parts are not allowed"
        if len(part.encode()) > PART_BYTES:
            return f"a part of the path is longer than {PART_BYTES} bytes"
    return None


def symlink_problem(path: str, target: bytes) -> str | None:
    """Why a symlink at `path` to `target` cannot be in a plan, or None: it must be relative and stay inside."""
    try:
        text = target.decode()
    except UnicodeDecodeError:
        return "the link's target is not valid UTF-8"
    if not text or len(target) > SYMLINK_BYTES or _CONTROL.search(text):
        return "the link's target is empty, too long or has control characters"
    if text[0] == "/":
        return f"the link points to the absolute path {text!r}"
    depth = path.count("/")
    for part in text.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return f"the link points outside the plan ({text!r})"
    return None


def symlink_problems(links: Mapping[str, bytes]) -> list[str]:
    """Everything wrong with the symlinks of a plan (path: target), one sentence each; also what several make together.

    A link that leads nowhere, or in a circle, is as good as one on any disk.
    """
    found = [f"{path!r}: {wrong}" for path, target in sorted(links.items()) if (wrong := symlink_problem(path, target))]
    if found:
        return found
    targets = {path: target.decode() for path, target in links.items()}
    return [
        f"{path!r}: the link points outside the plan by way of other links ({targets[path]!r})"
        for path in sorted(targets)
        if _leaves(path, targets)
    ]


def _leaves(path: str, targets: Mapping[str, str]) -> bool:
    at = path.split("/")[:-1]
    ahead = targets[path].split("/")[::-1]
    hops = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        target = targets.get("/".join([*at, part]))
        if target is None:
            at.append(part)
            continue
        hops += 1
        if hops > SYMLINK_HOPS:
            return False
        ahead += target.split("/")[::-1]
    return False


def is_version_control(path: str) -> str | None:
    """The version-control folder (as a path) that `path` is or lies in, or None."""
    parts = path.split("/")
    for n, part in enumerate(parts):
        if part in VERSION_CONTROL:
            return "/".join(parts[: n + 1])
    return None


class Change(msgspec.Struct, frozen=True):
    """One difference between two manifests: `old` is None for an added path, `new` is None for a removed one."""

    path: str
    old: Entry | None
    new: Entry | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """What happened to the path."""
        return "added" if self.old is None else "removed" if self.new is None else "changed"


def diff(old: Iterable[Entry], new: Iterable[Entry]) -> list[Change]:
    """The changes that turn `old` into `new`, sorted by path."""
    before = {entry.path: entry for entry in old}
    after = {entry.path: entry for entry in new}
    paths = {path for path, entry in before.items() if after.get(path) != entry} | (after.keys() - before.keys())
    return [Change(path, before.get(path), after.get(path)) for path in sorted(paths)]


def storage_order(path: str) -> tuple[str, str]:
    """Sorts near-alike files side by side (extension, then path), which is how packs become small."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2] if "." in name else "", path


class Switch(msgspec.Struct, frozen=True):
    """One row of a plan's switch log."""

    serial: int
    version: int
    back_to: int | None
    forced: bool
    commit: int
    at: int
    by: str


def rollback_target(log: Iterable[Switch]) -> Switch | None:
    """The switch whose version a rollback of this log (in any order) restores, or None when there is none before.

    It is the one before the current one, looking past rollbacks: two rollbacks in a row go back two.
    """
    by_serial = {switch.serial: switch for switch in log}
    if not by_serial:
        return None
    standing = _standing_at(by_serial, max(by_serial))
    return by_serial[_standing_at(by_serial, standing - 1)] if standing > 1 else None


def _standing_at(by_serial: dict[int, Switch], serial: int) -> int:
    """The serial of the switch (never a rollback) whose version was current at `serial`."""
    back = by_serial[serial].back_to
    return serial if back is None else back


class Share(msgspec.Struct, frozen=True):
    """How many of all: a number, or a part in per cent."""

    number: int
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.number}%" if self.percent else str(self.number)

    def allows(self, some: int, total: int) -> bool:
        """Whether `some` of `total` are within it."""
        return some * 100 <= self.number * total if self.percent else some <= self.number


def share(given: int | str, what: str) -> Share:
    """What `12` or `"10%"` says. Raises Invalid."""
    text = str(given).strip()
    digits = text.removesuffix("%")
    if digits.isascii() and digits.isdecimal() and len(digits) <= 9 and (digits == text or int(digits) <= 100):
        return Share(int(digits), digits != text)
    raise Invalid(f"{what} is {text[:40]!r}, which is neither a number nor a part of all", hint="like 12, or 10%")
