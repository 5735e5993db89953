"""Credentials, hashed."""

import hashlib
from typing import Literal

import msgspec

from appliance.store.tx import Reader, Tx

Role = Literal["admin", "operator", "viewer", "agent", "join"]

_COLUMNS = "id, role, server, name, created_at, expires_at, uses_left, revoked_at"


class Token(msgspec.Struct, frozen=True):
    """One credential, without its secret. Times in ms."""

    id: str
    role: Role
    server: str | None
    name: str
    created_at: int
    expires_at: int | None
    uses_left: int | None
    revoked_at: int | None

    def holds(self, now: int) -> bool:
        """Whether it opens anything at `now`."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def hashed(secret: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(secret.encode()).digest()


def add(
    tx: Tx,
    secret: str,
    role: Role,
    name: str,
    *,
    server: str | None = None,
    expires_at: int | None = None,
    uses: int | None = None,
) -> str:
    """Store the hash of `secret`; the token's id."""
    id = tx.new_id()
    tx.execute(
        "INSERT INTO token (id, secret, role, server, name, commit_no, created_at, expires_at, uses_left)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (id, hashed(secret), role, server, name, tx.commit, tx.now, expires_at, uses),
    )
    tx.touch("tokens")
    return id


def by_secret(tx: Reader, secret: str) -> Token | None:
    """The token with this secret, whatever its state."""
    found = tx.row(f"SELECT {_COLUMNS} FROM token WHERE secret = ?", (hashed(secret),))
    return None if found is None else Token(*found)


def by_id(tx: Reader, id: str) -> Token | None:
    """One token."""
    found = tx.row(f"SELECT {_COLUMNS} FROM token WHERE id = ?", (id,))
    return None if found is None else Token(*found)


def every(tx: Reader) -> list[Token]:
    """All of people's and join tokens, oldest first; agents' are shown with their server."""
    return [Token(*row) for row in tx.rows(f"SELECT {_COLUMNS} FROM token WHERE role <> 'agent' ORDER BY created_at, id")]


def spend(tx: Tx, id: str, agent_state: str, server: str) -> None:
    """Take one use of a join token for `agent_state`, which joins as `server`."""
    tx.execute("UPDATE token SET uses_left = uses_left - 1 WHERE id = ?", (id,))
    tx.execute("INSERT INTO join_use (token, agent_state, server, at) VALUES (?, ?, ?, ?)", (id, agent_state, server, tx.now))
    tx.touch("tokens")


def spent_on(tx: Reader, id: str, agent_state: str) -> str | None:
    """The server `agent_state` joined as with this token, or None."""
    found: str | None = tx.value("SELECT server FROM join_use WHERE token = ? AND agent_state = ?", (id, agent_state))
    return found


def revoke(tx: Tx, id: str) -> bool:
    """Make a token open nothing from this commit on; False when it already did not."""
    tx.touch("tokens")
    return bool(tx.execute("UPDATE token SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (tx.now, id)))


def revoke_of_server(tx: Tx, server: str, roles: tuple[Role, ...] = ("agent", "join")) -> int:
    """Revoke a server's own tokens of these roles; how many there were."""
    tx.touch("tokens")
    return sum(
        tx.execute("UPDATE token SET revoked_at = ? WHERE server = ? AND role = ? AND revoked_at IS NULL", (tx.now, server, role))
        for role in roles
    )
