"""Suspending and resuming deployments: generations of their own."""

from appliance.deployment import Action, Standing
from appliance.errors import Conflict
from appliance.keys import Key
from appliance.operations.changes import desire, renew
from appliance.operations.sources import Sources
from appliance.store import audit, configs, deployments
from appliance.store.tx import Tx


def suspend(tx: Tx, key: Key, id: str, by: str) -> Standing:
    """Run its SUSPEND work; without any it is COMPLETE at once. Raises NotFound, Gone, and Conflict unless it is COMPLETE."""
    old = deployments.by_id(tx, id)
    suspended = old.generation.action == "SUSPEND"
    if suspended and old.standing.status == "COMPLETE":
        raise Conflict(f"{old.label} is suspended already", hint=f"resume it with: appliance deployment resume {old.label}")
    if old.standing.status != "COMPLETE" and not (suspended and old.standing.status == "FAILED"):
        raise Conflict(
            f"{old.label} is {old.standing.status} ({old.standing.sentence}), and only what is COMPLETE is suspended",
            hint=f"see: appliance why {old.label}",
        )
    return _act(tx, key, id, "SUSPEND", by)


def resume(tx: Tx, key: Key, id: str, by: str) -> Standing:
    """Run its RESUME work; without any it is COMPLETE at once. Raises NotFound, Gone, and Conflict when it is not suspended."""
    old = deployments.by_id(tx, id)
    if old.generation.action not in ("SUSPEND", "RESUME") or (old.generation.action == "RESUME" and old.standing.status != "FAILED"):
        raise Conflict(f"{old.label} is not suspended", hint=f"see: appliance deployment runs {old.label}")
    if old.standing.status == "IN_PROGRESS":
        raise Conflict(f"{old.label} is being suspended ({old.standing.phase})", hint=f"wait for it: appliance wait {old.label}")
    return _act(tx, key, id, "RESUME", by)


def _act(tx: Tx, key: Key, id: str, action: Action, by: str) -> Standing:
    old = deployments.by_id(tx, id)
    wanted = desire(key, Sources(tx), configs.by_id(tx, old.terms.config), old.terms.inputs, old.terms.follows)
    cause = "suspend" if action == "SUSPEND" else "resume"
    standing = renew(tx, key, old, wanted, cause, f"{cause} by {by}", by, must=True, action=action)  # type: ignore[arg-type]
    audit.record(tx, by, f"deployment {cause}", id, server=old.server_name, name=old.terms.name)
    return standing
