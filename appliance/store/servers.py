"""Managed machines: who they are, their labels, who last spoke for them."""

from typing import Any, Literal

import msgspec

from appliance.errors import Conflict, NotFound
from appliance.identity import Instance
from appliance.store.tx import ConstraintFailed, Reader, Tx

Kind = Literal["unenrolled", "agent", "stock"]
TroubleKind = Literal["other-instance", "reverted", "clone"]

_COLUMNS = (
    "id, name, kind, changed, rotation, machine, root, cloud, agent_state, boot, boots, rival, journal, doubted_at, agent_version, hooks,"
    " joined_commit, trouble, created_at, deleted_at"
)


class Trouble(msgspec.Struct, frozen=True):
    """What a person must decide before anything runs on a server again. `at` in ms."""

    kind: TroubleKind
    sentence: str
    at: int


class Rival(msgspec.Struct, frozen=True):
    """Another agent state that spoke with the server's token while the known one was alive. `at` in ms."""

    agent_state: str
    at: int


class Server(msgspec.Struct, frozen=True):
    """One managed machine. `changed` is a commit number, times are ms."""

    id: str
    name: str
    kind: Kind
    changed: int
    rotation: int
    instance: Instance
    agent_state: str | None
    boot: str | None
    boots: list[str]
    rival: Rival | None
    journal: int | None
    doubted_at: int | None
    agent_version: str | None
    hooks: list[str] | None
    joined_commit: int | None
    trouble: Trouble | None
    created_at: int
    deleted_at: int | None


class Seen(msgspec.Struct, frozen=True):
    """When a server's agent last asked (ms), and the commit number of the newest snapshot it was handed."""

    at: int
    delivered: int | None


def _server(row: tuple[Any, ...]) -> Server:
    (
        id,
        name,
        kind,
        changed,
        rotation,
        machine,
        root,
        cloud,
        state,
        boot,
        boots,
        rival,
        journal,
        doubted,
        version,
        hooks,
        joined,
        trouble,
        created,
        gone,
    ) = row
    return Server(
        id,
        name,
        kind,
        changed,
        rotation,
        Instance(machine, root, cloud),
        state,
        boot,
        msgspec.json.decode(boots, type=list[str]),
        None if rival is None else msgspec.json.decode(rival, type=Rival),
        journal,
        doubted,
        version,
        None if hooks is None else msgspec.json.decode(hooks, type=list[str]),
        joined,
        None if trouble is None else msgspec.json.decode(trouble, type=Trouble),
        created,
        gone,
    )


def add(tx: Tx, name: str, kind: Kind, labels: list[str], *, id: str | None = None) -> Server:
    """Add a server. Raises Conflict when the name is taken."""
    id = id or tx.new_id()
    try:
        tx.execute(
            "INSERT INTO server (id, name, kind, changed, commit_no, created_at) VALUES (?, ?, ?, ?, ?, ?)",
            (id, name, kind, tx.commit, tx.commit, tx.now),
        )
    except ConstraintFailed:
        raise Conflict(f"there is a server {name!r} already", hint=f"see it with: appliance server show {name}") from None
    add_labels(tx, id, labels)
    tx.touch("servers", f"server:{id}")
    return by_id(tx, id)


def by_id(tx: Reader, id: str) -> Server:
    """One server, deleted ones too. Raises NotFound."""
    found = tx.row(f"SELECT {_COLUMNS} FROM server WHERE id = ?", (id,))
    if found is None:
        raise NotFound(f"no server {id!r}", hint="see what there is with: appliance server list")
    return _server(found)


def find(tx: Reader, ref: str) -> Server:
    """A living server by name or id. Raises NotFound."""
    found = tx.row(f"SELECT {_COLUMNS} FROM server WHERE name = ? AND deleted_commit IS NULL", (ref,)) or tx.row(
        f"SELECT {_COLUMNS} FROM server WHERE id = ? AND deleted_commit IS NULL", (ref,)
    )
    if found is None:
        raise NotFound(f"no server {ref!r}", hint="see what there is with: appliance server list")
    return _server(found)


def page(tx: Reader, *, label: str | None = None, after: str = "", limit: int = 1000) -> list[Server]:
    """Living servers by name; `after` is the name to go on from."""
    if label is None:
        where, bound = "", (after, limit)
    else:
        where, bound = "AND id IN (SELECT server FROM label WHERE label = ?)", (after, label, limit)  # type: ignore[assignment]
    sql = f"SELECT {_COLUMNS} FROM server WHERE deleted_commit IS NULL AND name > ? {where} ORDER BY name LIMIT ?"
    return [_server(row) for row in tx.rows(sql, bound)]


def labels_of(tx: Reader, server: str) -> list[str]:
    """A server's labels, sorted."""
    return [label for (label,) in tx.rows("SELECT label FROM label WHERE server = ? ORDER BY label", (server,))]


def add_labels(tx: Tx, server: str, labels: list[str]) -> None:
    """Add labels; those it has already stay."""
    tx.many("INSERT INTO label (server, label) VALUES (?, ?) ON CONFLICT DO NOTHING", [(server, label) for label in labels])


def drop_labels(tx: Tx, server: str, labels: list[str]) -> None:
    """Take labels away; those it has not got do not matter."""
    tx.many("DELETE FROM label WHERE server = ? AND label = ?", [(server, label) for label in labels])


def rename(tx: Tx, server: str, name: str) -> None:
    """Give a server another name. Raises Conflict when it is taken."""
    try:
        tx.execute("UPDATE server SET name = ? WHERE id = ?", (name, server))
    except ConstraintFailed:
        raise Conflict(f"there is a server {name!r} already") from None
    tx.touch("servers", f"server:{server}")


def set_kind(tx: Tx, server: str, kind: Kind) -> None:
    """Say which agent a server speaks to."""
    tx.execute("UPDATE server SET kind = ? WHERE id = ?", (kind, server))
    tx.touch("servers", f"server:{server}")


def set_changed(tx: Tx, server: str) -> None:
    """A generation of this server was made or withdrawn by an operator, a switch or a stack in this commit."""
    tx.execute("UPDATE server SET changed = ? WHERE id = ?", (tx.commit, server))
    tx.touch(f"server:{server}")


def remove(tx: Tx, server: str) -> None:
    """Delete a server: its name is free again."""
    tx.execute("UPDATE server SET deleted_commit = ?, deleted_at = ? WHERE id = ?", (tx.commit, tx.now, server))
    tx.touch("servers", f"server:{server}")


def speaks(tx: Tx, server: str, instance: Instance, agent_state: str, boot: str, boots: list[str], journal: int) -> None:
    """Record who speaks for a server from now on. Parts of the instance that are not known now keep what was known."""
    tx.execute(
        "UPDATE server SET machine = coalesce(?, machine), root = coalesce(?, root), cloud = coalesce(?, cloud), agent_state = ?, boot = ?,"
        " boots = ?, journal = ?, doubted_at = NULL, rival = NULL WHERE id = ?",
        (instance.machine, instance.root, instance.cloud, agent_state, boot, msgspec.json.encode(boots).decode(), journal, server),
    )


def journal_at(tx: Tx, server: str, journal: int) -> None:
    """Raise the journal counter that was seen of the known agent state, which is not in doubt (any more)."""
    tx.execute("UPDATE server SET journal = max(coalesce(journal, 0), ?), doubted_at = NULL WHERE id = ?", (journal, server))


def doubt(tx: Tx, server: str) -> None:
    """The known agent state came with a journal counter that is too low."""
    tx.execute("UPDATE server SET doubted_at = coalesce(doubted_at, ?) WHERE id = ?", (tx.now, server))


def describe_agent(tx: Tx, server: str, version: str, hooks: list[str]) -> None:
    """Record what an agent says of itself."""
    tx.execute("UPDATE server SET agent_version = ?, hooks = ? WHERE id = ?", (version, msgspec.json.encode(hooks).decode(), server))


def set_rival(tx: Tx, server: str, agent_state: str | None) -> None:
    """Note (or forget) that a second agent state spoke."""
    rival = None if agent_state is None else msgspec.json.encode(Rival(agent_state, tx.now)).decode()
    tx.execute("UPDATE server SET rival = ? WHERE id = ?", (rival, server))


def set_trouble(tx: Tx, server: str, trouble: Trouble | None) -> None:
    """Stop everything on a server until a person decides, or end that."""
    text = None if trouble is None else msgspec.json.encode(trouble).decode()
    tx.execute("UPDATE server SET trouble = ? WHERE id = ?", (text, server))
    tx.touch("servers", f"server:{server}")


def forget_identity(tx: Tx, server: str) -> None:
    """Accept whoever speaks next as this server's machine."""
    tx.execute(
        "UPDATE server SET machine = NULL, root = NULL, cloud = NULL, agent_state = NULL, boot = NULL, boots = '[]', journal = NULL,"
        " doubted_at = NULL, rival = NULL, trouble = NULL WHERE id = ?",
        (server,),
    )


def joined(tx: Tx, server: str) -> None:
    """Record the commit of a join."""
    tx.execute("UPDATE server SET joined_commit = ? WHERE id = ?", (tx.commit, server))


def seen(tx: Tx, rows: list[tuple[str, int, int | None]]) -> None:
    """Write down when agents last asked: (server, at, commit of the snapshot handed out or None), of servers that are still there."""
    tx.many(
        "INSERT INTO seen (server, at, delivered) SELECT id, ?2, ?3 FROM server WHERE id = ?1 ON CONFLICT (server)"
        " DO UPDATE SET at = max(at, excluded.at), delivered = coalesce(excluded.delivered, delivered)",
        rows,
    )


def seen_of(tx: Reader, server: str) -> Seen | None:
    """When a server's agent was last heard."""
    found = tx.row("SELECT at, delivered FROM seen WHERE server = ?", (server,))
    return None if found is None else Seen(*found)
