"""What happens because time passes. It counts the appliance's own uptime, so a clock that is set moves nothing."""

import msgspec

from appliance.deployment import Verdict, given_up, overdue
from appliance.document import times
from appliance.operations.fate import apply, close
from appliance.store import deadlines, deployments, runs, servers
from appliance.store.deployments import Deployment
from appliance.store.runs import Run
from appliance.store.tx import Reader, Tx

MANY = 200  # of each kind in one commit


def is_due(tx: Reader) -> bool:
    """Whether a tick would do anything."""
    at = deadlines.next_at(tx)
    return at is not None and at <= tx.uptime


def tick(tx: Tx) -> None:
    """Do what is due: next attempts; runs nobody has heard of for too long are overdue, then lost. What is left waits for the next one."""
    for id in deadlines.attempts(tx, MANY):
        one = deployments.find(tx, id)
        assert one is not None
        standing = msgspec.structs.replace(one.standing, next_at=None)
        deployments.set_state(tx, id, one.generation.id, one.terms_number, standing)
        tx.touch(f"server:{one.server}")
    for id in deadlines.deletions(tx, MANY):
        _give_up_deletion(tx, deployments.by_id(tx, id))
    for run in deadlines.silent(tx, MANY):
        _overdue(tx, run)
    for run in deadlines.expired(tx, MANY):
        close(tx, run, Verdict("FAILED", "lost", f"{silence(tx, run)}, and its deadline has passed"))


def _give_up_deletion(tx: Tx, one: Deployment) -> None:
    """Its DELETE work was not done in time: FAILED, for a rerun or `--force`."""
    seen = servers.seen_of(tx, one.server)
    machine = "was never seen" if seen is None else f"was not seen since {times(seen.at)}"
    verdict = Verdict("FAILED", "lost", f"its DELETE work was not done in time; {one.server_name} {machine}")
    run = None if one.standing.run is None else runs.by_id(tx, one.standing.run)
    if run is not None and run.stands in ("granted", "running", "rebooting"):
        close(tx, run, verdict)
    else:
        apply(tx, one, given_up(one.standing, verdict))


def _overdue(tx: Tx, run: Run) -> None:
    deadlines.overdue(tx, run.id)
    found = deployments.find(tx, run.deployment)
    if found is not None and found.deleted_commit is None and found.standing.run == run.id:
        standing = overdue(found.standing, silence(tx, run))
        if standing != found.standing:
            apply(tx, found, standing)


def silence(tx: Reader, run: Run) -> str:
    """Since when there is no word of a run, and of its machine."""
    seen = servers.seen_of(tx, run.server)
    told = f"no word that it has started since it was granted at {times(run.granted_at)}" if run.granted_at is not None else "no word of it"
    if run.started_at is not None:
        told = f"no word of it since it was started at {times(run.started_at)}"
    asked = "; it was asked to cancel it" if run.cancel else ""
    return f"{told}; its machine was " + ("never seen" if seen is None else f"last seen at {times(seen.at)}") + asked
