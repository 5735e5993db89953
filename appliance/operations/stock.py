"""The document of a server whose agent is os-collect-config with heat-agents. There, delivery is the grant."""

from typing import Any

import msgspec

from appliance.deployment import STATUS_CODE, granted
from appliance.document import stock_document, stock_item, with_signal
from appliance.errors import Conflict, NotFound
from appliance.keys import Key
from appliance.operations.documents import items
from appliance.operations.fate import apply
from appliance.operations.signals import Effect, Finished, signal
from appliance.store import deployments, runs, servers, stock
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx

POLLING_SECONDS = 10


class Urls(msgspec.Struct, frozen=True):
    """The base of every URL we write, without a slash at its end."""

    base: str

    def metadata(self, key: Key, server: Server) -> str:
        """Where a stock agent polls."""
        return f"{self.base}/metadata/{key.url_secret('metadata', server.id, server.rotation)}"

    def signal(self, key: Key, run: str, rotation: int) -> str:
        """Where a stock agent reports one run."""
        return f"{self.base}/signal/{key.url_secret('signal', run, rotation)}"


def whose_metadata(tx: Reader, key: Key, secret: str) -> Server:
    """The stock server a metadata secret opens. Raises NotFound for any other, Conflict for one that speaks to our agent."""
    id = secret.rpartition(".")[0]
    try:
        server = servers.by_id(tx, id)
    except NotFound:
        raise NotFound("no such document") from None
    if server.deleted_at is not None or not key.opens("metadata", secret, server.rotation):
        raise NotFound("no such document")
    if server.kind != "stock":
        raise Conflict(f"{server.name} is not marked for a stock agent", hint=f"mark it with: appliance server add {server.name} --stock")
    return server


def has_news(tx: Reader, server_id: str) -> bool:
    """Whether the document would hand out something new, so that a grant must be written before it is answered."""
    return any(one.standing.phase in ("pending", "delivered") for one in deployments.of_server(tx, server_id))


def deliver(tx: Tx, key: Key, server_id: str) -> None:
    """Grant every item that is ready and was not handed out before, each under a new run id; the bytes are kept as they are handed out."""
    server = servers.by_id(tx, server_id)
    for item in items(tx, key, server_id):
        if not item.ungranted or item.blockers:
            continue
        one = deployments.by_id(tx, item.deployment)
        run = tx.new_id()
        memory = one.memory
        runs.grant(
            tx,
            run,
            server_id,
            one.id,
            one.generation.id,
            one.terms_number,
            attempt=one.attempt,
            changed=server.changed,
            owed=memory.must_run,
        )
        memory = msgspec.structs.replace(
            memory, must_run=False, started=True, last_run=run, last_generation=one.generation.id, last_changed=server.changed
        )
        deployments.set_memory(tx, one.id, memory)
        stock.keep(tx, one.id, run, key.sealed(msgspec.json.encode(stock_item(item, run)).decode()))
        apply(tx, one, granted(one.standing, run, follows=False))


def current_document(tx: Reader, key: Key, urls: Urls, server_id: str) -> bytes:
    """What was handed out last, in run order. A blocked or not yet delivered generation is not in it; the one before it stays."""
    server = servers.by_id(tx, server_id)
    kept = stock.kept(tx, server_id)
    found: list[dict[str, Any]] = []
    for item in items(tx, key, server_id):
        if item.deployment in kept:
            run, sealed = kept[item.deployment]
            found.append(with_signal(msgspec.json.decode(key.unsealed(sealed)), urls.signal(key, run, server.rotation)))
    return stock_document(urls.metadata(key, server), POLLING_SECONDS, found)


def report(tx: Tx, key: Key, secret: str, body: Any) -> Effect:
    """A stock agent reports a run, by the URL it was given. Idempotent. Raises NotFound for an unknown URL.

    The body is what heat-config-notify sends: output names and `deploy_stdout`, `deploy_stderr`, `deploy_status_code`.
    """
    run = runs.by_id(tx, secret.rpartition(".")[0])
    if run is None:
        raise NotFound("no such signal")
    server = servers.by_id(tx, run.server)
    if not key.opens("signal", secret, server.rotation):
        raise NotFound("no such signal")
    found: dict[str, Any] = body if isinstance(body, dict) else {"deploy_stdout": msgspec.json.encode(body).decode()}
    code = found.get(STATUS_CODE)
    try:
        number = None if code is None or code == "" else int(code)
    except (TypeError, ValueError):
        number = 1
    finished = Finished(
        deployment=run.deployment,
        generation=run.generation,
        attempt=run.attempt,
        outcome="ended",
        status_code=number,
        outputs={name: value for name, value in found.items() if name not in _OWN},
        stdout=_text(found.get("deploy_stdout")),
        stderr=_text(found.get("deploy_stderr")),
    )
    return signal(tx, run.server, None, None, run.id, finished)


_OWN = ("deploy_stdout", "deploy_stderr", STATUS_CODE)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def agent_configuration(urls: Urls, key: Key, server: Server) -> str:
    """A whole os-collect-config.conf for a stock server."""
    return (
        "[DEFAULT]\n"
        "command = os-refresh-config\n"
        "collectors = request\n"
        f"polling_interval = {POLLING_SECONDS}\n"
        "\n"
        "[request]\n"
        f"metadata_url = {urls.metadata(key, server)}\n"
    )
