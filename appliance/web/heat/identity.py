"""The least identity service: a login by password with a catalog, so that clients made for one work.

A person logs in with any user name and a token of ours as the password; a stock agent with the user id and password in its configuration.
"""

import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from appliance.errors import Unauthorized
from appliance.operations import heat_identity, stock
from appliance.operations.heat_identity import Login, Server, Token
from appliance.web.access import known
from appliance.web.context import context
from appliance.web.heat.faults import malformed
from appliance.web.heat.requests import map_of, resource
from appliance.web.respond import Json

REFUSED = "The request you have made requires authentication."
_DOMAIN = {"id": "default", "name": "Default"}


async def versions(request: Request) -> Response:
    """Which versions there are."""
    return Json({"versions": {"values": [_version(request)]}}, 300)


async def version(request: Request) -> Response:
    """The one version there is."""
    return Json({"version": _version(request)})


def _version(request: Request) -> dict[str, Any]:
    href = f"{context(request).settings.url}/heat/identity/v3/"
    media = {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": href}],
        "media-types": [media],
    }


async def login(request: Request) -> Response:
    """Exchange a password (or a token that was given here) for a token and the catalog."""
    appliance = context(request)
    found = (await map_of(request)).get("auth")
    if not isinstance(found, dict) or not isinstance(found.get("identity"), dict):
        raise malformed()
    holder = _holder(request, found["identity"])
    scope = found.get("scope")
    project = scope.get("project") if isinstance(scope, dict) else None
    if project is not None and not _is_ours(project):
        raise Unauthorized(f"There is one project here, and its name is {stock.PROJECT!r}.")
    given = heat_identity.issue(appliance.key, holder, appliance.database.clock())
    body = _token(holder, given, appliance.database.clock(), _catalog(appliance.settings.url) if project is not None else None)
    return Json(body, 201, headers={"X-Subject-Token": given.secret, "Vary": "X-Auth-Token"})


def _holder(request: Request, identity: dict[str, Any]) -> Token | Server:
    """Who logs in. Raises Unauthorized, alike for whatever is wrong."""
    appliance = context(request)
    methods = identity.get("methods") or []
    password = _at(identity, "password", "user", "password")
    user = _at(identity, "password", "user", "id")
    if "password" in methods and isinstance(password, str):
        if isinstance(user, str):
            server = appliance.database.read(stock.logged_in, appliance.key, user, password)
            if server is not None:
                return server
        token = known(appliance, password)
        if token is not None and token.role in ("viewer", "operator", "admin"):
            return token
    before = _at(identity, "token", "id")
    if "token" in methods and isinstance(before, str):
        token = known(appliance, before) or appliance.database.read(heat_identity.opened, appliance.key, before)
        if token is not None and token.role in ("viewer", "operator", "admin"):
            return token
    raise Unauthorized(REFUSED)


def _at(found: Any, *path: str) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _is_ours(project: Any) -> bool:
    return isinstance(project, dict) and stock.PROJECT in (project.get("id"), project.get("name"))


def _token(holder: Token | Server, given: Login, now: int, catalog: list[dict[str, Any]] | None) -> dict[str, Any]:
    role = "heat_stack_user" if isinstance(holder, Server) else holder.role
    token: dict[str, Any] = {
        "methods": ["password"],
        "user": {"id": holder.id, "name": holder.name, "domain": _DOMAIN, "password_expires_at": None},
        "audit_ids": [uuid.uuid4().hex[:22]],
        "issued_at": _instant(now),
        "expires_at": _instant(given.expires_at),
    }
    if catalog is not None:
        token |= {
            "project": {"id": stock.PROJECT, "name": stock.PROJECT, "domain": _DOMAIN},
            "is_domain": False,
            "roles": [{"id": role, "name": role}],
            "catalog": catalog,
        }
    return {"token": token}


def _instant(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}000Z"


def _catalog(base: str) -> list[dict[str, Any]]:
    urls = {
        ("identity", "keystone"): f"{base}/heat/identity/v3",
        ("orchestration", "heat"): f"{base}/heat/v1/{stock.PROJECT}",
        ("object-store", "swift"): f"{base}/v1/AUTH_{stock.PROJECT}",
    }
    return [
        {
            "id": kind,
            "type": kind,
            "name": name,
            "endpoints": [
                {"id": f"{kind}-{interface}", "interface": interface, "region": stock.REGION, "region_id": stock.REGION, "url": url}
                for interface in ("public", "internal", "admin")
            ],
        }
        for (kind, name), url in urls.items()
    ]


routes = [
    resource("/heat/identity", GET=versions),
    resource("/heat/identity/", GET=versions),
    resource("/heat/identity/v3", GET=version),
    resource("/heat/identity/v3/", GET=version),
    resource("/heat/identity/v3/auth/tokens", POST=login),
]
