"""Tokens of the identity service that Heat's clients log in at: they live an hour, and nothing of them is stored.

Such a token names the token or the server it was given for, so it has that one's rights and ends with it.
"""

import msgspec

from appliance.errors import NotFound
from appliance.keys import Key
from appliance.store import servers, tokens
from appliance.store.servers import Server as Server
from appliance.store.tokens import Token as Token
from appliance.store.tx import Reader

SECONDS = 3600
_PURPOSE = "heat-identity"
_NOBODY = "heat-none"


class Login(msgspec.Struct, frozen=True):
    """A token that was given, and when it ends (ms)."""

    secret: str
    expires_at: int


def issue(key: Key, holder: Token | Server, now: int) -> Login:
    """A token for a person's token or for a stock server."""
    kind, rotation = ("server", holder.rotation) if isinstance(holder, Server) else ("token", 1)
    expires = now + SECONDS * 1000
    return Login(key.url_secret(_PURPOSE, f"{kind}~{expires}~{holder.id}", rotation), expires)


def _whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 16


def opened(tx: Reader, key: Key, secret: str) -> Token | None:
    """What such a token opens: a person's token, or (role agent) one stock server's own things; None for any other text."""
    parts = secret.rpartition(".")[0].split("~", 2)
    if len(parts) != 3 or not _whole(parts[1]) or int(parts[1]) <= tx.now:
        return None
    kind, _, id = parts
    if kind == "token":
        token = tokens.by_id(tx, id) if key.opens(_PURPOSE, secret, 1) else None
        return token if token is not None and token.holds(tx.now) else None
    try:
        server = servers.by_id(tx, id)
    except NotFound:
        return None
    if kind != "server" or not key.opens(_PURPOSE, secret, server.rotation) or server.deleted_at is not None or server.kind != "stock":
        return None
    return Token(id, "agent", server.id, f"agent of {server.name}", server.created_at, int(parts[1]), None, None)


def open_project(key: Key) -> str:
    """The secret that stands where the project does, for clients without any credential."""
    return key.url_secret(_NOBODY, "none", 1)


def opens_project(key: Key, project: str) -> bool:
    """Whether `project` is that secret, in constant time."""
    return project.startswith("none.") and key.opens(_NOBODY, project, 1)
