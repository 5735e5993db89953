"""The document an agent polls, as a value: what is desired, beside what is observed.

`desired` depends on nothing but what is desired: not on the clock, not on statuses, not on when it is fetched. Its digest with the epoch is
the ETag. Pure.
"""

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from appliance.config import Statement
from appliance.deployment import Blocker
from appliance.names import is_uuid
from appliance.plan import shown


class Item(msgspec.Struct, frozen=True):
    """All that a document says of one deployment; `values` are the effective inputs in clear, `body` what is to be run."""

    deployment: str
    name: str | None
    generation: str
    number: int
    attempt: int
    action: str
    action_start: int
    policy: str
    interval: int | None
    timeout: int | None
    ungranted: bool
    blockers: list[tuple[Blocker, bool]]
    after: list[str]
    config: str
    config_created_at: int
    statement: Statement
    body: Any
    values: dict[str, Any]
    server: str
    # beside what is desired
    status: str
    phase: str | None
    last: dict[str, Any] | None
    # a `once` one that was changed while its own earlier run may have started
    busy: bool = False
    # its next attempt is not due yet
    early: bool = False
    # runs its machine is to end
    cancel: tuple[str, ...] = ()
    files: list[tuple[str, bytes]] = []  # directories of plans: path, digest of the manifest below it


def times(ms: int) -> str:
    """RFC 3339, UTC, whole seconds: the form Heat gives."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms // 1000))


def inputs_of(item: Item) -> list[dict[str, Any]]:
    """The inputs a run receives: declared ones in their order, other given ones by name, then the appliance's own `deploy_*`.

    Heat's derived configs carry server and action with their declarations: those are passed on.
    """
    declared = [one.name for one in item.statement.inputs]
    types = {one.name: one.type for one in item.statement.inputs}
    names = [name for name in declared if name in item.values] + sorted(item.values.keys() - set(declared))
    found = [{"name": name, "type": types.get(name) or kind_of(item.values[name]), "value": item.values[name]} for name in names]
    own = {
        "deploy_server_id": item.server,
        "deploy_action": item.action,
        "deploy_action_start": str(item.action_start),
        "deploy_generation": str(item.number),
        "deploy_attempt": str(item.attempt),
        "deploy_leg": "1",
        "deploy_run_policy": item.policy,
    }
    derived = {one.name for one in item.statement.inputs if isinstance(one.value, str) and one.name in _DERIVED}
    own = {name: value for name, value in own.items() if name not in derived}
    found = [one for one in found if one["name"] not in own]
    return found + [{"name": name, "type": "String", "value": value} for name, value in own.items()]


_DERIVED = ("deploy_server_id", "deploy_action")


def kind_of(value: Any) -> str:
    """The input type of a value that nobody declared."""
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int | float):
        return "Number"
    return "Json" if isinstance(value, dict | list) else "String"


def outputs_of(statement: Statement) -> list[dict[str, Any]]:
    """Declared outputs with every key filled in."""
    return [{"name": one.name, "type": one.type, "error_output": one.error_output} for one in statement.outputs]


def desired_item(item: Item) -> dict[str, Any]:
    """One deployment as its server's agent sees it."""
    blocked_on = [
        {"deployment": one.deployment, "generation": one.generation, "name": f"{one.server}/{one.name}", "here": here}
        for one, here in (item.blockers if item.ungranted and not item.early else [])
    ]
    return {
        "deployment": item.deployment,
        "name": item.name,
        "generation": item.generation,
        "number": item.number,
        "attempt": item.attempt,
        "action": item.action,
        "policy": item.policy,
        "interval": item.interval,
        "timeout": item.timeout,
        "ready": not blocked_on and not item.busy and not item.early,
        "blocked_on": blocked_on,
        "cancel": item.cancel,
        "after": item.after,
        "config": {
            "id": item.config,
            "name": item.name,
            "group": item.statement.group,
            "creation_time": times(item.config_created_at),
            "config": item.body,
            "options": item.statement.options,
            "inputs": inputs_of(item),
            "outputs": outputs_of(item.statement),
            **({"files": [{"prefix": path, "digest": shown(digest)} for path, digest in item.files]} if item.files else {}),
        },
    }


class Document(msgspec.Struct, frozen=True):
    """Encoded once. `etag` is the quoted value of the header, `commit` the number of the newest commit in the snapshot it shows."""

    etag: str
    content: bytes
    commit: int


def build(server: tuple[str, str], epoch: tuple[int, str], commit: int, changed: int, items: list[Item], tombstones: list[str]) -> Document:
    """The document of a server (id, name), its items already in run order."""
    desired = msgspec.json.encode(
        {
            "changed": changed,
            "items": [desired_item(item) for item in items] + [{"deployment": id, "deleted": True} for id in tombstones],
        }
    )
    observed = {
        item.deployment: {"status": item.status, "phase": item.phase, "generation": item.generation, "last": item.last} for item in items
    }
    head = msgspec.json.encode({"number": epoch[0], "id": epoch[1]})
    names = msgspec.json.encode({"id": server[0], "name": server[1]})
    beside = msgspec.json.encode({"items": observed})
    content = b'{"server":%b,"epoch":%b,"desired":%b,"observed":%b}' % (names, head, desired, beside)
    return Document(f'"{hashlib.sha256(head + desired).hexdigest()}"', content, commit)


# ------------------------------------------------------------------------------------------------------------ stock agents


def stock_item(item: Item, run: str, name: str) -> dict[str, Any]:
    """One deployment as os-collect-config and heat-agents 13 take it: all eight fields, scalars as text. `with_signal` adds the rest.

    Source of the rules: heat-agents' 55-heat-config and heat-config-notify; values of a type other than text stop the script hook there,
    and an input without a value stops everything; lists and objects are handed over as they are. A `deploy_*` input of the config (Heat's
    derived configs have them) is passed on.
    """
    given = {one["name"]: _scalars_as_text(one["value"]) for one in inputs_of(item) if one["value"] is not None}
    own = {"deploy_stack_id": f"appliance/{item.deployment}", "deploy_resource_name": name, TRANSPORT: "TEMP_URL_SIGNAL"}
    return {
        "id": run,
        "name": name,
        "group": item.statement.group or _UNGROUPED,
        "creation_time": times(item.config_created_at),
        "config": _stock_body(item),
        "options": item.statement.options,
        "inputs": _strings({one: value for one, value in (own | given).items() if one not in SIGNALLING}),
        "outputs": outputs_of(item.statement),
    }


def _stock_body(item: Item) -> Any:
    """What is to be run. Where os-collect-config merges it into the document itself, it must not replace the list of deployments there."""
    if isinstance(item.body, dict) and (item.statement.group or _UNGROUPED) in (_UNGROUPED, "os-apply-config"):
        return {name: value for name, value in item.body.items() if name != "deployments"}
    return "" if item.body is None else item.body


_UNGROUPED = "Heat::Ungrouped"
TRANSPORT = "deploy_signal_transport"

# Where and as whom a result is reported is ours to say, whatever a config says.
SIGNALLING = frozenset(
    f"deploy_{name}"
    for name in ("signal_id", "signal_verb", "auth_url", "username", "user_id", "password", "project_id", "region_name", "queue_id")
)


def with_signal(item: dict[str, Any], where: dict[str, str]) -> dict[str, Any]:
    """A stock item with the inputs that say where its result is to be reported."""
    kept = [one for one in item["inputs"] if one["name"] not in where]
    return item | {"inputs": kept + _strings(where)}


def transport_of(item: dict[str, Any]) -> str:
    """How a stock item's config wants its result to be reported."""
    return next((str(one["value"]) for one in item["inputs"] if one["name"] == TRANSPORT), "")


def _strings(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "type": "String" if isinstance(value, str) else "Json", "value": value} for name, value in values.items()]


def stock_name(deployment: str, name: str | None, others: Iterable[str | None] = ()) -> str:
    """A name that is safe as a file name there, unique per server, and never a collector's.

    `others` are the names of the older deployments of that server: the Heat edge allows equal ones.
    """
    if name is None or not _FILE_NAME.match(name):
        return f"deployment-{deployment}"
    if name in others:
        name = f"{name}-{deployment}"
    return f"deployment-{name}" if name in _COLLECTORS or is_uuid(name) or name.startswith("deployment-") else name


_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,149}\Z")
_COLLECTORS = ("request", "ec2", "cfn", "heat", "heat_local", "local", "zaqar", "os-collect-config", "os_config_files")


def _scalars_as_text(value: Any) -> Any:
    if isinstance(value, str | list | dict):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value).decode()


def stock_document(own: dict[str, Any], items: list[dict[str, Any]]) -> bytes:
    """The whole document for a stock agent, its items in run order.

    It always holds the agent's own settings: without them a standard image overwrites its configuration and never calls again.
    """
    return msgspec.json.encode({"os-collect-config": own, "deployments": items})
