"""How far an operation reaches: which deployments it moved, and of how many."""

from appliance.store.tx import Reader


def newest_generation(tx: Reader) -> int:
    """The `seq` of the newest generation in the file."""
    return int(tx.value("SELECT coalesce(max(seq), 0) FROM generation"))


def made_since(tx: Reader, seq: int) -> list[str]:
    """Deployments that got a generation after the one of this `seq`, in the order in which they got the first."""
    return list(dict.fromkeys(id for (id,) in tx.rows("SELECT deployment FROM generation WHERE seq > ? ORDER BY seq", (seq,))))


def count_living(tx: Reader) -> int:
    """How many deployments there are that were not deleted."""
    return int(tx.value("SELECT count(*) FROM deployment WHERE deleted_commit IS NULL"))
