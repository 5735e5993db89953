"""Plans, their versions and their switch log."""

from typing import Any

import msgspec

from appliance.errors import Conflict, Invalid, NotFound
from appliance.plan import Switch, parse_digest, shown
from appliance.store.tx import ConstraintFailed, Reader, Row, Tx

SHOWN = 10
_VERSION = (
    "version.number, listing.digest, version.listing, listing.entries, listing.bytes, version.created_at, version.by, version.commit_no"
)
_SWITCH = "serial, version, back_to, forced, commit_no, at, by"


class Plan(msgspec.Struct, frozen=True):
    """A plan that is not deleted."""

    id: int
    name: str
    created_at: int


class Version(msgspec.Struct, frozen=True):
    """One version of a plan; `listing` is the row that holds its manifest."""

    number: int
    digest: bytes
    listing: int
    files: int
    bytes: int
    created_at: int
    by: str
    commit: int


class Overview(msgspec.Struct, frozen=True):
    """A plan and where it stands. Never switched: `serial` 0 and `current` None; without a version: `newest` None."""

    plan: Plan
    serial: int
    current: int | None
    versions: int
    newest: int | None
    switched_at: int | None
    switched_by: str | None


def find(tx: Reader, name: str) -> Plan:
    """The plan of this name. Raises NotFound with what there is."""
    plan = look_up(tx, name)
    if plan is None:
        names = [row[0] for row in tx.rows("SELECT name FROM plan WHERE deleted_commit IS NULL ORDER BY name LIMIT ?", (SHOWN + 1,))]
        raise NotFound(
            f"no plan {name[:100]!r}",
            hint=f"there is {_some(names)}" if names else "there is none yet: push one with 'appliance plan push DIR'",
        )
    return plan


def look_up(tx: Reader, name: str) -> Plan | None:
    """The plan of this name, or None."""
    row = tx.row("SELECT id, name, created_at FROM plan WHERE name = ? AND deleted_commit IS NULL", (name,))
    return None if row is None else Plan(*row)


def by_id(tx: Reader, id: int) -> Plan | None:
    """The plan with this id, or None when it was deleted."""
    row = tx.row("SELECT id, name, created_at FROM plan WHERE id = ? AND deleted_commit IS NULL", (id,))
    return None if row is None else Plan(*row)


def make(tx: Tx, name: str) -> Plan:
    """A new plan; its name is checked and free."""
    id = tx.insert("INSERT INTO plan (name, commit_no, created_at) VALUES (?, ?, ?)", (name, tx.commit, tx.now))
    return Plan(id, name, tx.now)


def delete(tx: Tx, plan: int) -> None:
    """Put a tombstone on a plan: from here on its name is free, and its versions and switches are nobody's."""
    tx.execute("UPDATE plan SET deleted_commit = ?, deleted_at = ? WHERE id = ?", (tx.commit, tx.now, plan))


def overviews(tx: Reader, name: str | None = None) -> list[Overview]:
    """All plans by name, or the one of `name` (an empty list when there is none)."""
    rows = tx.rows(
        """
        SELECT plan.id, plan.name, plan.created_at, coalesce(switch.serial, 0), switch.version, switch.at, switch.by,
               (SELECT count(*) FROM version WHERE version.plan = plan.id),
               (SELECT max(number) FROM version WHERE version.plan = plan.id)
          FROM plan LEFT JOIN switch ON switch.plan = plan.id
               AND switch.serial = (SELECT max(serial) FROM switch AS s WHERE s.plan = plan.id)
         WHERE plan.deleted_commit IS NULL AND (:name IS NULL OR plan.name = :name)
         ORDER BY plan.name
        """,
        {"name": name},
    )
    return [
        Overview(Plan(id, name, created), serial, current, versions, newest, at, by)
        for id, name, created, serial, current, at, by, versions, newest in rows
    ]


# ---------------------------------------------------------------------------------------------------- versions


def _version(row: Row) -> Version:
    return Version(*row)


def versions(tx: Reader, plan: int, *, limit: int = 1 << 31, before: int | None = None) -> list[Version]:
    """The newest versions first; `before` is a number to go on from."""
    rows = tx.rows(
        f"SELECT {_VERSION} FROM version JOIN listing ON listing.id = version.listing"
        " WHERE version.plan = ? AND version.number < ? ORDER BY version.number DESC LIMIT ?",
        (plan, 1 << 62 if before is None else before, limit),
    )
    return [_version(row) for row in rows]


def version(tx: Reader, plan: Plan, number: int) -> Version:
    """A version by number. Raises NotFound with what there is."""
    row = tx.row(
        f"SELECT {_VERSION} FROM version JOIN listing ON listing.id = version.listing WHERE version.plan = ? AND version.number = ?",
        (plan.id, number),
    )
    if row is None:
        raise _no_version(tx, plan, str(number))
    return _version(row)


def version_of(tx: Reader, plan: int, digest: bytes) -> Version | None:
    """The version of this plan with this manifest, or None."""
    row = tx.row(
        f"SELECT {_VERSION} FROM listing JOIN version ON version.listing = listing.id WHERE listing.digest = ? AND version.plan = ?",
        (digest, plan),
    )
    return None if row is None else _version(row)


def newest(tx: Reader, plan: int) -> Version | None:
    """The version that was pushed last, or None."""
    found = versions(tx, plan, limit=1)
    return found[0] if found else None


def resolve(tx: Reader, plan: Plan, ref: str) -> Version:
    """The version `ref` names: a number, a digest, or `current`. Raises Invalid for anything else, NotFound."""
    if ref == "current":
        switch = current(tx, plan.id)
        if switch is None:
            raise NotFound(
                f"plan {plan.name!r} was never switched, so no version is current",
                hint=f"switch to one: appliance plan switch {plan.name} NUMBER",
            )
        return version(tx, plan, switch.version)
    if ref.startswith("sha256:"):
        found = version_of(tx, plan.id, parse_digest(ref))
        if found is None:
            raise _no_version(tx, plan, ref)
        return found
    if not (ref.isascii() and ref.isdecimal() and len(ref) <= 15):
        raise Invalid(f"{ref[:80]!r} names no version", hint="a version is a number, 'sha256:' and 64 hexadecimal digits, or 'current'")
    return version(tx, plan, int(ref))


def _no_version(tx: Reader, plan: Plan, ref: str) -> NotFound:
    lowest, highest = tx.row("SELECT min(number), max(number) FROM version WHERE plan = ?", (plan.id,)) or (None, None)
    there = "it has none yet" if highest is None else "it has only 1" if highest == 1 else f"it has {lowest} to {highest}"
    return NotFound(f"plan {plan.name!r} has no version {ref[:80]}", hint=f"{there} (see 'appliance plan show {plan.name}')")


def add_version(tx: Tx, plan: Plan, listing: int, digest: bytes, by: str) -> Version:
    """The next version of a plan. Raises Conflict when the manifest already is one."""
    try:
        tx.execute(
            "INSERT INTO version (plan, number, listing, commit_no, created_at, by)"
            " SELECT :plan, coalesce(max(number), 0) + 1, :listing, :commit, :now, :by FROM version WHERE plan = :plan",
            {"plan": plan.id, "listing": listing, "commit": tx.commit, "now": tx.now, "by": by},
        )
    except ConstraintFailed as error:
        raise Conflict(f"{shown(digest)} already is a version of plan {plan.name!r}") from error
    added = version_of(tx, plan.id, digest)
    assert added is not None
    return added


# ---------------------------------------------------------------------------------------------------- switches


def _switch(row: Row) -> Switch:
    serial, version, back_to, forced, commit, at, by = row
    return Switch(serial, version, back_to, bool(forced), commit, at, by)


def current(tx: Reader, plan: int) -> Switch | None:
    """The newest switch of a plan (what the view `current` shows), or None when it was never switched."""
    row = tx.row(
        f"SELECT {_SWITCH} FROM switch WHERE plan = ? ORDER BY serial DESC LIMIT 1",
        (plan,),
    )
    return None if row is None else _switch(row)


def switches(tx: Reader, plan: int, *, limit: int = 1 << 31, before: int | None = None) -> list[Switch]:
    """The newest switches first; `before` is a serial to go on from."""
    rows = tx.rows(
        f"SELECT {_SWITCH} FROM switch WHERE plan = ? AND serial < ? ORDER BY serial DESC LIMIT ?",
        (plan, 1 << 62 if before is None else before, limit),
    )
    return [_switch(row) for row in rows]


def add_switch(tx: Tx, plan: Plan, serial: int, version: int, by: str, *, back_to: int | None = None, forced: bool = False) -> Switch:
    """Make `version` current as switch number `serial`. Raises Conflict when that serial was taken: the compare-and-set."""
    try:
        tx.execute(
            "INSERT INTO switch (plan, serial, version, back_to, forced, commit_no, at, by) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (plan.id, serial, version, back_to, int(forced), tx.commit, tx.now, by),
        )
    except ConstraintFailed as error:
        if error.kind != "unique":
            raise
        raise Conflict(f"plan {plan.name!r} was switched by somebody else at this moment", hint="look and try again") from error
    return Switch(serial, version, back_to, forced, tx.commit, tx.now, by)


# ---------------------------------------------------------------------------------------------------- who uses a plan


def users(tx: Reader, plan: int) -> list[str]:
    """`SERVER/NAME` of the deployments that use files of a plan."""
    rows: Any = tx.rows(
        """
        SELECT DISTINCT server.name, coalesce(terms.name, deployment.id)
          FROM uses JOIN deployment ON deployment.id = uses.deployment
               JOIN server ON server.id = deployment.server
               LEFT JOIN state ON state.deployment = deployment.id
               LEFT JOIN terms ON terms.deployment = deployment.id AND terms.number = state.terms
         WHERE uses.plan = ? AND deployment.deleted_commit IS NULL
         ORDER BY 1, 2
        """,
        (plan,),
    )
    return [f"{server}/{name}" for server, name in rows]


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
