"""Who is asking, and whether they may."""

from typing import Literal

from starlette.requests import HTTPConnection

from appliance.errors import Forbidden, NotFound, Unauthorized
from appliance.store import tokens
from appliance.store.tokens import Token
from appliance.web.context import Context, context

PersonRole = Literal["viewer", "operator", "admin"]
_RANK = {"viewer": 1, "operator": 2, "admin": 3}


def bearer(request: HTTPConnection) -> str | None:
    """The token a request carries, in `Authorization: Bearer` or `X-Auth-Token`; never in a query, which ends in logs."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return request.headers.get("x-auth-token") or None


def whose(request: HTTPConnection) -> Token:
    """The token of a request. Raises Unauthorized."""
    secret = bearer(request)
    if secret is None:
        raise Unauthorized("this needs a token", hint="send it as 'Authorization: Bearer TOKEN'")
    token = known(context(request), secret)
    if token is None:
        raise Unauthorized("this token is not known, has expired or was revoked", hint="ask an admin for a new one")
    return token


def known(appliance: Context, secret: str) -> Token | None:
    """The token with this secret if it opens anything now; remembered until a commit touches tokens."""
    hashed = tokens.hashed(secret)
    token = appliance.tokens.get(hashed)
    if token is None:
        token = appliance.database.read(tokens.by_secret, secret)
        if token is not None:
            appliance.tokens[hashed] = token
    return token if token is not None and token.holds(appliance.database.clock()) else None


def require(request: HTTPConnection, role: PersonRole) -> Token:
    """A person's token of at least `role`. Raises Unauthorized or Forbidden."""
    token = whose(request)
    if _RANK.get(token.role, 0) < _RANK[role]:
        raise Forbidden(f"this needs the role {role}; the token {token.name!r} is of role {token.role}")
    return token


def require_server(request: HTTPConnection, server: str) -> Token:
    """The agent token of `server`, and of no other. Raises Unauthorized, or NotFound alike for another's and for none."""
    token = whose(request)
    if token.role != "agent" or token.server != server:
        raise NotFound(f"no server {server!r} for this token")
    return token
