"""What agents ask: join, document, claim, signals. The wire is described in appliance/agent/README.md."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance import archive
from appliance.errors import ApplianceError, Conflict, Invalid, TooLarge
from appliance.identity import Instance, Who
from appliance.numbers import Counter
from appliance.operations import arrivals, claims, documents, files, signals
from appliance.operations import servers as server_operations
from appliance.operations.claims import Asked
from appliance.operations.servers import Joined, new_secret
from appliance.operations.signals import Signal
from appliance.plan import parse_digest, shown
from appliance.store import servers
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx
from appliance.web.access import require_server, whose
from appliance.web.context import Context, context
from appliance.web.native.outlet import blob_answer
from appliance.web.respond import Json, decode, perform, seconds_to_wait

SIGNAL_BODY = 8 << 20


class BlobsIn(msgspec.Struct):
    """Body of POST /v1/servers/{server}/blobs."""

    digests: list[str]


class JoinIn(msgspec.Struct):
    """Body of POST /v1/join. Unknown fields are ignored: agents of other versions join too."""

    token: str
    instance: Instance
    agent_state: str
    boot: str
    journal: Counter = 0
    version: str = ""
    hooks: list[str] = []


def who_of(request: Request) -> Who:
    """What an agent says of itself. Raises Invalid when a header is missing or malformed."""
    headers = request.headers
    try:
        who = Who(
            msgspec.json.decode(headers["appliance-instance"], type=Instance),
            headers["appliance-agent-state"],
            headers["appliance-boot"],
            msgspec.json.decode(headers["appliance-journal"], type=Counter),
            headers.get("appliance-agent", ""),
            [hook for hook in headers.get("appliance-hooks", "").split(",") if hook],
        )
    except KeyError as error:
        raise Invalid(f"the header {error.args[0]} is missing", hint="only an agent asks this") from None
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"a header of the agent is malformed: {error}") from None
    if not who.agent_state or not who.boot:
        raise Invalid("a header of the agent is empty", hint="only an agent asks this")
    return who


async def join(request: Request) -> Response:
    """POST /v1/join: a join token for an agent token."""
    asked = await decode(request, JoinIn)
    if not asked.agent_state or not asked.boot:
        raise Invalid("'agent_state' and 'boot' are not empty")
    appliance = context(request)
    who = Who(asked.instance, asked.agent_state, asked.boot, asked.journal, asked.version, asked.hooks)
    joined: Joined = await perform(request, server_operations.join, appliance.key, asked.token, who, new_secret())
    appliance.seen.note(joined.server.id, appliance.database.clock())
    epoch = {"number": appliance.epoch_number, "id": appliance.epoch_id}
    return Json({"server": joined.server.id, "name": joined.server.name, "token": joined.token, "epoch": epoch, "reset": joined.reset})


def _agent_only(server: Server) -> None:
    if server.kind != "agent":
        raise Conflict(f"{server.name!r} is {server.kind}; only a server that joined has an agent", hint="join it first")


def _alive_at(tx: Reader, appliance: Context, server: str) -> int | None:
    seen = appliance.seen.of(tx, server)
    return None if seen is None else seen.at


async def document(request: Request) -> Response:
    """GET /v1/servers/{server}/document?wait=30 with If-None-Match: 200 with ETag, or 304 when nothing desired has changed."""
    id = request.path_params["server"]
    require_server(request, id)
    appliance, who = context(request), who_of(request)
    database = appliance.database
    server, found = database.read(lambda tx: arrivals.peek(tx, id, who, _alive_at(tx, appliance, id)))
    _agent_only(server)
    described = (who.version, who.hooks) == (server.agent_version, server.hooks)
    if server.trouble is None and (found != "known" or server.doubted_at is not None or not described):
        server = await database.awrite(arrivals.arrive, id, who, database.read(_alive_at, appliance, id))
    _refuse(server, who)
    known = request.headers.get("if-none-match", "")
    end = asyncio.get_running_loop().time() + seconds_to_wait(request)
    while True:
        current = database.read(documents.document, appliance.key, (appliance.epoch_number, appliance.epoch_id), id)
        appliance.seen.note(id, database.clock(), current.commit)
        if current.etag != known:
            return Response(current.content, media_type="application/json", headers={"ETag": current.etag, "Cache-Control": "no-store"})
        left = end - asyncio.get_running_loop().time()
        woken = await appliance.waits.wait((f"server:{id}", "tokens"), left)
        if not woken or await request.is_disconnected():
            return Response(status_code=304, headers={"ETag": current.etag})
        require_server(request, id)
        server = database.read(servers.by_id, id)
        if server.agent_state is None:  # it was reset: whoever asks anew is its machine from then on, and this is not anew
            return Response(status_code=304, headers={"ETag": current.etag})
        _refuse(server, msgspec.structs.replace(who, journal=max(who.journal, server.journal or 0)))


def _refuse(server: Server, who: Who) -> None:
    refused = arrivals.refusal(server, who)
    if refused is not None:
        raise refused


async def blob(request: Request) -> Response:
    """GET /v1/servers/{server}/blobs/{digest}: verified bytes this server's generations refer to, or (by its digest) the manifest of files.

    Takes `Range`, so that what was cut goes on where it ended.
    """
    id = request.path_params["server"]
    _known(request, id)
    appliance, digest = context(request), parse_digest(request.path_params["digest"])
    found = await appliance.database.aread(files.fetch, appliance.trees, id, digest)
    if isinstance(found, bytes):
        return Response(found, media_type="application/octet-stream", headers={"ETag": f'"{shown(digest)}"', "Cache-Control": "no-store"})
    return await blob_answer(request, found)


async def many_blobs(request: Request) -> Response:
    """POST /v1/servers/{server}/blobs: a tar of small blobs, named by their 64 hexadecimal digits, in the order asked for."""
    id = request.path_params["server"]
    _known(request, id)
    digests = [parse_digest(one) for one in (await decode(request, BlobsIn)).digests]
    if len(digests) > files.MANY:
        raise TooLarge(f"{len(digests)} digests are over the limit of {files.MANY} for one request")
    appliance = context(request)
    found = await appliance.database.aread(files.fetch_many, appliance.trees, id, digests)
    pieces = [
        piece
        for name, content in found
        for piece in (archive.header(name.hex(), "file", len(content)), content, archive.padding(len(content)))
    ]
    return Response(b"".join([*pieces, archive.END]), media_type="application/x-tar", headers={"Cache-Control": "no-store"})


def _known(request: Request, id: str) -> None:
    """Go on only with the agent of server `id`, as it is known. Raises NotFound, Conflict."""
    require_server(request, id)
    who = who_of(request)
    server, _ = context(request).database.read(lambda tx: arrivals.peek(tx, id, who, None))
    _agent_only(server)
    _refuse(server, who)


async def claim(request: Request) -> Response:
    """POST /v1/servers/{server}/claim."""
    id = request.path_params["server"]
    require_server(request, id)
    asked = await decode(request, Asked)
    appliance, who = context(request), who_of(request)
    server, _ = appliance.database.read(lambda tx: arrivals.peek(tx, id, who, None))
    _agent_only(server)
    alive = appliance.database.read(_alive_at, appliance, id)
    answers = await perform(request, claims.claim, id, who, alive, asked)
    if isinstance(answers, ApplianceError):
        raise answers
    appliance.seen.note(id, appliance.database.clock())
    found: list[dict[str, Any]] = [
        {"run": one.run, "answer": one.answer, "after": one.after}
        if one.answer == "granted"
        else {"run": one.run, "answer": one.answer, "why": one.why, "message": one.message}
        for one in answers
    ]
    return Json({"answers": found})


async def signal(request: Request) -> Response:
    """POST /v1/runs/{run}/signals."""
    token = whose(request)
    server = token.server or ""
    require_server(request, server)
    report: Signal = await decode(request, Signal, SIGNAL_BODY)  # type: ignore[arg-type]
    appliance, who = context(request), who_of(request)
    alive = appliance.database.read(_alive_at, appliance, server)
    run = request.path_params["run"]

    def record(tx: Tx) -> signals.Effect:
        return signals.signal(tx, server, who, alive, run, report)

    effect = await perform(request, record)
    if appliance.database.read(servers.by_id, server).agent_state == who.agent_state:
        appliance.seen.note(server, appliance.database.clock())
    return Json(effect)


routes = [
    Route("/v1/join", join, methods=["POST"]),
    Route("/v1/servers/{server}/document", document, methods=["GET"]),
    Route("/v1/servers/{server}/blobs", many_blobs, methods=["POST"]),
    Route("/v1/servers/{server}/blobs/{digest}", blob, methods=["GET"]),
    Route("/v1/servers/{server}/claim", claim, methods=["POST"]),
    Route("/v1/runs/{run}/signals", signal, methods=["POST"]),
]
