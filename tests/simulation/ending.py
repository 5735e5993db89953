"""What must hold when the line is whole again, every agent works and time has passed."""

import json
from typing import TYPE_CHECKING, Any

from appliance.operations import documents, explain
from appliance.store import deployments
from appliance.store import servers as server_rows
from appliance.store.deployments import Deployment
from appliance.store.tx import Reader

from ..samples import KEY
from .appliance import EPOCH
from .operator import VERSIONS

if TYPE_CHECKING:
    from .machine import Body
    from .world import World

_RERUN_FORGOTTEN = """
SELECT d.id FROM deployment d JOIN state s ON s.deployment = d.id WHERE d.deleted_commit IS NULL AND s.status = 'COMPLETE'
 AND NOT EXISTS (SELECT 1 FROM run r JOIN generation g ON g.id = r.generation WHERE r.deployment = d.id AND r.started_at IS NOT NULL
  AND g.number >= (SELECT max(number) FROM generation m WHERE m.deployment = d.id AND m.cause IN ('create', 'rerun', 'reset')))
"""
_SOURCES = """
SELECT d.id, p.name, o.path, o.version, c.version FROM state s JOIN deployment d ON d.id = s.deployment
 JOIN source o ON o.generation = s.generation JOIN plan p ON p.id = o.plan JOIN current c ON c.plan = p.id WHERE d.deleted_commit IS NULL
"""


def unfinished(world: "World") -> list[str]:
    """What should still move: all in progress but those that wait, in the end, for one that has failed."""

    def query(tx: Reader) -> list[str]:
        found = []
        for one in deployments.page(tx):
            open_ = one.standing.status == "IN_PROGRESS" and explain.settled(tx, one) != "blocked"
            if open_ or one.standing.repeating is not None:
                why = explain.why(tx, one, world.appliance.seen.of(tx, one.server))
                found.append(f"{one.label} is {one.standing.phase or one.standing.status}: {'; '.join(why.because)}")
        for run, stands in tx.rows("SELECT id, stands FROM run WHERE stands IN ('granted', 'running')"):
            found.append(f"run {run} is {stands}")
        return found

    found: list[str] = world.appliance.file.read(query)
    return found


def undelivered(body: "Body") -> list[str]:
    """What the agent has not got rid of."""
    assert body.process is not None
    rows = body.process.journal.rows("SELECT run, kind, state, answer FROM outbox")
    return [f"{body.label}: {kind} of run {run} is {state} ({answer})" for run, kind, state, answer in rows]


def check(world: "World") -> None:
    """All that must hold in the end."""
    for body in world.bodies:
        if not body.gone:
            _results(world, body)
    world.appliance.file.read(_standing, world)


def _results(world: "World", body: "Body") -> None:
    """Each result in a journal is recorded once and as it was; each start has a row."""
    assert body.process is not None
    sql = """SELECT r.stands, r.status, EXISTS (SELECT 1 FROM signal s WHERE s.run = r.id AND s.kind <> 'released'),
      (SELECT count(*) FROM signal s WHERE s.run = r.id AND s.kind = 'finished' AND s.effect = 'recorded'),
      (SELECT max(why) FROM signal s WHERE s.run = r.id AND s.kind = 'finished' AND s.effect = 'recorded')
      FROM run r WHERE r.id = ?"""

    def of(run: str) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = world.appliance.file.read(lambda tx: tx.row(sql, (run,)))
        return found

    for run, result in body.process.journal.rows("SELECT run, result FROM run WHERE state = 'finished'"):
        found = of(run)
        if found is None or found[0] != "ended" or found[3] != 1:
            world.violated(f"the result of run {run} is in the journal of {body.label} and was recorded {found[3] if found else 0} times")
        said = json.loads(result)
        complete = said["outcome"] == "ended" and said["status_code"] == 0
        assert found is not None
        if found[4] is None and not body.tainted and (found[1] == "COMPLETE") != complete:
            world.violated(f"run {run} is recorded as {found[1]}, and its journal says {said['outcome']} {said['status_code']}")
    for start in body.starts:
        found = of(start.run)
        if start.forgotten or (body.tainted and found is None):
            continue
        if found is None or not found[2]:
            world.violated(f"run {start.run} was started on {body.label} and has no row that says so")
        assert found is not None
        if found[1] == "COMPLETE" and start.ended != 0 and not body.tainted:
            world.violated(f"run {start.run} is recorded as COMPLETE and ended with {start.ended}")


def _standing(tx: Reader, world: "World") -> None:
    for one in deployments.page(tx):
        _deployment(tx, world, one)
    for (id,) in tx.rows(_RERUN_FORGOTTEN):
        world.violated(f"{id} is COMPLETE, and it did not run since somebody asked for that")
    for id, plan, path, version, current in tx.rows(_SOURCES):
        if VERSIONS[plan][version - 1][path] != VERSIONS[plan][current - 1].get(path):
            world.violated(f"{id} uses {plan}:{path} of version {version}, and version {current} is current")
    broken = list(tx.rows("PRAGMA foreign_key_check"))
    if broken:
        world.violated(f"rows refer to nothing: {broken}")
    for server in server_rows.page(tx):
        if documents.document(tx, KEY, EPOCH, server.id) != documents.document(tx, KEY, EPOCH, server.id):
            world.violated("two documents of one moment differ")


def _deployment(tx: Reader, world: "World", one: Deployment) -> None:
    why = explain.why(tx, one, None)
    if not why.because or (one.standing.status == "FAILED" and why.next is None):
        world.violated(f"{one.label} is {one.standing.status} and nothing says why")
    if one.standing.status == "COMPLETE" and one.standing.run is not None and not one.standing.held:
        status = tx.value("SELECT status FROM run WHERE id = ?", (one.standing.run,))
        if status != "COMPLETE":
            world.violated(f"{one.label} is COMPLETE by a run that is {status}")
