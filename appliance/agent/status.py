"""`status`: what this machine knows of itself, from the journal and the notes of a running agent. Changes nothing."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import VERSION, document, files
from .errors import NotJoined
from .passes import Start
from .settings import Settings
from .signals import wall

if TYPE_CHECKING:
    from .line import Line


def note(settings: Settings, line: Line, barred: str | None, start: Start | None) -> None:
    """Leave a note for `status`. Nothing depends on it, so it is not made durable and may fail."""
    now: dict[str, Any] = {
        "noted_at": wall(),
        "in_contact": line.up.is_set(),
        "last_contact": wall(line.contact) if line.contact else None,
        "problem": barred or line.problem,
        "running": None,
    }
    if start is not None:
        timeout = start.item.timeout
        now["running"] = {
            "name": start.item.name,
            "since": time.time(),
            "timeout": timeout,
            "until": None if timeout is None else wall(time.time() + timeout),
        }
    temporary = settings.notes.with_name(settings.notes.name + ".new")
    try:
        temporary.write_text(json.dumps(now))
        temporary.replace(settings.notes)
    except OSError:
        return


def collect(settings: Settings) -> dict[str, Any]:
    """Everything `status` shows, as one JSON object. Raises NotJoined."""
    me = files.read_object(settings.identity)
    if me is None or not settings.journal.exists():
        raise NotJoined(f"{settings.state} belongs to no server yet", "run `agent join URL TOKEN`")
    try:
        journal = _journal(settings.journal)
    except sqlite3.Error as error:
        journal = {"journal_problem": f"the journal cannot be read: {error}"}
    found = document.load(settings.document, agent_state=str(journal.get("agent_state") or ""))
    names = {item.deployment: item.name for item in found.items} if found else {}
    for deployment in journal.get("deployments", []):
        deployment["name"] = names.get(deployment["deployment"])
    return {
        "version": VERSION,
        "url": me.get("url"),
        "server": me.get("server"),
        "name": me.get("name"),
        "epoch": me.get("epoch"),
        "state": str(settings.state),
        "agent_running": _locked(settings.lock),
        **(files.read_object(settings.notes) or {}),
        **journal,
    }


def show(found: dict[str, Any]) -> str:
    """The same for people."""
    running = "running" if found["agent_running"] else "not running"
    contact = found.get("last_contact") or "never"
    lines = [f"{found['name']} at {found['url']}: agent {running}, last contact {contact}"]
    if found.get("problem"):
        lines.append(f"problem: {found['problem']}")
    if found.get("journal_problem"):
        lines.append(f"problem: {found['journal_problem']}")
    current = found.get("running")
    if found["agent_running"] and current:
        spent = int(time.time() - current["since"])
        left = "no time limit" if current["timeout"] is None else f"{int(current['timeout']) - spent} s left"
        lines.append(f"running now: {current['name']}, {spent} s, {left}")
    for deployment in found.get("deployments", []):
        code = "" if deployment["status_code"] is None else f" {deployment['status_code']}"
        name = deployment["name"] or deployment["deployment"]
        lines.append(f"  {name}: {deployment['verdict']} ({deployment['outcome'] or 'told by the appliance'}{code})")
    signals = found.get("undelivered", [])
    lines += [
        f"  not accepted: {signal['kind']} of run {signal['run']}: {signal['answer']}" for signal in signals if signal["state"] == "parked"
    ]
    waiting = sum(signal["state"] == "pending" for signal in signals)
    lines.append(f"signals waiting to be delivered: {waiting}")
    return "\n".join(lines)


def _journal(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only = 1")
        meta = {row["key"]: row["value"] for row in db.execute("SELECT * FROM meta")}
        deployments = db.execute(
            "SELECT d.deployment, d.generation, d.verdict, d.outcome, d.status AS status_code, d.run, "
            "r.ended_at, r.repeat "
            "FROM done d LEFT JOIN run r ON r.run = d.run "
            "WHERE NOT EXISTS (SELECT 1 FROM run later WHERE later.deployment = d.deployment "
            "AND later.seq > r.seq AND later.state = 'finished') ORDER BY r.seq"
        )
        rows = {row["deployment"]: dict(row) for row in deployments}
        signals = db.execute("SELECT run, kind, state, answer FROM outbox ORDER BY seq")
        return {
            "agent_state": meta.get("agent_state"),
            "journal": int(meta.get("counter") or 0),
            "deployments": list(rows.values()),
            "undelivered": [dict(row) for row in signals],
        }


def _locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
