"""Which plan files generations were resolved to, which bytes they pin, and which paths current generations use."""

import msgspec

from appliance.store.tx import Reader, Tx


class Resolved(msgspec.Struct, frozen=True):
    """A plan's file as a generation was resolved to it: integer keys of plan and listing, version number, digest (32 bytes)."""

    plan: int
    path: str
    version: int
    listing: int
    digest: bytes


def resolve(tx: Tx, generation: str, files: list[Resolved]) -> None:
    """Record what a new generation was resolved to, and pin it."""
    tx.many(
        "INSERT INTO source (generation, plan, kind, path, version, digest) VALUES (?, ?, 'file', ?, ?, ?)",
        [(generation, one.plan, one.path, one.version, one.digest) for one in files],
    )
    tx.many("INSERT INTO pin (generation, listing) VALUES (?, ?) ON CONFLICT DO NOTHING", [(generation, one.listing) for one in files])


def use(tx: Tx, deployment: str, files: list[Resolved]) -> None:
    """Say which paths of plans a deployment uses from now on: a switch that changes one of them concerns it."""
    tx.execute("DELETE FROM uses WHERE deployment = ?", (deployment,))
    tx.many("INSERT INTO uses (plan, path, kind, deployment) VALUES (?, ?, 'file', ?)", [(one.plan, one.path, deployment) for one in files])


def digest_of(tx: Reader, generation: str, plan: int, path: str) -> bytes | None:
    """The digest of the plan file a generation was resolved to, or None."""
    found: bytes | None = tx.value(
        "SELECT digest FROM source WHERE generation = ? AND plan = ? AND kind = 'file' AND path = ?", (generation, plan, path)
    )
    return found


def paths_of_plan(tx: Reader, plan: int) -> set[str]:
    """The paths of a plan that current generations use."""
    return {path for (path,) in tx.rows("SELECT DISTINCT path FROM uses WHERE plan = ? AND kind = 'file'", (plan,))}


def users_of_path(tx: Reader, plan: int, path: str) -> list[str]:
    """Living deployments whose current generation uses this file of the plan."""
    sql = (
        "SELECT u.deployment FROM uses u JOIN deployment d ON d.id = u.deployment"
        " WHERE u.plan = ? AND u.path = ? AND u.kind = 'file' AND d.deleted_commit IS NULL ORDER BY d.seq"
    )
    return [id for (id,) in tx.rows(sql, (plan, path))]


def users_of_plan(tx: Reader, plan: int, limit: int = 10) -> list[str]:
    """Living deployments that use any file of the plan."""
    sql = (
        "SELECT DISTINCT u.deployment FROM uses u JOIN deployment d ON d.id = u.deployment"
        " WHERE u.plan = ? AND d.deleted_commit IS NULL LIMIT ?"
    )
    return [id for (id,) in tx.rows(sql, (plan, limit))]
