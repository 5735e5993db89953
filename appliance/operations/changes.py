"""What changes on deployments when something they are made of changes: generations, standings, dependants, who is to be woken."""

from collections.abc import Iterable
from typing import Any

import msgspec

from appliance import config as configs_rules
from appliance import fingerprint
from appliance.config import Given, Statement
from appliance.deployment import AT_ONCE, Action, Cause, Memory, Policy, Standing, begin, next_action, nothing_to_do, waiting, waiting_on
from appliance.errors import ApplianceError, Conflict
from appliance.keys import Key
from appliance.operations.sources import Sources
from appliance.store import configs, deadlines, deployments, file, needs, runs, servers, uses
from appliance.store.configs import Config
from appliance.store.deployments import Deployment, Generation, Terms
from appliance.store.tx import Reader, Tx
from appliance.store.uses import Resolved


class Moved(msgspec.Struct, frozen=True):
    """Ids of the deployments that got a new generation, and of their servers."""

    deployments: list[str]
    servers: list[str]


class Desire(msgspec.Struct, frozen=True):
    """What a generation would be made of, and its fingerprint."""

    config: Config
    inputs: dict[str, Given]
    files: list[Resolved]
    parts: dict[str, str]
    fingerprint: bytes


def desire(key: Key, sources: Sources, config: Config, inputs: dict[str, Given], follows: Iterable[str] = ()) -> Desire:
    """Resolve a config, given inputs and what is followed as of now. Raises what `Sources.resolve` raises."""
    files = sources.resolve(config)
    body = next((one.digest for one in files if one.kind == "file"), None) or fingerprint.body_digest(config.statement.body)
    trees = {str(one): found.digest for one, found in zip(config.statement.files, files[-len(config.files) :], strict=False)}
    values = configs_rules.triggering(config.statement, configs_rules.effective(config.statement, clear(key, inputs)))
    parts = fingerprint.parts_of(key, config.statement, body, values, sources.followed(follows), trees)
    return Desire(config, inputs, files, parts, fingerprint.whole(key, parts))


def clear(key: Key, inputs: dict[str, Given]) -> dict[str, Any]:
    """Given inputs with secrets opened."""
    return {
        name: msgspec.json.decode(key.unsealed(one.sealed)) if isinstance(one.sealed, str) else one.value for name, one in inputs.items()
    }


def seal(key: Key, plain: dict[str, Any], secret: dict[str, Any]) -> dict[str, Given]:
    """Given values as they are stored."""
    found = {name: Given(value) for name, value in plain.items()}
    return found | {name: Given(sealed=key.sealed(msgspec.json.encode(value).decode())) for name, value in secret.items()}


def first_generation(
    tx: Tx,
    deployment: str,
    server: str,
    terms: Terms,
    needs: list[str],
    wanted: Desire,
    by: str,
    *,
    cause: Cause = "create",
    action: Action = "CREATE",
    works: bool = False,
) -> None:
    """Give a new deployment its terms and its first generation. `works`: there is work for the action, whatever the terms say."""
    deployments.set_terms(tx, deployment, 1, terms, needs, by)
    made = deployments.add_generation(tx, deployment, _generation(wanted, 1, 1, action, cause, None, tx.now, by))
    uses.resolve(tx, made.id, wanted.files)
    uses.use(tx, deployment, wanted.files)
    if works or action in terms.actions:
        deployments.set_memory(tx, deployment, Memory(substantial=made.id))
        standing = waiting(blocked=bool(deployments.blockers(tx, deployment)))
    else:
        deployments.set_memory(tx, deployment, Memory(must_run=False))
        standing = nothing_to_do(action, None)
    deployments.set_state(tx, deployment, made.id, 1, standing)
    servers.set_changed(tx, server)


def _generation(
    wanted: Desire, number: int, terms: int, action: Action, cause: Cause, detail: str | None, action_start: int, by: str
) -> Generation:
    return Generation("", number, terms, action, wanted.fingerprint, wanted.parts, cause, detail, action_start, 0, 0, by)


def renew(
    tx: Tx,
    key: Key,
    old: Deployment,
    wanted: Desire,
    cause: Cause,
    detail: str | None,
    by: str,
    *,
    must: bool = False,
    action: Action | None = None,
    terms: int | None = None,
    policy: Policy | None = None,
    works: tuple[Action, ...] | None = None,
    wiped: bool = False,
    moved: dict[str, str] | None = None,
) -> Standing:
    """Make the next generation of a deployment and say where it stands on it.

    `must`: it runs though nothing changed (rerun, reset, a move to `always`). `action`: CREATE until one has been started on this instance,
    then UPDATE, where none is said; one that there is no work for is COMPLETE at once. `terms`, `policy` and `works` (the actions it has
    work for) are the new ones where they changed. `wiped`: what was remembered of this machine is forgotten.
    Those that follow it get theirs in the same commit; `moved` takes up all that got one, with their servers.
    """
    terms = old.terms_number if terms is None else terms
    start = max(tx.now, old.generation.action_start + 1)
    busy = bool(runs.open_of_deployment(tx, old.id))
    memory = Memory() if wiped else old.memory
    works = old.terms.actions if works is None else works
    action = action or next_action(memory, works, busy=busy)
    made = deployments.add_generation(tx, old.id, _generation(wanted, old.generation.number + 1, terms, action, cause, detail, start, by))
    uses.resolve(tx, made.id, wanted.files)
    uses.use(tx, old.id, wanted.files)
    before = None if wiped else old.standing
    if action in works:
        memory = msgspec.structs.replace(memory, must_run=must or memory.must_run)
        blocked = bool(deployments.blockers(tx, old.id))
        standing = begin(policy or old.terms.policy, memory, wanted.fingerprint, before, blocked=blocked, busy=busy)
    else:
        memory = msgspec.structs.replace(memory, must_run=False)
        standing = nothing_to_do(action, before)
    if standing.ungranted:
        memory = msgspec.structs.replace(memory, substantial=made.id)
    elif standing.sentence == AT_ONCE:  # it is back where those that follow it have seen it
        memory = msgspec.structs.replace(memory, substantial=memory.completed_generation)
    if memory != old.memory:
        deployments.set_memory(tx, old.id, memory)
    deployments.set_state(tx, old.id, made.id, terms, standing)
    watch_deletion(tx, deployments.by_id(tx, old.id))
    servers.set_changed(tx, old.server)
    settle(tx, old.id)
    if moved is not None:
        moved[old.id] = old.server
    if memory.substantial != old.memory.substantial:
        follow(tx, key, old, by, moved)
    return standing


def follow(tx: Tx, key: Key, followed: Deployment, by: str, moved: dict[str, str] | None = None) -> None:
    """Those that follow a deployment whose generation counts anew for them get one of their own, and those that follow them."""
    for id in needs.followers(tx, followed.id):
        one = deployments.by_id(tx, id)
        if one.leaving:
            continue
        wanted = desire(key, Sources(tx), configs.by_id(tx, one.terms.config), one.terms.inputs, one.terms.follows)
        if wanted.fingerprint != one.generation.fingerprint:
            renew(tx, key, one, wanted, "follow", f"{followed.label} changed, which it follows", by, moved=moved)


def watch_deletion(tx: Tx, one: Deployment) -> None:
    """DELETE work has a deadline from when it is ready until it is over."""
    ready = one.leaving and one.standing.status == "IN_PROGRESS" and one.standing.phase != "blocked"
    if ready or one.leaving:
        deadlines.set_deletion(tx, one.id, tx.uptime + file.pace(tx).delete if ready else None)


def settle(tx: Tx, moved: str) -> None:
    """Bring those that come right after `moved` to where they stand now.

    A dependant that has been granted or has finished is left alone: dependencies order, they do not propagate.
    """
    for id in deployments.needed_by(tx, moved):
        dependant = deployments.by_id(tx, id)
        if dependant.standing.ungranted:
            stand(tx, dependant)
            tx.touch(f"deployment:{id}", f"server:{dependant.server}")


def tell_of_failure(tx: Tx, failed: Iterable[str]) -> None:
    """Wake who waits for anything that comes, directly or by way of others, after these: that will not move by itself now."""
    queue, seen = list(failed), set[str]()
    while queue:
        further = [id for id in deployments.needed_by(tx, queue.pop()) if id not in seen]
        seen.update(further)
        queue += further
    tx.touch(*(f"deployment:{id}" for id in seen))


def stand(tx: Tx, one: Deployment) -> None:
    """Bring one that waits to blocked or pending, as what it depends on stands now."""
    if one.standing.ungranted:
        standing = waiting_on(one.standing, blocked=bool(deployments.blockers(tx, one.id)))
        if standing.phase != one.standing.phase:
            deployments.set_state(tx, one.id, one.generation.id, one.terms_number, standing)
            watch_deletion(tx, msgspec.structs.replace(one, standing=standing))


def waits_for_itself(tx: Reader, one: Deployment) -> bool:
    """Whether a `once` one must wait for the word of its own earlier run: if that has started, the change since is held and not run.

    One that is held already waits for it, too: should that run be given back, the change runs in its place.
    """
    changed = one.terms.policy == "once" and one.standing.ungranted and not one.memory.must_run
    held = one.standing.held and one.standing.phase is not None
    return (changed or held) and bool(runs.open_of_deployment(tx, one.id))


def after_switch(tx: Tx, key: Key, *, plan_id: int, version: int, changed: Iterable[str], by: str) -> Moved:
    """Make new generations of exactly the deployments that use files whose bytes a switch changed, in the switch's own transaction.

    `changed` are the paths whose entry differs. Raises Conflict when a file in use is gone and Invalid when it can no longer be run, naming
    the file and who uses it: then nothing of the switch stays.
    """
    sources = Sources(tx)
    moved: dict[str, str] = {}
    for id in _users(tx, plan_id, list(changed)):
        old = deployments.by_id(tx, id)
        if old.leaving:
            continue
        try:
            wanted = desire(key, sources, configs.by_id(tx, old.terms.config), old.terms.inputs, old.terms.follows)
        except ApplianceError as error:
            raise type(error)(
                f"{error.message}; {old.label} uses it, so nothing was switched",
                hint=f"delete or change {old.label} first, or push a version that has the file as it must be",
                detail=error.detail,
            ) from None
        if wanted.fingerprint != old.generation.fingerprint:
            renew(tx, key, old, wanted, "switch", f"{what_changed(old, wanted)} (version {version})", by, moved=moved)
    return Moved(list(moved), list(dict.fromkeys(moved.values())))


def _users(tx: Reader, plan: int, changed: list[str]) -> list[str]:
    """Those who use one of the paths, as a file or with all of a directory, once each."""
    used = uses.paths_of_plan(tx, plan)  # a switch may change many more paths than anybody uses
    found = [id for path in changed if path in used for id in uses.users_of_path(tx, plan, path)]
    for prefix, ids in uses.users_of_trees(tx, plan).items():
        if any(not prefix or path.startswith(prefix + "/") for path in changed):
            found += ids
    return list(dict.fromkeys(found))


def what_changed(old: Deployment, wanted: Desire) -> str:
    """Which parts of the fingerprint differ, as a phrase for people."""
    return fingerprint.describe(old.generation.parts, wanted.parts, wanted.config.statement)


def refuse_if_needed(tx: Tx, old: Deployment, apart_from: set[str]) -> None:
    """Raise Conflict when deployments other than `apart_from` depend on this one; what waits for it to be gone does not."""
    if old.leaving:
        return
    dependants = [deployments.by_id(tx, id) for id in deployments.needed_by(tx, old.id) if id not in apart_from]
    others = [one.label for one in dependants if not one.leaving]  # what is being deleted waits for those that go before it
    if others:
        names = ", ".join(others[:10])
        raise Conflict(f"{old.label} is needed by {names}", hint="delete those first, or change what they come after")


def same_statement(old: Config, new: Statement, plan: int | None, files: tuple[int, ...]) -> bool:
    """Whether a stored config already says this (its name aside)."""
    return (old.plan, old.files) == (plan, files) and msgspec.structs.replace(old.statement, name=new.name) == new
