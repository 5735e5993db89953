"""An agent asks which of the runs it minted it may start."""

import msgspec

from appliance.deployment import Blocker, Refusal, granted
from appliance.errors import ApplianceError, Invalid, NotFound
from appliance.identity import Who
from appliance.names import check_uuid
from appliance.numbers import Whole
from appliance.operations.arrivals import arrive, refusal
from appliance.operations.changes import waits_for_itself
from appliance.operations.limits import at_grant
from appliance.store import deployments, runs
from appliance.store.deployments import Deployment
from appliance.store.runs import Claim
from appliance.store.servers import Server
from appliance.store.tx import Tx

MANY = 5000


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run the agent would start."""

    run: str
    deployment: str
    generation: str
    attempt: Whole = 1


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim: the runs, and the deleted deployments the agent has forgotten."""

    runs: list[Ask] = []
    forgotten: list[str] = []


def claim(tx: Tx, server_id: str, who: Who, alive_at: int | None, asked: Asked) -> list[Claim] | ApplianceError:
    """Answer each run id; the same id always gets the same answer. While a person must decide, each is refused.

    An error is returned, for the edge to raise, when nothing is answered and what was noted of the one who asks must stay. Raises Invalid
    for malformed ids, NotFound for a run id of another server.
    """
    if len(asked.runs) > MANY:
        raise Invalid(f"a claim of {len(asked.runs)} runs is over the limit of {MANY}")
    for ask in asked.runs:
        for kind, id in (("run", ask.run), ("deployment", ask.deployment), ("generation", ask.generation)):
            check_uuid(kind, id)
    server = arrive(tx, server_id, who, alive_at)
    refused = refusal(server, who)
    if refused is not None and (server.trouble is None or not asked.runs or _granted_before(tx, server, asked)):
        return refused
    if server.trouble is None:
        deployments.forgotten(tx, server_id, asked.forgotten)
    return [_answer(tx, server, who, ask) for ask in asked.runs]


def _granted_before(tx: Tx, server: Server, asked: Asked) -> bool:
    """Whether one of these runs was granted to this server: the machine that was known may start it, and who asks may be another."""
    answers = [runs.claim_of(tx, ask.run) for ask in asked.runs]
    return any(one is not None and (one.server, one.answer) == (server.id, "granted") for one in answers)


def _answer(tx: Tx, server: Server, who: Who, ask: Ask) -> Claim:
    before = runs.claim_of(tx, ask.run)
    if before is not None:
        if before.server != server.id:
            raise NotFound(f"no run {ask.run!r} for this token")
        return before
    if runs.by_id(tx, ask.run) is not None:
        raise Invalid(f"run id {ask.run!r} was used already")
    found = deployments.find(tx, ask.deployment)
    why, message, after = _judge(tx, server, ask, found)
    if why is not None:
        answer = Claim(ask.run, server.id, "refused", why, message, [])
    else:
        assert found is not None
        _grant(tx, server, who, ask, found, after)
        answer = Claim(ask.run, server.id, "granted", None, None, after)
    runs.answer(tx, answer, ask.deployment, ask.generation, ask.attempt)
    return answer


def _judge(tx: Tx, server: Server, ask: Ask, found: Deployment | None) -> tuple[Refusal | None, str, list[str]]:
    """(why it is refused or None, a sentence, the generations it is granted after)."""
    if server.trouble is not None:
        return "other-instance", server.trouble.sentence, []
    if found is None or found.server != server.id or found.deleted_commit is not None:
        return "deleted", "the deployment is not there any more", []
    if ask.generation != found.generation.id:
        return "superseded", f"generation {found.generation.number} is current", []
    if found.standing.reason == "cancelled" and found.standing.run is None:
        return "cancelled", found.standing.sentence, []
    if waits_for_itself(tx, found):
        return "blocked", "an earlier run has not been reported to its end", []
    if not found.standing.ungranted:
        return "claimed", f"it is {found.standing.phase or found.standing.status}", []
    if ask.attempt != found.standing.attempt:
        return "claimed", f"attempt {found.standing.attempt} is the one to run", []
    if found.standing.next_at is not None:
        return "blocked", f"attempt {ask.attempt} is not due yet", []
    after: list[str] = []
    for blocker in deployments.blockers(tx, found.id):
        if blocker.server_id != server.id or not _under_way(tx, blocker):
            return "blocked", f"waits for {blocker.server}/{blocker.name}", []
        after.append(blocker.generation)
    return None, "", after


def _under_way(tx: Tx, blocker: Blocker) -> bool:
    """Whether a run of the very generation that is waited for has been granted and is not over."""
    return any(run.generation == blocker.generation and run.repeat is None for run in runs.open_of_deployment(tx, blocker.deployment))


def _grant(tx: Tx, server: Server, who: Who, ask: Ask, found: Deployment, after: list[str]) -> None:
    memory = found.memory
    runs.grant(
        tx,
        ask.run,
        server.id,
        found.id,
        found.generation.id,
        found.terms_number,
        attempt=ask.attempt,
        after=after,
        instance=msgspec.json.encode(who.instance).decode(),
        agent_state=who.agent_state,
        boot=who.boot,
        changed=server.changed,
        owed=memory.must_run,
        limits=at_grant(tx, server.id, server.kind, found.terms.timeout, after),
    )
    if memory.must_run:
        deployments.set_memory(tx, found.id, msgspec.structs.replace(memory, must_run=False))
    standing = granted(found.standing, ask.run, follows=bool(after))
    deployments.set_state(tx, found.id, found.generation.id, found.terms_number, standing)
