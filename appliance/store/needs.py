"""Who follows whom, and who waits for others' DELETE work."""

from appliance.store.tx import Reader, Tx


def followers(tx: Reader, deployment: str) -> list[str]:
    """Living deployments that follow this one."""
    sql = "SELECT n.deployment FROM need n JOIN deployment d ON d.id = n.deployment WHERE n.needs = ? AND n.follow = 1 ORDER BY d.seq"
    return [id for (id,) in tx.rows(sql, (deployment,))]


def set_needs(tx: Tx, deployment: str, needs: list[str]) -> None:
    """What it waits for from now on, whatever its terms say: one that is being deleted waits for others' DELETE work alone."""
    tx.execute("DELETE FROM need WHERE deployment = ?", (deployment,))
    tx.many("INSERT INTO need (needs, deployment) VALUES (?, ?)", [(one, deployment) for one in needs])


def wait_for(tx: Tx, deployment: str, others: list[str]) -> None:
    """A deployment waits for these too, until they are gone."""
    tx.many("INSERT INTO need (needs, deployment) VALUES (?, ?) ON CONFLICT DO NOTHING", [(one, deployment) for one in others])
