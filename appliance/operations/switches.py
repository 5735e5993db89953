"""Switching a plan: one commit moves the lab, or nothing moves."""

from datetime import UTC, datetime

import msgspec

from appliance.errors import Conflict
from appliance.keys import Key
from appliance.operations import changes
from appliance.plan import Switch, rollback_target, shown
from appliance.store import audit, listings, plans
from appliance.store.plans import Plan, Version
from appliance.store.tx import Reader, Tx


class SwitchPlan(msgspec.Struct, frozen=True):
    """Make version `to` (number, digest) current. `expected` is the serial it is based on; None does not check."""

    plan: str
    to: str
    expected: int | None
    force: bool
    by: str


class RollbackPlan(msgspec.Struct, frozen=True):
    """Make the version before the current one current, looking past rollbacks."""

    plan: str
    expected: int | None
    force: bool
    by: str


class Switched(msgspec.Struct, frozen=True):
    """What a switch did. `was` is None for a first one; `unchanged`: that version was current already and nothing was done.

    `changed` counts the paths that differ; `deployments` got a new generation, on `servers`.
    """

    plan: str
    switch: Switch
    digest: bytes
    was: int | None
    unchanged: bool
    changed: int
    deployments: list[str]
    servers: list[str]


def switch(tx: Tx, key: Key, command: SwitchPlan) -> Switched:
    """Make a version current, with every deployment that uses a file it changes.

    Raises NotFound; Conflict when the plan was switched since `expected` (which `force` overrules, and the log shows it); and whatever
    a deployment has against it. All or nothing.
    """
    plan = plans.find(tx, command.plan)
    version = plans.resolve(tx, plan, command.to)
    current = plans.current(tx, plan.id)
    if current is not None and current.version == version.number:
        return Switched(plan.name, current, version.digest, current.version, True, 0, [], [])
    forced = _is_overruled(plan, current, command.expected, command.force)
    return _move(tx, key, plan, current, version, command.by, forced=forced, back_to=None)


def rollback(tx: Tx, key: Key, command: RollbackPlan) -> Switched:
    """Make the version before the current one current; two in a row go back two. Raises as `switch`; Conflict when there is none."""
    plan = plans.find(tx, command.plan)
    current = plans.current(tx, plan.id)
    forced = _is_overruled(plan, current, command.expected, command.force)
    target = rollback_target(plans.switches(tx, plan.id))
    if target is None:
        raise Conflict(
            f"plan {plan.name!r} has no version to go back to",
            hint=f"switch to any of its versions: appliance plan switch {plan.name} NUMBER",
        )
    version = plans.version(tx, plan, target.version)
    return _move(tx, key, plan, current, version, command.by, forced=forced, back_to=target.serial)


def _move(
    tx: Tx, key: Key, plan: Plan, current: Switch | None, version: Version, by: str, *, forced: bool, back_to: int | None
) -> Switched:
    before = {} if current is None else listings.read(tx, plans.version(tx, plan, current.version).listing)
    changed = listings.differing(before, listings.read(tx, version.listing))
    serial = 1 if current is None else current.serial + 1
    row = plans.add_switch(tx, plan, serial, version.number, by, back_to=back_to, forced=forced)
    moved = changes.after_switch(tx, key, plan_id=plan.id, version=version.number, changed=changed, by=by)
    was = None if current is None else current.version
    audit.record(
        tx,
        by,
        "plan switch" if back_to is None else "plan rollback",
        f"plan:{plan.name}",
        serial=serial,
        version=version.number,
        digest=shown(version.digest),
        was=was,
        forced=forced,
        changed=len(changed),
        deployments=len(moved.deployments),
    )
    tx.touch(f"plan:{plan.name}")
    return Switched(plan.name, row, version.digest, was, False, len(changed), moved.deployments, moved.servers)


def _is_overruled(plan: Plan, current: Switch | None, expected: int | None, force: bool) -> bool:
    """Whether `force` overrules a switch that `expected` does not know of. Raises Conflict when it would have to, and may not."""
    serial = 0 if current is None else current.serial
    if expected is None or expected == serial:
        return False
    if force:
        return True
    detail: dict[str, object] = {"expected": expected, "serial": serial, "version": None}
    if current is None:
        raise Conflict(
            f"plan {plan.name!r} was never switched, and you expected switch {expected}; nothing was changed",
            hint="it was probably deleted and made anew: look at it, then switch again with --force",
            detail=detail,
        )
    detail |= {"version": current.version, "by": current.by}
    raise Conflict(
        f"plan {plan.name!r} was switched to version {current.version} by {current.by} at {moment(current.at)} (switch {serial}),"
        f" and this builds upon switch {expected}",
        hint=f"export it (appliance plan export {plan.name} DIR), put your change in and push that; or overrule it with --force",
        detail=detail,
    )


def moment(at: int) -> str:
    """Milliseconds since 1970 for people."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def log(tx: Reader, plan: str, *, limit: int, before: int | None = None) -> list[Switch]:
    """The newest switches first. Raises NotFound."""
    return plans.switches(tx, plans.find(tx, plan).id, limit=limit, before=before)
