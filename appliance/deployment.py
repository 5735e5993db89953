"""Deployments as values: statuses, phases, policies, and every rule of how one event moves a deployment.

Status words and outcome rules are Heat's; the rest is the README's "Deployments, precisely". Pure: values in, values out.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

Status = Literal["IN_PROGRESS", "COMPLETE", "FAILED"]
Phase = Literal["blocked", "pending", "delivered", "granted", "running", "rebooting", "overdue"]
Reason = Literal["exit", "timeout", "error-output", "no-hook", "invalid", "interrupted", "cancelled", "lost", "by-hand"]
Policy = Literal["on-change", "once", "per-boot", "always"]
Action = Literal["CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME"]
Cause = Literal["create", "update", "switch", "rerun", "reset", "follow", "heat", "undo", "delete"]
Outcome = Literal["ended", "timeout", "interrupted", "no-hook", "invalid"]
Repeat = Literal["boot", "agent-start", "changed", "interval"]
Refusal = Literal["superseded", "blocked", "cancelled", "claimed", "other-instance", "deleted"]
Release = Literal["dependency", "superseded", "cancelled", "deleted"]

POLICIES: tuple[Policy, ...] = ("on-change", "once", "per-boot", "always")
TIMEOUT_SECONDS = 3600
INTERVAL_SECONDS = 30
UNGRANTED: frozenset[Phase] = frozenset(("blocked", "pending", "delivered"))
STATUS_CODE = "deploy_status_code"


class Standing(msgspec.Struct, frozen=True):
    """Where a deployment stands on its current generation.

    `held`: a `once` one, changed since it ran. `run`: the run that status and phase are about. `repeating`: a repeat that runs now, beside
    the status.
    """

    status: Status
    phase: Phase | None
    reason: Reason | None
    sentence: str
    held: bool = False
    run: str | None = None
    repeating: str | None = None

    @property
    def ungranted(self) -> bool:
        """Whether no run of the current generation has been granted (or it was given back)."""
        return self.phase in UNGRANTED


class Memory(msgspec.Struct, frozen=True):
    """What is remembered for as long as the deployment lives; see table `memory`."""

    completed_generation: str | None = None
    completed: bytes | None = None
    left: bool = False
    must_run: bool = True
    started: bool = False
    substantial: str | None = None
    last_run: str | None = None
    last_generation: str | None = None
    last_boot: str | None = None
    last_changed: int | None = None


class Blocker(msgspec.Struct, frozen=True):
    """A dependency that is not COMPLETE at its current generation."""

    deployment: str
    generation: str
    name: str
    server_id: str
    server: str
    status: Status
    phase: Phase | None


class Verdict(msgspec.Struct, frozen=True):
    """What a run came to."""

    status: Literal["COMPLETE", "FAILED"]
    reason: Reason | None
    sentence: str


# ------------------------------------------------------------------------------------------------------------ a new generation


def begin(policy: Policy, memory: Memory, fingerprint: bytes, before: Standing | None, *, blocked: bool, busy: bool) -> Standing:
    """Where a deployment stands on a generation that was made just now (or whose only grant was given back).

    `before` is where it stood on the one before; `blocked`: something it depends on is not COMPLETE; `busy`: a run of it is granted or
    running. Complete at once, when the machine never left this fingerprint; held, when it is `once` and has been started on this instance;
    else it waits for a run.
    """
    repeating = None if before is None else before.repeating
    if not memory.must_run:
        if policy == "once" and memory.started:
            return _held(memory, before)
        if memory.completed == fingerprint and not memory.left and not busy:
            run = before.run if before is not None and before.status == "COMPLETE" else None
            return Standing("COMPLETE", None, None, AT_ONCE, run=run, repeating=repeating)
    return waiting(blocked=blocked, repeating=repeating)


AT_ONCE = "complete at once: the machine never left this state"
_HELD = "changed since it ran; `rerun` applies the change"


def _held(memory: Memory, before: Standing | None) -> Standing:
    """The change is not run; the run there was (or is) goes on deciding the status."""
    if before is not None and not before.ungranted:
        return msgspec.structs.replace(before, sentence=f"{before.sentence.partition('; ' + _HELD)[0]}; {_HELD}", held=True)
    if memory.completed_generation is None:
        return Standing("FAILED", None, "interrupted", f"it was started and never reported complete; {_HELD}", held=True)
    return Standing("COMPLETE", None, None, f"complete; {_HELD}", held=True)


def waiting(*, blocked: bool, repeating: str | None = None) -> Standing:
    """Waits for a grant: blocked on what it depends on, or pending."""
    if blocked:
        return Standing("IN_PROGRESS", "blocked", None, "waits for what it depends on", repeating=repeating)
    return Standing("IN_PROGRESS", "pending", None, "ready; its machine has not asked for it yet", repeating=repeating)


# ------------------------------------------------------------------------------------------------------------ events of its runs


def granted(standing: Standing, run: str, *, follows: bool) -> Standing:
    """A run was granted: the machine may start it (`follows`: after others of its own server)."""
    sentence = "granted to start after others of its server" if follows else "granted; no word that it has started"
    return Standing("IN_PROGRESS", "granted", None, sentence, run=run, repeating=standing.repeating)


def started(standing: Standing, run: str, repeat: Repeat | None) -> Standing:
    """The machine says that it has started. A repeat runs beside the status and never takes it back."""
    if repeat is not None and standing.phase is None:
        return msgspec.structs.replace(standing, repeating=run)
    if standing.status != "IN_PROGRESS":
        return standing
    sentence = f"running; {_HELD}" if standing.held else "running"
    return Standing("IN_PROGRESS", "running", None, sentence, held=standing.held, run=run, repeating=standing.repeating)


def finished(standing: Standing, run: str, verdict: Verdict) -> Standing:
    """The machine says what it came to."""
    sentence = f"{verdict.sentence}; {_HELD}" if standing.held else verdict.sentence
    repeating = None if standing.repeating == run else standing.repeating
    return Standing(verdict.status, None, verdict.reason, sentence, held=standing.held, run=run, repeating=repeating)


# ------------------------------------------------------------------------------------------------------------ outcomes


def judge(
    outcome: Outcome,
    status_code: object,
    outputs: dict[str, Any],
    error_outputs: Iterable[str],
    message: str | None,
    timeout: int | None,
) -> Verdict:
    """What a finished run came to.

    Heat's rules: a non-zero `deploy_status_code`, or a received output that is flagged `error_output` (whatever its value), is FAILED; no
    status code at all is success.
    """
    if outcome != "ended":
        texts: dict[Outcome, str] = {
            "timeout": f"ended after its time limit of {timeout} s" if timeout else "ended after its time limit",
            "interrupted": "cut short",
            "no-hook": "the machine has no hook for this group",
            "invalid": "could not be run",
        }
        return Verdict("FAILED", outcome, message or texts[outcome])
    if status_code is not None and str(status_code) != "0":
        return Verdict("FAILED", "exit", f"exited with status {status_code}")
    received = [name for name in error_outputs if name in outputs]
    if received:
        return Verdict("FAILED", "error-output", "error output: " + ", ".join(f"{name} : {_clip(outputs[name])}" for name in received))
    return Verdict("COMPLETE", None, "complete")


def _clip(value: object) -> str:
    text = str(value).strip()
    return text if len(text) <= 200 else text[:197] + "..."


# ------------------------------------------------------------------------------------------------------------ order

NodeId = str


def run_order(items: Iterable[tuple[NodeId, str | None, int, Iterable[NodeId]]]) -> list[NodeId]:
    """Ids in run order: dependencies first, then name (bytewise), then creation.

    `items` are (id, name, creation order, ids it depends on); dependencies on others than these are not looked at. Those in a circle, and
    what comes after them, are left out.
    """
    rank: dict[NodeId, tuple[bytes, int, NodeId]] = {}
    waits: dict[NodeId, set[NodeId]] = {}
    for id, name, seq, needs in items:
        rank[id] = ((name or "").encode(), seq, id)
        waits[id] = set(needs)
    followers: dict[NodeId, list[NodeId]] = {id: [] for id in rank}
    for id, needed in waits.items():
        waits[id] = {need for need in needed if need in rank}
        for need in waits[id]:
            followers[need].append(id)
    ready = [rank[id] for id, needed in waits.items() if not needed]
    heapq.heapify(ready)
    ordered: list[NodeId] = []
    while ready:
        id = heapq.heappop(ready)[2]
        ordered.append(id)
        for follower in followers[id]:
            waits[follower].discard(id)
            if not waits[follower]:
                heapq.heappush(ready, rank[follower])
    return ordered


def cycle(edges: Mapping[NodeId, Iterable[NodeId]], start: NodeId) -> list[NodeId] | None:
    """A cycle through `start` as the list of ids along it, or None."""
    came_from: dict[NodeId, NodeId] = {}
    queue = [start]
    while queue:
        id = queue.pop()
        for need in edges.get(id, ()):
            if need == start:
                path = [id]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if need not in came_from:
                came_from[need] = id
                queue.append(need)
    return None
