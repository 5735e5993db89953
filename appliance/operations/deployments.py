"""Saying what must run where: create and update. See also operations/fate.py."""

from typing import Any, Literal

import msgspec

from appliance import config as rules
from appliance.config import Given, Statement
from appliance.deployment import TIMEOUT_SECONDS, WORKS, Action, Policy, cycle, run_order
from appliance.errors import ApplianceError, Conflict, Gone, Invalid, NotFound
from appliance.keys import Key
from appliance.names import check_name
from appliance.operations import fate
from appliance.operations.changes import clear, desire, first_generation, renew, same_statement, seal, stand, what_changed
from appliance.operations.references import find_deployment
from appliance.operations.sources import Sources, keys_of
from appliance.operations.terms import checked_terms, in_order, policy_of, refuse_files, terms_changed
from appliance.store import audit, configs, deployments, servers, uses
from appliance.store.configs import Config
from appliance.store.deployments import Deployment, Terms
from appliance.store.needs import wait_for
from appliance.store.tx import Tx

UNSET = msgspec.UNSET
Unset = msgspec.UnsetType

MANY = 5_000


class Wanted(msgspec.Struct, frozen=True):
    """What to create: `server` by name or id, `config` by id or as a statement, `depends_on` as ids or `SERVER/NAME`.

    `update`: where the server has a deployment of this name, bring that one to this instead of refusing. `replace`: delete that one, with
    its DELETE work, and make a new one.
    """

    server: str
    name: str
    config: str | Statement
    inputs: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    policy: Policy | None = None
    interval: int | None = None
    timeout: int | None = TIMEOUT_SECONDS
    attempts: int = 1
    actions: tuple[Action, ...] = WORKS
    depends_on: list[str] = []
    follow: list[str] = []
    update: bool = False
    replace: bool = False


class Edit(msgspec.Struct, frozen=True):
    """What to change of a deployment; what is not given stays. `inputs` and `secrets` are merged, `drop` takes inputs away."""

    name: str | Unset = UNSET
    config: str | Statement | Unset = UNSET
    inputs: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    drop: list[str] = []
    policy: Policy | Unset = UNSET
    interval: int | Unset | None = UNSET
    timeout: int | Unset | None = UNSET
    attempts: int | Unset = UNSET
    actions: tuple[Action, ...] | Unset = UNSET
    depends_on: list[str] | Unset = UNSET
    follow: list[str] | Unset = UNSET


class Done(msgspec.Struct, frozen=True):
    """What became of one deployment: `changes` says, for people, what is new about it."""

    id: str
    did: Literal["created", "updated", "unchanged", "replaced"]
    changes: list[str]


class _Batch:
    """What the items of one operation share: a script that thirty of them name is stored once, and they may depend on each other."""

    def __init__(self, tx: Tx, key: Key, by: str) -> None:
        self.tx, self.key, self.by = tx, key, by
        self.sources = Sources(tx, NotFound)
        self.placed: dict[tuple[str, str], str] = {}
        self.replaced: dict[tuple[str, str], list[str]] = {}  # by server and name: those whose DELETE work is to be done first
        self._statements: dict[bytes, Config] = {}

    def config(self, given: str | Statement, name: str, like: Config | None) -> Config:
        """The config to use: the one with this id, `like` when it already says the same, or a new one."""
        if isinstance(given, str):
            found = configs.by_id(self.tx, given)
            if found.hidden_at is not None:
                raise NotFound(f"config {given!r} was deleted", hint="see what there is with: appliance config list")
            return found
        statement = given if given.name is not None else msgspec.structs.replace(given, name=name)
        plan, files = keys_of(self.tx, statement)
        if like is not None and same_statement(like, statement, plan, files):
            return like
        encoded = msgspec.json.encode(statement, order="deterministic")
        if encoded not in self._statements:
            rules.check(statement)
            self._statements[encoded] = configs.add(self.tx, statement, plan, self.by, files)
        return self._statements[encoded]

    def needs(self, refs: list[str], id: str) -> list[str]:
        """The ids of what deployment `id` comes after. Raises NotFound for one that is not there, Invalid for itself."""
        found = list(dict.fromkeys(self.reference(ref) for ref in refs))
        if id in found:
            raise Invalid("a deployment cannot come after itself", hint="take it away from what it comes after")
        return found

    def reference(self, ref: str) -> str:
        """The id of a deployment named by id or `SERVER/NAME`, one of this batch too."""
        server, slash, name = ref.partition("/")
        if slash:
            found = self.placed.get((servers.find(self.tx, server).id, name))
            if found is not None:
                return found
        elif ref in self.placed.values():
            return ref
        try:
            return find_deployment(self.tx, ref).id
        except (NotFound, Gone):
            raise NotFound(
                f"it is to come after {ref!r}, and there is no such deployment", hint="name it as SERVER/NAME or by id"
            ) from None


def create(tx: Tx, key: Key, wanted: list[Wanted], by: str) -> list[Done]:
    """Create deployments: all of them or none.

    Raises Invalid, NotFound or Conflict naming the item that is wrong (counted from 1 when there are several).
    """
    if len(wanted) > MANY:
        raise Invalid(f"{len(wanted)} deployments at once are more than {MANY}")
    batch = _Batch(tx, key, by)
    _clear(batch, wanted)
    placed: list[tuple[str, Deployment | None]] = []
    for number, item in enumerate(wanted, 1):
        with _naming(number, len(wanted)):
            placed.append(_place(batch, item))
    needed: list[tuple[list[str], list[str]]] = []
    for number, (item, (id, _)) in enumerate(zip(wanted, placed, strict=True), 1):
        with _naming(number, len(wanted)):
            follows = batch.needs(item.follow, id)
            needed.append((list(dict.fromkeys([*batch.needs(item.depends_on, id), *follows])), follows))
    done: dict[int, Done] = {}
    for at in _followed_first([id for id, _ in placed], [follows for _, follows in needed]):
        item, (id, old), (needs, follows) = wanted[at], placed[at], needed[at]
        with _naming(at + 1, len(wanted)):
            if old is None:
                done[at] = _begin(batch, item, id, needs, tuple(follows))
            else:
                done[at] = _bring(batch, item, deployments.by_id(tx, id), needs, tuple(follows))
    refuse_circles(tx, [id for id, _ in placed])
    for id, _ in placed:  # one may wait for another that came after it in the list
        stand(tx, deployments.by_id(tx, id))
    return [done[at] for at in range(len(wanted))]


def _followed_first(ids: list[str], follows: list[list[str]]) -> list[int]:
    """Positions in the order in which what is followed comes first; those in a circle at the end, to be refused."""
    at = {id: number for number, id in enumerate(ids)}
    ordered = [at[id] for id in run_order((id, None, at[id], follows[at[id]]) for id in ids)]
    return ordered + sorted(set(at.values()).difference(ordered))


class _naming:  # noqa: N801 - it reads as a clause
    """Say which item of a list an error is about."""

    def __init__(self, number: int, of: int) -> None:
        self.prefix = f"item {number}: " if of > 1 else ""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.prefix and isinstance(error, ApplianceError):
            raise type(error)(self.prefix + error.message, hint=error.hint, detail=error.detail) from None


def _clear(batch: _Batch, wanted: list[Wanted]) -> None:
    """Delete those that are to be replaced."""
    tx = batch.tx
    there: dict[tuple[str, str], list[Deployment]] = {}
    for number, item in enumerate(wanted, 1):
        if item.replace:
            with _naming(number, len(wanted)):
                server = servers.find(tx, item.server).id
                there[server, item.name] = deployments.named(tx, server, item.name)
    fate.delete(tx, batch.key, list(dict.fromkeys(one.id for found in there.values() for one in found if not one.leaving)), batch.by)
    for (server, name), found in there.items():
        if found:
            batch.replaced[server, name] = [one.id for one in deployments.named(tx, server, name)]


def _place(batch: _Batch, item: Wanted) -> tuple[str, Deployment | None]:
    """The id of a new deployment, or the one there is that is to be brought to what is wanted."""
    check_name("deployment", item.name)
    server = servers.find(batch.tx, item.server)
    label = f"{server.name}/{item.name}"
    if (server.id, item.name) in batch.placed:
        raise Conflict(f"{label} is named twice")
    there = [] if item.replace else deployments.named(batch.tx, server.id, item.name)
    there = [one for one in there if not one.leaving] or there
    if there and not item.update:
        raise Conflict(f"{label} exists already", hint=f"change it with: appliance deployment update {label}")
    if len(there) > 1:
        raise Conflict(f"{label} names {len(there)} deployments", hint="use one of the ids: " + ", ".join(one.id for one in there))
    id = there[0].id if there else deployments.add(batch.tx, server.id, batch.by)
    batch.placed[server.id, item.name] = id
    return id, there[0] if there else None


def _begin(batch: _Batch, item: Wanted, id: str, needs: list[str], follows: tuple[str, ...]) -> Done:
    config = batch.config(item.config, item.name, None)
    plain, secret = rules.check_given(config.statement, item.inputs, item.secrets)
    inputs = seal(batch.key, plain, secret)
    wanted = desire(batch.key, batch.sources, config, inputs, follows)
    server = servers.find(batch.tx, item.server)
    policy = policy_of(item.policy, plain) or policy_of(None, rules.effective(config.statement, {})) or "on-change"
    terms = checked_terms(
        server, Terms(item.name, policy, item.interval, item.timeout, config.id, inputs, item.attempts, in_order(item.actions), follows)
    )
    refuse_files(server, config)
    before = batch.replaced.get((server.id, item.name))
    wait_for(batch.tx, id, before or [])
    first_generation(batch.tx, id, server.id, terms, needs, wanted, batch.by)
    audit.record(batch.tx, batch.by, "deployment create", id, server=server.name, name=item.name, policy=terms.policy)
    return Done(id, "created" if before is None else "replaced", [])


def _bring(batch: _Batch, item: Wanted, old: Deployment, needs: list[str], follows: tuple[str, ...]) -> Done:
    """Bring a deployment to what is wanted; the policy stays where none is said, and its interval with it."""
    config = batch.config(item.config, item.name, configs.by_id(batch.tx, old.terms.config))
    plain, secret = rules.check_given(config.statement, item.inputs, item.secrets)
    said = policy_of(item.policy, plain)
    policy, interval = said or old.terms.policy, item.interval
    if said is None and interval is None:
        interval = old.terms.interval
    terms = Terms(
        item.name, policy, interval, item.timeout, config.id, seal(batch.key, plain, secret), item.attempts, in_order(item.actions), follows
    )
    return _apply(batch, old, config, terms, needs)


def update(tx: Tx, key: Key, edits: list[tuple[str, Edit]], by: str) -> list[Done]:
    """Change deployments: all of them or none. A change of its fingerprint makes the next generation; an equal update changes nothing.

    Raises NotFound, Gone, Invalid or Conflict naming the item that is wrong (counted from 1 when there are several).
    """
    batch = _Batch(tx, key, by)
    done: list[Done] = []
    for number, (ref, edit) in enumerate(edits, 1):
        with _naming(number, len(edits)):
            done.append(_edit(batch, find_deployment(tx, ref).id, edit))
    refuse_circles(tx, [one.id for one in done])
    return done


def _edit(batch: _Batch, id: str, edit: Edit) -> Done:
    tx, key = batch.tx, batch.key
    old = deployments.by_id(tx, id)
    config = like = configs.by_id(tx, old.terms.config)
    if not isinstance(edit.config, Unset):
        config = batch.config(edit.config, old.terms.name or old.id, like)
    plain, secret = rules.check_given(config.statement, *_merged(key, old.terms.inputs, edit))
    policy = policy_of(None if isinstance(edit.policy, Unset) else edit.policy, edit.inputs) or old.terms.policy
    interval = old.terms.interval if isinstance(edit.interval, Unset) else edit.interval
    terms = Terms(
        old.terms.name if isinstance(edit.name, Unset) else check_name("deployment", edit.name),
        policy,
        None if isinstance(edit.interval, Unset) and policy != "always" else interval,
        old.terms.timeout if isinstance(edit.timeout, Unset) else edit.timeout,
        config.id,
        seal(key, plain, secret),
        old.terms.attempts if isinstance(edit.attempts, Unset) else edit.attempts,
        old.terms.actions if isinstance(edit.actions, Unset) else in_order(edit.actions),
    )
    if terms.name is not None and terms.name != old.terms.name and deployments.named(tx, old.server, terms.name):
        raise Conflict(f"{old.server_name}/{terms.name} exists already")
    needs, follows = deployments.needs(tx, id), list(old.terms.follows)
    if isinstance(edit.depends_on, list):
        needs = batch.needs(edit.depends_on, id)
        follows = [one for one in follows if one in needs]
    if isinstance(edit.follow, list):
        follows = batch.needs(edit.follow, id)
        needs = list(dict.fromkeys([*needs, *follows]))
    terms = msgspec.structs.replace(terms, follows=tuple(follows))
    return _apply(batch, old, config, terms, needs)


def _merged(key: Key, given: dict[str, Given], edit: Edit) -> tuple[dict[str, Any], dict[str, Any]]:
    values = clear(key, given)
    for name in edit.drop:
        if name not in values:
            raise Invalid(f"there is no input {name!r} to take away")
    kept = {name: value for name, value in values.items() if name not in edit.drop}
    sealed = {name for name, one in given.items() if isinstance(one.sealed, str)}
    plain = {name: value for name, value in kept.items() if name not in sealed and name not in edit.secrets}
    secret = {name: value for name, value in kept.items() if name in sealed and name not in edit.inputs}
    return plain | edit.inputs, secret | edit.secrets


def _apply(batch: _Batch, old: Deployment, config: Config, terms: Terms, needs: list[str]) -> Done:
    """Write what differs from what is desired now: new terms, and a new generation when a machine must run for it."""
    tx = batch.tx
    if old.leaving:
        raise Conflict(f"{old.label} is being deleted", hint="put a new one in its place with: appliance deploy ... --replace")
    server = servers.by_id(tx, old.server)
    terms = checked_terms(server, terms)
    refuse_files(server, config)
    wanted = desire(batch.key, batch.sources, config, terms.inputs, terms.follows)
    before = configs.by_id(tx, old.terms.config)
    origin = (config.plan, config.statement.source, config.files, config.statement.files)
    moved = origin != (before.plan, before.statement.source, before.files, before.statement.files)
    differs = wanted.fingerprint != old.generation.fingerprint
    to_always = terms.policy == "always" and old.terms.policy != "always"
    changes = [what_changed(old, wanted)] if differs else []
    if moved and not differs:
        changes.append("the body comes from another place")
    changes += terms_changed(old.terms, terms)
    if sorted(deployments.needs(tx, old.id)) != sorted(needs):
        changes.append("dependencies changed")
    if not differs and terms.inputs != old.terms.inputs:
        changes.append("inputs changed that trigger nothing")
    elif not differs and not moved and terms.config != old.terms.config:
        changes.append("declarations of the config changed")
    if not changes:
        return Done(old.id, "unchanged", [])
    number = old.terms_number + 1
    deployments.set_terms(tx, old.id, number, terms, needs, batch.by)
    if differs or to_always:
        renew(
            tx,
            batch.key,
            old,
            wanted,
            "update",
            ", ".join(changes),
            batch.by,
            must=to_always,
            terms=number,
            policy=terms.policy,
            works=terms.actions,
        )
    else:
        deployments.set_state(tx, old.id, old.generation.id, number, old.standing)
        uses.use(tx, old.id, wanted.files)
        stand(tx, deployments.by_id(tx, old.id))
        tx.touch(f"server:{old.server}")
    audit.record(tx, batch.by, "deployment update", old.id, server=old.server_name, name=terms.name, changes=changes)
    return Done(old.id, "updated", changes)


def refuse_circles(tx: Tx, ids: list[str]) -> None:
    """Raise Invalid when any of these depends on itself by way of others, naming them."""
    edges: dict[str, list[str]] = {}
    queue = list(ids)
    while queue:
        one = queue.pop()
        if one not in edges:
            edges[one] = deployments.needs(tx, one)
            queue += edges[one]
    ordered = set(run_order((id, None, 0, needs) for id, needs in edges.items()))
    for id in edges.keys() - ordered:
        path = cycle(edges, id)
        if path:
            names = " -> ".join(deployments.by_id(tx, one).label for one in [*path, id])
            raise Invalid(f"these depend on each other in a circle: {names}", hint="take one of these dependencies away")
