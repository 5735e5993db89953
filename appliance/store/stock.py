"""The items stock agents were handed last, sealed."""

from appliance.store.tx import Reader, Tx


def keep(tx: Tx, deployment: str, run: str, sealed: str) -> None:
    """Keep the item a stock agent is handed for a deployment."""
    tx.execute(
        "INSERT INTO stock_item (deployment, run, sealed) VALUES (?, ?, ?) ON CONFLICT (deployment) DO UPDATE SET run = excluded.run,"
        " sealed = excluded.sealed",
        (deployment, run, sealed),
    )


def kept(tx: Reader, server: str) -> dict[str, tuple[str, str]]:
    """(run, sealed item) by deployment, of what a stock server's agent was handed last."""
    sql = "SELECT i.deployment, i.run, i.sealed FROM stock_item i JOIN deployment d ON d.id = i.deployment WHERE d.server = ?"
    return {deployment: (run, sealed) for deployment, run, sealed in tx.rows(sql, (server,))}


def forget(tx: Tx, server: str) -> None:
    """A reset machine is handed everything anew."""
    tx.execute("DELETE FROM stock_item WHERE deployment IN (SELECT id FROM deployment WHERE server = ?)", (server,))
