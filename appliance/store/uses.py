"""Which plan files generations were resolved to, which bytes they pin, and which paths current generations use."""

from typing import Literal

import msgspec

from appliance.store.tx import Reader, Tx


class Resolved(msgspec.Struct, frozen=True):
    """A plan's file as a generation was resolved to it: integer keys of plan and listing, version number, digest (32 bytes).

    Of kind `tree` it is everything below the directory `path`, and the digest that of its manifest, by the paths from there.
    """

    plan: int
    path: str
    version: int
    listing: int
    digest: bytes
    kind: Literal["file", "tree"] = "file"


def resolve(tx: Tx, generation: str, files: list[Resolved]) -> None:
    """Record what a new generation was resolved to, and pin it."""
    tx.many(
        "INSERT INTO source (generation, plan, kind, path, version, digest) VALUES (?, ?, ?, ?, ?, ?)",
        [(generation, one.plan, one.kind, one.path, one.version, one.digest) for one in files],
    )
    tx.many("INSERT INTO pin (generation, listing) VALUES (?, ?) ON CONFLICT DO NOTHING", [(generation, one.listing) for one in files])


def use(tx: Tx, deployment: str, files: list[Resolved]) -> None:
    """Say which paths of plans a deployment uses from now on: a switch that changes one of them concerns it."""
    tx.execute("DELETE FROM uses WHERE deployment = ?", (deployment,))
    tx.many(
        "INSERT INTO uses (plan, path, kind, deployment) VALUES (?, ?, ?, ?)", [(one.plan, one.path, one.kind, deployment) for one in files]
    )


def digest_of(tx: Reader, generation: str, plan: int, path: str) -> bytes | None:
    """The digest of the plan file a generation was resolved to, or None."""
    found: bytes | None = tx.value(
        "SELECT digest FROM source WHERE generation = ? AND plan = ? AND kind = 'file' AND path = ?", (generation, plan, path)
    )
    return found


def trees_of(tx: Reader, generation: str) -> list[tuple[str, bytes]]:
    """The directories of plans a generation was resolved to: (path, digest)."""
    sql = "SELECT path, digest FROM source WHERE generation = ? AND kind = 'tree' ORDER BY plan, path"
    return [(path, digest) for path, digest in tx.rows(sql, (generation,))]


def users_of_trees(tx: Reader, plan: int) -> dict[str, list[str]]:
    """By path, the living deployments whose current generation uses everything below that directory of the plan."""
    found: dict[str, list[str]] = {}
    sql = (
        "SELECT u.path, u.deployment FROM uses u JOIN deployment d ON d.id = u.deployment"
        " WHERE u.plan = ? AND u.kind = 'tree' AND d.deleted_commit IS NULL ORDER BY u.path, d.seq"
    )
    for path, deployment in tx.rows(sql, (plan,)):
        found.setdefault(path, []).append(deployment)
    return found


def may_fetch(tx: Reader, server: str) -> list[tuple[str, str, str, bytes]]:
    """What a server's machine may fetch: (generation, kind, path, digest) of its current generations and of those with an open run."""
    sql = (
        "SELECT s.generation, s.kind, s.path, s.digest FROM source s WHERE s.generation IN ("
        " SELECT st.generation FROM state st JOIN deployment d ON d.id = st.deployment"
        " WHERE d.server = :server AND d.deleted_commit IS NULL"
        " UNION SELECT r.generation FROM run r WHERE r.server = :server AND r.stands IN ('granted', 'running', 'rebooting'))"
    )
    return [(generation, kind, path, digest) for generation, kind, path, digest in tx.rows(sql, {"server": server})]


def pinned(tx: Reader, generation: str) -> list[int]:
    """The listings a generation pins."""
    return [id for (id,) in tx.rows("SELECT listing FROM pin WHERE generation = ? ORDER BY listing", (generation,))]


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
