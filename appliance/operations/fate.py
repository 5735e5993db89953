"""Running a deployment again, and ending one."""

import msgspec

from appliance.deployment import Standing, Verdict, finished
from appliance.keys import Key
from appliance.operations.changes import desire, refuse_if_needed, renew, settle, tell_of_failure
from appliance.operations.sources import Sources
from appliance.store import audit, configs, deployments, runs, servers, stock
from appliance.store.deployments import Deployment
from appliance.store.runs import Run
from appliance.store.tx import Reader, Tx


def rerun(tx: Tx, key: Key, ids: list[str], by: str) -> list[Standing]:
    """Make each run once more, whatever it did before: all of them or none. Raises NotFound, Gone."""
    sources = Sources(tx)
    standings = []
    for id in ids:
        old = deployments.by_id(tx, id)
        wanted = desire(key, sources, configs.by_id(tx, old.terms.config), old.terms.inputs)
        standings.append(renew(tx, old, wanted, "rerun", f"rerun by {by}", by, must=True))
        audit.record(tx, by, "deployment rerun", id, server=old.server_name, name=old.terms.name, number=old.generation.number + 1)
    return standings


def delete(tx: Tx, ids: list[str], by: str) -> None:
    """Delete deployments: all of them or none. What was not granted is withdrawn; a granted run may finish.

    Raises NotFound, Gone, and Conflict when others depend on one of them.
    """
    going = set(ids)
    for id in ids:
        refuse_if_needed(tx, deployments.by_id(tx, id), going)
    for id in ids:
        bury(tx, deployments.by_id(tx, id), by)


def bury(tx: Tx, old: Deployment, by: str) -> None:
    """Make one a tombstone. Its agent is told until it says that it has forgotten it; where there is no agent, nobody needs to be."""
    server = servers.by_id(tx, old.server)
    told = server.kind == "agent" and server.deleted_at is None
    deployments.bury(tx, old.id, acknowledged=not told)
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
    for one in all_of_it:
        wanted = desire(key, sources, configs.by_id(tx, one.terms.config), one.terms.inputs)
        old = msgspec.structs.replace(one, standing=msgspec.structs.replace(one.standing, repeating=None))
        renew(tx, old, wanted, "reset", why, by, must=True, action="CREATE", wiped=True)
    audit.record(tx, by, "server reset", server_id, name=server.name, why=why, deployments=len(all_of_it))
    return len(all_of_it)


def close_runs(tx: Tx, server: str, why: str) -> list[Run]:
    """End every open run of a server as interrupted: its machine does not know of it any more. Those that were open."""
    closed = runs.open_of_server(tx, server)
    for run in closed:
        verdict = Verdict("FAILED", "interrupted", f"interrupted: {why}")
        deployment = deployments.find(tx, run.deployment)
        concerned = deployment is not None and concerns(tx, deployment, run)
        effect, reason = ("recorded", None) if concerned else ("none", run.effect_why or "not the current generation")
        runs.end(tx, run.id, verdict, None, effect, reason, reported=False)  # type: ignore[arg-type]
        if deployment is None:
            continue
        if concerned:
            standing = finished(deployment.standing, run.id, verdict)
            deployments.set_state(tx, deployment.id, deployment.generation.id, deployment.terms_number, standing)
        else:
            leave(tx, deployment, run)
        remember_end(tx, deployment.id, run, verdict)
    ids = dict.fromkeys(run.deployment for run in closed)
    for id in ids:
        settle(tx, id)
    tell_of_failure(tx, ids)
    return closed


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
    known = deployments.generation_of(tx, id, run.generation)
    by_delivery = run.agent_state is None  # a stock agent: what it was handed counts as started
    late = (run.started_at is not None or by_delivery) and deployment is not None and deployment.memory.last_run not in (None, run.id)
    if deployment is None or late:
        return
    memory = msgspec.structs.replace(deployment.memory, started=True)
    if verdict.status == "COMPLETE" and known is not None:
        memory = msgspec.structs.replace(memory, completed_generation=run.generation, completed=known[1], left=False)
    else:
        memory = msgspec.structs.replace(memory, left=True)
    deployments.set_memory(tx, id, memory)


def apply(tx: Tx, deployment: Deployment, standing: Standing) -> None:
    """Write where a deployment stands and bring those that depend on it to where they stand then."""
    deployments.set_state(tx, deployment.id, deployment.generation.id, deployment.terms_number, standing)
    if standing.status != deployment.standing.status:
        settle(tx, deployment.id)
        if standing.status == "FAILED":
            tell_of_failure(tx, [deployment.id])
