"""/openapi.json, from the routes themselves: their paths, the structs their bodies are decoded into, and what their handlers promise."""

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from appliance import __version__
from appliance.operations.claims import Asked
from appliance.operations.signals import Signal
from appliance.web import stock
from appliance.web.front import UPLOADS
from appliance.web.native import about, agents, blobs, configs, deployments, plans, servers, switching
from appliance.web.respond import STATUS, Json

Handler = Callable[..., Any]

# What a writing route takes: one struct (or one of several), an upload, or nothing. A test holds this to the routes.
UPLOAD = "an upload"
BODIES: dict[Handler, Any] = {
    agents.join: agents.JoinIn,
    agents.claim: Asked,
    agents.many_blobs: agents.BlobsIn,
    agents.signal: Signal,
    servers.add_server: servers.ServerIn,
    servers.edit_server: servers.ServerEdit,
    servers.server_token: None,
    servers.reset_server: None,
    servers.keep_server: None,
    servers.create_token: servers.TokenIn,
    plans.push_archive: UPLOAD,
    plans.put_version: plans.ManifestIn,
    switching.post_switch: switching.SwitchIn,
    switching.post_rollback: switching.RollbackIn,
    blobs.missing: blobs.Digests,
    blobs.put: UPLOAD,
    blobs.put_many: UPLOAD,
    deployments.create: deployments.DeploymentIn | list[deployments.DeploymentIn],
    deployments.edit_many: list[deployments.DeploymentEdit],
    deployments.edit_one: deployments.DeploymentEdit,
    deployments.delete_many: deployments.ForceMany,
    deployments.rerun_many: deployments.Ids,
    deployments.rerun_one: None,
    deployments.cancel_one: deployments.CancelIn,
    deployments.cancel_many: deployments.ForceMany,
    configs.create_config: configs.ConfigIn,
    deployments.suspend: None,
    deployments.resume: None,
    stock.signal: dict[str, Any],
}


async def openapi(request: Request) -> Response:
    """GET /openapi.json: this description."""
    return Json(document(request.app.routes))


# These need no token: they are open to all, or their URL or body is the credential.
OPEN: frozenset[Handler] = frozenset({about.health, about.agent_file, openapi, agents.join, stock.metadata, stock.signal})

_BYTES = {"type": "string", "format": "binary"}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")} | {"detail": {"type": "object"}},
        }
    },
}
_CONVERTER = re.compile(r":[a-z]+\}")
_QUERY = re.compile(r"^[A-Z|]+ [^\s?]*\?([^\s:`]*)")


def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The description of what these routes take and answer (OpenAPI 3.1)."""
    kinds = [kind for kind in BODIES.values() if kind is not None and kind is not UPLOAD]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                path = _CONVERTER.sub("}", route.path)
                paths.setdefault(path, {})[method.lower()] = _operation(route, path, method, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The appliance",
            "version": __version__,
            "description": "Every answer carries Appliance-Commit and Appliance-Epoch; all errors have one form.",
        },
        "security": [{"bearer": []}, {"header": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
        },
    }


def _operation(route: Route, path: str, method: str, schema_of: dict[str, Any]) -> dict[str, Any]:
    handler = route.endpoint
    text = " ".join((handler.__doc__ or "").split())
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in re.findall(r"\{(\w+)\}", path)
    ]
    if asked := _QUERY.match(text):
        names = [part.partition("=")[0] for part in asked[1].rstrip(".,;").split("&")]
        parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    if method == "POST" and handler not in OPEN:
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "operationId": f"{handler.__module__.rpartition('.')[2]}-{handler.__name__.replace('_', '-')}-{method.lower()}",
        "summary": text,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done"},
            "default": {
                "description": "refused: " + ", ".join(f"{code} {HTTPStatus(code).phrase}" for code in sorted(set(STATUS.values()))),
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if handler in OPEN:
        found["security"] = []
    body = BODIES.get(handler)
    if body is UPLOAD:
        found["requestBody"] = {"required": True, "content": {kind: {"schema": _BYTES} for kind in UPLOADS}}
    elif body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": schema_of[repr(body)]}}}
    return found


routes = [Route("/openapi.json", openapi, methods=["GET"])]
