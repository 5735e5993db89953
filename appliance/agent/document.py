"""The document: what this server must run. Parsed at the door, trusted behind it; the last good one is on disk."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from . import files
from .errors import BadDocument
from .manifest import DIGEST

POLICIES = ("on-change", "once", "per-boot", "always")


@dataclass(frozen=True)
class Epoch:
    """(number, id) of the appliance's file."""

    number: int
    id: str


@dataclass(frozen=True)
class Blocker:
    """A dependency that an ungranted generation waits for; `here` if it is on this same server."""

    deployment: str
    generation: str
    name: str
    here: bool


@dataclass(frozen=True)
class Item:
    """One deployment of this server as it should be; `cancel`: runs that are to be ended."""

    deployment: str
    name: str
    generation: str
    attempt: int
    policy: str
    interval: float | None
    timeout: float | None
    ready: bool
    blocked_on: tuple[Blocker, ...]
    after: tuple[str, ...]
    config: Mapping[str, Any]
    cancel: tuple[str, ...] = ()
    action: str = "CREATE"

    @property
    def group(self) -> str:
        """Which hook understands the config."""
        return str(self.config.get("group") or "")

    @property
    def files(self) -> list[str]:
        """The digests of the lists of files to be placed."""
        return [str(entry["digest"]).partition(":")[2] for entry in self.config.get("files") or []]


@dataclass(frozen=True)
class Observed:
    """What the appliance knows of one deployment, as of the fetch: memory for a machine whose own was lost."""

    status: str
    generation: str
    last: Mapping[str, Any] | None


@dataclass(frozen=True)
class Document:
    """Items in run order, tombstones, what was observed. `fetched`: by our monotonic clock, None if read from disk."""

    server: str
    name: str
    epoch: Epoch
    changed: int
    items: tuple[Item, ...]
    deleted: frozenset[str]
    observed: Mapping[str, Observed]
    fetched: float | None = None
    etag: str = field(default="", compare=False)


def parse(body: bytes, *, fetched: float | None = None, etag: str = "") -> Document:
    """The document in `body`. Raises BadDocument naming the field, whatever the bytes are."""
    try:
        top = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"the document is no JSON: {error}") from None
    top = _object(top, "document")
    server, desired = _object(top.get("server"), "server"), _object(top.get("desired"), "desired")
    observed = _object(_object(top.get("observed") or {}, "observed").get("items") or {}, "observed.items")
    items: list[Item] = []
    deleted: set[str] = set()
    for number, found in enumerate(_list(desired.get("items"), "desired.items")):
        where = f"desired.items[{number}]"
        raw = _object(found, where)
        if raw.get("deleted"):
            deleted.add(_uuid(raw.get("deployment"), f"{where}.deployment"))
        else:
            items.append(_item(raw, where))
    names = [item.deployment for item in items]
    if len(set(names)) != len(names) or deleted.intersection(names):
        raise BadDocument("the document names a deployment twice")
    return Document(
        server=_uuid(server.get("id"), "server.id"),
        name=str(server.get("name") or ""),
        epoch=epoch(top.get("epoch")),
        changed=_integer(desired.get("changed"), "desired.changed"),
        items=tuple(items),
        deleted=frozenset(deleted),
        observed={name: _observed(value, f"observed.items.{name}") for name, value in observed.items()},
        fetched=fetched,
        etag=etag,
    )


def epoch(found: object) -> Epoch:
    """An epoch as it comes over the wire. Raises BadDocument."""
    raw = _object(found, "epoch")
    if not isinstance(raw.get("id"), str) or not raw["id"]:
        raise BadDocument("epoch.id is missing")
    return Epoch(_integer(raw.get("number"), "epoch.number"), str(raw["id"]))


def acceptable(known: Epoch | None, found: Epoch) -> str | None:
    """None if `found` may follow `known`, else the sentence that says why it is refused."""
    if known is None or found == known or found.number > known.number:
        return None
    if found.number < known.number:
        return f"the appliance is at epoch {found.number}, this machine has already followed epoch {known.number}"
    return f"the appliance is at epoch {found.number} with id {found.id}, this machine follows another, {known.id}"


def store(path: Path, body: bytes, *, etag: str, agent_state: str) -> None:
    """Keep `body` as the last good document; durable on return."""
    head = {"format": 1, "etag": etag, "agent_state": agent_state, "sha256": hashlib.sha256(body).hexdigest()}
    files.write_whole(path, json.dumps(head).encode() + b"\n" + body)


def load(path: Path, *, agent_state: str) -> Document | None:
    """The stored document, or None if there is none, a byte of it is wrong, or another agent state stored it."""
    try:
        line, _, body = path.read_bytes().partition(b"\n")
        head = json.loads(line)
        if head["format"] != 1 or head["agent_state"] != agent_state:
            return None
        if head["sha256"] != hashlib.sha256(body).hexdigest():
            return None
        return parse(body, etag=str(head["etag"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, BadDocument):
        return None


def _item(raw: Mapping[str, Any], where: str) -> Item:
    config = _object(raw.get("config"), f"{where}.config")
    for name in ("inputs", "outputs"):
        for number, entry in enumerate(_list(config.get(name) or [], f"{where}.config.{name}")):
            if not isinstance(_object(entry, f"{where}.config.{name}[{number}]").get("name"), str):
                raise BadDocument(f"{where}.config.{name}[{number}].name is missing")
    for number, entry in enumerate(_list(config.get("files") or [], f"{where}.config.files")):
        if not DIGEST.fullmatch(str(_object(entry, f"{where}.config.files[{number}]").get("digest"))):
            raise BadDocument(f"{where}.config.files[{number}].digest is no digest")
    if raw.get("policy") not in POLICIES:
        raise BadDocument(f"{where}.policy is {raw.get('policy')!r}; this agent knows {', '.join(POLICIES)}")
    blocked_on = _list(raw.get("blocked_on") or [], f"{where}.blocked_on")
    after = _list(raw.get("after") or [], f"{where}.after")
    return Item(
        deployment=_uuid(raw.get("deployment"), f"{where}.deployment"),
        name=str(raw.get("name") or ""),
        generation=_uuid(raw.get("generation"), f"{where}.generation"),
        attempt=_integer(raw.get("attempt", 1), f"{where}.attempt"),
        policy=str(raw["policy"]),
        action=str(raw.get("action") or "CREATE"),
        interval=_seconds(raw.get("interval"), f"{where}.interval"),
        timeout=_seconds(raw.get("timeout"), f"{where}.timeout"),
        ready=raw.get("ready") is True,
        blocked_on=tuple(_blocker(entry, f"{where}.blocked_on") for entry in blocked_on),
        after=tuple(_uuid(entry, f"{where}.after") for entry in after),
        config=config,
        cancel=tuple(_uuid(entry, f"{where}.cancel") for entry in _list(raw.get("cancel") or [], f"{where}.cancel")),
    )


def _blocker(entry: object, where: str) -> Blocker:
    raw = _object(entry, where)
    return Blocker(
        deployment=str(raw.get("deployment") or ""),
        generation=str(raw.get("generation") or ""),
        name=str(raw.get("name") or ""),
        here=raw.get("here") is True,
    )


def _observed(entry: object, where: str) -> Observed:
    raw = _object(entry, where)
    last = raw.get("last")
    return Observed(
        status=str(raw.get("status") or ""),
        generation=str(raw.get("generation") or ""),
        last=None if last is None else _object(last, f"{where}.last"),
    )


def _object(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise BadDocument(f"{where} is no object")
    return found


def _list(found: object, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise BadDocument(f"{where} is no list")
    return found


def _uuid(found: object, where: str) -> str:
    if not files.is_uuid(found):
        raise BadDocument(f"{where} is no uuid")
    return str(found)


def _integer(found: object, where: str) -> int:
    if isinstance(found, bool) or not isinstance(found, int):
        raise BadDocument(f"{where} is no whole number")
    return found


def _seconds(found: object, where: str) -> float | None:
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found < 1e9:
        raise BadDocument(f"{where} is no number of seconds")
    return float(found)
