"""`/v1/deployments`, `/v1/runs`: what must run, and what came of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.config import Statement
from appliance.deployment import TIMEOUT_SECONDS, WORKS, Action, Policy
from appliance.errors import Gone, Invalid, NotFound
from appliance.keys import Key
from appliance.numbers import Whole
from appliance.operations import actions, cancels, explain, fate
from appliance.operations import deployments as operations
from appliance.operations.deployments import UNSET, Done, Edit, Unset, Wanted
from appliance.operations.references import find_deployment
from appliance.store import deployments, generations, runs, servers
from appliance.store.deployments import Deployment
from appliance.store.tx import Reader, Tx
from appliance.web.access import require
from appliance.web.context import Context, context
from appliance.web.native.configs import ConfigIn
from appliance.web.native.views import deployment_view, past_view, run_view, why_view
from appliance.web.respond import Json, body_of, decode, decoded, number_of, perform, perform_once, seconds_to_wait

LIST_BODY = 64 << 20
PAGE = 1000


class DeploymentIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/deployments, or an item of its list. `timeout` null: none; `update`: bring the one of this name to this.

    `replace`: delete that one, with its DELETE work, and make a new one.
    """

    server: str
    name: str
    config: str | ConfigIn
    inputs: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    policy: Policy | None = None
    interval: Whole | None = None
    timeout: Whole | None = TIMEOUT_SECONDS
    attempts: Whole = 1
    actions: tuple[Action, ...] = WORKS
    depends_on: list[str] = []
    follow: list[str] = []
    update: bool = False
    replace: bool = False

    def wanted(self) -> Wanted:
        """The domain's value."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Wanted(**fields | {"config": _config(self.config)})


class DeploymentEdit(msgspec.Struct, forbid_unknown_fields=True):
    """Body of PATCH /v1/deployments/{id}; in a list, with `id`."""

    id: str | None = None
    name: str | Unset = UNSET
    config: str | ConfigIn | Unset = UNSET
    inputs: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    drop: list[str] = []
    policy: Policy | Unset = UNSET
    interval: Whole | Unset | None = UNSET
    timeout: Whole | Unset | None = UNSET
    attempts: Whole | Unset = UNSET
    actions: tuple[Action, ...] | Unset = UNSET
    depends_on: list[str] | Unset = UNSET
    follow: list[str] | Unset = UNSET

    def edit(self) -> Edit:
        """The domain's value."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "id"}
        return Edit(**fields | {"config": self.config if isinstance(self.config, Unset) else _config(self.config)})


class Ids(msgspec.Struct, forbid_unknown_fields=True):
    """Body of requests for several deployments."""

    ids: list[str]


class CancelIn(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/deployments/{id}/cancel. `force`: over here at once, whatever its machine does."""

    force: bool = False


class ForceMany(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /v1/deployments/cancel and delete."""

    ids: list[str]
    force: bool = False


def _config(given: str | ConfigIn) -> str | Statement:
    return given if isinstance(given, str) else given.statement()


def view(tx: Reader, appliance: Context, one: Deployment) -> dict[str, Any]:
    """A deployment as people see it now."""
    return deployment_view(explain.view(tx, one, appliance.seen.of(tx, one.server)))


def brought(tx: Tx, appliance: Context, done: Done) -> dict[str, Any]:
    """What became of one that was created or changed in this operation, and whether that made a generation."""
    one = deployments.by_id(tx, done.id)
    made = one.generation.commit == tx.commit
    return view(tx, appliance, one) | {"did": done.did, "changes": done.changes, "made_generation": made}


def _many(raw: bytes, one: type[Any]) -> tuple[list[Any], bool]:
    """(items, whether the body is a list)."""
    if raw.lstrip()[:1] == b"[":
        return decoded(raw, list[one]), True  # type: ignore[valid-type]
    return [decoded(raw, one)], False


async def create(request: Request) -> Response:
    """POST /v1/deployments: one, or a list (all or nothing)."""
    by = require(request, "operator").name
    items, is_list = _many(await body_of(request, LIST_BODY), DeploymentIn)
    appliance = context(request)
    wanted = [item.wanted() for item in items]

    def run(tx: Tx) -> list[dict[str, Any]]:
        done = operations.create(tx, appliance.key, wanted, by)
        return [brought(tx, appliance, it) for it in done]

    return await perform_once(request, run, lambda found: found if is_list else found[0], status=201)


async def list_deployments(request: Request) -> Response:
    """GET /v1/deployments?server=&name=&status=&after=: by creation; `next` is the `after` of the next page, or null."""
    require(request, "viewer")
    query = request.query_params
    appliance = context(request)
    after = number_of(request, "after") or 0
    if query.get("name") is not None and query.get("server") is None:
        raise Invalid("'name' goes with 'server': a name is unique on one server only")
    found, following = await appliance.database.aread(_page, appliance, query.get("server"), query.get("name"), query.get("status"), after)
    return Json({"deployments": found, "next": following})


def _page(
    tx: Reader, appliance: Context, server: str | None, name: str | None, status: str | None, after: int
) -> tuple[list[dict[str, Any]], int | None]:
    if server is None:
        there = deployments.page(tx, status=status, after=after, limit=PAGE)
        following = there[-1].seq if len(there) == PAGE else None
        return [view(tx, appliance, one) for one in there], following
    chosen = deployments.of_server(tx, servers.find(tx, server).id)
    kept = [one for one in chosen if (name is None or one.terms.name == name) and (status is None or one.standing.status == status)]
    return [view(tx, appliance, one) for one in kept], None


async def get_deployment(request: Request) -> Response:
    """GET /v1/deployments/{id}?wait=30&generation=G: with `wait`, answers when it is settled, at the latest after that many seconds.

    With `generation` (its number) a newer one settles the wait as `superseded`.
    """
    require(request, "viewer")
    appliance = context(request)
    ref = reference(request)
    generation = number_of(request, "generation")
    end = asyncio.get_running_loop().time() + seconds_to_wait(request)

    def read(tx: Reader) -> dict[str, Any]:
        return view(tx, appliance, find_deployment(tx, ref))

    while True:
        found = appliance.database.read(read)
        ref = found["id"]
        if generation is not None and found["generation"]["number"] != generation:
            found["settled"] = "superseded" if found["generation"]["number"] > generation else None
        left = end - asyncio.get_running_loop().time()
        if found["settled"] is not None or not await appliance.waits.wait((f"deployment:{ref}",), left):
            return Json(found)


def reference(request: Request) -> str:
    """The deployment a path names: by id, or as `SERVER/NAME`."""
    return str(request.path_params["ref"])


async def edit_one(request: Request) -> Response:
    """PATCH /v1/deployments/{id}."""
    by = require(request, "operator").name
    edit = (await decode(request, DeploymentEdit, LIST_BODY)).edit()
    appliance = context(request)
    ref = reference(request)

    def run(tx: Tx) -> dict[str, Any]:
        return brought(tx, appliance, operations.update(tx, appliance.key, [(ref, edit)], by)[0])

    return Json(await perform(request, run))


async def edit_many(request: Request) -> Response:
    """PATCH /v1/deployments: a list, each with `id`; all or nothing."""
    by = require(request, "operator").name
    edits, _ = _many(await body_of(request, LIST_BODY), DeploymentEdit)
    appliance = context(request)
    missing = [n for n, one in enumerate(edits, 1) if one.id is None]
    if missing:
        raise Invalid(f"item {missing[0]}: each item of a list names its deployment with 'id'")

    wanted = [(one.id or "", one.edit()) for one in edits]

    def run(tx: Tx) -> list[dict[str, Any]]:
        return [brought(tx, appliance, it) for it in operations.update(tx, appliance.key, wanted, by)]

    return Json(await perform(request, run))


async def delete_one(request: Request) -> Response:
    """DELETE /v1/deployments/{id}?force=1: 204, and 410 from then on; 202 when its DELETE work runs first, which `force` leaves out."""
    by = require(request, "operator").name
    appliance = context(request)
    ref, force = reference(request), request.query_params.get("force") in ("1", "true")

    def run(tx: Tx) -> dict[str, Any] | None:
        working = fate.delete(tx, appliance.key, [find_deployment(tx, ref).id], by, force=force)
        return view(tx, appliance, deployments.by_id(tx, working[0])) if working else None

    found = await perform(request, run)
    return Response(status_code=204) if found is None else Json(found, 202)


async def delete_many(request: Request) -> Response:
    """POST /v1/deployments/delete {"ids": [...], "force": false}: all or nothing; they may depend on each other.

    Those that are gone come in `deleted`, those whose DELETE work runs first in `deleting`.
    """
    by = require(request, "operator").name
    appliance = context(request)
    asked = await decode(request, ForceMany, LIST_BODY)

    def run(tx: Tx) -> dict[str, Any]:
        ids = list(dict.fromkeys(find_deployment(tx, ref).id for ref in asked.ids))
        working = fate.delete(tx, appliance.key, ids, by, force=asked.force)
        return {"deleted": [id for id in ids if id not in working], "deleting": working}

    return await perform_once(request, run, lambda found: found)


async def rerun_one(request: Request) -> Response:
    """POST /v1/deployments/{id}/rerun."""
    return await _rerun(request, [reference(request)], is_list=False)


async def rerun_many(request: Request) -> Response:
    """POST /v1/deployments/rerun {"ids": [...]}: all or nothing."""
    require(request, "operator")
    return await _rerun(request, (await decode(request, Ids, LIST_BODY)).ids, is_list=True)


async def _rerun(request: Request, refs: list[str], *, is_list: bool) -> Response:
    by = require(request, "operator").name
    appliance = context(request)
    await body_of(request)

    def run(tx: Tx) -> list[dict[str, Any]]:
        ids = [find_deployment(tx, ref).id for ref in refs]
        fate.rerun(tx, appliance.key, ids, by)
        return [view(tx, appliance, deployments.by_id(tx, id)) for id in ids]

    return await perform_once(request, run, lambda found: found if is_list else found[0])


async def cancel_one(request: Request) -> Response:
    """POST /v1/deployments/{id}/cancel {"force": false}: 409 when there is nothing to cancel."""
    require(request, "operator")
    asked = await decode(request, CancelIn)
    return await _cancel(request, [reference(request)], asked.force, is_list=False)


async def cancel_many(request: Request) -> Response:
    """POST /v1/deployments/cancel {"ids": [...], "force": false}: all or nothing."""
    require(request, "operator")
    asked = await decode(request, ForceMany, LIST_BODY)
    return await _cancel(request, asked.ids, asked.force, is_list=True)


async def _cancel(request: Request, refs: list[str], force: bool, *, is_list: bool) -> Response:
    by = require(request, "operator").name
    appliance = context(request)

    def run(tx: Tx) -> list[dict[str, Any]]:
        ids = list(dict.fromkeys(find_deployment(tx, ref).id for ref in refs))
        cancels.cancel(tx, ids, by, force=force)
        return [view(tx, appliance, deployments.by_id(tx, id)) for id in ids]

    return await perform_once(request, run, lambda found: found if is_list else found[0])


async def suspend(request: Request) -> Response:
    """POST /v1/deployments/{id}/suspend: 409 unless it is COMPLETE."""
    return await _act(request, actions.suspend)


async def resume(request: Request) -> Response:
    """POST /v1/deployments/{id}/resume: 409 unless it is suspended."""
    return await _act(request, actions.resume)


async def _act(request: Request, operation: Callable[[Tx, Key, str, str], Any]) -> Response:
    by = require(request, "operator").name
    appliance = context(request)
    ref = reference(request)
    await body_of(request)

    def run(tx: Tx) -> dict[str, Any]:
        id = find_deployment(tx, ref).id
        operation(tx, appliance.key, id, by)
        return view(tx, appliance, deployments.by_id(tx, id))

    return await perform_once(request, run, lambda found: found)


async def get_why(request: Request) -> Response:
    """GET /v1/deployments/{id}/why."""
    require(request, "viewer")
    appliance = context(request)
    ref = reference(request)

    def read(tx: Reader) -> dict[str, Any]:
        one = find_deployment(tx, ref)
        return why_view(explain.why(tx, one, appliance.seen.of(tx, one.server)))

    return Json(appliance.database.read(read))


async def get_runs(request: Request) -> Response:
    """GET /v1/deployments/{id}/runs: the newest runs and generations first. A deleted deployment's evidence can still be read by its id."""
    require(request, "viewer")
    ref = reference(request)

    def read(tx: Reader) -> dict[str, Any]:
        try:
            id = find_deployment(tx, ref).id
        except Gone:
            id = ref
        found = runs.of_deployment(tx, id)
        numbers = explain.numbers_of(tx, found)
        return {
            "runs": [run_view(run, numbers.get(run.generation)) for run in found],
            "generations": [past_view(past) for past in generations.newest(tx, id)],
        }

    return Json(context(request).database.read(read))


async def get_run(request: Request) -> Response:
    """GET /v1/runs/{run}: with what it printed and put out."""
    require(request, "viewer")
    id = request.path_params["run"]

    def read(tx: Reader) -> dict[str, Any]:
        run = runs.by_id(tx, id)
        if run is None:
            raise NotFound(f"no run {id!r}", hint="see the runs of a deployment with: appliance deployment runs SERVER/NAME")
        return run_view(run, explain.numbers_of(tx, [run]).get(run.generation), runs.output_of(tx, id))

    return Json(context(request).database.read(read))


routes = [
    Route("/v1/deployments", list_deployments, methods=["GET"]),
    Route("/v1/deployments", create, methods=["POST"]),
    Route("/v1/deployments", edit_many, methods=["PATCH"]),
    Route("/v1/deployments/rerun", rerun_many, methods=["POST"]),
    Route("/v1/deployments/delete", delete_many, methods=["POST"]),
    Route("/v1/deployments/{ref:path}/rerun", rerun_one, methods=["POST"]),
    Route("/v1/deployments/cancel", cancel_many, methods=["POST"]),
    Route("/v1/deployments/{ref:path}/cancel", cancel_one, methods=["POST"]),
    Route("/v1/deployments/{ref:path}/suspend", suspend, methods=["POST"]),
    Route("/v1/deployments/{ref:path}/resume", resume, methods=["POST"]),
    Route("/v1/deployments/{ref:path}/why", get_why, methods=["GET"]),
    Route("/v1/deployments/{ref:path}/runs", get_runs, methods=["GET"]),
    Route("/v1/deployments/{ref:path}", get_deployment, methods=["GET"]),
    Route("/v1/deployments/{ref:path}", edit_one, methods=["PATCH"]),
    Route("/v1/deployments/{ref:path}", delete_one, methods=["DELETE"]),
    Route("/v1/runs/{run}", get_run, methods=["GET"]),
]
