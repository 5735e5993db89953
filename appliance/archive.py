"""Tar archives as values and streams: reading what strangers send, within limits, and writing equal bytes for equal plans.

Knows files and byte streams, and nothing of any store. Reads ustar, pax and GNU long names, plain or as gzip or zstd; writes ustar
with pax headers where a name needs one.
"""

import re
from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from appliance import plan
from appliance.errors import Invalid, TooLarge
from appliance.plan import Mode

BLOCK = 512
END = bytes(2 * BLOCK)
CHUNK = 256 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What an archive may be: number of members, bytes of all files, bytes of one, bytes of one extended header."""

    members: int = 2 * plan.ENTRIES
    bytes: int = 16 << 30
    one: int = plan.BLOB_BYTES
    extended: int = 64 * 1024


class Source(Protocol):
    """Where bytes come from: `read(n)` gives at most n, and none only at the end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""
        ...


class Member(msgspec.Struct, frozen=True):
    """One file or symlink of an archive. `size` is that of the content, which for a symlink is its target."""

    path: str
    mode: Mode
    size: int
    target: bytes = b""


class Content:
    """What follows a member in the stream. Read it before the next member, or leave it: then it is passed over."""

    def __init__(self, source: Source, size: int, first: bytes = b"") -> None:
        self._source = source
        self._first = first
        self._left = size

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; empty at the end of the member. Raises Invalid when the archive ends before."""
        if self._first:
            part, self._first = self._first[:size], self._first[size:]
        else:
            part = self._source.read(min(size, self._left)) if self._left else b""
            if self._left and not part:
                raise _cut_short()
        self._left -= len(part)
        return part

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces of at most CHUNK bytes."""
        while part := self.read(CHUNK):
            yield part


def members(source: Source, limits: Limits = Limits()) -> Iterator[tuple[Member, Content]]:  # noqa: B008 - immutable
    """The files and symlinks of an uncompressed archive, in their order, each with its content.

    Directories are passed over. Raises Invalid for a malformed or truncated archive and for members that cannot be in a plan (hard
    links, devices, paths that escape, names that come twice, ...), TooLarge over a limit; what clashes with what is for `plan.problems`.
    """
    seen: set[str] = set()
    count = total = 0
    extended: dict[str, str] = {}
    while True:
        block = _exactly(source, BLOCK)
        if not block.strip(b"\0"):
            _expect_nothing(source)
            return
        head = _Header(block)
        count += 1
        if count > limits.members:
            raise TooLarge(f"the archive has more than {limits.members} members")
        if head.kind in "xgLK":
            if head.size > limits.extended:
                raise TooLarge(f"an extended header of {head.size} bytes is over the limit of {limits.extended}")
            extended |= _extended(head.kind, _padded(source, head.size))
            continue
        raw_path = extended.pop("path", None) or head.path()
        link = extended.pop("linkpath", None)
        size = _number(extended.pop("size", None), head.size)
        if any(key.startswith("GNU.sparse") for key in extended):
            raise Invalid(f"{raw_path[:200]!r} is a sparse file", hint="make the archive without --sparse")
        extended = {}
        path = _path(raw_path, is_directory=head.kind == "5")
        if head.kind == "5":
            continue
        if path in seen:
            raise Invalid(f"{path!r} is in the archive twice")
        seen.add(path)
        if head.kind == "2":
            target = (link or head.link()).encode("utf-8", "surrogateescape")
            if problem := plan.symlink_problem(path, target):
                raise Invalid(f"{path!r}: {problem}")
            yield Member(path, "symlink", len(target), target), Content(source, len(target), target)
            continue
        if head.kind not in "0\0" + "7":
            what = {"1": "a hard link", "3": "a device", "4": "a device", "6": "a FIFO", "S": "a sparse file"}.get(head.kind)
            raise Invalid(
                f"{path!r} is {what or f'a member of type {head.kind!r}'}; nothing was stored",
                hint="a plan has files, executables and symlinks; for hard links, tar with --hard-dereference",
            )
        if size > limits.one:
            raise TooLarge(f"{path!r} has {size} bytes; the limit for one file is {limits.one}")
        total += size
        if total > limits.bytes:
            raise TooLarge(f"the archive unpacks to more than {limits.bytes} bytes")
        content = Content(source, size)
        yield Member(path, "executable" if head.mode & 0o100 else "file", size), content
        while content.read(CHUNK):
            pass
        _exactly(source, -size % BLOCK)


class _Header:
    """The fields of one header block."""

    __slots__ = ("_block", "kind", "mode", "size")

    def __init__(self, block: bytes) -> None:
        stated = _field(block[148:156])
        unsigned = sum(block) - sum(block[148:156]) + 8 * 32
        if stated != unsigned and stated != unsigned - 256 * sum(byte > 127 for n, byte in enumerate(block) if not 148 <= n < 156):
            raise Invalid("this is not a tar archive, or a damaged one", hint="send tar, tar.gz or tar.zst")
        self._block = block
        self.kind = chr(block[156])
        self.mode = _field(block[100:108])
        self.size = _field(block[124:136])

    def path(self) -> str:
        """The name in this block; with the prefix, where the format has one."""
        name = _text(self._block[:100])
        prefix = _text(self._block[345:500]) if self._block[257:263] == b"ustar\0" else ""
        return f"{prefix}/{name}" if prefix else name

    def link(self) -> str:
        """The link target in this block."""
        return _text(self._block[157:257])


def _field(raw: bytes) -> int:
    """A number of a header: octal, or base-256."""
    if raw[0] & 0x80:
        return int.from_bytes(bytes([raw[0] & 0x7F]) + raw[1:], "big")
    text = raw.strip(b" \0")
    try:
        return int(text, 8) if text else 0
    except ValueError:
        raise Invalid("this is not a tar archive, or a damaged one", hint="send tar, tar.gz or tar.zst") from None


def _number(text: str | None, other: int) -> int:
    if text is None:
        return other
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise Invalid("an extended header of the archive is malformed")
    return int(text)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


_RECORD = re.compile(rb"(\d{1,8}) ([^=]+)=")


def _extended(kind: str, data: bytes) -> dict[str, str]:
    if kind in "LK":
        return {"path" if kind == "L" else "linkpath": _text(data)}
    found: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at] != 0:
        record = _RECORD.match(data, at)
        end = at + int(record[1]) if record else 0
        if record is None or end <= record.end() or end > len(data) or data[end - 1] != 0x0A:
            raise Invalid("an extended header of the archive is malformed")
        found[record[2].decode("utf-8", "replace")] = data[record.end() : end - 1].decode("utf-8", "surrogateescape")
        at = end
    if kind == "g":
        if found.keys() & {"path", "linkpath", "size"}:
            raise Invalid("a global header of the archive gives all members one name or size")
        return {}
    return found


def _path(raw: str, *, is_directory: bool) -> str:
    path = raw
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    if is_directory:
        path = path.rstrip("/")
        if path in ("", "."):
            return path
    if problem := plan.path_problem(path):
        raise Invalid(f"{raw[:200]!r}: {problem}", hint="nothing was stored; mend the archive and send it again")
    return path


def _exactly(source: Source, size: int) -> bytes:
    data = source.read(size) if size else b""
    while len(data) < size:
        more = source.read(size - len(data))
        if not more:
            raise _cut_short()
        data += more
    return data


def _padded(source: Source, size: int) -> bytes:
    return _exactly(source, size + -size % BLOCK)[:size]


def _expect_nothing(source: Source) -> None:
    """Read to the end, so that a compressed stream is checked to its own end."""
    while part := source.read(CHUNK):
        if part.strip(b"\0"):
            raise Invalid("the archive goes on after its end mark", hint="archives joined by 'tar -A' or 'cat' are not taken")


def _cut_short() -> Invalid:
    return Invalid("the archive is cut short; nothing was stored", hint="send it again, whole")


# ---------------------------------------------------------------------------------------------------- writing

_PERMISSIONS: dict[Mode, bytes] = {"file": b"0000644\0", "executable": b"0000755\0", "symlink": b"0000777\0"}
_OWNER = b"0000000\0" * 2
_TAIL = b"ustar\x0000" + bytes(32 + 32) + b"0000000\0" * 2


def header(path: str, mode: Mode, size: int, target: bytes = b"") -> bytes:
    """The header of a member: owner 0, time 0, mode 0644 or 0755. Equal arguments give equal bytes.

    The content follows, then `padding(size)`. For a symlink give its `target`; nothing follows.
    """
    name = path.encode()
    prefix = b""
    before = b""
    if len(name) > 100:
        at = name.rfind(b"/", len(name) - 101, 156)
        if at > 0:
            prefix, name = name[:at], name[at + 1 :]
    records = {}
    if len(name) > 100 or not path.isascii():
        records["path"] = path.encode()
        name, prefix = name[:100], b""
    if len(target) > 100 or not target.isascii():
        records["linkpath"] = target
    if records:
        data = b"".join(_record(key, value) for key, value in records.items())
        before = _block(b"pax_header", b"0000644\0", len(data), b"x", b"", b"") + data + padding(len(data))
    kind = b"2" if mode == "symlink" else b"0"
    return before + _block(name, _PERMISSIONS[mode], 0 if mode == "symlink" else size, kind, target[:100], prefix)


def padding(size: int) -> bytes:
    """What follows a content of `size` bytes."""
    return bytes(-size % BLOCK)


def _block(name: bytes, permissions: bytes, size: int, kind: bytes, target: bytes, prefix: bytes) -> bytes:
    head = name.ljust(100, b"\0") + permissions + _OWNER + b"%011o\0" % size + b"00000000000\0"
    tail = kind + target.ljust(100, b"\0") + _TAIL + prefix.ljust(155, b"\0") + bytes(12)
    return head + b"%06o\0 " % (sum(head) + sum(tail) + 256) + tail


def _record(key: str, value: bytes) -> bytes:
    rest = f" {key}=".encode() + value + b"\n"
    size = len(rest) + 1
    while size != len(str(size)) + len(rest):
        size = len(str(size)) + len(rest)
    return str(size).encode() + rest


Format = Literal["tar", "tar.gz", "tar.zst"]
FORMATS: tuple[Format, ...] = ("tar", "tar.gz", "tar.zst")
MEDIA: dict[Format, str] = {"tar": "application/x-tar", "tar.gz": "application/gzip", "tar.zst": "application/zstd"}
