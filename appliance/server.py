"""The composition root of the serving process."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from appliance.errors import ApplianceError
from appliance.web import stock
from appliance.web.context import Context
from appliance.web.front import Front
from appliance.web.native import about, agents, blobs, configs, deployments, openapi, plans, servers, switching
from appliance.web.respond import render_error
from appliance.web.ticking import tick_for_ever

GRACE_SECONDS = 3


ROUTES: list[BaseRoute] = [
    *about.routes,
    *openapi.routes,
    *agents.routes,
    *servers.routes,
    *plans.routes,
    *switching.routes,
    *blobs.routes,
    *configs.routes,
    *deployments.routes,
    *stock.routes,
]


def build(appliance: Context, *, heat: bool | None = None) -> ASGIApp:
    """The application for an open file. Its lifespan binds the file's commits to the event loop it runs in.

    `heat`: with the Heat-compatible edge; None means where that is installed. Everything else stands without it.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        appliance.database.on_commit = appliance.after_commit
        appliance.database.bind(asyncio.get_running_loop())
        tasks = [
            asyncio.create_task(appliance.seen.flush_for_ever(appliance.database)),
            asyncio.create_task(tick_for_ever(appliance.database)),
        ]
        yield
        appliance.waits.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    handlers: dict[Any, Any] = {ApplianceError: render_error, HTTPException: render_error, Exception: render_error}
    app = Starlette(routes=[*_heat(appliance, heat), *ROUTES], exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # one address for one thing
    app.state.context = appliance
    return Front(app, appliance)


def _heat(appliance: Context, wanted: bool | None) -> list[BaseRoute]:
    if wanted is None:
        wanted = find_spec("appliance.web.heat") is not None
    if not wanted:
        return []
    from appliance.web.heat import app

    return app.mounts(appliance)


class Server(uvicorn.Server):
    """Uvicorn that wakes long-polls before it waits for connections, and ends with exit code 0 when told to stop."""

    appliance: Context

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT in the event loop; a second one stops at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Stop serving."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self.appliance.waits.close()


def server(appliance: Context, tls: tuple[str, str] | None = None) -> Server:
    """A server for an open file; run it with `serve(sockets=[...])`. `tls` is (certificate file, key file)."""
    config = uvicorn.Config(
        build(appliance),
        http="httptools",
        loop="uvloop",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=4096,
        ws="none",
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    made = Server(config)
    made.appliance = appliance
    return made
