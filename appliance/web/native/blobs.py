"""`/v1/blobs`: what is missing, one blob, many blobs in a tar."""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance import archive, plan
from appliance.errors import Invalid, TooLarge
from appliance.plan import BLOB_BYTES, ENTRIES, parse_digest, shown
from appliance.store import blobs
from appliance.web.access import require
from appliance.web.context import context
from appliance.web.native import intake
from appliance.web.native.intake import Found
from appliance.web.native.outlet import blob_answer
from appliance.web.respond import Json, body_of, decoded

MISSING_BODY = 32 << 20
BULK_BYTES = 1 << 30
BULK_LIMITS = archive.Limits(members=ENTRIES, bytes=2 << 30)


class Digests(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/blobs/missing."""

    digests: list[str]


async def missing(request: Request) -> Response:
    """POST /v1/blobs/missing: those of the digests that are not stored."""
    require(request, "operator")
    raw = await body_of(request, MISSING_BODY)
    database = context(request).database

    def look() -> dict[str, list[str]]:
        asked = decoded(raw, Digests).digests
        if len(asked) > ENTRIES:
            raise TooLarge(f"{len(asked)} digests are over the limit of {ENTRIES} for one request")
        found = database.read_apart(blobs.missing, [parse_digest(digest) for digest in asked])
        return {"missing": [shown(digest) for digest in found]}

    return Json(await asyncio.to_thread(look))


async def put(request: Request) -> Response:
    """PUT /v1/blobs/{digest}: store one blob, however large up to the limit."""
    require(request, "operator")
    digest = parse_digest(request.path_params["digest"])
    if "content-range" in request.headers:  # what was sent before is not kept, so there is nothing to go on from
        raise Invalid("a blob is sent whole, and nothing was stored", hint="send all of it, without Content-Range")
    database = context(request).database
    async with intake.received(request, BLOB_BYTES, "a blob") as (spool, size):

        def keep() -> int:
            found = intake.hashed(spool)
            if found != digest:
                raise Invalid(
                    f"the content has the digest {shown(found)}, not {shown(digest)}; nothing was stored",
                    hint="the file changed or was damaged on its way: send it again",
                )
            return intake.store(database, [Found("", "file", size, digest)], spool, mend=True)

        stored = await intake.apart(request, keep)
    return Json({"digest": shown(digest), "size": size, "stored": bool(stored)})


async def put_many(request: Request) -> Response:
    """POST /v1/blobs: a tar (or tar.gz, tar.zst) of blobs, each named by its 64 hexadecimal digits; all or, if one is wrong, none."""
    require(request, "operator")
    database = context(request).database
    async with intake.received(request, BULK_BYTES, "an archive of blobs") as (spool, _):

        def keep() -> dict[str, int]:
            with intake.beside(database, 8 << 20) as unpacked:
                found, where = intake.scanned(spool, unpacked, BULK_LIMITS)
                intake.digest_named(found)
                return {"received": len(found), "stored": intake.store(database, found, where, mend=True)}

        answer = await intake.apart(request, keep)
    return Json(answer)


async def get(request: Request) -> Response:
    """GET and HEAD /v1/blobs/{digest}: the verified bytes."""
    require(request, "viewer")
    digest = plan.parse_digest(request.path_params["digest"])
    return await blob_answer(request, context(request).database.read(blobs.find, digest))


routes = [
    Route("/v1/blobs", put_many, methods=["POST"]),
    Route("/v1/blobs/missing", missing, methods=["POST"]),
    Route("/v1/blobs/{digest:path}", put, methods=["PUT"]),
    Route("/v1/blobs/{digest:path}", get, methods=["GET"]),
]
