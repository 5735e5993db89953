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
Cause = Literal["create", "update", "switch", "rerun", "reset", "follow", "heat", "undo", "delete", "suspend", "resume"]
Outcome = Literal["ended", "timeout", "interrupted", "cancelled", "no-hook", "invalid"]
Repeat = Literal["boot", "agent-start", "changed", "interval"]
Refusal = Literal["superseded", "blocked", "cancelled", "claimed", "other-instance", "deleted"]
Release = Literal["dependency", "superseded", "cancelled", "deleted"]

POLICIES: tuple[Policy, ...] = ("on-change", "once", "per-boot", "always")
ACTIONS: tuple[Action, ...] = ("CREATE", "UPDATE", "DELETE", "SUSPEND", "RESUME")
WORKS: tuple[Action, ...] = ("CREATE", "UPDATE")  # what there is work for where nobody says more
REACHING: tuple[Action, ...] = ("CREATE", "UPDATE", "RESUME")  # done, the machine is as the generation says
TIMEOUT_SECONDS = 3600
INTERVAL_SECONDS = 30
UNGRANTED: frozenset[Phase] = frozenset(("blocked", "pending", "delivered"))
STATUS_CODE = "deploy_status_code"


class Standing(msgspec.Struct, frozen=True):
    """Where a deployment stands on its current generation.

    `held`: a `once` one, changed since it ran. `run`: the run that status and phase are about. `repeating`: a repeat that runs now, beside
    the status. `attempt` counts within the generation, `tries` those of this round; `next_at`: it waits until then, in ms of uptime.
    """

    status: Status
    phase: Phase | None
    reason: Reason | None
    sentence: str
    held: bool = False
    run: str | None = None
    repeating: str | None = None
    attempt: int = 1
    tries: int = 1
    next_at: int | None = None

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


def next_action(memory: Memory, works: Iterable[Action], *, busy: bool) -> Action:
    """What a change asks for: CREATE until one has been started on this machine (or where there is no work for it), then UPDATE."""
    return "UPDATE" if memory.started or busy or "CREATE" not in works else "CREATE"


def again_action(action: Action, memory: Memory, works: Iterable[Action]) -> Action:
    """What a rerun asks for: what was asked last; of CREATE and UPDATE the one there is work for."""
    if action not in WORKS:
        return action
    wanted = next_action(memory, works, busy=False)
    other: Action = "CREATE" if wanted == "UPDATE" else "UPDATE"
    return wanted if wanted in works or other not in works else other


def nothing_to_do(action: Action, before: Standing | None) -> Standing:
    """There is no work for this action: COMPLETE at once, unless a run is under way, which then decides."""
    if before is not None and before.status == "IN_PROGRESS" and not before.ungranted:
        return msgspec.structs.replace(before, sentence=f"{before.sentence}; nothing to do for {action}", attempt=1, tries=1)
    return Standing("COMPLETE", None, None, f"nothing to do for {action}", repeating=None if before is None else before.repeating)


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
        sentence = f"{before.sentence.partition('; ' + _HELD)[0]}; {_HELD}"
        return msgspec.structs.replace(before, sentence=sentence, held=True, attempt=1, tries=1)
    if memory.completed_generation is None:
        return Standing("FAILED", None, "interrupted", f"it was started and never reported complete; {_HELD}", held=True)
    return Standing("COMPLETE", None, None, f"complete; {_HELD}", held=True)


def waiting(*, blocked: bool, repeating: str | None = None) -> Standing:
    """Waits for a grant: blocked on what it depends on, or pending."""
    if blocked:
        return Standing("IN_PROGRESS", "blocked", None, "waits for what it depends on", repeating=repeating)
    return Standing("IN_PROGRESS", "pending", None, "ready; its machine has not asked for it yet", repeating=repeating)


def waiting_on(standing: Standing, *, blocked: bool) -> Standing:
    """The same for one that has waited before: its attempt stays what it is."""
    again = waiting(blocked=blocked, repeating=standing.repeating)
    return msgspec.structs.replace(again, attempt=standing.attempt, tries=standing.tries, next_at=standing.next_at)


RETRIED: tuple[Reason, ...] = ("exit", "timeout", "error-output", "interrupted")
LONGEST_BACK_OFF_MS = 600_000


def back_off(tries: int, first_ms: int) -> int:
    """How long the attempt after so many tries waits: doubling, at most ten minutes."""
    return min(first_ms << min(tries - 1, 20), max(first_ms, LONGEST_BACK_OFF_MS))


def next_attempt(standing: Standing, attempt: int, tries: int, verdict: Verdict, *, of: int, at: int, blocked: bool) -> Standing:
    """It failed, and is tried again at `at`: as attempt `attempt` of its generation, `tries` having failed in this round."""
    again = waiting(blocked=blocked, repeating=standing.repeating)
    sentence = f"attempt {tries + 1} of {of} follows: {verdict.sentence}"
    return msgspec.structs.replace(again, sentence=sentence, attempt=attempt, tries=tries + 1, next_at=at)


# ------------------------------------------------------------------------------------------------------------ events of its runs


def granted(standing: Standing, run: str, *, follows: bool) -> Standing:
    """A run was granted: the machine may start it (`follows`: after others of its own server)."""
    sentence = "granted to start after others of its server" if follows else "granted; no word that it has started"
    return Standing(
        "IN_PROGRESS", "granted", None, sentence, run=run, repeating=standing.repeating, attempt=standing.attempt, tries=standing.tries
    )


def started(standing: Standing, run: str, repeat: Repeat | None) -> Standing:
    """The machine says that it has started, though it may have been given up. A repeat runs beside the status and never takes it back."""
    if repeat is not None and standing.phase is None:
        return msgspec.structs.replace(standing, repeating=run)
    given_up = standing.reason == "lost" and standing.run == run
    if standing.status != "IN_PROGRESS" and not given_up:
        return standing
    sentence = f"running; {_HELD}" if standing.held else "running"
    fields = {"status": "IN_PROGRESS", "phase": "running", "reason": None, "sentence": sentence, "run": run, "next_at": None}
    return msgspec.structs.replace(standing, **fields)


def overdue(standing: Standing, silence: str) -> Standing:
    """Its run should have been heard of by now."""
    if standing.phase not in ("granted", "running", "rebooting"):
        return standing
    return msgspec.structs.replace(standing, phase="overdue", sentence=silence)


def cancelled(standing: Standing, sentence: str) -> Standing:
    """It ends unstarted because a person says so."""
    fields = {"status": "FAILED", "phase": None, "reason": "cancelled", "sentence": sentence, "next_at": None}
    return msgspec.structs.replace(standing, **fields)


def cancel_asked(standing: Standing, by: str) -> Standing:
    """It is on its machine, or on the way: its end has been asked for. A finished one with a repeat stays what it is."""
    if standing.phase is None or standing.sentence.endswith(_ASKED):
        return standing
    return msgspec.structs.replace(standing, sentence=f"{standing.sentence}; {by}{_ASKED}")


_ASKED = " asked its machine to cancel it"


def given_up(standing: Standing, verdict: Verdict) -> Standing:
    """Nobody asked for it in time."""
    fields = {"status": verdict.status, "phase": None, "reason": verdict.reason, "sentence": verdict.sentence, "next_at": None}
    return msgspec.structs.replace(standing, **fields)


def finished(standing: Standing, run: str, verdict: Verdict) -> Standing:
    """The machine says what it came to."""
    sentence = f"{verdict.sentence}; {_HELD}" if standing.held else verdict.sentence
    repeating = None if standing.repeating == run else standing.repeating
    fields = {"status": verdict.status, "phase": None, "reason": verdict.reason, "sentence": sentence, "run": run, "next_at": None}
    return msgspec.structs.replace(standing, **fields, repeating=repeating)


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
            "cancelled": "cancelled",
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


def despite_cancel(verdict: Verdict) -> Verdict:
    """What a run came to whose end had been asked for: cut short is cancelled, any other end came first and stands."""
    if verdict.reason == "interrupted":
        return Verdict("FAILED", "cancelled", f"cancelled: {verdict.sentence}")
    if verdict.reason == "cancelled":
        return verdict
    return msgspec.structs.replace(verdict, sentence=f"{verdict.sentence}; it ended before the cancel reached it")


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
