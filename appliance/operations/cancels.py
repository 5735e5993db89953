"""Ending what runs, or would run, before its time."""

import msgspec

from appliance.deployment import Verdict, cancel_asked, cancelled
from appliance.errors import Conflict
from appliance.operations.fate import apply, close
from appliance.store import audit, deployments, runs
from appliance.store.deployments import Deployment
from appliance.store.runs import Run
from appliance.store.tx import Tx


def cancel(tx: Tx, ids: list[str], by: str, *, force: bool = False) -> None:
    """Cancel deployments: all of them or none.

    What was not granted is FAILED `cancelled` at once. What was granted is asked of its machine, whose report ends it; with `force` it is
    over here at once, and what its machine reports later is evidence. Raises NotFound, Gone, and Conflict when there is nothing to cancel
    or a stock agent has it, which cannot be asked.
    """
    for id in ids:
        _cancel(tx, deployments.by_id(tx, id), by, force)


def _cancel(tx: Tx, one: Deployment, by: str, force: bool) -> None:
    there = runs.open_of_deployment(tx, one.id)
    if one.standing.status != "IN_PROGRESS" and not there:
        raise Conflict(
            f"{one.label} is {one.standing.status} ({one.standing.sentence}): there is nothing to cancel",
            hint=f"run it again with: appliance rerun {one.label}",
        )
    if one.standing.ungranted or not there:
        _withdraw(tx, one, by)
    elif one.server_kind == "stock" and not force:
        raise Conflict(
            f"{one.label} was handed to a stock agent, which cannot be asked to stop",
            hint=f"its deadline ends it; or close it here: appliance cancel {one.label} --force (what it reports later is evidence)",
        )
    if one.server_kind == "stock" and not force:
        there = []
    for run in there:
        _end(tx, run, by, force)
    if there and not force:
        now = deployments.by_id(tx, one.id)
        deployments.set_state(tx, one.id, now.generation.id, now.terms_number, cancel_asked(now.standing, by))
    tx.touch(f"server:{one.server}")
    audit.record(tx, by, "deployment cancel", one.id, server=one.server_name, name=one.terms.name, force=force)


def _withdraw(tx: Tx, one: Deployment, by: str) -> None:
    deployments.set_memory(tx, one.id, msgspec.structs.replace(one.memory, must_run=False))
    apply(tx, one, cancelled(one.standing, f"cancelled by {by} before it was granted"))


def _end(tx: Tx, run: Run, by: str, force: bool) -> None:
    if run.agent_state is not None:  # one of ours: it hears of it now, or when it comes back
        runs.ask_to_cancel(tx, run.id)
    if force:
        asked = msgspec.structs.replace(run, cancel=True)
        close(tx, asked, Verdict("FAILED", "cancelled", f"cancelled by {by} by force: its machine has not said that it ended"))
