"""What clients ask about the service itself: versions, which resource types it knows, whether a template is one; and how to use it."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from appliance import __version__
from appliance.errors import ApplianceError
from appliance.operations import heat_identity, stock
from appliance.web.access import require as require_person
from appliance.web.context import context
from appliance.web.heat.access import require
from appliance.web.heat.faults import Fault
from appliance.web.heat.requests import map_of, resource
from appliance.web.heat.views import versions_view
from appliance.web.respond import Json, render_error

TYPES = tuple(
    f"OS::Heat::{name}"
    for name in (
        "SoftwareConfig",
        "SoftwareDeployment",
        "SoftwareDeploymentGroup",
        "StructuredConfig",
        "StructuredDeployment",
        "StructuredDeploymentGroup",
        "Value",
    )
)
_PARAMETER_TYPES = {
    "string": "String",
    "number": "Number",
    "comma_delimited_list": "CommaDelimitedList",
    "json": "Json",
    "boolean": "Boolean",
}


async def versions(request: Request) -> Response:
    """Which versions there are."""
    return Json(versions_view(context(request).settings.url), 300)


async def validate(request: Request) -> Response:
    """A template's parameters and description. The command line asks this before it creates a config."""
    require(request, "viewer")
    body = await map_of(request)
    template = _map(body.get("template"))
    for value in _map(template.get("resources")).values():
        kind = _map(value).get("type")
        if kind not in TYPES:
            raise Fault(400, "HTTPBadRequest", f"The Resource Type ({kind}) could not be found.")
    environment = {"resource_registry": {"resources": {}}, "parameters": {}, "parameter_defaults": {}, "event_sinks": []}
    return Json(
        {
            "Description": template.get("description") or "No description",
            "Parameters": {name: _parameter(name, _map(one)) for name, one in _map(template.get("parameters")).items()},
            "Environment": environment | {name: value for name, value in _map(body.get("environment")).items() if name in environment},
        }
    )


def _map(found: Any) -> dict[str, Any]:
    """A map, also when it came as JSON text; an empty one for anything else."""
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except (ValueError, RecursionError):
            found = None
    return found if isinstance(found, dict) else {}


def _parameter(name: str, said: dict[str, Any]) -> dict[str, Any]:
    found = {
        "Type": _PARAMETER_TYPES.get(str(said.get("type")), "String"),
        "Description": said.get("description") or "",
        "NoEcho": "true" if said.get("hidden") in (True, "true") else "false",
        "Label": said.get("label") or name,
    }
    return found | ({"Default": said["default"]} if "default" in said else {})


async def services(request: Request) -> Response:
    """Heat's engines: there are none, and the answer is what people who may not ask get from Heat."""
    require(request, "viewer")
    raise Fault(403, "Forbidden", "You are not authorized to use service:index.")


async def resource_types(request: Request) -> Response:
    """The types that a template may name."""
    require(request, "viewer")
    wanted = request.query_params.get("name", "")
    found = [one for one in TYPES if wanted in one]
    if request.query_params.get("with_description", "").lower() == "true":
        return Json({"resource_types": [{"resource_type": one, "description": ""} for one in found]})
    return Json({"resource_types": found})


async def build_info(request: Request) -> Response:
    """Which build answers."""
    require(request, "viewer")
    revision = {"revision": __version__}
    return Json({"api": revision, "engine": revision})


async def setup(request: Request) -> Response:
    """What a client's settings need; asked by `appliance heat`. The URL for clients without a credential is told where it is on."""
    try:
        require_person(request, "operator")
    except ApplianceError as error:  # our own command line asks, and knows our own errors
        return render_error(request, error)
    appliance = context(request)
    settings = appliance.settings
    on = settings.heat_none and settings.loopback
    return Json(
        {
            "endpoint": f"{settings.url}/heat/v1/{stock.PROJECT}",
            "auth_url": f"{settings.url}/heat/identity/v3",
            "project": stock.PROJECT,
            "region": stock.REGION,
            "open_endpoint": f"{settings.url}/heat/v1/{heat_identity.open_project(appliance.key)}" if on else None,
        }
    )


_AT = "/heat/v1/{project}"

routes = [
    resource("/heat", GET=versions),
    resource("/heat/", GET=versions),
    resource("/heat/setup", GET=setup),
    resource(f"{_AT}/validate", POST=validate),
    resource(f"{_AT}/services", GET=services),
    resource(f"{_AT}/resource_types", GET=resource_types),
    resource(f"{_AT}/build_info", GET=build_info),
]
