"""Running a deployment again, and ending one."""

import msgspec

from appliance.deployment import REACHING, RETRIED, Cause, Standing, Verdict, again_action, back_off, despite_cancel, finished, next_attempt
from appliance.errors import Conflict
from appliance.keys import Key
from appliance.operations.changes import desire, refuse_if_needed, renew, settle, stand, tell_of_failure, watch_deletion
from appliance.operations.limits import after_the_unlimited
from appliance.operations.sources import Sources
from appliance.store import audit, configs, deployments, file, generations, needs, runs, servers, stock
from appliance.store.deployments import Deployment
from appliance.store.runs import Run
from appliance.store.tx import Reader, Tx


def rerun(tx: Tx, key: Key, ids: list[str], by: str) -> list[Standing]:
    """Make each run once more, whatever it did before: all of them or none. Raises NotFound, Gone."""
    sources = Sources(tx)
    standings = []
    for id in ids:
        old = deployments.by_id(tx, id)
        wanted = desire(key, sources, configs.by_id(tx, old.terms.config), old.terms.inputs, old.terms.follows)
        cause: Cause = "delete" if old.leaving else "rerun"
        action = again_action(old.generation.action, old.memory, old.terms.actions)
        standings.append(renew(tx, key, old, wanted, cause, f"rerun by {by}", by, must=True, action=action))
        audit.record(tx, by, "deployment rerun", id, server=old.server_name, name=old.terms.name, number=old.generation.number + 1)
    return standings


def delete(tx: Tx, key: Key, ids: list[str], by: str, *, force: bool = False) -> list[str]:
    """Delete deployments: all of them or none; the ids of those whose DELETE work is to be done first.

    What was not granted is withdrawn; a granted run may finish. One with work for DELETE, which has (or may have) been started, gets a
    DELETE generation and is gone when that is COMPLETE; of those in one request, dependants go first. `force` leaves that out. Raises
    NotFound, Gone, and Conflict when others depend on one of them or it is being deleted already.
    """
    going = set(ids)
    needed: dict[str, list[str]] = {}
    for id in ids:
        one = deployments.by_id(tx, id)
        refuse_if_needed(tx, one, going)
        if one.leaving and one.standing.status == "IN_PROGRESS" and not force:
            raise Conflict(
                f"{one.label} is being deleted already ({one.standing.phase})",
                hint=f"without its DELETE work: appliance deployment delete {one.label} --force",
            )
        needed[id] = deployments.needed_by(tx, id)
    working = [] if force else [id for id in ids if _has_delete_work(tx, deployments.by_id(tx, id))]
    for id in set(ids).difference(working):
        bury(tx, deployments.by_id(tx, id), by)
    for id in working:
        needs.set_needs(tx, id, [other for other in needed[id] if other in working])
    sources = Sources(tx)
    for id in working:
        old = deployments.by_id(tx, id)
        wanted = desire(key, sources, configs.by_id(tx, old.terms.config), old.terms.inputs, old.terms.follows)
        renew(tx, key, old, wanted, "delete", f"deleted by {by}", by, must=True, action="DELETE")
        audit.record(tx, by, "deployment delete", id, server=old.server_name, name=old.terms.name, work=True)
    return working


def _has_delete_work(tx: Reader, one: Deployment) -> bool:
    somebody = one.server_kind != "unenrolled"
    return somebody and "DELETE" in one.terms.actions and (one.memory.started or bool(runs.open_of_deployment(tx, one.id)))


def bury(tx: Tx, old: Deployment, by: str) -> None:
    """Make one a tombstone. Its agent is told until it says that it has forgotten it; where there is no agent, nobody needs to be."""
    server = servers.by_id(tx, old.server)
    told = server.kind == "agent" and server.deleted_at is None
    waiting = deployments.needed_by(tx, old.id)
    deployments.bury(tx, old.id, acknowledged=not told)
    for id in waiting:  # its own dependencies, which go after it
        other = deployments.find(tx, id)
        if other is not None and other.deleted_commit is None:
            stand(tx, other)
            tx.touch(f"server:{other.server}")
    servers.set_changed(tx, old.server)
    audit.record(tx, by, "deployment delete", old.id, server=old.server_name, name=old.terms.name)


def reset(tx: Tx, key: Key, server_id: str, by: str, why: str) -> int:
    """Forget all that was done on a server: open runs end `interrupted`, and everything runs again as on a new machine.

    One commit; how many deployments that are. Raises NotFound.
    """
    server = servers.by_id(tx, server_id)
    close_runs(tx, server_id, f"the server was reset ({why})")
    servers.forget_identity(tx, server_id)
    stock.forget(tx, server_id)
    sources = Sources(tx)
    all_of_it = deployments.of_server(tx, server_id)
    for one in (deployments.by_id(tx, it.id) for it in all_of_it):  # one that follows another has moved with it
        if one.leaving:  # there is nothing of it on another machine
            bury(tx, one, by)
            continue
        wanted = desire(key, sources, configs.by_id(tx, one.terms.config), one.terms.inputs, one.terms.follows)
        old = msgspec.structs.replace(one, standing=msgspec.structs.replace(one.standing, repeating=None))
        renew(tx, key, old, wanted, "reset", why, by, must=True, action="CREATE", wiped=True)
    audit.record(tx, by, "server reset", server_id, name=server.name, why=why, deployments=len(all_of_it))
    return len(all_of_it)


def close_runs(tx: Tx, server: str, why: str, *, spare: str | None = None) -> list[Run]:
    """End every open run of a server as interrupted: its machine does not know of it any more. Those that were open.

    `spare`: but for the runs of this agent state.
    """
    closed = [run for run in runs.open_of_server(tx, server) if spare is None or run.agent_state != spare]
    for run in closed:
        verdict = Verdict("FAILED", "interrupted", f"interrupted: {why}")
        close(tx, run, despite_cancel(verdict) if run.cancel else verdict)
    runs.forget_cancels(tx, server, spare)
    return closed


def close(tx: Tx, run: Run, verdict: Verdict) -> None:
    """End an open run without a word from its machine."""
    deployment = deployments.find(tx, run.deployment)
    concerned = deployment is not None and concerns(tx, deployment, run)
    effect, reason = ("recorded", None) if concerned else ("none", run.effect_why or "not the current generation")
    runs.end(tx, run.id, verdict, None, effect, reason, reported=False)  # type: ignore[arg-type]
    after_the_unlimited(tx, run)
    if deployment is None:
        return
    if concerned:
        apply(tx, deployment, conclude(tx, deployment, run, verdict))
    else:
        leave(tx, deployment, run)
    remember_end(tx, deployment.id, run, verdict)


def conclude(tx: Tx, deployment: Deployment, run: Run, verdict: Verdict) -> Standing:
    """Where the end of a run that decides leaves its deployment: on the next attempt, if there is one, else on what it came to."""
    standing, terms = deployment.standing, deployment.terms
    tries = 1 if run.repeat == "boot" else standing.tries
    own = run.generation == deployment.generation.id and not standing.held and not run.cancel and run.repeat in (None, "boot")
    if verdict.reason not in RETRIED or not own or tries >= terms.attempts:
        return finished(standing, run.id, verdict)
    if standing.repeating == run.id:
        standing = msgspec.structs.replace(standing, repeating=None)
    at = tx.uptime + back_off(tries, file.pace(tx).retry)
    blocked = bool(deployments.blockers(tx, deployment.id))
    tx.touch(f"server:{deployment.server}")
    return next_attempt(standing, max(standing.attempt, run.attempt) + 1, tries, verdict, of=terms.attempts, at=at, blocked=blocked)


def leave(tx: Tx, deployment: Deployment, run: Run) -> None:
    """A run that decides nothing is over: it does not repeat any more, and who waited for that may go on."""
    if deployment.deleted_commit is None and deployment.standing.repeating == run.id:
        apply(tx, deployment, msgspec.structs.replace(deployment.standing, repeating=None))
    tx.touch(f"server:{deployment.server}")


def concerns(tx: Reader, deployment: Deployment, run: Run) -> bool:
    """Whether the end of a run decides where its deployment stands.

    It does when the standing is about that run, or when the run is a newer one of the current generation; not when somebody set the
    status by hand meanwhile.
    """
    standing = deployment.standing
    if deployment.deleted_commit is not None or run.effect == "none":
        return False
    if standing.run == run.id:
        return True
    if run.generation != deployment.generation.id:
        return False
    about = None if standing.run is None else runs.by_id(tx, standing.run)
    return about is None or run.seq > about.seq


def remember_end(tx: Tx, id: str, run: Run, verdict: Verdict) -> None:
    """What the end of a run leaves in memory, also when it is not about the current generation: the machine is as that run left it.

    One that was closed without a word may have been started. An end that comes late, after a newer run has started, says nothing of how
    the machine is now.
    """
    deployment = deployments.find(tx, id)
    known = generations.find(tx, id, run.generation)
    by_delivery = run.agent_state is None  # a stock agent: what it was handed counts as started
    late = (run.started_at is not None or by_delivery) and deployment is not None and deployment.memory.last_run not in (None, run.id)
    if deployment is None or late:
        return
    memory = msgspec.structs.replace(deployment.memory, started=True)
    if verdict.status == "COMPLETE" and known is not None and known[2] in REACHING:
        memory = msgspec.structs.replace(memory, completed_generation=run.generation, completed=known[1], left=False)
    else:
        memory = msgspec.structs.replace(memory, left=True)
    deployments.set_memory(tx, id, memory)


def apply(tx: Tx, deployment: Deployment, standing: Standing) -> None:
    """Write where a deployment stands and bring those that depend on it to where they stand then."""
    deployments.set_state(tx, deployment.id, deployment.generation.id, deployment.terms_number, standing)
    now = msgspec.structs.replace(deployment, standing=standing)
    watch_deletion(tx, now)
    if standing.status != deployment.standing.status:
        settle(tx, deployment.id)
        if standing.status == "FAILED":
            tell_of_failure(tx, [deployment.id])
    if now.leaving and standing.status == "COMPLETE":
        bury(tx, now, f"the DELETE work on {now.server_name}")
