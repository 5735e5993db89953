"""`/v1/servers`, `/v1/tokens`, `/v1/audit`: machines and access."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.errors import Conflict, Invalid
from appliance.numbers import Whole
from appliance.operations import servers as operations
from appliance.operations import stock
from appliance.operations.servers import Added, NewServer, new_secret
from appliance.operations.stock import Urls
from appliance.store import audit, deployments, servers, tokens
from appliance.store.servers import Server
from appliance.store.tx import Reader
from appliance.web.access import require
from appliance.web.context import Context, context
from appliance.web.native.views import deed_view, server_view, token_view
from appliance.web.respond import Json, decode, number_of, perform, perform_once

PAGE = 1000
EXPIRES_SECONDS = 100 * 365 * 86400


class ServerIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/servers."""

    name: str
    labels: list[str] = []
    stock: bool = False


class ServerEdit(msgspec.Struct, forbid_unknown_fields=True):
    """Body of PATCH /v1/servers/{server}."""

    name: str | None = None
    add_labels: list[str] = []
    drop_labels: list[str] = []
    stock: bool | None = None


class TokenIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/tokens. `expires` in seconds from now."""

    name: str
    role: str
    expires: Whole | None = None


def _view(tx: Reader, appliance: Context, server: Server) -> dict[str, Any]:
    seen = appliance.seen.of(tx, server.id)
    counts = deployments.counts(tx, server.id, None if seen is None else seen.delivered)
    return server_view(server, servers.labels_of(tx, server.id), counts, seen)


def _page(tx: Reader, appliance: Context, label: str | None, after: str) -> list[dict[str, Any]]:
    return [_view(tx, appliance, server) for server in servers.page(tx, label=label, after=after, limit=PAGE)]


async def list_servers(request: Request) -> Response:
    """GET /v1/servers?label=&after=: by name, a thousand at a time; `next` is the `after` of the next page, or null."""
    require(request, "viewer")
    appliance = context(request)
    query = request.query_params
    found = await appliance.database.aread(_page, appliance, query.get("label"), query.get("after", ""))
    return Json({"servers": found, "next": found[-1]["name"] if len(found) == PAGE else None})


async def get_server(request: Request) -> Response:
    """GET /v1/servers/{server}, by name or id."""
    require(request, "viewer")
    appliance = context(request)
    ref = request.path_params["server"]
    return Json(appliance.database.read(lambda tx: _view(tx, appliance, servers.find(tx, ref))))


def _added(appliance: Context, added: Added) -> dict[str, Any]:
    found: dict[str, Any] = {"id": added.server.id, "name": added.server.name, "kind": added.server.kind}
    if added.join_token is not None:
        found |= {"join_token": added.join_token, "url": appliance.settings.url, "loopback": appliance.settings.loopback}
    else:
        urls = Urls(appliance.settings.url)
        found["metadata_url"] = urls.metadata(appliance.key, added.server)
        found["configuration"] = stock.agent_configuration(urls, appliance.key, added.server)
        found["heat_configuration"] = stock.agent_configuration(urls, appliance.key, added.server, "heat")
    return found


async def add_server(request: Request) -> Response:
    """POST /v1/servers: the answer holds a join token, or the whole configuration of a stock agent."""
    by = require(request, "operator").name
    new = await decode(request, ServerIn)
    appliance = context(request)
    wanted = NewServer(new.name, new.labels, new.stock)
    secret = new_secret()
    return await perform_once(
        request, lambda tx: operations.add(tx, wanted, secret, by), lambda added: _added(appliance, added), status=201, secret=True
    )


async def server_configuration(request: Request) -> Response:
    """GET /v1/servers/{server}/configuration: of a stock server, the whole configuration of its agent, as when it was added."""
    require(request, "operator")
    appliance = context(request)
    server = appliance.database.read(servers.find, request.path_params["server"])
    if server.kind != "stock":
        raise Conflict(
            f"{server.name!r} is not marked for a stock agent", hint=f"its machine joins with: appliance server token {server.name}"
        )
    return Json(_added(appliance, Added(server, None)))


async def edit_server(request: Request) -> Response:
    """PATCH /v1/servers/{server}."""
    by = require(request, "operator").name
    edit = await decode(request, ServerEdit)
    appliance = context(request)
    ref = request.path_params["server"]
    server = await perform(request, operations.edit, ref, edit.name, edit.add_labels, edit.drop_labels, edit.stock, by)
    return Json(appliance.database.read(_view, appliance, server))


async def remove_server(request: Request) -> Response:
    """DELETE /v1/servers/{server}."""
    by = require(request, "admin").name
    await perform(request, operations.remove, request.path_params["server"], by)
    return Response(status_code=204)


async def server_token(request: Request) -> Response:
    """POST /v1/servers/{server}/token: a new join token."""
    by = require(request, "operator").name
    appliance = context(request)
    ref, secret = request.path_params["server"], new_secret()
    return await perform_once(
        request, lambda tx: operations.renew_join_token(tx, ref, secret, by), lambda added: _added(appliance, added), secret=True
    )


async def reset_server(request: Request) -> Response:
    """POST /v1/servers/{server}/reset: everything runs again on whoever speaks next."""
    by = require(request, "operator").name
    appliance = context(request)
    ref = request.path_params["server"]
    answer = await perform_once(request, lambda tx: operations.reset(tx, appliance.key, ref, by), lambda number: {"deployments": number})
    appliance.seen.forget(appliance.database.read(servers.find, ref).id)
    return answer


# ---------------------------------------------------------------------------------------------------- tokens


async def list_tokens(request: Request) -> Response:
    """GET /v1/tokens: people's and join tokens, without their secrets."""
    require(request, "admin")
    return Json({"tokens": [token_view(one) for one in context(request).database.read(tokens.every)]})


async def create_token(request: Request) -> Response:
    """POST /v1/tokens: the answer is the only place where the token is shown."""
    by = require(request, "admin").name
    wanted = await decode(request, TokenIn)
    if wanted.expires is not None and not 1 <= wanted.expires <= EXPIRES_SECONDS:
        raise Invalid(
            f"a token cannot expire in {wanted.expires} s",
            hint=f"give seconds from 1 to {EXPIRES_SECONDS}, or leave it out: it never expires",
        )
    secret = new_secret()

    def made(tx: Any) -> Any:
        expires_at = None if wanted.expires is None else tx.now + wanted.expires * 1000
        return operations.add_token(tx, secret, wanted.role, wanted.name, expires_at, by)  # type: ignore[arg-type]

    return await perform_once(request, made, lambda token: token_view(token) | {"token": secret}, status=201, secret=True)


async def revoke_token(request: Request) -> Response:
    """DELETE /v1/tokens/{token}, by id or name."""
    by = require(request, "admin").name
    await perform(request, operations.revoke_token, request.path_params["token"], by)
    return Response(status_code=204)


async def list_audit(request: Request) -> Response:
    """GET /v1/audit?before=&object=&limit=: the newest first."""
    require(request, "viewer")
    limit = number_of(request, "limit")
    found = context(request).database.read(
        audit.newest,
        limit=100 if limit is None else max(1, min(limit, PAGE)),
        before=number_of(request, "before"),
        object=request.query_params.get("object"),
    )
    return Json({"audit": [deed_view(deed) for deed in found]})


routes = [
    Route("/v1/servers", list_servers, methods=["GET"]),
    Route("/v1/servers", add_server, methods=["POST"]),
    Route("/v1/servers/{server}", get_server, methods=["GET"]),
    Route("/v1/servers/{server}", edit_server, methods=["PATCH"]),
    Route("/v1/servers/{server}", remove_server, methods=["DELETE"]),
    Route("/v1/servers/{server}/configuration", server_configuration, methods=["GET"]),
    Route("/v1/servers/{server}/token", server_token, methods=["POST"]),
    Route("/v1/servers/{server}/reset", reset_server, methods=["POST"]),
    Route("/v1/tokens", list_tokens, methods=["GET"]),
    Route("/v1/tokens", create_token, methods=["POST"]),
    Route("/v1/tokens/{token}", revoke_token, methods=["DELETE"]),
    Route("/v1/audit", list_audit, methods=["GET"]),
]
