"""`/v1/plans/{plan}/switch` and its like: making a version current, and what that would do."""

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.numbers import Whole
from appliance.operations import previews, switches
from appliance.operations.previews import Effect
from appliance.operations.switches import RollbackPlan, Switched, SwitchPlan
from appliance.plan import Share, Switch, share, shown
from appliance.store import servers as server_rows
from appliance.store.servers import Seen, Server
from appliance.store.tx import Reader, Tx
from appliance.web.access import require
from appliance.web.context import Context, context
from appliance.web.native.plans import page_of
from appliance.web.native.views import instant, preview_view
from appliance.web.respond import Json, decode, perform_once


class SwitchIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST .../switch: `expected` is the serial it is based on (0: never switched), null does not check.

    `dry_run`: only tell what it would do. `max_affected`: refuse (409) when more deployments would get a new generation than this number,
    or this part ("10%") of all there are.
    """

    to: str | Whole
    expected: Whole | None = None
    force: bool = False
    dry_run: bool = False
    max_affected: Whole | str | None = None


class RollbackIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST .../rollback; see SwitchIn."""

    expected: Whole | None = None
    force: bool = False
    dry_run: bool = False
    max_affected: Whole | str | None = None


async def list_switches(request: Request) -> Response:
    """GET /v1/plans/{plan}/switches: the newest first."""
    require(request, "viewer")
    limit, before = page_of(request)
    name = request.path_params["plan"]
    found = await context(request).database.aread(switches.log, name, limit=limit, before=before)
    more = found[-1].serial if len(found) == limit and found[-1].serial > 1 else None
    return Json({"plan": name, "switches": [switch_view(one) for one in found], "next": more})


async def post_switch(request: Request) -> Response:
    """POST /v1/plans/{plan}/switch: make a version current; with `dry_run` tell what that would do, and do nothing."""
    principal = require(request, "operator")
    body = await decode(request, SwitchIn)
    key = context(request).key
    command = SwitchPlan(request.path_params["plan"], str(body.to), body.expected, body.force, principal.name, limit_of(body.max_affected))
    return await moved(request, lambda tx: switches.switch(tx, key, command), dry_run=body.dry_run)


async def post_rollback(request: Request) -> Response:
    """POST /v1/plans/{plan}/rollback: make the version before the current one current; `dry_run` as for a switch."""
    principal = require(request, "operator")
    body = await decode(request, RollbackIn)
    key = context(request).key
    command = RollbackPlan(request.path_params["plan"], body.expected, body.force, principal.name, limit_of(body.max_affected))
    return await moved(request, lambda tx: switches.rollback(tx, key, command), dry_run=body.dry_run)


def limit_of(given: int | str | None) -> Share | None:
    """What `max_affected` says. Raises Invalid."""
    return None if given is None else share(given, "max_affected")


async def moved(request: Request, run: Callable[[Tx], Switched], *, dry_run: bool) -> Response:
    """Switch or roll back, or tell what that would do: the same operation, rolled back."""
    if not dry_run:
        return await perform_once(request, lambda tx: previews.told(tx, run), lambda told: switched_view(told[0], told[1]))
    appliance = context(request)
    found = await appliance.database.apreview(previews.told, run)
    switched, effects = found.result
    servers = {one.server: appliance.database.read(server_seen, appliance, one.server) for one in effects}
    return Json(switched_view(switched, effects) | preview_view(effects, servers, found.commit) | {"removed": switched.removed})


def server_seen(tx: Reader, appliance: Context, id: str) -> tuple[Server, Seen | None]:
    """A server, and when its agent was last heard."""
    return server_rows.by_id(tx, id), appliance.seen.of(tx, id)


def switch_view(switch: Switch) -> dict[str, Any]:
    """One row of the switch log."""
    return msgspec.structs.asdict(switch) | {"at": instant(switch.at)}


def switched_view(switched: Switched, effects: list[Effect]) -> dict[str, Any]:
    """What a switch did; `moves` counts what becomes of the deployments it concerns."""
    return {
        "plan": switched.plan,
        **switch_view(switched.switch),
        "digest": shown(switched.digest),
        "was": switched.was,
        "unchanged": switched.unchanged,
        "changed": switched.changed,
        "deployments": switched.deployments,
        "servers": switched.servers,
        "moves": previews.counted(effects),
    }


routes = [
    Route("/v1/plans/{plan}/switches", list_switches, methods=["GET"]),
    Route("/v1/plans/{plan}/switch", post_switch, methods=["POST"]),
    Route("/v1/plans/{plan}/rollback", post_rollback, methods=["POST"]),
]
