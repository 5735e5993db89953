"""The Heat edge in this process: short calls under the lab's project."""

from typing import Any

from httpx2 import Response

from ..application import Application

BASE = "/heat/v1/appliance"
SCRIPT = "#!/bin/sh\necho hello\n"


class Edge:
    """What a Heat client does, by the admin unless a role is named."""

    def __init__(self, application: Application) -> None:
        self.application = application

    def call(self, method: str, path: str, role: str | None = "admin", **request: Any) -> Response:
        return self.application.call(method, BASE + path, role, **request)

    def ok(self, method: str, path: str, role: str | None = "admin", **request: Any) -> Any:
        return self.application.ok(method, BASE + path, role, **request)

    def fails(self, status: int, method: str, path: str, role: str | None = "admin", **request: Any) -> dict[str, Any]:
        """One request that must be refused and change nothing: its `error`."""
        before = self.application.rows()
        answer = self.call(method, path, role, **request)
        assert answer.status_code == status, answer.text
        assert self.application.rows() == before
        body = answer.json()
        assert set(body) == {"code", "title", "explanation", "error"}
        assert body["code"] == status
        error: dict[str, Any] = body["error"]
        return error

    def config(self, name: str | None = "setup", **fields: Any) -> Any:
        body = {"name": name, "group": "script", "config": SCRIPT} | fields
        return self.ok("POST", "/software_configs", json=body)["software_config"]

    def deploy(self, server: str = "web-1", config: str | None = None, **fields: Any) -> Any:
        body = {"server_id": server, "config_id": config or self.config()["id"]} | fields
        return self.ok("POST", "/software_deployments", json=body)["software_deployment"]

    def put(self, id: str, **fields: Any) -> Any:
        return self.ok("PUT", f"/software_deployments/{id}", json=fields)["software_deployment"]

    def show(self, id: str) -> Any:
        return self.ok("GET", f"/software_deployments/{id}")["software_deployment"]

    def listed(self, query: str = "") -> list[Any]:
        found: list[Any] = self.ok("GET", f"/software_deployments{query}")["software_deployments"]
        return found

    def metadata(self, server: str) -> list[Any]:
        found: list[Any] = self.ok("GET", f"/software_deployments/metadata/{server}")["metadata"]
        return found

    def native(self, id: str) -> Any:
        return self.application.ok("GET", f"/v1/deployments/{id}")

    def stock(self, name: str) -> "Stock":
        added = self.application.ok("POST", "/v1/servers", json={"name": name, "stock": True})
        return Stock(self.application, added["metadata_url"].removeprefix("http://testserver"))


class Stock:
    """A stock agent's two calls."""

    def __init__(self, application: Application, path: str) -> None:
        self.application = application
        self.path = path

    def poll(self) -> list[Any]:
        found: list[Any] = self.application.ok("GET", self.path, None)["deployments"]
        return found

    def inputs(self, item: Any) -> dict[str, Any]:
        return {one["name"]: one["value"] for one in item["inputs"]}

    def report(self, item: Any, **signal: Any) -> Response:
        where = self.inputs(item)
        path = where["deploy_signal_id"].removeprefix("http://testserver")
        return self.application.call(where["deploy_signal_verb"], path, None, json=signal)
