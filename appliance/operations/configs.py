"""Configs on their own: created, deleted."""

from appliance import config as rules
from appliance.config import Statement
from appliance.errors import Conflict, NotFound
from appliance.operations.sources import Sources, keys_of
from appliance.store import audit, configs, plans
from appliance.store.configs import Config
from appliance.store.tx import Tx


def create(tx: Tx, statement: Statement, by: str) -> Config:
    """Store a statement. One that refers to a plan's file is checked against what is current now, where the plan has been switched.

    Raises Invalid, NotFound, Conflict.
    """
    rules.check(statement)
    plan, files = keys_of(tx, statement)
    made = configs.add(tx, statement, plan, by, files)
    named = {*files, *([] if plan is None else [plan])}
    if named and all(plans.current(tx, one) is not None for one in named):
        Sources(tx, NotFound).resolve(made)
    audit.record(tx, by, "config create", made.id, name=statement.name, group=statement.group)
    return made


def delete(tx: Tx, id: str, by: str) -> None:
    """Delete a config that no deployment has. Raises NotFound, and Conflict naming who has it."""
    found = configs.by_id(tx, id)
    if found.hidden_at is not None:
        raise NotFound(f"no config {id!r}", hint="see what there is with: appliance config list")
    users = configs.users(tx, id)
    if users:
        names = ", ".join(f"{server}/{name}" for server, name in users)
        raise Conflict(f"config {id} is used by {names}", hint="delete or change those first")
    configs.hide(tx, id)
    audit.record(tx, by, "config delete", id, name=found.statement.name)
