"""Answers of bytes: one blob, or a whole version as an archive; verified, in bounded memory, and cut off where they cannot go on."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from appliance import archive, compression
from appliance.archive import FORMATS, MEDIA, Format
from appliance.errors import Invalid
from appliance.operations import contents
from appliance.operations.contents import Item, LargeReader
from appliance.plan import shown
from appliance.store import blobs
from appliance.store.blobs import Blob
from appliance.store.database import Database
from appliance.store.packs import Shelf
from appliance.web.context import context
from appliance.web.respond import Json


async def blob_answer(request: Request, blob: Blob, headers: Mapping[str, str] | None = None) -> Response:
    """The bytes of a blob, with its digest as the ETag. They are never a page: a plan's file must not act as one of ours."""
    digest = shown(blob.digest)
    head = {
        **(headers or {}),
        "ETag": f'"{digest}"',
        "Appliance-Digest": digest,
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if f'"{digest}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=head)
    head |= {"Content-Length": str(blob.size), "Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    if request.method == "HEAD":
        return Response(headers=head)
    asked = part_asked(request, blob.size, f'"{digest}"')
    if asked is not None:
        if not asked:
            return _no_such_part(blob.size)
        head |= {"Content-Length": str(len(asked)), "Content-Range": f"bytes {asked.start}-{asked.stop - 1}/{blob.size}"}
    part, status = (range(blob.size), 200) if asked is None else (asked, 206)
    database = context(request).database
    if blob.large is None:
        content = await database.aread(blobs.content, blob)
        return Response(content[part.start : part.stop], status, headers=head)
    return await _streamed(_large(database, blob, part), head, status)


def part_asked(request: Request, size: int, etag: str) -> range | None:
    """The one part of `size` bytes that `Range` asks for: empty when there is no such part, None when all of it is to be sent."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or not (found[1] or found[2]) or request.headers.get("if-range", etag) != etag:
        return None
    if not found[1]:
        return range(max(0, size - int(found[2])), size)
    first, last = int(found[1]), size - 1 if not found[2] else int(found[2])
    return range(0) if first > last or first >= size else range(first, min(last + 1, size))


_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


def _no_such_part(size: int) -> Response:
    error = {"code": "range", "message": f"there are {size} bytes, and the part asked for is not among them", "hint": "ask from there on"}
    return Json({"error": error}, 416, headers={"Content-Range": f"bytes */{size}"})


async def _large(database: Database, blob: Blob, part: range) -> AsyncIterator[bytes]:
    """A part of a large blob. All of it is read and verified, whatever part is sent."""
    reader = LargeReader(blob)
    at = 0
    while not reader.done:
        data = await database.aread(reader.step)
        piece = data[max(0, part.start - at) : max(0, part.stop - at)]
        at += len(data)
        if piece:
            yield piece


def format_asked(request: Request) -> Format:
    """The archive format of `?format=`, else of Accept, else tar. Raises Invalid."""
    asked = request.query_params.get("format")
    if asked is not None:
        for format in FORMATS:
            if asked == format:
                return format
        raise Invalid(f"there is no archive format {asked[:40]!r}", hint=f"formats are {', '.join(FORMATS)}")
    accept = request.headers.get("accept", "")
    return next((format for format in FORMATS if MEDIA[format] in accept), "tar")


async def archive_answer(request: Request, name: str, items: Sequence[Item], headers: Mapping[str, str]) -> Response:
    """A version as an archive: equal manifests give equal bytes."""
    format = format_asked(request)
    head = {
        **headers,
        "Content-Type": MEDIA[format],
        "Content-Disposition": f'attachment; filename="{name}.{format}"',
        "Vary": "Accept",
    }
    if request.method == "HEAD":
        return Response(headers=head)
    return await _streamed(_archive(context(request).database, items, format), head)


async def _archive(database: Database, items: Sequence[Item], format: Format) -> AsyncIterator[bytes]:
    packer = compression.packer(format)
    shelf = Shelf()
    at = 0

    def step() -> tuple[bytes, int, Blob | None]:
        pieces: list[bytes] = []
        waiting: Blob | None = None
        found = database.read_apart(contents.next_files, items, at, shelf)
        for entry, content in found:
            if isinstance(content, Blob):
                waiting = content
                pieces.append(archive.header(entry.path, entry.mode, entry.size))
            elif entry.mode == "symlink":
                pieces.append(archive.header(entry.path, entry.mode, entry.size, content))
            else:
                pieces += (archive.header(entry.path, entry.mode, entry.size), content, archive.padding(entry.size))
        return packer.compress(b"".join(pieces)), len(found), waiting

    while at < len(items):
        data, count, waiting = await asyncio.to_thread(step)
        if data:
            yield data
        at += count
        if waiting is not None:
            reader = LargeReader(waiting)
            while not reader.done:
                data = await asyncio.to_thread(lambda: packer.compress(database.read_apart(reader.step)))  # noqa: B023 - awaited here
                if data:
                    yield data
            if data := packer.compress(archive.padding(waiting.size)):
                yield data
    yield packer.compress(archive.END) + packer.flush()


async def _streamed(chunks: AsyncIterator[bytes], headers: Mapping[str, str], status: int = 200) -> Response:
    """Begin only when there is something to send, so that an error before that is answered as one.

    An error after that ends the connection before the answer's own end, which the client sees.
    """
    first = await anext(chunks)

    async def all_of_it() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return StreamingResponse(all_of_it(), status, headers=headers)
