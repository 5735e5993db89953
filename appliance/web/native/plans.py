"""`/v1/plans`: plans, versions, archives. Switching stands in switching.py."""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance import archive
from appliance.names import check_name
from appliance.numbers import Counter
from appliance.operations import contents, plans
from appliance.operations.plans import DeletePlan, Pushed
from appliance.plan import Change, Entry, Mode, parse_digest, shown, storage_order
from appliance.store.plans import Overview, Version
from appliance.store.plans import overviews as all_plans
from appliance.web.access import require
from appliance.web.context import context
from appliance.web.native import intake
from appliance.web.native.outlet import archive_answer, blob_answer
from appliance.web.native.views import instant
from appliance.web.respond import Json, body_of, decoded, number_of, perform, perform_once

MANIFEST_BODY = 64 << 20
ARCHIVE_BODY = 4 << 30
PAGE = 1000


class EntryIn(msgspec.Struct, forbid_unknown_fields=True):
    """One line of a manifest."""

    path: str
    mode: Mode
    size: Counter
    digest: str


class ManifestIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of PUT .../versions/{digest}: `base` (a manifest's digest, or null) without `removed` and with `entries`."""

    entries: list[EntryIn]
    base: str | None = None
    removed: list[str] = []


# ---------------------------------------------------------------------------------------------------- plans


async def list_plans(request: Request) -> Response:
    """GET /v1/plans."""
    require(request, "viewer")
    found = await context(request).database.aread(all_plans)
    return Json({"plans": [overview_view(one) for one in found]})


async def get_plan(request: Request) -> Response:
    """GET /v1/plans/{plan}."""
    require(request, "viewer")
    return Json(overview_view(context(request).database.read(plans.overview, request.path_params["plan"])))


async def delete_plan(request: Request) -> Response:
    """DELETE /v1/plans/{plan}."""
    principal = require(request, "admin")
    gone = await perform(request, plans.delete_plan, DeletePlan(request.path_params["plan"], principal.name))
    return Json({"deleted": gone.name})


# ---------------------------------------------------------------------------------------------------- versions


async def put_version(request: Request) -> Response:
    """PUT /v1/plans/{plan}/versions/{digest}: a manifest, whole or as changes to a base, becomes a version."""
    principal = require(request, "operator")
    name = check_name("plan", request.path_params["plan"])
    digest = parse_digest(request.path_params["digest"])
    raw = await body_of(request, MANIFEST_BODY)
    database = context(request).database

    def prepare() -> plans.PushVersion:
        body = decoded(raw, ManifestIn)
        base = None if body.base is None else database.read_apart(plans.base_of, parse_digest(body.base))
        entries = [Entry(one.path, one.mode, one.size, parse_digest(one.digest)) for one in body.entries]
        return plans.push_of(name, base, entries, body.removed, principal.name, digest)

    command = await asyncio.to_thread(prepare)
    return Json(pushed_view(await perform(request, plans.push_version, command)))


async def push_archive(request: Request) -> Response:
    """POST /v1/plans/{plan}/archive: a tar, tar.gz or tar.zst becomes a version."""
    principal = require(request, "operator")
    name = check_name("plan", request.path_params["plan"])
    database = context(request).database
    async with intake.received(request, ARCHIVE_BODY, "an archive") as (spool, _):

        def keep() -> tuple[plans.PushVersion, list[str], bytes]:
            body = intake.hashed(spool) if "idempotency-key" in request.headers else b""
            with intake.beside(database, 8 << 20) as unpacked:
                found, where = intake.scanned(spool, unpacked, archive.Limits())
                entries, left_out = intake.entries_of(found)
                command = plans.push_of(name, None, entries, (), principal.name)
                kept = {entry.digest for entry in entries}
                ordered = sorted((one for one in found if one.digest in kept), key=lambda one: storage_order(one.path))
                intake.store(database, ordered, where, mend=False)
            return command, left_out, body

        command, left_out, body = await intake.apart(request, keep)
    request.state.body = body  # what stands for this request when it is repeated under its Idempotency-Key
    return await perform_once(
        request, lambda tx: plans.push_version(tx, command), lambda pushed: pushed_view(pushed) | {"left_out": left_out}
    )


async def list_versions(request: Request) -> Response:
    """GET /v1/plans/{plan}/versions: the newest first."""
    require(request, "viewer")
    limit, before = page_of(request)
    name = request.path_params["plan"]
    found, current = await context(request).database.aread(plans.versions, name, limit=limit, before=before)
    more = found[-1].number if len(found) == limit and found[-1].number > 1 else None
    return Json({"plan": name, "current": current, "versions": [version_view(one) for one in found], "next": more})


async def get_version(request: Request) -> Response:
    """GET /v1/plans/{plan}/versions/{ref}: a version with its whole manifest."""
    require(request, "viewer")
    if moved := to_number(request):
        return moved
    name, ref = request.path_params["plan"], request.path_params["ref"]
    database = context(request).database

    def encoded() -> tuple[int, bytes]:
        version, manifest = database.read_apart(plans.whole, name, ref)
        entries = [{"path": one.path, **entry_view(one)} for one in manifest.entries]
        return version.number, msgspec.json.encode({"plan": name, **version_view(version), "entries": entries})

    number, body = await asyncio.to_thread(encoded)
    return Json(body, headers={"Appliance-Version": str(number)})


async def get_archive(request: Request) -> Response:
    """GET /v1/plans/{plan}/versions/{ref}/archive, as `?format=tar|tar.gz|tar.zst` or by Accept."""
    require(request, "viewer")
    if moved := to_number(request, "/archive"):
        return moved
    name = request.path_params["plan"]
    version, items = await context(request).database.aread(contents.items, name, request.path_params["ref"])
    headers = {"Appliance-Version": str(version.number), "Appliance-Digest": shown(version.digest)}
    return await archive_answer(request, f"{name}-{version.number}", items, headers)


async def get_file(request: Request) -> Response:
    """GET /v1/plans/{plan}/versions/{ref}/files/{path}: one file's bytes; of a symlink its target."""
    require(request, "viewer")
    path = request.path_params["path"]
    if moved := to_number(request, "/files/" + quote(path)):
        return moved
    name, ref = request.path_params["plan"], request.path_params["ref"]
    version, entry, blob = await context(request).database.aread(plans.file, name, ref, path)
    return await blob_answer(request, blob, {"Appliance-Version": str(version.number), "Appliance-Mode": entry.mode})


def to_number(request: Request, rest: str = "") -> Response | None:
    """For `current`: where it is now, so that what follows stays with one version. Raises NotFound."""
    if request.path_params["ref"] != "current":
        return None
    name = request.path_params["plan"]
    number = context(request).database.read(plans.version, name, "current").number
    query = f"?{request.url.query}" if request.url.query else ""
    location = f"/v1/plans/{quote(name)}/versions/{number}{rest}{query}"
    return Response(status_code=307, headers={"Location": location, "Appliance-Version": str(number), "Cache-Control": "no-store"})


async def get_diff(request: Request) -> Response:
    """GET /v1/plans/{plan}/diff?from=&to=: what differs; by default from the current version to the newest."""
    require(request, "viewer")
    name = request.path_params["plan"]
    database = context(request).database
    old, new = request.query_params.get("from", "current"), request.query_params.get("to")
    if new is None:
        new = str(database.read(plans.overview, name).newest)
    before, after, changes = await database.aread(plans.diff, name, old, new)
    return Json({"plan": name, "from": version_view(before), "to": version_view(after), "changes": [change_view(one) for one in changes]})


# ---------------------------------------------------------------------------------------------------- views


def overview_view(one: Overview) -> dict[str, Any]:
    """A plan and where it stands."""
    return {
        "name": one.plan.name,
        "created_at": instant(one.plan.created_at),
        "serial": one.serial,
        "current": one.current,
        "versions": one.versions,
        "newest": one.newest,
        "switched_at": instant(one.switched_at),
        "switched_by": one.switched_by,
    }


def version_view(version: Version) -> dict[str, Any]:
    """A version without its entries."""
    return {
        "number": version.number,
        "digest": shown(version.digest),
        "files": version.files,
        "bytes": version.bytes,
        "created_at": instant(version.created_at),
        "by": version.by,
        "commit": version.commit,
    }


def pushed_view(pushed: Pushed) -> dict[str, Any]:
    """What a push came to."""
    return {
        "plan": pushed.plan,
        "version": version_view(pushed.version),
        "created": pushed.created,
        "serial": pushed.serial,
        "current": pushed.current,
    }


def entry_view(entry: Entry) -> dict[str, Any]:
    """An entry without its path."""
    return {"mode": entry.mode, "size": entry.size, "digest": shown(entry.digest)}


def change_view(change: Change) -> dict[str, Any]:
    """One difference."""
    return {
        "path": change.path,
        "kind": change.kind,
        "old": None if change.old is None else entry_view(change.old),
        "new": None if change.new is None else entry_view(change.new),
    }


def page_of(request: Request) -> tuple[int, int | None]:
    """`?limit=` (at most PAGE) and `?before=`. Raises Invalid."""
    limit = number_of(request, "limit")
    return PAGE if limit is None else max(1, min(limit, PAGE)), number_of(request, "before")


routes = [
    Route("/v1/plans", list_plans, methods=["GET"]),
    Route("/v1/plans/{plan}", get_plan, methods=["GET"]),
    Route("/v1/plans/{plan}", delete_plan, methods=["DELETE"]),
    Route("/v1/plans/{plan}/archive", push_archive, methods=["POST"]),
    Route("/v1/plans/{plan}/diff", get_diff, methods=["GET"]),
    Route("/v1/plans/{plan}/versions", list_versions, methods=["GET"]),
    Route("/v1/plans/{plan}/versions/{digest}", put_version, methods=["PUT"]),
    Route("/v1/plans/{plan}/versions/{ref}", get_version, methods=["GET"]),
    Route("/v1/plans/{plan}/versions/{ref}/archive", get_archive, methods=["GET"]),
    Route("/v1/plans/{plan}/versions/{ref}/files/{path:path}", get_file, methods=["GET"]),
]
