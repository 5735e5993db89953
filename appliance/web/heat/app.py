"""The Heat-compatible edge as one application, and where it stands in ours."""

import uuid
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.errors import ApplianceError
from appliance.web.context import Context
from appliance.web.heat import about, agents, identity, objects, software
from appliance.web.heat.faults import Fault, render

ROUTES: list[Route] = [*about.routes, *identity.routes, *agents.routes, *software.routes, *objects.routes]


class RequestId:
    """Gives each answer an id, as OpenStack's services do."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-openstack-request-id"] = f"req-{uuid.uuid4()}"
            await send(message)

        await self.app(scope, receive, sending)


def build(appliance: Context) -> ASGIApp:
    """The edge for an open file, with its own errors."""
    handlers: dict[Any, Any] = {ApplianceError: render, Fault: render, HTTPException: render, Exception: render}
    app = Starlette(routes=ROUTES, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.context = appliance
    return RequestId(app)


def mounts(appliance: Context) -> list[BaseRoute]:
    """Where the outer application hands over, whole paths. The object store stands at the root: its clients sign that path."""
    edge = build(appliance)
    return [Route(path + rest, edge) for path in ("/heat", objects.ACCOUNT) for rest in ("", "/{rest:path}")]
