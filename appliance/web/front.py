"""What stands before every route: who may be addressed, who may write, and what each answer carries. Plain ASGI."""

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.errors import ApplianceError, Forbidden, Invalid
from appliance.web.context import Context
from appliance.web.respond import Json, envelope, masked, status_of

_log = logging.getLogger("appliance.access")

UPLOADS = ("application/octet-stream", "application/x-tar", "application/gzip", "application/x-gzip", "application/zstd")
_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_BY_SECRET = ("/signal/", "/heat/cfn/v1/signal/")  # whoever has the URL may write there
_UNTYPED = "/v1/AUTH_"  # an object store's clients send containers and objects without a type


class Front:
    """Checks Host, Origin, Sec-Fetch-Site and Content-Type; adds commit number and epoch; writes the access log."""

    def __init__(self, app: ASGIApp, appliance: Context) -> None:
        self.app = app
        self.appliance = appliance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.monotonic()
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["Appliance-Commit"] = str(self.appliance.database.commit_no)
                headers["Appliance-Epoch"] = f"{self.appliance.epoch_number}.{self.appliance.epoch_id}"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            self._check(scope)
        except ApplianceError as error:
            await Json(envelope(error), status_of(error))(scope, receive, sending)
        else:
            await self.app(scope, receive, sending)
        finally:
            if self.appliance.settings.access_log:
                took = (time.monotonic() - began) * 1000
                _log.info("%s %s %d %.1f ms", scope["method"], masked(scope["path"]), status, took)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        settings = self.appliance.settings
        netloc = headers.get("host", "").lower()
        host = host_of(netloc)
        if host not in settings.hosts:
            raise Forbidden(
                f"this appliance does not answer to the host {host!r}", hint="start it with --url or --allow-host naming that host"
            )
        if scope["method"] not in _WRITES or scope["path"].startswith(_BY_SECRET):
            return
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{netloc}", f"https://{netloc}"):
            raise Forbidden("a page of another site may not write here")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Forbidden("a page of another site may not write here")
        if scope["method"] != "DELETE" and not scope["path"].startswith(_UNTYPED):
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and kind not in UPLOADS:
                raise Invalid(
                    f"Content-Type {kind or '(none)'!r} is not taken here",
                    hint="send 'Content-Type: application/json' (or an upload type)",
                )


def host_of(netloc: str) -> str:
    """The host of `host:port`, lower-case, without brackets."""
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
