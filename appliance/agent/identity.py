"""Who this machine is to the appliance. Kept in a file and, once more, in the journal: either alone is enough."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from . import VERSION, document, files
from .document import Epoch
from .errors import BadDocument, NotJoined
from .facts import Facts
from .files import is_uuid
from .journal import Journal
from .settings import Settings
from .wire import Client


@dataclass(frozen=True)
class Identity:
    """The appliance's URL, this server, its token, and the newest epoch that was followed."""

    url: str
    server: str
    name: str
    token: str
    epoch: Epoch


def load(settings: Settings, journal: Journal) -> Identity:
    """The identity of this state directory. Raises NotJoined."""
    for found in (files.read_object(settings.identity), files.parse_object(journal.meta("identity"))):
        if found is None:
            continue
        try:
            identity = Identity(
                url=str(found["url"]),
                server=str(found["server"]),
                name=str(found["name"]),
                token=str(found["token"]),
                epoch=document.epoch(found["epoch"]),
            )
        except (KeyError, BadDocument):
            continue
        keep(settings, journal, identity)
        return identity
    raise NotJoined(
        f"{settings.state} belongs to no server yet",
        "run `agent join URL TOKEN` with what `appliance server token NAME` printed",
    )


def keep(settings: Settings, journal: Journal, identity: Identity) -> None:
    """Write the identity down, durably, where it is not yet."""
    text = json.dumps(asdict(identity))
    if files.read_object(settings.identity) != json.loads(text):
        files.write_whole(settings.identity, text.encode())
    journal.set_meta("identity", text)


def headers(identity: Identity, facts: Facts, journal: Journal, groups: list[str]) -> dict[str, str]:
    """What every request but `join` carries."""
    return {
        "Authorization": f"Bearer {identity.token}",
        "Appliance-Instance": json.dumps(facts.instance),
        "Appliance-Agent-State": journal.agent_state,
        "Appliance-Boot": facts.boot,
        "Appliance-Journal": str(journal.counter),
        "Appliance-Agent": VERSION,
        "Appliance-Hooks": ",".join(groups),
    }


def join(client: Client, token: str, facts: Facts, journal: Journal, groups: list[str]) -> Any:
    """Exchange a join token: the raw answer. Safe to repeat with the same journal when the answer was lost."""
    message = {
        "token": token,
        "instance": facts.instance,
        "agent_state": journal.agent_state,
        "boot": facts.boot,
        "journal": journal.counter,
        "version": VERSION,
        "hooks": groups,
    }
    return client.request("POST", "/v1/join", dict, message)


def from_answer(url: str, answer: dict[str, Any]) -> Identity:
    """The identity in the answer to `join`. Raises BadDocument."""
    if not is_uuid(answer.get("server")) or not isinstance(answer.get("token"), str):
        raise BadDocument("the answer names no server and token")
    epoch = document.epoch(answer.get("epoch"))
    return Identity(url, answer["server"], str(answer.get("name") or ""), answer["token"], epoch)


def moved_in(settings: Settings, journal: Journal, me: Identity, facts: Facts) -> None:
    """Keep a new identity. What the journal knows of another server goes: it says nothing about this one."""
    before = files.parse_object(journal.meta("identity")) or files.read_object(settings.identity)
    if before is not None and before.get("server") != me.server:
        with journal.write() as tx:
            for table in ("run", "done", "last", "outbox"):
                tx.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        settings.document.unlink(missing_ok=True)
    keep(settings, journal, me)
    journal.set_meta("instance", files.compact(facts.instance))
