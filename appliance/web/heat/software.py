"""`software_configs` and `software_deployments`: the same configs and deployments as the native API's."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from appliance.operations import heat
from appliance.web.context import context
from appliance.web.heat.access import require, require_reader_of
from appliance.web.heat.requests import limit_of, map_of, resource
from appliance.web.heat.views import config_view, deployment_view, line_view
from appliance.web.respond import Json, perform


async def list_configs(request: Request) -> Response:
    """Configs, newest first."""
    require(request, "viewer")
    found = await context(request).database.aread(heat.list_configs, limit_of(request), request.query_params.get("marker"))
    return Json({"software_configs": [line_view(one) for one in found]})


async def create_config(request: Request) -> Response:
    """Store a config."""
    by = require(request, "operator").name
    made = await perform(request, heat.create_config, await map_of(request), by)
    return Json({"software_config": config_view(made)})


async def get_config(request: Request) -> Response:
    """One config."""
    require(request, "viewer")
    found = context(request).database.read(heat.get_config, request.path_params["id"])
    return Json({"software_config": config_view(found)})


async def delete_config(request: Request) -> Response:
    """Hide a config that nothing uses."""
    by = require(request, "operator").name
    await perform(request, heat.delete_config, request.path_params["id"], by)
    return Response(status_code=204)


async def list_deployments(request: Request) -> Response:
    """Deployments, oldest first; all of them, or a page."""
    require(request, "viewer")
    database, query = context(request).database, request.query_params
    limit, marker, named = limit_of(request), query.get("marker"), query.get("server_id")
    after = 0 if marker is None else database.read(heat.after_marker, marker)
    found: list[dict[str, Any]] = []
    while limit is None or len(found) < limit:
        size = heat.PAGE if limit is None else min(heat.PAGE, limit - len(found))
        page, after = await database.aread(heat.list_deployments, named, after, size)
        found += [deployment_view(one) for one in page]
        if len(page) < size:
            break
    return Json({"software_deployments": found})


async def create_deployment(request: Request) -> Response:
    """Bind a config to a server."""
    by = require(request, "operator").name
    made = await perform(request, heat.create_deployment, context(request).key, await map_of(request), by)
    return Json({"software_deployment": deployment_view(made)})


async def get_deployment(request: Request) -> Response:
    """One deployment."""
    require(request, "viewer")
    found = context(request).database.read(heat.get_deployment, request.path_params["id"])
    return Json({"software_deployment": deployment_view(found)})


async def update_deployment(request: Request) -> Response:
    """Change what is given."""
    by = require(request, "operator").name
    id = request.path_params["id"]
    done = await perform(request, heat.update_deployment, context(request).key, id, await map_of(request), by)
    return Json({"software_deployment": deployment_view(done)})


async def delete_deployment(request: Request) -> Response:
    """Delete one, finally."""
    by = require(request, "operator").name
    await perform(request, heat.delete_deployment, context(request).key, request.path_params["id"], by)
    return Response(status_code=204)


async def get_metadata(request: Request) -> Response:
    """The configs of a server's deployments."""
    appliance = context(request)
    named = request.path_params["server"]
    require_reader_of(request, appliance.database.read(heat.server_id, named))
    return Json({"metadata": [config_view(one) for one in appliance.database.read(heat.metadata, named)]})


_AT = "/heat/v1/{project}"

routes = [
    resource(f"{_AT}/software_configs", GET=list_configs, POST=create_config),
    resource(f"{_AT}/software_configs/{{id}}", GET=get_config, DELETE=delete_config),
    resource(f"{_AT}/software_deployments", GET=list_deployments, POST=create_deployment),
    resource(f"{_AT}/software_deployments/metadata/{{server}}", GET=get_metadata),
    resource(f"{_AT}/software_deployments/{{id}}", GET=get_deployment, PUT=update_deployment, DELETE=delete_deployment),
]
