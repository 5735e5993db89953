"""People who change what machines must run; each command is one operation, and some of them come in one batch."""

from collections.abc import Callable
from typing import Any

import msgspec

from appliance.config import Input, PlanFile, Statement
from appliance.operations import deployments, fate, servers, switches
from appliance.operations.deployments import Edit, Wanted
from appliance.operations.references import find_deployment
from appliance.operations.switches import RollbackPlan, SwitchPlan
from appliance.store.tx import Tx

from ..samples import KEY

NAMES = ("a", "b", "c", "d", "e", "f")
POLICIES = ("on-change", "once", "per-boot", "always")
PLANS = ("p", "q")
FILES = ("f0", "f1", "f2")
VERSIONS: dict[str, list[dict[str, str]]] = {
    "p": [
        {"f0": "1", "f1": "1", "f2": "1"}, {"f0": "2", "f1": "1", "f2": "1"},
        {"f0": "2", "f1": "2", "f2": "1", "g": "1"}, {"f0": "1", "f1": "2", "f2": "1"},
    ],
    "q": [{"f0": "1", "f1": "1"}, {"f0": "1", "f1": "2", "f2": "2"}, {"f0": "1"}],
}  # fmt: skip
QUIET = (Input("loud", default="0"), Input("quiet", default="0", triggers=False))


def file_text(plan: str, path: str, content: str) -> str:
    return f"#!/bin/sh\n# {plan} {path} {content}\n"


def statement(source: str) -> Statement:
    """`2` is the second text, `p:f0` a plan's file."""
    plan, colon, path = source.partition(":")
    if colon:
        return Statement(None, "script", None, PlanFile(plan, path), QUIET)
    return Statement(None, "script", f"#!/bin/sh\n# {source}\n", None, QUIET)


def command(words: list[Any]) -> Callable[[Tx], Any]:
    """The operation a command of an event names."""
    verb, *rest = words
    return _COMMANDS[verb](*rest)


def _create(slot: str, source: str, policy: str, needs: list[str]) -> Callable[[Tx], Any]:
    interval = 60 if policy == "always" and source in ("1", "p:f0") else None
    server, name = slot.split("/")
    wanted = Wanted(server, name, statement(source), policy=policy, interval=interval, depends_on=needs)  # type: ignore[arg-type]
    return lambda tx: deployments.create(tx, KEY, [wanted], "ann")


def _pair(one: str, two: str, source: str, policy: str) -> Callable[[Tx], Any]:
    """Two at once, the second after the first."""
    items = [Wanted(*slot.split("/"), statement(source), policy=policy) for slot in (one, two)]  # type: ignore[arg-type]
    items[1] = msgspec.structs.replace(items[1], depends_on=[one])
    return lambda tx: deployments.create(tx, KEY, items, "ann")


def _edit(slot: str, **changes: Any) -> Callable[[Tx], Any]:
    return lambda tx: deployments.update(tx, KEY, [(slot, Edit(**changes))], "bob")


def _on(slots: list[str], act: Callable[[Tx, list[str]], Any]) -> Callable[[Tx], Any]:
    return lambda tx: act(tx, [find_deployment(tx, slot).id for slot in slots])


_COMMANDS: dict[str, Callable[..., Callable[[Tx], Any]]] = {
    "create": _create,
    "pair": _pair,
    "source": lambda slot, source: _edit(slot, config=statement(source)),
    "policy": lambda slot, policy: _edit(slot, policy=policy),
    "needs": lambda slot, needs: _edit(slot, depends_on=needs),
    "loud": lambda slot, value: _edit(slot, inputs={"loud": value}),
    "quiet": lambda slot, value: _edit(slot, inputs={"quiet": value}),
    "rename": lambda slot, name: _edit(slot, name=name),
    "rerun": lambda slots: _on(slots, lambda tx, ids: fate.rerun(tx, KEY, ids, "bob")),
    "delete": lambda slots: _on(slots, lambda tx, ids: fate.delete(tx, KEY, ids, "bob")),
    "reset": lambda server: lambda tx: servers.reset(tx, KEY, server, "ann"),
    "switch": lambda plan, to: lambda tx: switches.switch(tx, KEY, SwitchPlan(plan, str(to), None, False, "ann")),
    "rollback": lambda plan: lambda tx: switches.rollback(tx, KEY, RollbackPlan(plan, None, False, "bob")),
}
