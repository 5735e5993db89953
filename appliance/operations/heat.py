"""What Heat's users do: configs and deployments in Heat's own loose way, on the same rows as everybody else's.

Messages are worded as Heat words them, since scripts look at them.
"""

from typing import Any

import msgspec

from appliance import heat
from appliance.config import Statement
from appliance.deployment import ACTIONS, TIMEOUT_SECONDS, Action
from appliance.errors import ApplianceError, Conflict, Gone, Invalid, NotFound
from appliance.heat import UNSET_REASON, Kept, Over, Shown
from appliance.keys import Key
from appliance.operations import fate
from appliance.operations.changes import desire, first_generation, renew
from appliance.operations.documents import body_of
from appliance.operations.sources import Sources, text_of
from appliance.operations.terms import checked_terms, refuse_files
from appliance.store import audit, blobs, configs, deployments, generations, runs, servers
from appliance.store import heat as store
from appliance.store.configs import Config as Config
from appliance.store.deployments import Deployment, Terms
from appliance.store.heat import Line as Line
from appliance.store.heat import server_id as server_id
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx

PAGE = 500


class Referenced(Conflict):
    """A config that a deployment has cannot be deleted."""


class LongProject(Invalid):
    """A project id that is too long."""


# ------------------------------------------------------------------------------------------------------------ configs


def create_config(tx: Tx, body: dict[str, Any], by: str) -> Config:
    """Store a config. None of the native checks of scripts and names apply: it is what it is. Raises Invalid."""
    statement = heat.statement_of(body)
    made = configs.add(tx, statement, None, by)
    audit.record(tx, by, "config create", made.id, name=statement.name, group=statement.group, via="heat")
    return made


def get_config(tx: Reader, id: str) -> Config:
    """One config; where it refers to a plan's file, the text that is current now is its body. Raises NotFound."""
    found = _config(tx, id)
    if found.statement.source is None:
        return found
    try:
        [resolved] = Sources(tx).resolve(found)
    except ApplianceError:  # the plan has no such file just now: the config is shown without a body
        return found
    return _with_body(found, text_of(blobs.read(tx, resolved.digest), resolved.path))


def _with_body(config: Config, body: Any) -> Config:
    return msgspec.structs.replace(config, statement=msgspec.structs.replace(config.statement, body=body))


def _config(tx: Reader, id: object) -> Config:
    try:
        found = configs.by_id(tx, str(id))
    except NotFound:
        found = None
    if found is None or found.hidden_at is not None:
        raise NotFound(f"Software config with id {id} not found")
    return found


def list_configs(tx: Reader, limit: int | None, marker: str | None) -> list[Line]:
    """Configs, newest first. An unknown marker is no marker."""
    return store.configs(tx, limit=1 << 62 if limit is None else limit, marker=marker)


def delete_config(tx: Tx, id: str, by: str) -> None:
    """Hide a config. Raises NotFound, and Referenced while a living deployment has it."""
    found = _config(tx, id)
    if configs.users(tx, id, 1):
        raise Referenced(f"Software config with id {id} can not be deleted as it is referenced.")
    configs.hide(tx, id)
    audit.record(tx, by, "config delete", id, name=found.statement.name, via="heat")


# ------------------------------------------------------------------------------------------------------------ deployments


def create_deployment(tx: Tx, key: Key, body: dict[str, Any], by: str) -> Shown:
    """Bind a config to a server, whether or not there is such a server. Raises NotFound, Invalid, Conflict."""
    config = _config(tx, body.get("config_id"))
    named = body.get("server_id")
    if not isinstance(named, str) or not 1 <= len(named) <= heat.SERVER_LIMIT:
        raise Invalid(f"server_id is missing, or no string of 1 to {heat.SERVER_LIMIT} characters.")
    if len(str(body.get("stack_user_project_id") or "")) > heat.USER_PROJECT_LIMIT:
        raise LongProject(f"stack_user_project_id may have {heat.USER_PROJECT_LIMIT} characters at most.")
    action, status = _word(body, "action"), _word(body, "status")
    server = _server(tx, named)
    id = deployments.add(tx, server.id, by)
    terms = Terms(config.statement.name, heat.policy_of(config.statement) or "on-change", None, TIMEOUT_SECONDS, config.id, {})
    refuse_files(server, config)
    wanted = desire(key, Sources(tx), config, {})
    first_generation(
        tx, id, server.id, checked_terms(server, terms), [], wanted, by, cause="heat", action=_ours(action, "CREATE"), works=True
    )
    if status in ("COMPLETE", "FAILED"):
        _by_hand(tx, deployments.by_id(tx, id), status, by)
    reason, values = body.get("status_reason"), body.get("input_values")
    made = deployments.by_id(tx, id)
    store.keep(
        tx,
        id,
        Kept(
            named,
            _over(made),
            action,
            status,
            UNSET_REASON if reason is None else str(reason),
            {} if values is None else values,
            body.get("output_values") or None,
            made=True,
        ),
    )
    audit.record(tx, by, "deployment create", id, server=server.name, name=terms.name, policy=terms.policy, via="heat")
    return shown(tx, made)


def _server(tx: Tx, named: str) -> Server:
    found = store.server_id(tx, named)
    return store.unenrolled(tx, named) if found is None else servers.by_id(tx, found)


def _word(body: dict[str, Any], key: str) -> str | None:
    found = body.get(key)
    if found is None:
        return None
    if not isinstance(found, str) or len(found) > heat.NAME_LIMIT:
        raise Invalid(f"{key} is no string of at most {heat.NAME_LIMIT} characters.")
    return found


def _ours(action: str | None, otherwise: Action) -> Action:
    return next((one for one in ACTIONS if one == action), otherwise)


def _over(one: Deployment) -> Over:
    return Over(one.generation.id, one.standing.status, one.standing.run)


def _by_hand(tx: Tx, one: Deployment, status: str, by: str) -> None:
    """Somebody says what came of it: nothing ungranted runs, dependants see it, what a machine reports later is evidence only."""
    if one.standing.status == status:
        return
    sentence = f"set to {status} by {by}"
    deployments.set_memory(tx, one.id, msgspec.structs.replace(one.memory, must_run=False))
    store.set_by_hand(tx, one.id, f"its status was {sentence}")
    reason = None if status == "COMPLETE" else "by-hand"
    fields = {"status": status, "phase": None, "reason": reason, "sentence": sentence, "held": False, "run": None, "next_at": None}
    standing = msgspec.structs.replace(one.standing, **fields)
    fate.apply(tx, one, standing)
    tx.touch(f"server:{one.server}")


def update_deployment(tx: Tx, key: Key, id: str, body: dict[str, Any], by: str) -> Shown:
    """Change what is given; null and empty are not. Another config is always a new generation. Raises NotFound, Invalid, Conflict."""
    one = _living(tx, id)
    before, fields = shown(tx, one), store.kept(tx, id)
    said = {name: body[name] for name in _SETTABLE if name in body and heat.given(body[name])}
    action, status = _word(said, "action"), _word(said, "status")
    renewed = said.get("config_id", one.terms.config) != one.terms.config
    if renewed:
        made = fields is not None and fields.made
        _rebind(tx, key, one, _config(tx, said["config_id"]), _ours(action, "UPDATE"), by, made=made)
        one = deployments.by_id(tx, id)
    if status in ("COMPLETE", "FAILED"):
        _by_hand(tx, one, status, by)
        one = deployments.by_id(tx, id)
    verbatim = None if fields is None or fields.output_values != before.output_values else fields.output_values
    if status is None:
        status = one.standing.status if renewed else before.status
    store.keep(
        tx,
        id,
        Kept(
            before.server_id if fields is None else fields.server_id,
            _over(one),
            action or before.action,
            status,
            str(said.get("status_reason", before.status_reason)),
            said.get("input_values", before.input_values),
            said.get("output_values", verbatim),
            tx.now,
            fields is not None and fields.made,
        ),
    )
    audit.record(tx, by, "deployment update", id, changes=sorted(said), via="heat")
    return shown(tx, one)


_SETTABLE = ("config_id", "input_values", "output_values", "action", "status", "status_reason")


def _rebind(tx: Tx, key: Key, one: Deployment, config: Config, action: Action, by: str, *, made: bool) -> None:
    """Another config under a deployment; one that was made natively keeps its name, its policy and the inputs it was given."""
    if one.leaving:
        raise Conflict(f"Deployment {one.id} is being deleted.")
    policy = heat.policy_of(config.statement) or ("on-change" if made else one.terms.policy)
    terms = msgspec.structs.replace(
        one.terms,
        name=config.statement.name if made else one.terms.name,
        policy=policy,
        interval=one.terms.interval if policy == "always" else None,
        config=config.id,
    )
    server = servers.by_id(tx, one.server)
    checked_terms(server, terms)
    refuse_files(server, config)
    number = one.terms_number + 1
    deployments.set_terms(tx, one.id, number, terms, deployments.needs(tx, one.id), by)
    wanted = desire(key, Sources(tx), config, terms.inputs, terms.follows)
    renew(tx, key, one, wanted, "heat", "another config", by, must=True, action=action, terms=number, policy=policy, works=ACTIONS)


def delete_deployment(tx: Tx, key: Key, id: str, by: str) -> None:
    """Delete one: final at once. Raises NotFound, and Conflict when others depend on it."""
    fate.delete(tx, key, [_living(tx, id).id], by, force=True)


def _living(tx: Reader, id: str) -> Deployment:
    try:
        return deployments.by_id(tx, id)
    except (NotFound, Gone):
        raise NotFound(f"Deployment with id {id} not found") from None


# ------------------------------------------------------------------------------------------------------------ as it is shown


def get_deployment(tx: Reader, id: str) -> Shown:
    """One deployment. Raises NotFound."""
    return shown(tx, _living(tx, id))


def list_deployments(tx: Reader, named: str | None, after: int, limit: int) -> tuple[list[Shown], int]:
    """(deployments oldest first, where to go on). `named`: only those of this server; an unknown one has none."""
    if named is None:
        found = deployments.page(tx, after=after, limit=limit)
    else:
        server = store.server_id(tx, named)
        there = [] if server is None else deployments.of_server(tx, server)
        found = [one for one in there if one.seq > after][:limit]
    return [shown(tx, one) for one in found], found[-1].seq if found else after


def after_marker(tx: Reader, marker: str) -> int:
    """Where a list goes on after `marker`; at the start for an unknown one."""
    return store.seq_of(tx, marker)


def shown(tx: Reader, one: Deployment) -> Shown:
    """A deployment as Heat's users see it: what was set verbatim as long as nothing moved since, else where it really stands."""
    fields = store.kept(tx, one.id)
    standing = one.standing
    holds = fields is not None and fields.over.holds(one.generation.id, standing.status, standing.run)
    ended = store.last_ended(tx, one.id)
    values: dict[str, Any] | None = None
    statement: Statement | None = None
    if ended is not None:
        output = runs.output_of(tx, ended.run)
        statement = configs.by_id(tx, generations.config_under(tx, one.id, ended.terms or one.terms_number)).statement
        if output is not None:
            values = heat.reported(statement, output.outputs, output.stdout, output.stderr, ended.status_code)
    reason = standing.sentence
    if ended is not None and statement is not None and standing.run == ended.run and standing.phase is None:
        if standing.status == "COMPLETE":
            reason = heat.RECEIVED
        elif values is not None:
            reason = heat.reasons(statement, values) or reason
    inputs = {name: "******" if isinstance(given.sealed, str) else given.value for name, given in one.terms.inputs.items()}
    times = [ended.at if ended else None, one.generation.created_at if one.generation.number > 1 else None]
    if fields is None:
        updated = max((at for at in times if at is not None), default=None)
        return Shown(
            one.id, one.server, one.terms.config, one.generation.action, standing.status, reason, inputs, values, one.created_at, updated
        )
    times.append(fields.updated)
    return Shown(
        one.id,
        fields.server_id,
        one.terms.config,
        fields.action if fields.over.generation == one.generation.id else one.generation.action,
        fields.status if holds else standing.status,
        fields.status_reason if holds else reason,
        fields.input_values,
        fields.output_values if values is None or (holds and fields.output_values is not None) else values,
        one.created_at,
        max((at for at in times if at is not None), default=None),
    )


def metadata(tx: Reader, named: str) -> list[Config]:
    """The configs of a server's living deployments, by name (null as the empty one), equal names in order of creation."""
    server = store.server_id(tx, named)
    there = [] if server is None else deployments.of_server(tx, server)
    found = []
    for one in there:
        config = configs.by_id(tx, one.terms.config)
        found.append(config if config.statement.source is None else _with_body(config, body_of(tx, one, config)))
    return sorted(found, key=lambda config: config.statement.name or "")
