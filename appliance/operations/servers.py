"""Machines: added, described, joined, removed; and people's tokens."""

import secrets

import msgspec

from appliance.errors import Conflict, Invalid, NotFound, Unauthorized
from appliance.identity import ALIVE_MS, Known, Who, boots_after, recognise
from appliance.keys import Key
from appliance.names import check_label, check_name, is_uuid
from appliance.operations import fate
from appliance.operations.changes import refuse_if_needed
from appliance.store import audit, configs, deployments, heat, servers, tokens
from appliance.store.servers import Kind, Server
from appliance.store.tokens import Role, Token
from appliance.store.tx import Tx

JOIN_SECONDS = 24 * 3600


class NewServer(msgspec.Struct, frozen=True):
    """A server to add. `stock`: its agent is os-collect-config with heat-agents."""

    name: str
    labels: list[str] = []
    stock: bool = False


class Added(msgspec.Struct, frozen=True):
    """A server, with the secret its machine joins with (None for a stock one)."""

    server: Server
    join_token: str | None


class Joined(msgspec.Struct, frozen=True):
    """What an agent gets for a join token."""

    server: Server
    token: str
    reset: bool


def new_secret() -> str:
    """A random token of 256 bits."""
    return "app_" + secrets.token_urlsafe(32)


def add(tx: Tx, new: NewServer, secret: str, by: str) -> Added:
    """Add a server; `secret` becomes its join token. A row the Heat edge made for this name is taken over. Raises Invalid, Conflict."""
    check_name("server", new.name)
    for label in new.labels:
        check_label(label)
    kind: Kind = "stock" if new.stock else "unenrolled"
    spoken_of = heat.waits_for_a_machine(tx, new.name)
    if spoken_of is not None:
        if new.stock:
            _refuse_unfit(tx, spoken_of)
        server = _successor(tx, servers.by_id(tx, spoken_of), kind, new.labels)
    else:
        server = servers.add(tx, new.name, kind, new.labels)
    audit.record(tx, by, "server add", server.id, name=new.name, labels=new.labels, kind=kind)
    if new.stock:
        return Added(server, None)
    return Added(server, _join_token(tx, server, secret))


def _successor(tx: Tx, old: Server, kind: Kind, labels: list[str]) -> Server:
    """A row the Heat edge made hands its deployments to one whose id is as agents expect it; the name stays."""
    check_name("server", old.name)
    servers.remove(tx, old.id)
    made = servers.add(tx, old.name, kind, labels)
    heat.hand_over(tx, old.id, made.id)
    return made


def _join_token(tx: Tx, server: Server, secret: str) -> str:
    tokens.revoke_of_server(tx, server.id, ("join",))
    tokens.add(tx, secret, "join", f"join {server.name}", server=server.id, expires_at=tx.now + JOIN_SECONDS * 1000, uses=1)
    return secret


def renew_join_token(tx: Tx, ref: str, secret: str, by: str) -> Added:
    """A new join token for a server; the one before opens nothing any more. Raises NotFound, Conflict for a stock server."""
    server = servers.find(tx, ref)
    if server.kind == "stock":
        raise Conflict(f"{server.name!r} is for a stock agent, which does not join", hint=f"see: appliance server show {server.name}")
    if not is_uuid(server.id):
        server = _successor(tx, server, "unenrolled", [])
    audit.record(tx, by, "server token", server.id, name=server.name)
    return Added(server, _join_token(tx, server, secret))


def edit(tx: Tx, ref: str, name: str | None, add_labels: list[str], drop_labels: list[str], stock: bool | None, by: str) -> Server:
    """Rename, label, or say which agent a server has. Raises NotFound, Invalid, Conflict."""
    server = servers.find(tx, ref)
    for label in add_labels:
        check_label(label)
    if name is not None and name != server.name:
        servers.rename(tx, server.id, check_name("server", name))
    servers.add_labels(tx, server.id, add_labels)
    servers.drop_labels(tx, server.id, drop_labels)
    if stock is not None:
        server = _mark(tx, servers.by_id(tx, server.id), stock)
    audit.record(tx, by, "server edit", server.id, name=name, add=add_labels, drop=drop_labels, stock=stock)
    return servers.by_id(tx, server.id)


def _mark(tx: Tx, server: Server, stock: bool) -> Server:
    if stock and server.kind == "agent":
        raise Conflict(f"{server.name!r} speaks to the appliance's own agent", hint="remove the server and add it with --stock")
    if stock:
        _refuse_unfit(tx, server.id)
        if not is_uuid(server.id):
            server = _successor(tx, server, "unenrolled", [])
        tokens.revoke_of_server(tx, server.id)
    elif server.kind == "stock":
        raise Conflict(f"{server.name!r} has been handed out to a stock agent", hint="remove the server and add it without --stock")
    servers.set_kind(tx, server.id, "stock" if stock else server.kind)
    return server


def _refuse_unfit(tx: Tx, server: str) -> None:
    """Raise Conflict when a server has deployments whose policy a stock agent cannot keep."""
    unfit = [one.label for one in deployments.of_server(tx, server) if one.terms.policy != "on-change"]
    filed = [one.label for one in deployments.of_server(tx, server) if configs.by_id(tx, one.terms.config).files]
    if filed:
        raise Conflict(f"a stock agent cannot be given the files of {', '.join(filed[:10])}", hint="delete or change these first")
    if unfit:
        raise Conflict(f"a stock agent cannot keep the policies of {', '.join(unfit[:10])}", hint="make them on-change first")


def remove(tx: Tx, ref: str, by: str) -> None:
    """Remove a server with its deployments; never waits for its machine. Raises NotFound, and Conflict when others depend on them."""
    server = servers.find(tx, ref)
    there = deployments.of_server(tx, server.id)
    for one in there:
        refuse_if_needed(tx, one, {other.id for other in there})
    fate.close_runs(tx, server.id, "the server was removed")
    servers.remove(tx, server.id)
    for one in there:
        fate.bury(tx, one, by)
    tokens.revoke_of_server(tx, server.id)
    audit.record(tx, by, "server remove", server.id, name=server.name, deployments=len(there))


def reset(tx: Tx, key: Key, ref: str, by: str) -> int:
    """`server reset`: everything runs again on whoever speaks next. How many deployments that are. Raises NotFound."""
    return fate.reset(tx, key, servers.find(tx, ref).id, by, f"reset by {by}")


def keep(tx: Tx, ref: str, by: str) -> None:
    """`server keep`: whoever speaks next is this server's machine, and nothing runs again for that.

    What another agent than that one was granted ends interrupted when it speaks; after a journal that was set back, all that was granted
    ends so at once. Raises NotFound, and Conflict when there is nothing to decide.
    """
    server = servers.find(tx, ref)
    if server.trouble is None and server.rival is None and server.doubted_at is None:
        raise Conflict(f"there is nothing to decide about {server.name}", hint=f"see it with: appliance server show {server.name}")
    if server.trouble is not None and server.trouble.kind == "reverted":
        fate.close_runs(tx, server.id, "its machine was set back to an earlier state")
    servers.forget_identity(tx, server.id)
    tx.touch("servers", f"server:{server.id}")
    audit.record(tx, by, "server keep", server.id, name=server.name, trouble=None if server.trouble is None else server.trouble.kind)


def join(tx: Tx, key: Key, secret: str, who: Who, fresh: str) -> Joined:
    """Exchange a join token for an agent token, `fresh`.

    From the same instance that never resets; from another it does. The same agent state may ask again (a lost answer) as long as nobody
    else spoke: it gets a new token and the one before is revoked. Raises Unauthorized, and Conflict for a server that has a stock agent.
    """
    token = tokens.by_secret(tx, secret)
    if token is None or token.role != "join" or not token.holds(tx.now):
        raise Unauthorized(
            "this join token is not known, has expired or was revoked", hint="make a new one with: appliance server token NAME"
        )
    again = tokens.spent_on(tx, token.id, who.agent_state)
    if token.uses_left == 0 and again is None:
        raise Unauthorized("this join token was used already", hint="make a new one with: appliance server token NAME")
    if token.server is None:
        raise Invalid("this join token names no server")
    server = servers.by_id(tx, token.server)
    if server.deleted_at is not None:
        raise Unauthorized("this join token's server was removed")
    if server.kind == "stock":
        raise Conflict(f"{server.name!r} has a stock agent, and a server has one agent only", hint="add another server for this machine")
    found = recognise(Known(server.instance, server.agent_state, server.boot, [], None, None), who, tx.now + ALIVE_MS)
    if again is None:
        tokens.spend(tx, token.id, who.agent_state, server.id)
    elif found not in ("first", "known", "rebooted") or server.trouble is not None:
        raise Unauthorized(
            "this join token was used already, and another machine has spoken since",
            hint="make a new one with: appliance server token NAME",
        )
    tokens.revoke_of_server(tx, server.id, ("agent",))
    tokens.add(tx, fresh, "agent", f"agent of {server.name}", server=server.id)
    was_reset = found == "other-instance"
    if was_reset:
        fate.reset(tx, key, server.id, f"agent of {server.name}", "another machine joined with a new token")
        server = servers.by_id(tx, server.id)
    else:
        fate.close_runs(tx, server.id, "the agent's state was lost", spare=who.agent_state)
    servers.set_kind(tx, server.id, "agent")
    servers.set_trouble(tx, server.id, None)
    servers.speaks(tx, server.id, who.instance, who.agent_state, who.boot, boots_after(server.boots, who.boot), who.journal)
    servers.describe_agent(tx, server.id, who.version, who.hooks)
    servers.joined(tx, server.id)
    audit.record(tx, f"agent of {server.name}", "server join", server.id, name=server.name, reset=was_reset)
    return Joined(servers.by_id(tx, server.id), fresh, was_reset)


def add_token(tx: Tx, secret: str, role: Role, name: str, expires_at: int | None, by: str) -> Token:
    """A token for a person or a program. Raises Invalid."""
    check_name("token", name)
    if role not in ("admin", "operator", "viewer"):
        raise Invalid(f"role {role!r} is not for people", hint="use admin, operator or viewer")
    id = tokens.add(tx, secret, role, name, expires_at=expires_at)
    audit.record(tx, by, "token create", id, role=role, name=name)
    found = tokens.by_id(tx, id)
    assert found is not None
    return found


def revoke_token(tx: Tx, ref: str, by: str) -> None:
    """Make a token open nothing from now on, by id or name.

    Raises NotFound, and Conflict when the name is not unique or it is the last admin's.
    """
    matching = [one for one in tokens.every(tx) if ref in (one.id, one.name) and one.revoked_at is None]
    if not matching:
        raise NotFound(f"no token {ref!r}", hint="see what there is with: appliance token list")
    if len(matching) > 1:
        raise Conflict(f"{ref!r} names {len(matching)} tokens", hint="use one of the ids: " + ", ".join(one.id for one in matching))
    admins = [one for one in tokens.every(tx) if one.role == "admin" and one.holds(tx.now)]
    if [one.id for one in admins] == [matching[0].id]:
        raise Conflict("this is the last admin token", hint="make another first: appliance token create --role admin --name NAME")
    tokens.revoke(tx, matching[0].id)
    audit.record(tx, by, "token revoke", matching[0].id, name=matching[0].name)
