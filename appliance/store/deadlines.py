"""What is to happen by itself, and when: in ms of the file's own uptime."""

from appliance.store import runs
from appliance.store.runs import Run
from appliance.store.tx import Reader, Tx

_OPEN = "stands IN ('granted', 'running', 'rebooting')"


def next_at(tx: Reader) -> int | None:
    """When the next thing is due, or None."""
    sql = (
        "SELECT min(at) FROM (SELECT min(due) AS at FROM run WHERE due IS NOT NULL"
        " UNION ALL SELECT min(deadline) FROM run WHERE deadline IS NOT NULL"
        " UNION ALL SELECT min(next_at) FROM state WHERE next_at IS NOT NULL"
        " UNION ALL SELECT min(deadline) FROM state WHERE deadline IS NOT NULL)"
    )
    found: int | None = tx.value(sql)
    return found


def silent(tx: Reader, limit: int) -> list[Run]:
    """Open runs that are due, the oldest first."""
    return _due(tx, "due", limit)


def expired(tx: Reader, limit: int) -> list[Run]:
    """Open runs whose deadline has passed, the oldest first."""
    return _due(tx, "deadline", limit)


def _due(tx: Reader, column: str, limit: int) -> list[Run]:
    ids = [id for (id,) in tx.rows(f"SELECT id FROM run WHERE {column} <= ? ORDER BY {column}, seq LIMIT ?", (tx.uptime, limit))]
    return [run for run in (runs.by_id(tx, id) for id in ids) if run is not None]


def attempts(tx: Reader, limit: int) -> list[str]:
    """Deployments whose next attempt need not wait any longer."""
    return [id for (id,) in tx.rows("SELECT deployment FROM state WHERE next_at <= ? ORDER BY next_at LIMIT ?", (tx.uptime, limit))]


def deletions(tx: Reader, limit: int) -> list[str]:
    """Deployments whose DELETE work has not been done in time."""
    return [id for (id,) in tx.rows("SELECT deployment FROM state WHERE deadline <= ? ORDER BY deadline LIMIT ?", (tx.uptime, limit))]


def set_deletion(tx: Tx, deployment: str, at: int | None) -> None:
    """By when DELETE work must have been done; one that is set stays, None: there is none."""
    tx.execute(
        "UPDATE state SET deadline = CASE WHEN ?2 IS NULL THEN NULL ELSE coalesce(deadline, ?2) END WHERE deployment = ?1", (deployment, at)
    )


def overdue(tx: Tx, id: str) -> None:
    """It has been said of a run that it is overdue."""
    tx.execute("UPDATE run SET due = NULL WHERE id = ?", (id,))


def last_due(tx: Reader, server: str) -> int | None:
    """When the last of a server's open runs is due, or None."""
    found: int | None = tx.value(f"SELECT max(due) FROM run WHERE server = ? AND {_OPEN}", (server,))
    return found


def open_deadlines(tx: Reader, generation: str) -> list[int | None]:
    """The deadlines of the open runs of a generation."""
    return [at for (at,) in tx.rows(f"SELECT deadline FROM run WHERE generation = ? AND {_OPEN}", (generation,))]
