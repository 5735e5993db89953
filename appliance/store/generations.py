"""A deployment's generations: which there were, and what they were made of."""

import msgspec

from appliance.deployment import Action, Cause
from appliance.store.tx import Reader


def find(tx: Reader, deployment: str, generation: str) -> tuple[int, bytes, Action] | None:
    """Number, fingerprint and action of a generation of this deployment, or None when the file does not know it."""
    found = tx.row("SELECT number, fingerprint, action FROM generation WHERE id = ? AND deployment = ?", (generation, deployment))
    return None if found is None else (found[0], found[1], found[2])


def config_under(tx: Reader, deployment: str, terms: int) -> str:
    """The config of a deployment under these terms."""
    found: str = tx.value("SELECT config FROM terms WHERE deployment = ? AND number = ?", (deployment, terms))
    return found


class Past(msgspec.Struct, frozen=True):
    """One line of a deployment's history of generations. `created_at` in ms."""

    id: str
    number: int
    action: Action
    cause: Cause
    detail: str | None
    commit: int
    created_at: int
    by: str


def newest(tx: Reader, deployment: str, limit: int = 100) -> list[Past]:
    """A deployment's generations, newest first."""
    sql = (
        "SELECT id, number, action, cause, detail, commit_no, created_at, by FROM generation WHERE deployment = ?"
        " ORDER BY number DESC LIMIT ?"
    )
    return [Past(*row) for row in tx.rows(sql, (deployment, limit))]
