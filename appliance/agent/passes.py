"""What to do next: the pure decision. Document, memory, and the moment go in; a list of actions comes out.

The rules are those of run policy, grants, order, dependencies and single flight; the effects are in `loop`. Deciding
again after each effect is cheap, so a decision names at most one start, the first that may happen in run order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from .document import Document, Item, Observed

COMPLETE, FAILED = "COMPLETE", "FAILED"
LIVE = ("claimed", "granted", "running")
CLOSED = ("refused", "released")
REPEATED = ("CREATE", "UPDATE", "RESUME")  # a suspended one does not repeat


@dataclass(frozen=True)
class Run:
    """A run that has not ended, or one that ended unstarted."""

    run: str
    deployment: str
    generation: str
    attempt: int
    state: str
    why: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """A generation that has run to an end, or that the appliance called finished."""

    deployment: str
    attempt: int
    verdict: str
    run: str | None = None


@dataclass(frozen=True)
class Last:
    """The last started run of a deployment.

    `other_boot` is the boot in which a fetched document last showed it with a policy other than `per-boot`: a change of
    policy by itself runs nothing in that boot.
    """

    boot: str
    changed: int
    agent_start: str = ""
    ended: float | None = None
    verdict: str | None = None
    policy: str | None = None
    other_boot: str | None = None


@dataclass(frozen=True)
class Memory:
    """What the journal knows."""

    done: Mapping[str, Done] = field(default_factory=dict)
    last: Mapping[str, Last] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Moment:
    """When the decision is made.

    `now` is a monotonic clock that counts within one boot; `forgotten` are the tombstones already acted upon; `ahead` are
    the refused and released runs that are newer than the document.
    """

    boot: str
    agent_start: str
    now: float
    forgotten: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Adoption:
    """The appliance knows what this journal does not: a finished generation, the last run, or both."""

    deployment: str
    generation: str
    attempt: int
    verdict: str | None
    last: Mapping[str, object] | None


@dataclass(frozen=True)
class Mint:
    """Ask to run this generation."""

    deployment: str
    generation: str
    attempt: int


@dataclass(frozen=True)
class Start:
    """Run this item now: as a granted run, or (`run` None) as a repeat for the named reason."""

    item: Item
    run: str | None
    repeat: str | None


@dataclass(frozen=True)
class Decision:
    """What to do: adopt, note policies, release, forget and mint at once; then start; else look again at `wake_at`."""

    adopt: tuple[Adoption, ...] = ()
    other_policy: tuple[str, ...] = ()
    release: tuple[tuple[str, str], ...] = ()
    forget: tuple[str, ...] = ()
    mint: tuple[Mint, ...] = ()
    start: Start | None = None
    wake_at: float | None = None

    @property
    def writes(self) -> bool:
        """Whether there is something to journal before anything may start."""
        return bool(self.adopt or self.other_policy or self.release or self.forget or self.mint)


def decide(document: Document, memory: Memory, moment: Moment) -> Decision:
    """The next actions. Starts nothing as long as there is something to journal first."""
    items = {item.deployment: item for item in document.items}
    live = {run.generation: run for run in memory.runs if run.state in LIVE}
    adopt = tuple(_adoptions(document, memory, moment, live))
    decision = Decision(
        adopt=adopt,
        other_policy=tuple(_other_policies(document, memory, moment)),
        release=tuple(_releases(document, memory, items, live)),
        forget=tuple(sorted(document.deleted.difference((run.deployment for run in live.values()), moment.forgotten))),
        mint=() if adopt else tuple(_mints(document, memory, moment, live)),
    )
    if decision.adopt or decision.release:
        return decision
    start, wake_at = _start(document, memory, moment, items)
    return Decision(other_policy=decision.other_policy, forget=decision.forget, mint=decision.mint, start=start, wake_at=wake_at)


def finished(item: Item, memory: Memory) -> bool:
    """Whether the item's generation has run to an end, as far as its attempts go."""
    done = memory.done.get(item.generation)
    return done is not None and done.attempt >= item.attempt


def _adoptions(document: Document, memory: Memory, moment: Moment, live: Mapping[str, Run]) -> list[Adoption]:
    found = []
    for item in document.items:
        seen = document.observed.get(item.deployment)
        if seen is None or item.generation in live:
            continue
        over = seen.generation == item.generation and seen.status in (COMPLETE, FAILED) and not finished(item, memory)
        last = seen.last if _news(seen, memory.last.get(item.deployment), moment) else None
        if over or last is not None:
            found.append(Adoption(item.deployment, item.generation, item.attempt, seen.status if over else None, last))
    return found


def _news(seen: Observed, known: Last | None, moment: Moment) -> bool:
    """Whether `seen.last` knows more than we do: never lets anything run that would not have run."""
    if seen.last is None:
        return False
    return known is None or (seen.last.get("boot") == moment.boot and known.boot != moment.boot)


def _other_policies(document: Document, memory: Memory, moment: Moment) -> list[str]:
    if document.fetched is None:
        return []
    return [
        item.deployment
        for item in document.items
        if item.policy != "per-boot" and item.deployment in memory.last and memory.last[item.deployment].other_boot != moment.boot
    ]


def _releases(document: Document, memory: Memory, items: Mapping[str, Item], live: Mapping[str, Run]) -> list[tuple[str, str]]:
    """Grants that will not be started. A deployment that is merely absent is waited for: lists may be short."""
    found = []
    for run in memory.runs:
        if run.state != "granted":
            continue
        item = items.get(run.deployment)
        if run.deployment in document.deleted:
            found.append((run.run, "deleted"))
        elif item is not None and run.run in item.cancel:
            found.append((run.run, "cancelled"))
        elif item is not None and not same(run, item):
            found.append((run.run, "superseded"))
        elif any(_hopeless(generation, memory, live) for generation in run.after):
            found.append((run.run, "dependency"))
    return found


def _hopeless(generation: str, memory: Memory, live: Mapping[str, Run]) -> bool:
    done = memory.done.get(generation)
    return generation not in live and (done is None or done.verdict != COMPLETE)


def _mints(document: Document, memory: Memory, moment: Moment, live: Mapping[str, Run]) -> list[Mint]:
    """Ungranted generations that are ready, or wait only for others of this server granted or asked for before."""
    found: list[Mint] = []
    reachable = set(live) | {generation for generation, done in memory.done.items() if done.verdict == COMPLETE}
    closed = [run for run in memory.runs if run.state in CLOSED]
    for item in document.items:
        if finished(item, memory) or item.generation in live or any(_settled(run, item, moment) for run in closed):
            continue
        here = bool(item.blocked_on) and all(other.here and other.generation in reachable for other in item.blocked_on)
        if item.ready or here:
            found.append(Mint(item.deployment, item.generation, item.attempt))
            reachable.add(item.generation)
    return found


def _settled(run: Run, item: Item, moment: Moment) -> bool:
    """Whether this refusal or release still answers for the item: until a newer document. `claimed`, it ran elsewhere, is for good."""
    if not same(run, item) or run.why == "other-instance":
        return False
    return run.why == "claimed" or run.run in moment.ahead


def same(run: Run, item: Item) -> bool:
    """Whether the run is, or was, that of the item as it now is."""
    return (run.generation, run.attempt) == (item.generation, item.attempt)


def _start(document: Document, memory: Memory, moment: Moment, items: Mapping[str, Item]) -> tuple[Start | None, float | None]:
    granted = {run.generation: run for run in memory.runs if run.state == "granted"}
    busy = {run.deployment for run in memory.runs if run.state in LIVE}
    wake_at: float | None = None
    for item in document.items:
        run = granted.get(item.generation)
        if run is not None:
            if all(generation in memory.done for generation in run.after):
                return Start(item, run.run, None), None
            continue
        last = memory.last.get(item.deployment)
        if last is None or item.deployment in busy or not finished(item, memory) or _failed_unrun(item, memory, document):
            continue
        repeat, due = _repeat(item, last, document.changed, moment)
        if repeat == "boot" and _waits_for_boot(item, items, memory, moment):
            continue
        if repeat:
            return Start(item, None, repeat), None
        if due is not None:
            wake_at = due if wake_at is None else min(wake_at, due)
    return None, wake_at


def _failed_unrun(item: Item, memory: Memory, document: Document) -> bool:
    """Whether this generation failed without ever having been started (cancelled, say): there is nothing to repeat."""
    done, seen = memory.done[item.generation], document.observed.get(item.deployment)
    if done.run is not None or done.verdict == COMPLETE:
        return False
    return seen is None or seen.last is None or seen.last.get("generation") != item.generation


def _repeat(item: Item, last: Last, changed: int, moment: Moment) -> tuple[str | None, float | None]:
    """Why the item runs again now, or when its next interval is due."""
    if item.action not in REPEATED:
        return None, None
    if item.policy == "per-boot":
        again = last.boot != moment.boot and last.other_boot != moment.boot
        return ("boot" if again else None), None
    if item.policy != "always":
        return None, None
    if last.agent_start != moment.agent_start:
        return "agent-start", None
    if changed > last.changed or last.policy not in (None, "always"):
        return "changed", None
    if item.interval is None or last.ended is None:
        return None, None
    due = last.ended + item.interval
    return ("interval", None) if due <= moment.now else (None, due)


def _waits_for_boot(item: Item, items: Mapping[str, Item], memory: Memory, moment: Moment) -> bool:
    """After a boot a `per-boot` item waits for its `per-boot` dependencies here, until COMPLETE in this boot."""
    for name in item.after:
        other = items.get(name)
        if other is None or other.policy != "per-boot":
            continue
        last = memory.last.get(name)
        if not finished(other, memory):
            return True
        if last is None or last.other_boot == moment.boot:
            continue  # it will not run in this boot
        if last.boot != moment.boot or last.verdict != COMPLETE:
            return True
    return False


def unreported(document: Document, memory: Memory) -> list[str]:
    """Generations finished here that the document calls unfinished: the appliance lost the result, say by a restore."""
    return [
        item.generation
        for item in document.items
        if finished(item, memory)
        and item.deployment in document.observed
        and document.observed[item.deployment].generation == item.generation
        and document.observed[item.deployment].status == "IN_PROGRESS"
    ]
