"""What only the Heat edge asks of the file: its own fields of a deployment, the last outcome, configs by the line, servers by any text."""

import msgspec

from appliance.heat import Kept
from appliance.store import servers
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx


class Line(msgspec.Struct, frozen=True):
    """One config as a list shows it. `created_at` in ms."""

    id: str
    name: str | None
    group: str | None
    created_at: int


class Ended(msgspec.Struct, frozen=True):
    """The newest run that ended and decided where its deployment stands. `at` in ms."""

    run: str
    terms: int | None
    sentence: str | None
    status_code: int | None
    at: int


def kept(tx: Reader, deployment: str) -> Kept | None:
    """Heat's own fields of a deployment, where its edge was used."""
    found = tx.value("SELECT heat FROM state WHERE deployment = ?", (deployment,))
    return None if found is None else msgspec.json.decode(found, type=Kept)


def keep(tx: Tx, deployment: str, fields: Kept) -> None:
    """Write Heat's own fields of a deployment."""
    tx.execute("UPDATE state SET heat = ? WHERE deployment = ?", (msgspec.json.encode(fields).decode(), deployment))
    tx.touch(f"deployment:{deployment}")


def last_ended(tx: Reader, deployment: str) -> Ended | None:
    """The outcome that counts, or None."""
    found = tx.row(
        "SELECT id, terms, sentence, status_code, ended_at FROM run WHERE deployment = ? AND stands = 'ended' AND effect = 'recorded'"
        " ORDER BY seq DESC LIMIT 1",
        (deployment,),
    )
    return None if found is None else Ended(*found)


def set_by_hand(tx: Tx, deployment: str, why: str) -> None:
    """The runs of a deployment that are not over shall have no effect when they are: they are evidence only."""
    tx.execute(
        "UPDATE run SET effect = 'none', effect_why = ? WHERE deployment = ? AND stands IN ('granted', 'running', 'rebooting')",
        (why, deployment),
    )


def configs(tx: Reader, *, limit: int, marker: str | None) -> list[Line]:
    """Configs that were not deleted, newest first; those after `marker`, where there is such a config."""
    before = None if marker is None else tx.value("SELECT seq FROM config WHERE id = ?", (marker,))
    sql = 'SELECT id, name, "group", created_at FROM config WHERE hidden_at IS NULL AND seq < ? ORDER BY seq DESC LIMIT ?'
    return [Line(*row) for row in tx.rows(sql, (1 << 62 if before is None else before, limit))]


def seq_of(tx: Reader, deployment: str) -> int:
    """Where in the order of creation a deployment stands; 0 for one there never was."""
    return int(tx.value("SELECT seq FROM deployment WHERE id = ?", (deployment,)) or 0)


def declaring(tx: Reader, text: str) -> list[str]:
    """Living deployments whose current config has `text` somewhere in its inputs."""
    sql = (
        "SELECT d.id FROM deployment d JOIN state s ON s.deployment = d.id"
        " JOIN terms t ON t.deployment = s.deployment AND t.number = s.terms JOIN config c ON c.id = t.config"
        " WHERE d.deleted_commit IS NULL AND instr(c.inputs, ?) > 0 ORDER BY d.seq"
    )
    return [id for (id,) in tx.rows(sql, (text,))]


# ------------------------------------------------------------------------------------------------------------ servers


def server_id(tx: Reader, text: str) -> str | None:
    """The living server a Heat user means: by id, else by name."""
    found: str | None = tx.value("SELECT id FROM server WHERE id = ? AND deleted_commit IS NULL", (text,)) or tx.value(
        "SELECT id FROM server WHERE name = ? AND deleted_commit IS NULL", (text,)
    )
    return found


def unenrolled(tx: Tx, text: str) -> Server:
    """A row for a server that was never added, its id and name as named; one that was removed comes back to life."""
    gone = tx.row("SELECT name FROM server WHERE id = ?", (text,))
    if gone is None:
        return servers.add(tx, text, "unenrolled", [], id=text)
    name = text if server_id(tx, gone[0]) is not None else gone[0]
    servers.forget_identity(tx, text)
    tx.execute(
        "UPDATE server SET name = ?, kind = 'unenrolled', changed = ?, rotation = rotation + 1, deleted_commit = NULL, deleted_at = NULL"
        " WHERE id = ?",
        (name, tx.commit, text),
    )
    tx.touch("servers", f"server:{text}")
    return servers.by_id(tx, text)


def waits_for_a_machine(tx: Reader, name: str) -> str | None:
    """The id of a living server of this name that only the Heat edge has spoken of: nobody added it, nothing can join as it."""
    found: str | None = tx.value(
        "SELECT id FROM server WHERE name = ? AND id = name AND kind = 'unenrolled' AND deleted_commit IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM token WHERE server = server.id AND revoked_at IS NULL)",
        (name,),
    )
    return found


def hand_over(tx: Tx, old: str, new: str) -> None:
    """The deployments of one server become another's."""
    tx.execute("UPDATE deployment SET server = ? WHERE server = ?", (new, old))
    tx.execute("UPDATE run SET server = ? WHERE server = ?", (new, old))
    tx.execute("INSERT INTO label (server, label) SELECT ?, label FROM label WHERE server = ? ON CONFLICT DO NOTHING", (new, old))
