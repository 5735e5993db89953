"""`/v1/configs`: immutable statements of what to run."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.config import Files, Input, Output, PlanFile, Statement, files_of
from appliance.errors import Invalid
from appliance.operations import configs as operations
from appliance.store import configs
from appliance.web.access import require
from appliance.web.context import context
from appliance.web.native.views import config_view
from appliance.web.respond import Json, decode, perform, perform_once

PAGE = 1000


class ConfigIn(msgspec.Struct, forbid_unknown_fields=True):
    """A config as it is written: `body` (any JSON), or `source` (a plan's file). `files`: what of plans is placed beside it.

    Group `plan` keeps `files` as a directory of the machine: its body is {"path": "/srv/lab", "keep": 3}.
    """

    group: str = "script"
    name: str | None = None
    body: Any = None
    source: PlanFile | None = None
    inputs: list[Input] = []
    outputs: list[Output] = []
    options: dict[str, Any] = {}
    files: list[Files] = []

    def statement(self) -> Statement:
        """The domain's value. Raises Invalid when there is neither or both of body and source."""
        if (self.body is None) == (self.source is None):
            raise Invalid("a config has either 'body' or 'source'", hint='for example {"group": "script", "body": "#!/bin/sh\\n..."}')
        files = files_of(self.files)
        return Statement(self.name, self.group, self.body, self.source, tuple(self.inputs), tuple(self.outputs), self.options, files)


async def create_config(request: Request) -> Response:
    """POST /v1/configs."""
    by = require(request, "operator").name
    statement = (await decode(request, ConfigIn)).statement()
    return await perform_once(request, lambda tx: operations.create(tx, statement, by), config_view, status=201)


async def list_configs(request: Request) -> Response:
    """GET /v1/configs?before=: the newest first, without their bodies; `next` is the `before` of the next page, or null."""
    require(request, "viewer")
    found = context(request).database.read(configs.newest, limit=PAGE, before=request.query_params.get("before"))
    return Json({"configs": [config_view(one, body=False) for one in found], "next": found[-1].id if len(found) == PAGE else None})


async def get_config(request: Request) -> Response:
    """GET /v1/configs/{config}."""
    require(request, "viewer")
    return Json(config_view(context(request).database.read(configs.by_id, request.path_params["config"])))


async def delete_config(request: Request) -> Response:
    """DELETE /v1/configs/{config}: 409 while a deployment has it."""
    by = require(request, "operator").name
    await perform(request, operations.delete, request.path_params["config"], by)
    return Response(status_code=204)


routes = [
    Route("/v1/configs", list_configs, methods=["GET"]),
    Route("/v1/configs", create_config, methods=["POST"]),
    Route("/v1/configs/{config}", get_config, methods=["GET"]),
    Route("/v1/configs/{config}", delete_config, methods=["DELETE"]),
]
