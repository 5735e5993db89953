"""An agent speaks with a server's token: is it the machine we know."""

from appliance.errors import ApplianceError, Busy, Conflict
from appliance.identity import Known, Recognised, Who, boots_after, recognise
from appliance.operations.fate import close_runs
from appliance.store import audit, servers
from appliance.store.servers import Server, Trouble, TroubleKind
from appliance.store.tx import Reader, Tx


class Clone(Conflict):
    """A second agent speaks for a server while the first is alive: it gets nothing, and the first goes on."""

    code = "clone"


class Troubled(Conflict):
    """Nothing runs on this server until a person decides."""

    code = "trouble"


SENTENCES = {
    "other-instance": "another machine than the one that joined speaks with this server's token",
    "reverted": "the agent's journal is older than what it reported before (a snapshot was reverted)",
    "clone": "two machines speak with this server's token (one is a clone of the other)",
}
HINT = (
    "decide with: appliance server keep {name} (goes on with whoever speaks next, and runs nothing again)"
    " or appliance server reset {name} (runs everything again there)"
)


WORKING: tuple[Recognised, ...] = ("known", "first", "rebooted", "state-lost")


def known_of(server: Server, alive_at: int | None) -> Known:
    """What is recorded of whoever spoke last for a server."""
    return Known(server.instance, server.agent_state, server.boot, server.boots, server.journal, alive_at, server.doubted_at)


def peek(tx: Reader, server_id: str, who: Who, alive_at: int | None) -> tuple[Server, Recognised]:
    """How `who` would be recognised, without writing anything."""
    server = servers.by_id(tx, server_id)
    return server, recognise(known_of(server, alive_at), who, tx.now)


def arrive(tx: Tx, server_id: str, who: Who, alive_at: int | None) -> Server:
    """Recognise who speaks and record it; the server as it is then.

    Trouble, a rival and a doubt are recorded too, so the caller asks `refusal` whether anything may start.
    """
    server = servers.by_id(tx, server_id)
    found = recognise(known_of(server, alive_at), who, tx.now)
    if server.trouble is not None:
        return server
    match found:
        case "other-instance" | "reverted" | "clone":
            _trouble(tx, server, found)
        case "rival":
            servers.set_rival(tx, server_id, who.agent_state)
        case "behind":
            servers.doubt(tx, server_id)
        case "known":
            servers.journal_at(tx, server_id, who.journal)
        case "first":
            close_runs(tx, server_id, "another agent speaks for the server", spare=who.agent_state)
            servers.speaks(tx, server_id, who.instance, who.agent_state, who.boot, boots_after(server.boots, who.boot), who.journal)
        case "rebooted":
            servers.speaks(tx, server_id, who.instance, who.agent_state, who.boot, boots_after(server.boots, who.boot), who.journal)
        case "state-lost":
            close_runs(tx, server_id, "the agent's state was lost")
            servers.speaks(tx, server_id, who.instance, who.agent_state, who.boot, boots_after(server.boots, who.boot), who.journal)
            audit.record(tx, f"agent of {server.name}", "agent state lost", server_id, agent_state=who.agent_state)
    if (who.version, who.hooks) != (server.agent_version, server.hooks) and found in WORKING:
        servers.describe_agent(tx, server_id, who.version, who.hooks)
    return servers.by_id(tx, server_id)


def _trouble(tx: Tx, server: Server, kind: TroubleKind) -> None:
    servers.set_trouble(tx, server.id, Trouble(kind, SENTENCES[kind], tx.now))
    audit.record(tx, f"agent of {server.name}", "server trouble", server.id, kind=kind)


def refusal(server: Server, who: Who) -> ApplianceError | None:
    """Why this server's agent must start nothing now, or None. An operation returns it and its edge raises it: what was noted stays."""
    if server.trouble is not None:
        return Troubled(f"{server.trouble.sentence}; nothing runs on {server.name}", hint=HINT.format(name=server.name))
    if server.agent_state != who.agent_state:
        return Clone(
            f"another agent speaks for {server.name} and was heard within two minutes",
            hint="stop one of the two; if this machine lost its agent state, it is accepted once the other has been silent for two minutes",
        )
    if server.journal is not None and who.journal < server.journal:
        return Busy(f"{server.name} said something newer before", hint="ask again: requests may overtake each other on the way")
    return None
