"""Plans: push a version, delete a plan, and what can be asked about them. Switching stands in operations/switches.py."""

from collections.abc import Iterable

import msgspec

from appliance.errors import Conflict, Invalid, NotFound
from appliance.names import check_name
from appliance.plan import SYMLINK_BYTES, Change, Entry, Manifest, changed, manifest, refuse, shown, symlink_problems
from appliance.store import audit, blobs, listings, plans
from appliance.store.blobs import Blob
from appliance.store.listings import Lines
from appliance.store.plans import Overview, Plan, Version
from appliance.store.tx import Reader, Tx


class PushVersion(msgspec.Struct, frozen=True):
    """Make the manifest `digest` a version of `plan`: `base` (null: nothing) without `removed` and with `entries`.

    Made by `push_of`, which has seen that these make `digest`, with `files` entries of `bytes` together.
    """

    plan: str
    digest: bytes
    base: bytes | None
    entries: tuple[Entry, ...]
    removed: tuple[str, ...]
    by: str
    files: int
    bytes: int


class Pushed(msgspec.Struct, frozen=True):
    """What a push came to. `created` is false when the plan had this version already; `serial` is 0 when it was never switched."""

    plan: str
    version: Version
    created: bool
    serial: int
    current: int | None


class DeletePlan(msgspec.Struct, frozen=True):
    """Delete a plan with all its versions."""

    plan: str
    by: str


def push_of(
    plan: str, base: Manifest | None, entries: Iterable[Entry], removed: Iterable[str], by: str, digest: bytes | None = None
) -> PushVersion:
    """The command to push what `base` and the changes make. Pure; takes time for many entries.

    Raises Invalid for a name or a path that is not allowed, and when the result is not the manifest `digest`.
    """
    check_name("plan", plan)
    entries, removed = tuple(entries), tuple(removed)
    if base is None and removed:
        raise Invalid("paths to remove need a base to remove them from", hint="name the base's digest, or send no 'removed'")
    whole = manifest(entries) if base is None else changed(base, entries, removed)
    if digest is not None and whole.digest != digest:
        raise Invalid(
            f"these entries make the manifest {shown(whole.digest)}, not {shown(digest)}; nothing was stored",
            hint="the digest is over 'appliance manifest 1' and a line 'mode size hex path' for each entry, sorted by path",
        )
    base_digest = None if base is None else base.digest
    return PushVersion(plan, whole.digest, base_digest, entries, removed, by, len(whole.entries), whole.bytes)


def push_version(tx: Tx, command: PushVersion) -> Pushed:
    """Add a version, making the plan if there is none; an equal manifest gives the version there is. Nothing live changes.

    Raises Conflict with `detail.missing` when blobs are not there and with `detail.base` when the base is not known, Invalid when
    sizes are wrong or a symlink leads out. All or nothing.
    """
    check_name("plan", command.plan)
    plan = plans.look_up(tx, command.plan) or plans.make(tx, command.plan)
    version = plans.version_of(tx, plan.id, command.digest)
    created = version is None
    if version is None:
        listing = listings.find(tx, command.digest)
        id = _store_listing(tx, plan, command) if listing is None else listing.id
        version = plans.add_version(tx, plan, id, command.digest, command.by)
        audit.record(
            tx,
            command.by,
            "plan push",
            f"plan:{plan.name}",
            version=version.number,
            digest=shown(command.digest),
            files=version.files,
        )
        tx.touch(f"plan:{plan.name}")
    switch = plans.current(tx, plan.id)
    return Pushed(plan.name, version, created, switch.serial if switch else 0, switch.version if switch else None)


def _store_listing(tx: Tx, plan: Plan, command: PushVersion) -> int:
    base, on = _base(tx, plan, command)
    put = _lines(tx, command.entries)
    lines = listings.merged(base, put, command.removed)
    if any(entry.mode == "symlink" for entry in command.entries):
        _check_symlinks(tx, lines)
    return listings.store(tx, command.digest, lines, command.bytes, on)


def _base(tx: Tx, plan: Plan, command: PushVersion) -> tuple[Lines, int | None]:
    if command.base is None:
        newest = plans.newest(tx, plan.id)
        return {}, newest.listing if newest else None
    found = listings.find(tx, command.base)
    if found is None:
        raise _unknown_base(command.base)
    return listings.read(tx, found.id), found.id


def _unknown_base(digest: bytes) -> Conflict:
    return Conflict(
        f"the base {shown(digest)} is not known (any more); nothing was stored",
        hint="send the whole manifest, with base null",
        detail={"base": shown(digest)},
    )


def _lines(tx: Tx, entries: tuple[Entry, ...]) -> Lines:
    digests = dict.fromkeys(entry.digest for entry in entries)
    known = blobs.known(tx, digests.keys())
    if len(known) < len(digests):
        missing = [shown(digest) for digest in digests if digest not in known]
        raise Conflict(
            f"{len(missing)} of {len(digests)} blobs are missing; nothing was stored",
            hint="upload them (POST /v1/blobs), then send the manifest again",
            detail={"missing": missing},
        )
    lines: Lines = {}
    for entry in entries:
        id, size = known[entry.digest]
        if size != entry.size:
            raise Invalid(f"{entry.path!r} is said to have {entry.size} bytes, and its blob has {size}")
        lines[entry.path] = listings.line(entry.mode, id)
    return dict(sorted(lines.items()))


def _check_symlinks(tx: Tx, lines: Lines) -> None:
    links = {path: listings.blob_of(value) for path, value in lines.items() if listings.mode_of(value) == "symlink"}
    sizes = blobs.digests(tx, set(links.values()))
    refuse([f"{path!r}: the link's target is too long" for path, blob in links.items() if sizes[blob][1] > SYMLINK_BYTES])
    targets = dict(blobs.contents(tx, links.values()))
    refuse(symlink_problems({path: targets[blob] for path, blob in links.items()}))


def delete_plan(tx: Tx, command: DeletePlan) -> Plan:
    """Delete a plan; from then on its name is free. Raises NotFound, and Conflict naming the deployments that use it."""
    plan = plans.find(tx, command.plan)
    users = plans.users(tx, plan.id)
    if users:
        more = f" and {len(users) - 10} more" if len(users) > 10 else ""
        raise Conflict(
            f"plan {plan.name!r} is used by {', '.join(users[:10])}{more}; nothing was deleted",
            hint="delete these deployments first, or have them use something else",
            detail={"deployments": users},
        )
    plans.delete(tx, plan.id)
    audit.record(tx, command.by, "plan delete", f"plan:{plan.name}")
    tx.touch(f"plan:{plan.name}")
    return plan


# ---------------------------------------------------------------------------------------------------- queries


def overview(tx: Reader, name: str) -> Overview:
    """One plan and where it stands. Raises NotFound."""
    plan = plans.find(tx, name)
    return plans.overviews(tx, plan.name)[0]


def version(tx: Reader, plan: str, ref: str) -> Version:
    """The version `ref` (number, digest, `current`) names. Raises NotFound or Invalid."""
    return plans.resolve(tx, plans.find(tx, plan), ref)


def versions(tx: Reader, plan: str, *, limit: int, before: int | None = None) -> tuple[list[Version], int | None]:
    """The newest versions first, and the number of the current one. Raises NotFound."""
    found = plans.find(tx, plan)
    switch = plans.current(tx, found.id)
    return plans.versions(tx, found.id, limit=limit, before=before), switch.version if switch else None


def whole(tx: Reader, plan: str, ref: str) -> tuple[Version, Manifest]:
    """A version with its verified manifest. Raises NotFound, Invalid, Corrupt."""
    found = version(tx, plan, ref)
    return found, listings.manifest(tx, found.listing)


def base_of(tx: Reader, digest: bytes) -> Manifest:
    """The manifest a push builds upon. Raises Conflict with `detail.base` when it is not known."""
    found = listings.find(tx, digest)
    if found is None:
        raise _unknown_base(digest)
    return listings.manifest(tx, found.id)


def file(tx: Reader, plan: str, ref: str, path: str) -> tuple[Version, Entry, Blob]:
    """One file of a version. Raises NotFound with files of that name, if there are any."""
    found = version(tx, plan, ref)
    lines = listings.read(tx, found.listing)
    if path not in lines:
        raise _no_file(plan, found.number, path, lines)
    [(entry, blob)] = listings.entries_of(tx, {path: lines[path]})
    return found, entry, blobs.by_id(tx, [blob])[blob]


def _no_file(plan: str, number: int, path: str, lines: Lines) -> NotFound:
    name = path.rstrip("/").rpartition("/")[2]
    below = [one for one in lines if one.startswith(path.rstrip("/") + "/")]
    alike = below or [one for one in lines if name and (one == name or one.endswith("/" + name))]
    some = ", ".join(alike[:5]) + (", ..." if len(alike) > 5 else "")
    what = f"{path[:200]!r} is a directory with" if below else "did you mean"
    return NotFound(
        f"version {number} of plan {plan!r} has no file {path[:200]!r}",
        hint=f"{what} {some}" if alike else f"see 'appliance plan ls {plan} {number}'",
    )


def diff(tx: Reader, plan: str, old: str, new: str) -> tuple[Version, Version, list[Change]]:
    """What differs from version `old` to version `new`. Raises NotFound, Invalid, Corrupt."""
    found = plans.find(tx, plan)
    before, after = plans.resolve(tx, found, old), plans.resolve(tx, found, new)
    return before, after, changes_between(tx, before.listing, after.listing)


def changes_between(tx: Reader, old: int, new: int) -> list[Change]:
    """What differs from listing `old` to listing `new`, by path."""
    before, after = listings.read(tx, old), listings.read(tx, new)
    paths = listings.differing(before, after)
    was = {entry.path: entry for entry, _ in listings.entries_of(tx, {path: before[path] for path in paths if path in before})}
    now = {entry.path: entry for entry, _ in listings.entries_of(tx, {path: after[path] for path in paths if path in after})}
    return [Change(path, was.get(path), now.get(path)) for path in paths]
