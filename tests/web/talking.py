"""Many requests in flight at once in the application's own event loop, and an agent that speaks the wire."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from httpx2 import ASGITransport, AsyncClient, Response

from ..application import Application

SCRIPT = {"group": "script", "body": "#!/bin/sh\ntrue\n"}


def talk(application: Application, what: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    """Run `what(client)` in the event loop of the application; the client speaks as the admin unless told otherwise."""

    async def run() -> Any:
        transport = ASGITransport(app=application.client.app, raise_app_exceptions=False)
        headers = {"Authorization": "Bearer admin-secret"}
        async with AsyncClient(transport=transport, base_url="http://testserver", headers=headers, timeout=30) as client:
            return await what(client)

    assert application.client.portal is not None
    return application.client.portal.call(run)


class Agent:
    """A server's agent by its requests: (method, path, more) for `application.call` or a client."""

    def __init__(self, application: Application, name: str = "m") -> None:
        self.application, self.name = application, name
        self.token = application.agent(name)
        self.server = application.ok("GET", f"/v1/servers/{name}")["id"]
        self.journal = 0
        self.says = {
            "Appliance-Agent-State": f"state of {name}",
            "Appliance-Boot": "boot",
            "Appliance-Instance": f'{{"machine": "{name}"}}',
        }

    def headers(self, **more: str) -> dict[str, str]:
        self.journal += 1
        return {"Authorization": f"Bearer {self.token}", "Appliance-Journal": str(self.journal), **self.says, **more}

    def document(self, etag: str = "", wait: str = "0") -> tuple[str, str, dict[str, Any]]:
        headers = self.headers(**({"If-None-Match": etag} if etag else {}))
        return "GET", f"/v1/servers/{self.server}/document?wait={wait}", {"headers": headers}

    def claim(self, *items: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        """Ask for these items of a document under run ids that are put into them as `run`."""
        for item in items:
            item["run"] = str(uuid.uuid4())
        asked = [{name: item[name] for name in ("run", "deployment", "generation", "attempt")} for item in items]
        return "POST", f"/v1/servers/{self.server}/claim", {"headers": self.headers(), "json": {"runs": asked}}

    def signal(self, item: dict[str, Any], kind: str = "finished", **more: Any) -> tuple[str, str, dict[str, Any]]:
        body = {"kind": kind, "deployment": item["deployment"], "generation": item["generation"], **more}
        if kind == "finished":
            body = {"outcome": "ended", "status_code": 0} | body
        return "POST", f"/v1/runs/{item['run']}/signals", {"headers": self.headers(), "json": body}

    def now(self, request: tuple[str, str, dict[str, Any]]) -> Any:
        """Send one of these, which must succeed: its JSON."""
        method, path, more = request
        return self.application.ok(method, path, None, **more)

    def fails(self, status: int, request: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
        method, path, more = request
        answer = self.application.call(method, path, None, **more)
        assert answer.status_code == status, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error

    def items(self) -> dict[str, dict[str, Any]]:
        """What its document lists, by name."""
        found = self.now(self.document())["desired"]["items"]
        return {item["name"]: item for item in found if not item.get("deleted")}

    def runs(self, name: str, code: int = 0) -> dict[str, Any]:
        """Ask for one, start it and report its end; the item."""
        item = self.items()[name]
        self.now(self.claim(item))
        self.now(self.signal(item, "started"))
        self.now(self.signal(item, status_code=code))
        return item


def deploy(application: Application, server: str, name: str, **more: Any) -> dict[str, Any]:
    body = {"server": server, "name": name, "config": SCRIPT} | more
    found: dict[str, Any] = application.ok("POST", "/v1/deployments", json=body)
    return found


async def send(client: AsyncClient, request: tuple[str, str, dict[str, Any]]) -> Response:
    method, path, more = request
    return await client.request(method, path, **more)
