"""Reports that come by Heat's other ways: as a resource's signal, and as an object put to a temporary URL."""

import hashlib
import uuid
from typing import Any
from urllib.parse import urlsplit

import msgspec

from appliance import heat
from appliance.errors import NotFound
from appliance.keys import Key
from appliance.operations import stock
from appliance.operations.signals import Effect, signal
from appliance.store import configs, deployments, runs
from appliance.store import heat as store
from appliance.store.tx import Reader, Tx


def by_resource(tx: Tx, server: str, run_id: str, body: Any) -> Effect:
    """An agent that logged in as `server` reports one of its runs. Idempotent. Raises NotFound."""
    run = runs.by_id(tx, run_id)
    if run is None or run.server != server:
        raise NotFound(f"The Resource ({run_id}) could not be found in Stack {stock.STACK}.")
    return stock.reported(tx, run, body)


def by_object(tx: Tx, path: str, body: dict[str, Any]) -> Effect:
    """Whoever ran a config reports by putting an object to the URL that the config names; the first report of a generation stands.

    Raises NotFound when no current config names this path.
    """
    deployment = deployments.by_id(tx, awaiting(tx, path))
    granted = [run for run in runs.of_deployment(tx, deployment.id) if run.generation == deployment.generation.id and run.repeat is None]
    if granted:
        return stock.reported(tx, granted[0], body)
    deployments.set_memory(tx, deployment.id, msgspec.structs.replace(deployment.memory, must_run=False))
    name = hashlib.sha256(f"{deployment.generation.id} {path}".encode()).digest()[:16]
    report = stock.finished_of(body, deployment.id, deployment.generation.id, deployment.standing.attempt)
    return signal(tx, deployment.server, None, None, str(uuid.UUID(bytes=name, version=4)), report)


def awaiting(tx: Reader, path: str) -> str:
    """The newest living deployment whose current config says that its result is put to this path. Raises NotFound."""
    for id in reversed(store.declaring(tx, path)):
        config = configs.by_id(tx, deployments.by_id(tx, id).terms.config)
        named = heat.input_text(config.statement, heat.SIGNAL_INPUT)
        if named is not None and urlsplit(named).path == path:
            return id
    raise NotFound("no deployment waits for this object")


def temp_url_key(key: Key) -> str:
    """The account's key that signs temporary URLs; nothing is stored."""
    return key.fingerprint(b"temp-url-key")[:16].hex()
