"""The application in this process: on a real file, a clock that stands, ids that count, and a token for each role."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from httpx2 import Response
from starlette.testclient import TestClient

from appliance import server
from appliance.store import file, tokens
from appliance.store.database import Database
from appliance.web.context import Context, Settings

from .samples import KEY

ROLES = ("admin", "operator", "viewer")
START = 1_700_000_000_000


class Clock:
    """Milliseconds since 1970 that pass only when told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def pass_(self, ms: int) -> None:
        self.now += ms


class Ids:
    """UUIDs in counting order."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> str:
        self.last += 1
        return f"00000000-0000-4000-8000-{self.last:012x}"


class Application:
    """One appliance. Entering it opens the file and starts the application; leaving it closes both; it can be entered again."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.path = path
        self.clock, self.ids = Clock(), Ids()
        self.settings = settings or Settings(url="http://testserver", hosts=frozenset({"testserver"}))

    def __enter__(self) -> Self:
        self.database = Database(str(self.path), clock=self.clock, new_id=self.ids)
        self.database.uptime = self.clock
        if self.database.is_new:
            self.database.write(file.born, KEY.id)
            for role in ROLES:
                self.database.write(tokens.add, f"{role}-secret", role, f"the {role}")
        self.context = Context(self.database, KEY, 1, "e", self.settings)
        self.client = TestClient(server.build(self.context), raise_server_exceptions=False, follow_redirects=False)
        self.client.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.client.__exit__(kind, error, trace)
        self.database.close()

    def call(self, method: str, path: str, role: str | None = "admin", **request: Any) -> Response:
        """One request with the token of `role` (a role's name, any token, or None)."""
        headers = dict(request.pop("headers", {}))
        if role is not None:
            headers.setdefault("Authorization", f"Bearer {role + '-secret' if role in ROLES else role}")
        if method != "GET" and "json" not in request and "content" not in request:
            headers.setdefault("Content-Type", "application/json")
        return self.client.request(method, path, headers=headers, **request)

    def ok(self, method: str, path: str, role: str | None = "admin", **request: Any) -> Any:
        """One request that must succeed: its JSON, or None."""
        answer = self.call(method, path, role, **request)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def fails(self, status: int, method: str, path: str, role: str | None = "admin", **request: Any) -> dict[str, Any]:
        """One request that must be refused with `status`, and must change nothing: the `error` of its envelope."""
        before = self.rows()
        answer = self.call(method, path, role, **request)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        assert self.rows() == before, f"{method} {path} was refused and changed something"
        return error_of(answer)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the file but the number of the last commit, which refused operations use up too."""

        def read(tx: Any) -> dict[str, list[tuple[Any, ...]]]:
            names = [name for (name,) in tx.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
            return {name: list(tx.rows(f'SELECT * FROM "{name}"')) for name in names if name not in ("file", "seen")}

        return self.database.read_apart(read)

    def agent(self, name: str) -> str:
        """Add a server and join it; the token of its agent."""
        added = self.ok("POST", "/v1/servers", json={"name": name})
        body = {
            "token": added["join_token"],
            "instance": {"machine": name, "root": None, "cloud": None},
            "agent_state": f"state of {name}",
            "boot": "boot",
        }
        return str(self.ok("POST", "/v1/join", None, json=body)["token"])

    def together(self, calls: list[tuple[str, str, dict[str, Any]]]) -> list[Response]:
        """Requests by the admin, all in flight at once; their answers in order."""
        from httpx2 import ASGITransport, AsyncClient

        async def send() -> list[Response]:
            transport = ASGITransport(app=self.client.app, raise_app_exceptions=False)
            headers = {"Authorization": "Bearer admin-secret"}
            async with AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
                return await asyncio.gather(*(client.request(method, path, **more) for method, path, more in calls))

        assert self.client.portal is not None
        return self.client.portal.call(send)


def error_of(answer: Response) -> dict[str, Any]:
    """The error in an answer, which must be the one envelope and nothing beside it."""
    body = answer.json()
    assert list(body) == ["error"], body
    error: dict[str, Any] = body["error"]
    assert set(error) - {"detail"} == {"code", "message", "hint"}, error
    assert error["code"], error
    assert error["message"], error
    assert answer.headers["Content-Type"] == "application/json"
    assert {"appliance-commit", "appliance-epoch"} <= answer.headers.keys()
    return error
