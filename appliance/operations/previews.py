"""What an operation does to deployments, told from the rows it left: for previews, and for saying how many it moves.

Run inside the operation's own transaction, after it: nothing here decides anything, so what it tells is what happens.
"""

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import msgspec

from appliance.store import deployments, reach
from appliance.store.deployments import Deployment
from appliance.store.tx import Reader, Tx

T = TypeVar("T")

Does = Literal["runs", "waits", "complete", "held"]


class Effect(msgspec.Struct, frozen=True):
    """What becomes of one deployment.

    `runs`: its machine will run it; `waits`: for what `waits_for` names (as `SERVER/NAME`); `complete`: at once, nothing runs; `held`: it
    is `once` and has run, so the change waits for a `rerun`. `moved`: it got a new generation, and `why` says what changed. One that is
    not moved waits for one that is.
    """

    deployment: str
    label: str
    server: str
    server_name: str
    does: Does
    moved: bool
    why: str | None
    sentence: str
    waits_for: list[str]


def told(tx: Tx, operation: Callable[[Tx], T]) -> tuple[T, list[Effect]]:
    """Run an operation, then tell what it did."""
    newest = reach.newest_generation(tx)
    result = operation(tx)
    return result, effects(tx, reach.made_since(tx, newest))


def effects(tx: Reader, made: Iterable[str]) -> list[Effect]:
    """What becomes of the deployments that got a new generation, and of those that wait for them; by server, then name."""
    there = {id: deployments.by_id(tx, id) for id in made}
    found = [_effect(tx, one, moved=True) for one in there.values()]
    queue = [id for id, one in there.items() if one.standing.ungranted]
    seen = set(there)
    while queue:
        for id in deployments.needed_by(tx, queue.pop()):
            if id not in seen:
                seen.add(id)
                one = deployments.by_id(tx, id)
                if one.standing.ungranted:
                    found.append(_effect(tx, one, moved=False))
                    queue.append(id)
    return sorted(found, key=lambda one: (one.server_name, one.label, one.deployment))


def _effect(tx: Reader, one: Deployment, *, moved: bool) -> Effect:
    blockers = deployments.blockers(tx, one.id) if one.standing.phase == "blocked" else []
    return Effect(
        one.id,
        one.label,
        one.server,
        one.server_name,
        _does(one),
        moved,
        one.generation.detail if moved else None,
        one.standing.sentence,
        [f"{it.server}/{it.name}" for it in blockers],
    )


def _does(one: Deployment) -> Does:
    if one.standing.held:
        return "held"
    if one.standing.phase == "blocked":
        return "waits"
    return "runs" if one.standing.ungranted else "complete"


def counted(found: Iterable[Effect]) -> dict[Does, int]:
    """How many do what."""
    counts: dict[Does, int] = {"runs": 0, "waits": 0, "complete": 0, "held": 0}
    for one in found:
        counts[one.does] += 1
    return counts
