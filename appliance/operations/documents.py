"""What a server's agent is handed."""

from typing import Any

from appliance.config import effective
from appliance.deployment import Blocker, run_order
from appliance.document import Document, Item, build
from appliance.errors import Corrupt
from appliance.keys import Key
from appliance.operations.changes import clear, waits_for_itself
from appliance.operations.sources import text_of
from appliance.store import blobs, configs, deployments, file, generations, runs, servers, uses
from appliance.store.configs import Config
from appliance.store.deployments import Deployment
from appliance.store.tx import Reader


def document(tx: Reader, key: Key, epoch: tuple[int, str], server_id: str) -> Document:
    """The document of a server's agent, as of this snapshot. Raises NotFound."""
    server = servers.by_id(tx, server_id)
    commit = file.last_commit(tx)
    return build((server.id, server.name), epoch, commit, server.changed, items(tx, key, server_id), deployments.tombstones(tx, server_id))


def items(tx: Reader, key: Key, server_id: str) -> list[Item]:
    """A server's deployments in run order, each with all that a document says of it."""
    there = {one.id: one for one in deployments.of_server(tx, server_id)}
    needs = deployments.needs_on(tx, server_id)
    blocked = deployments.blockers_on(tx, server_id)
    order = run_order((id, one.terms.name, one.seq, needs.get(id, [])) for id, one in there.items())
    known: dict[str, Config] = {}
    cancels = runs.to_be_cancelled(tx, server_id)
    found = []
    for id in order:
        blockers = [(blocker, blocker.deployment in there) for blocker in blocked.get(id, [])]
        after = [need for need in needs.get(id, []) if need in there]
        found.append(_item(tx, key, there[id], after, blockers, known, cancels))
    return found


def _item(
    tx: Reader,
    key: Key,
    one: Deployment,
    after: list[str],
    blockers: list[tuple[Blocker, bool]],
    known: dict[str, Config],
    cancels: dict[str, list[str]],
) -> Item:
    config = known.get(one.terms.config) or known.setdefault(one.terms.config, configs.by_id(tx, one.terms.config))
    made = config  # the bytes are those the generation was made of, wherever they come from by now
    if one.generation.terms != one.terms_number:
        id = generations.config_under(tx, one.id, one.generation.terms)
        made = known.get(id) or known.setdefault(id, configs.by_id(tx, id))
    ungranted = one.standing.ungranted
    memory = one.memory
    last: dict[str, Any] | None = None
    if memory.last_run is not None:
        last = {
            "run": memory.last_run,
            "generation": memory.last_generation,
            "boot": memory.last_boot,
            "changed": memory.last_changed,
        }
    return Item(
        one.id,
        one.terms.name,
        one.generation.id,
        one.generation.number,
        one.standing.attempt,
        one.generation.action,
        one.generation.action_start,
        one.terms.policy,
        one.terms.interval,
        one.terms.timeout,
        ungranted,
        blockers if ungranted else [],
        after,
        config.id,
        config.created_at,
        config.statement,
        body_of(tx, one, made),
        effective(config.statement, clear(key, one.terms.inputs)),
        one.server,
        one.standing.status,
        one.standing.phase,
        last,
        waits_for_itself(tx, one),
        one.standing.next_at is not None,
        tuple(cancels.get(one.id, ())),
        uses.trees_of(tx, one.generation.id) if made.files else [],
    )


def body_of(tx: Reader, one: Deployment, config: Config) -> Any:
    """What is to be run: the config's own body, or the bytes of the plan file this generation was resolved to."""
    if config.statement.source is None:
        return config.statement.body
    assert config.plan is not None
    digest = uses.digest_of(tx, one.generation.id, config.plan, config.statement.source.path)
    if digest is None:
        raise Corrupt(
            f"{one.label}: its generation does not say which bytes of {config.statement.source.path!r} it uses", hint="restore a backup"
        )
    return text_of(blobs.read(tx, digest), f"{config.statement.source.plan}:{config.statement.source.path}")
