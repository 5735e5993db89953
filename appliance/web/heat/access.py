"""Who asks, for clients that know OpenStack's ways: a token, HTTP Basic, a login at our identity service, or nothing at all."""

import base64
import binascii

from starlette.requests import Request

from appliance.errors import Forbidden, Unauthorized
from appliance.operations import heat_identity, stock
from appliance.operations.heat_identity import Token
from appliance.web.access import PersonRole, bearer, known
from appliance.web.context import context
from appliance.web.heat.faults import DENIED, Fault

_RANK = {"viewer": 1, "operator": 2, "admin": 3}
NOBODY = Token("none", "operator", None, "heat-none", 0, None, None, None)


def caller(request: Request) -> Token:
    """Whose request it is; under the one project there is. Raises Unauthorized, and Fault for another project."""
    appliance = context(request)
    project = request.path_params.get("project")
    if project is not None and heat_identity.opens_project(appliance.key, project):
        return _nobody(request)
    secret = _basic(request) or bearer(request)
    if secret is None:
        raise Unauthorized("The request you have made requires authentication.")
    token = known(appliance, secret) or appliance.database.read(heat_identity.opened, appliance.key, secret)
    if token is None or token.role == "join":
        raise Unauthorized("The request you have made requires authentication.")
    if project is not None and project != stock.PROJECT:
        raise Fault(403, "HTTPForbidden", DENIED)
    return token


def _nobody(request: Request) -> Token:
    """A request under the secret project. No page of a browser may use it, and it opens nothing where that was not switched on."""
    settings = context(request).settings
    headers = request.headers
    if not settings.heat_none or not settings.loopback:
        raise Unauthorized("Requests without a credential are not switched on here.", hint="appliance serve --heat-none")
    if headers.get("x-auth-token", "notused") != "notused" or "authorization" in headers:
        raise Unauthorized("This project takes requests without a credential only.")
    if "origin" in headers or headers.get("sec-fetch-site", "none") != "none":
        raise Forbidden("A page of a browser may not ask this.")
    return NOBODY


def _basic(request: Request) -> str | None:
    """The password of HTTP Basic: any user name will do, the password is the token."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def require(request: Request, role: PersonRole) -> Token:
    """A person's token of at least `role`. Raises Unauthorized, Forbidden."""
    token = caller(request)
    if _RANK.get(token.role, 0) < _RANK[role]:
        raise Forbidden(f"You are not authorized to do this: it needs the role {role}.")
    return token


def require_reader_of(request: Request, server: str | None) -> Token:
    """A person who may read, or the agent of this very server. Raises Unauthorized, Forbidden."""
    token = caller(request)
    if token.role == "agent" and token.server is not None and token.server == server:
        return token
    return require(request, "viewer")


def require_stock(request: Request, server: str) -> str:
    """The stock server that logged in, which must be the one named. Raises Unauthorized; NotFound's fault alike for others and none."""
    token = caller(request)
    if token.role != "agent" or token.server != server:
        raise Fault(404, "EntityNotFound", f"The Stack ({request.path_params['stack']}) could not be found.")
    if not context(request).database.read(stock.has_stock_agent, server):
        raise Fault(409, "Conflict", "This server speaks to the appliance's own agent, and a server has one agent only.")
    return server
