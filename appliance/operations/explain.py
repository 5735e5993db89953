"""Why a deployment stands where it stands, what it waits for, and what would change that."""

import msgspec

from appliance.deployment import Blocker, Phase
from appliance.document import times
from appliance.store import deployments, generations, runs, servers
from appliance.store.deployments import Deployment
from appliance.store.generations import Past
from appliance.store.runs import Run
from appliance.store.servers import Seen, Server
from appliance.store.tx import Reader

SILENT_MS = 120_000


class View(msgspec.Struct, frozen=True):
    """A deployment as people see it: `phase` says `delivered` where its agent was handed it, `settled` why a waiter need not wait on.

    `retry_in`: seconds until its next attempt, None when it waits for none.
    """

    deployment: Deployment
    phase: Phase | None
    sentence: str
    blockers: list[Blocker]
    needs: list[str]
    after: list[str]
    settled: str | None
    retry_in: int | None


class Why(msgspec.Struct, frozen=True):
    """`because` in the order to be read; `next` is the command that would change it, or None."""

    view: View
    because: list[str]
    next: str | None
    runs: list[Run]
    numbers: dict[str, int]


def view(tx: Reader, one: Deployment, seen: Seen | None) -> View:
    """One deployment as people see it. `seen` is when its server's agent was last heard, as far as is known now."""
    standing = one.standing
    found = deployments.blockers(tx, one.id) if standing.phase == "blocked" else []
    phase = standing.phase
    sentence = standing.sentence
    if phase == "pending":
        delivered = seen is not None and seen.delivered is not None and seen.delivered >= one.state_commit
        phase = "delivered" if delivered else phase
        sentence = pending_sentence(one, seen, delivered, tx.now)
        if standing.tries > 1:
            sentence = attempt_sentence(tx, one, sentence)
    elif phase == "granted" and one.server_kind == "stock":
        sentence = f"delivered, no result since {times(one.since)}; its agent reports once, and only when it can"
    elif found:
        sentence = "waits for " + ", ".join(f"{it.server}/{it.name} ({it.status if it.status == 'FAILED' else it.phase})" for it in found)
    retry_in = None if standing.next_at is None else max(0, standing.next_at - tx.uptime + 999) // 1000
    needs = deployments.needs(tx, one.id)
    after = [deployments.by_id(tx, id).label for id in needs]
    return View(one, phase, sentence, found, needs, after, settled(tx, one), retry_in)


def attempt_sentence(tx: Reader, one: Deployment, ready: str) -> str:
    """Which attempt is the next one, when, and what became of the one before."""
    standing = one.standing
    last = next((run.sentence for run in runs.of_deployment(tx, one.id, 1) if run.sentence), "it failed")
    which = f"attempt {standing.tries} of {max(one.terms.attempts, standing.tries)}"
    if standing.next_at is None:
        return f"{which} ({last}); {ready}"
    return f"{which} in {max(0, standing.next_at - tx.uptime + 999) // 1000} s: {last}"


def pending_sentence(one: Deployment, seen: Seen | None, delivered: bool, now: int) -> str:
    """What is known of a machine that has not asked for what is ready for it."""
    if seen is None:
        joins = "its agent polls" if one.server_kind == "stock" else "it joins"
        return f"ready; {one.server_name} was never seen, it runs when {joins}"
    if delivered:
        return f"ready; {one.server_name} was handed it and has not asked to start it yet (its agent may be busy with another run)"
    silent = f" (last seen {ago(now - seen.at)})" if now - seen.at > SILENT_MS else ""
    return f"ready; {one.server_name} has not fetched it yet{silent}"


def silent(seen: Seen | None, now: int) -> bool:
    """Whether an agent was not heard for so long that it is probably not running."""
    return seen is None or now - seen.at > SILENT_MS


def ago(ms: int) -> str:
    """How long ago, for people: `12 s ago`, `4 min ago`."""
    seconds = max(0, ms // 1000)
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {word} ago"
    return f"{seconds} s ago"


def settled(tx: Reader, one: Deployment) -> str | None:
    """`complete`, `failed`, or `blocked` when it waits (in the end) for one that has failed; None while it may still move by itself."""
    if one.standing.status != "IN_PROGRESS":
        return "complete" if one.standing.status == "COMPLETE" else "failed"
    if one.standing.phase != "blocked":
        return None
    queue, seen = [one.id], set[str]()
    while queue:
        for blocker in deployments.blockers(tx, queue.pop()):
            if blocker.status == "FAILED":
                return "blocked"
            if blocker.phase == "blocked" and blocker.deployment not in seen:
                seen.add(blocker.deployment)
                queue.append(blocker.deployment)
    return None


def failed_roots(tx: Reader, id: str) -> list[Blocker]:
    """The failed deployments something waits for, directly or by way of others."""
    found: dict[str, Blocker] = {}
    queue, seen = [id], set[str]()
    while queue:
        for blocker in deployments.blockers(tx, queue.pop()):
            if blocker.status == "FAILED":
                found[blocker.deployment] = blocker
            elif blocker.deployment not in seen:
                seen.add(blocker.deployment)
                queue.append(blocker.deployment)
    return list(found.values())


def why(tx: Reader, one: Deployment, seen: Seen | None) -> Why:
    """Explain one deployment."""
    server = servers.by_id(tx, one.server)
    shown = view(tx, one, seen)
    history = generations.newest(tx, one.id, 2)
    last = runs.of_deployment(tx, one.id, 5)
    because = [] if shown.sentence == "complete" else [shown.sentence]
    because.append(made_by(history[0]))
    if one.standing.held:
        because.append("its policy is once, and it has been started on this machine before")
    if one.standing.repeating is not None:
        because.append(f"a repeat ({one.terms.policy}) is running beside that")
    numbers = numbers_of(tx, last)
    because += [f"run {run.id[:8]} of generation {numbers.get(run.generation, 'unknown')}: {run_sentence(run)}" for run in last[:3]]
    if server.trouble is not None:
        because.append(f"nothing runs on {server.name}: {server.trouble.sentence}")
        because.append(f"`server keep {server.name}` goes on with whoever speaks next, `server reset {server.name}` runs everything again")
    if server.rival is not None:
        because.append(f"a second agent spoke with the token of {server.name} and was given nothing")
    if seen is not None:
        because.append(f"{server.name} was last seen {ago(tx.now - seen.at)}")
    if server.kind == "agent" and one.standing.status == "IN_PROGRESS" and shown.phase != "blocked" and silent(seen, tx.now):
        because.append(f"start the agent on {server.name}, as root: appliance agent run")
    return Why(shown, because, next_command(tx, one, shown, server), last, numbers)


def numbers_of(tx: Reader, found: list[Run]) -> dict[str, int]:
    """The numbers of the generations of some runs; one that the file does not know is left out."""
    known = {run.generation: generations.find(tx, run.deployment, run.generation) for run in found}
    return {id: one[0] for id, one in known.items() if one is not None}


def made_by(past: Past) -> str:
    """Why the current generation was made."""
    causes = {
        "create": f"created by {past.by}",
        "update": f"updated by {past.by}",
        "switch": f"a switch by {past.by}",
        "rerun": f"a rerun by {past.by}",
        "reset": "the server was reset",
        "follow": f"what it follows was changed by {past.by}",
        "delete": f"deleted by {past.by}",
        "suspend": f"suspended by {past.by}",
        "resume": f"resumed by {past.by}",
        "heat": f"set through the Heat API by {past.by}",
    }
    text = causes.get(past.cause, past.cause)
    detail = f": {past.detail}" if past.detail and past.cause not in ("rerun", "create", "delete", "suspend", "resume") else ""
    return f"generation {past.number}: {text}{detail}"


def run_sentence(run: Run) -> str:
    """What came of one run, for people."""
    kind = f", a repeat ({run.repeat})" if run.repeat else ""
    if run.stands == "released":
        return f"given back unstarted ({run.reason}){kind}"
    if run.stands != "ended":
        return f"{run.stands}{kind}"
    effect = "" if run.effect == "recorded" else f"; without effect: {run.effect_why}"
    came = "COMPLETE" if run.status == "COMPLETE" else f"{run.status} ({run.sentence})"
    return f"{came}{kind}{effect}"


def next_command(tx: Reader, one: Deployment, shown: View, server: Server) -> str | None:
    """The command that would change where it stands."""
    if server.trouble is not None:
        return f"appliance server keep {server.name}"
    if one.standing.status == "FAILED" or one.standing.held:
        return f"appliance rerun {one.label}"
    roots = failed_roots(tx, one.id) if shown.phase == "blocked" else []
    if roots and deployments.by_id(tx, roots[0].deployment).leaving:
        return f"appliance deployment delete {roots[0].deployment} --force"
    if roots:
        return f"appliance rerun {roots[0].server}/{roots[0].name}"
    if shown.blockers:
        return f"appliance why {shown.blockers[0].server}/{shown.blockers[0].name}"
    if server.kind == "unenrolled" and one.standing.status == "IN_PROGRESS":
        return f"appliance server token {server.name}"
    return None
