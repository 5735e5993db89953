"""Uploads: bodies go to an unnamed file beside the database, are checked there, and only then stored, in small operations.

What takes time (unpacking, hashing, compressing) is done here, in worker threads; the writer only writes.
"""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import IO, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from appliance import archive, compression, plan
from appliance.errors import ApplianceError, Corrupt, Invalid, StorageFull, TooLarge
from appliance.operations import contents
from appliance.plan import Entry, Mode
from appliance.store import blobs, large, packs
from appliance.store.database import Database
from appliance.store.packs import SMALL_BYTES, Pack
from appliance.web.context import context

T = TypeVar("T")

IN_MEMORY = 256 * 1024
WRITE_BYTES = 1 << 20
STEP_BYTES = 4 << 20  # of content in one operation
CHECK_AT_ONCE = 256
AT_ONCE = 3  # uploads being checked and stored at a time; the others wait

Spool = IO[bytes]


class Found(msgspec.Struct, frozen=True):
    """Content that was received and hashed: `data` itself, or where it begins in the spool."""

    path: str
    mode: Mode
    size: int
    digest: bytes
    start: int = 0
    data: bytes | None = None


def beside(database: Database, in_memory: int = IN_MEMORY) -> Spool:
    """A new spool on the disk that holds the database."""
    directory = os.path.dirname(os.path.abspath(database.path))  # noqa: PTH100, PTH120 - a path that may not be there any more
    return tempfile.SpooledTemporaryFile(max_size=in_memory, dir=directory)


@contextlib.asynccontextmanager
async def received(request: Request, limit: int, what: str) -> AsyncIterator[tuple[Spool, int]]:
    """The whole body in a spool, and its size. Raises TooLarge over `limit`, Invalid when it is cut short, StorageFull."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > limit:
        raise _too_large(what, limit, f"{stated} bytes")
    with beside(context(request).database) as spool:
        size = 0
        waiting: list[bytes] = []
        held = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                held += len(chunk)
                if size > limit:
                    raise _too_large(what, limit, "more")
                waiting.append(chunk)
                if held >= WRITE_BYTES:
                    await asyncio.to_thread(spool.write, b"".join(waiting))
                    waiting, held = [], 0
            await asyncio.to_thread(spool.write, b"".join(waiting))
        except ClientDisconnect:
            raise Invalid("the upload was cut short; nothing was stored", hint="send it again, whole") from None
        except OSError as error:
            raise StorageFull(f"the upload cannot be kept ({error.strerror}); nothing was stored", hint="free space on the disk") from None
        spool.seek(0)
        yield spool, size


def _too_large(what: str, limit: int, stated: str) -> TooLarge:
    return TooLarge(
        f"{what} of {stated} is over the limit of {limit} bytes; nothing was stored",
        hint="a plan is a lab's text, not an artifact store",
        detail={"limit": limit},
    )


async def apart(request: Request, work: Callable[[], T]) -> T:
    """Run `work` in a worker thread, a few at a time, so that uploads leave threads for readers."""
    state = request.app.state
    if not hasattr(state, "intake"):
        state.intake = asyncio.Semaphore(AT_ONCE)
    async with state.intake:
        return await asyncio.to_thread(work)


# ---------------------------------------------------------------------------------------------------- checking


def hashed(spool: Spool) -> bytes:
    """SHA-256 of a whole spool, left at its beginning."""
    spool.seek(0)
    hasher = hashlib.sha256()
    while part := spool.read(WRITE_BYTES):
        hasher.update(part)
    spool.seek(0)
    return hasher.digest()


def scanned(spool: Spool, unpacked: Spool, limits: archive.Limits) -> tuple[list[Found], Spool]:
    """Every member of an archive in `spool`, hashed, and where their bytes lie: in `spool`, or in `unpacked` if it is compressed.

    Nothing is stored yet. Raises Invalid or TooLarge, see archive.members.
    """
    format = compression.format_of(spool.read(4))
    spool.seek(0)
    source: archive.Source = spool if format == "tar" else compression.Unpacked(spool, format)
    copy = None if format == "tar" else unpacked
    found: list[Found] = []
    try:
        for member, content in archive.members(source, limits):
            if member.mode == "symlink":
                found.append(Found(member.path, member.mode, member.size, plan.digest_of(member.target), data=member.target))
                continue
            start = (copy or spool).tell()
            hasher = hashlib.sha256()
            for chunk in content.chunks():
                hasher.update(chunk)
                if copy is not None:
                    copy.write(chunk)
            found.append(Found(member.path, member.mode, member.size, hasher.digest(), start))
    except OSError as error:
        raise StorageFull(f"the archive cannot be unpacked ({error.strerror}); nothing was stored", hint="free space on the disk") from None
    return found, copy or spool


def digest_named(found: Sequence[Found]) -> None:
    """Check that each member is a file whose name is the hexadecimal digest of its content. Raises Invalid."""
    for one in found:
        if one.mode != "file":
            raise Invalid(f"{one.path!r} is no plain file", hint="members are files (mode 0644) named by the 64 hexadecimal digits")
        if one.path != one.digest.hex():
            plan.parse_digest("sha256:" + one.path)
            raise Invalid(
                f"the member {one.path} has the digest {one.digest.hex()}; nothing was stored",
                hint="the file changed or was damaged on its way: send it again",
            )


def entries_of(found: Iterable[Found]) -> tuple[list[Entry], list[str]]:
    """The entries of an archive's members, and the version-control folders that were left out."""
    entries: list[Entry] = []
    left_out: set[str] = set()
    for one in found:
        folder = plan.is_version_control(one.path)
        if folder is None:
            entries.append(Entry(one.path, one.mode, one.size, one.digest))
        else:
            left_out.add(folder)
    return entries, sorted(left_out)


# ---------------------------------------------------------------------------------------------------- storing


def store(database: Database, found: Iterable[Found], spool: Spool, *, mend: bool) -> int:
    """Store what is not there yet, in the order given; how many blobs that were. In a worker thread.

    `mend`: look at what is there already, and put these bytes in the place of damaged ones.
    """
    wanted = {one.digest: one for one in found}
    missing = set(database.read_apart(blobs.missing, wanted))
    damaged = set(_damaged(database, [one for one in wanted.values() if one.digest not in missing])) if mend else set[bytes]()
    todo = [one for one in wanted.values() if one.digest in missing or one.digest in damaged]
    stored = 0
    small = ((one.digest, _read(spool, one)) for one in todo if one.size <= SMALL_BYTES)
    for step in _steps(packs.packed(small)):
        stored += database.write(packs.store, step, replace=damaged)
    for one in todo:
        if one.size > SMALL_BYTES:
            stored += _store_large(database, one, spool, replace=one.digest in damaged)
    return stored


def _read(spool: Spool, one: Found) -> bytes:
    if one.data is not None:
        return one.data
    spool.seek(one.start)
    return spool.read(one.size)


def _steps(made: Iterator[Pack]) -> Iterator[list[Pack]]:
    step: list[Pack] = []
    size = 0
    for pack in made:
        step.append(pack)
        size += pack.size
        if size >= STEP_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step


def _store_large(database: Database, one: Found, spool: Spool, *, replace: bool) -> bool:
    """Store a large blob in several operations; whether it is this copy that is now stored. What is left over is removed."""
    parts = large.Parts()
    id = database.write(large.begin, one.size)
    spare: int | None = id
    try:
        n, left = 0, one.size
        step: list[tuple[int, bytes]]
        while left:
            step = []
            while left and len(step) < large.PARTS_PER_STEP:
                spool.seek(one.start + one.size - left)
                part = spool.read(min(left, large.PART_BYTES))
                left -= len(part)
                step.append(parts.encode(part))
            database.write(large.add, id, n, step)
            n += len(step)
        spare = database.write(large.finish, id, one.digest, parts, replace=replace)
        return spare != id
    finally:
        if spare is not None:
            with contextlib.suppress(ApplianceError):  # then it is removed at the next start
                while database.write(large.drop, spare):
                    pass


def _damaged(database: Database, there: Sequence[Found]) -> Iterator[bytes]:
    small = [one.digest for one in there if one.size <= SMALL_BYTES]
    for first in range(0, len(small), CHECK_AT_ONCE):
        yield from database.read_apart(blobs.damaged_among, small[first : first + CHECK_AT_ONCE])
    for one in there:
        if one.size > SMALL_BYTES and not _is_sound(database, one.digest):
            yield one.digest


def _is_sound(database: Database, digest: bytes) -> bool:
    reader = contents.LargeReader(database.read_apart(blobs.find, digest))
    try:
        while not reader.done:
            database.read_apart(reader.step)
    except Corrupt:
        return False
    return True
