"""The document of a server whose agent is os-collect-config with heat-agents. There, delivery is the grant."""

from typing import Any, Literal

import msgspec

from appliance.deployment import STATUS_CODE, granted
from appliance.document import stock_document, stock_item, stock_name, transport_of, with_signal
from appliance.errors import Conflict, NotFound
from appliance.keys import Key
from appliance.nesting import shallow
from appliance.operations.documents import items
from appliance.operations.fate import apply
from appliance.operations.limits import at_grant
from appliance.operations.signals import Effect, Finished, signal
from appliance.store import deployments, runs, servers, stock
from appliance.store.runs import Run
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx

POLLING_SECONDS = 10
PROJECT = "appliance"  # a lab is one project, for clients that want one
REGION = "RegionOne"
STACK = "servers"  # such agents find their document, and report, as at resources of a stack of this name with their server's id
RESOURCE = "deployments"
LOGIN = "heat-collector"

Collector = Literal["request", "heat"]


class Urls(msgspec.Struct, frozen=True):
    """The base of every URL we write, without a slash at its end."""

    base: str

    def metadata(self, key: Key, server: Server) -> str:
        """Where a stock agent polls."""
        return f"{self.base}/metadata/{key.url_secret('metadata', server.id, server.rotation)}"

    def signal(self, key: Key, run: str, rotation: int) -> str:
        """Where a stock agent reports one run."""
        return f"{self.base}/signal/{key.url_secret('signal', run, rotation)}"

    def login(self, key: Key, server: Server) -> dict[str, str]:
        """Where and as whom a stock agent that speaks to an identity service logs in."""
        return {
            "auth_url": f"{self.base}/heat/identity/v3",
            "user_id": server.id,
            "password": key.url_secret(LOGIN, server.id, server.rotation),
            "project_id": PROJECT,
            "region_name": REGION,
        }


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


def logged_in(tx: Reader, key: Key, user_id: str, password: str) -> Server | None:
    """The stock server these credentials are of, or None."""
    try:
        server = servers.by_id(tx, user_id)
    except NotFound:
        return None
    good = password.rpartition(".")[0] == user_id and key.opens(LOGIN, password, server.rotation)
    return server if good and server.deleted_at is None and server.kind == "stock" else None


def has_news(tx: Reader, server_id: str) -> bool:
    """Whether the document would hand out something new, so that a grant must be written before it is answered."""
    return any(
        one.standing.phase in ("pending", "delivered") and one.standing.next_at is None for one in deployments.of_server(tx, server_id)
    )


def deliver(tx: Tx, key: Key, server_id: str) -> None:
    """Grant every item that is ready and was not handed out before, each under a new run id; the bytes are kept as they are handed out."""
    server = servers.by_id(tx, server_id)
    if server.kind != "stock":
        raise Conflict(f"{server.name} is not for a stock agent, and a server has one agent only")
    names = [(one.seq, one.terms.name) for one in deployments.of_server(tx, server_id)]
    for item in items(tx, key, server_id):
        if not item.ungranted or item.blockers or item.early:
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
            attempt=one.standing.attempt,
            changed=server.changed,
            owed=memory.must_run,
            limits=at_grant(tx, server_id, server.kind, one.terms.timeout),
        )
        memory = msgspec.structs.replace(
            memory, must_run=False, started=True, last_run=run, last_generation=one.generation.id, last_changed=server.changed
        )
        deployments.set_memory(tx, one.id, memory)
        made = stock_item(item, run, stock_name(one.id, one.terms.name, {name for seq, name in names if seq < one.seq}))
        stock.keep(tx, one.id, run, key.sealed(msgspec.json.encode(made).decode()))
        apply(tx, one, granted(one.standing, run, follows=False))


def current_document(tx: Reader, key: Key, urls: Urls, server_id: str, collector: Collector = "request") -> bytes:
    """What was handed out last, in run order. A blocked or not yet delivered generation is not in it; the one before it stays."""
    server = servers.by_id(tx, server_id)
    kept = stock.kept(tx, server_id)
    found: list[dict[str, Any]] = []
    for item in items(tx, key, server_id):
        if item.deployment in kept:
            run, sealed = kept[item.deployment]
            handed = msgspec.json.decode(key.unsealed(sealed))
            found.append(with_signal(handed, _where(key, urls, server, run, transport_of(handed))))
    own = {"collectors": [collector], "polling_interval": POLLING_SECONDS} | {collector: _own(urls, key, server, collector)}
    return stock_document(own, found)


def _own(urls: Urls, key: Key, server: Server, collector: Collector) -> dict[str, str]:
    if collector == "request":
        return {"metadata_url": urls.metadata(key, server)}
    return urls.login(key, server) | {"stack_id": f"{STACK}/{server.id}", "resource_name": RESOURCE}


def _where(key: Key, urls: Urls, server: Server, run: str, transport: str) -> dict[str, str]:
    """The inputs that say where a result is to be reported, by the transport the config asks for."""
    if transport == "HEAT_SIGNAL":
        login = {f"deploy_{name}": value for name, value in urls.login(key, server).items()}
        return login | {"deploy_stack_id": f"{STACK}/{server.id}", "deploy_resource_name": run}
    verb = "POST" if transport == "CFN_SIGNAL" else "PUT"
    return {"deploy_signal_id": urls.signal(key, run, server.rotation), "deploy_signal_verb": verb}


def report(tx: Tx, key: Key, secret: str, body: Any) -> Effect:
    """A stock agent reports a run, by the URL it was given. Idempotent. Raises NotFound for an unknown URL.

    The body is what heat-config-notify sends: output names and `deploy_stdout`, `deploy_stderr`, `deploy_status_code`.
    """
    return reported(tx, whose_signal(tx, key, secret), body)


def whose_signal(tx: Reader, key: Key, secret: str) -> Run:
    """The run that a signal secret reports. Raises NotFound for an unknown URL."""
    run = runs.by_id(tx, secret.rpartition(".")[0])
    if run is None or not key.opens("signal", secret, servers.by_id(tx, run.server).rotation):
        raise NotFound("no such signal")
    return run


def has_stock_agent(tx: Reader, server_id: str) -> bool:
    """Whether this server is one for a stock agent."""
    return servers.by_id(tx, server_id).kind == "stock"


def reported(tx: Tx, run: Run, body: Any) -> Effect:
    """Record what heat-config-notify sent for a run. Idempotent."""
    return signal(tx, run.server, None, None, run.id, finished_of(body, run.deployment, run.generation, run.attempt))


def finished_of(body: Any, deployment: str, generation: str, attempt: int) -> Finished:
    """What heat-config-notify sends, as the report that it is."""
    found: dict[str, Any] = body if isinstance(body, dict) else {"deploy_stdout": _text(body)}
    code = found.get(STATUS_CODE)
    try:
        number = None if code is None or code == "" else int(code)
    except (TypeError, ValueError, OverflowError):
        number = 1
    if number is not None and abs(number) >= 1 << 53:
        number = 1
    return Finished(
        deployment=deployment,
        generation=generation,
        attempt=attempt,
        outcome="ended",
        status_code=number,
        outputs={
            name: shallow(value) for name, value in found.items() if name not in _OWN or (name == STATUS_CODE and type(value) is not int)
        },
        stdout=_text(found.get("deploy_stdout")),
        stderr=_text(found.get("deploy_stderr")),
    )


def _odd_code(name: str, value: Any) -> bool:
    """A status code that is no whole number is kept as it came."""
    return name == STATUS_CODE and type(value) is not int


_OWN = ("deploy_stdout", "deploy_stderr", STATUS_CODE)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(shallow(value)).decode()


def agent_configuration(urls: Urls, key: Key, server: Server, collector: Collector = "request") -> str:
    """A whole os-collect-config.conf for a stock server."""
    lines = [f"{name} = {value}" for name, value in _own(urls, key, server, collector).items()]
    return (
        "[DEFAULT]\n"
        "command = os-refresh-config\n"
        f"collectors = {collector}\n"
        f"polling_interval = {POLLING_SECONDS}\n"
        "\n"
        f"[{collector}]\n" + "".join(line + "\n" for line in lines)
    )
