"""What the appliance says of itself, to anybody: its health, and the agent as one file."""

import asyncio
import hashlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance import __version__, pyz
from appliance.store import file
from appliance.web.context import context
from appliance.web.respond import Json


async def health(request: Request) -> Response:
    """GET /healthz: the file can be read."""
    database, settings = context(request).database, context(request).settings
    database.read(file.last_commit)
    return Json({"status": "ok", "version": __version__, "commit": database.commit_no, "insecure": settings.insecure})


async def agent_file(request: Request) -> Response:
    """GET /agent.pyz: the agent as one file."""
    built = getattr(request.app.state, "agent_file", None)
    if built is None:
        built = request.app.state.agent_file = await asyncio.to_thread(pyz.build)
    headers = {"ETag": f'"{hashlib.sha256(built).hexdigest()}"'}
    return Response(built, media_type="application/zip", headers=headers)


routes = [
    Route("/healthz", health, methods=["GET"]),
    Route("/agent.pyz", agent_file, methods=["GET"]),
]
