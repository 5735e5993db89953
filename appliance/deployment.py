"""Deployments as values: statuses, phases, policies, and every rule of how one event moves a deployment.

Status words and outcome rules are Heat's; the rest is the README's "Deployments, precisely". Pure: values in, values out.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Status = Literal["IN_PROGRESS", "COMPLETE", "FAILED"]
Phase = Literal["blocked", "pending", "delivered", "granted", "running", "rebooting", "overdue"]
Reason = Literal["exit", "timeout", "error-output", "no-hook", "invalid", "interrupted", "cancelled", "lost"]
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
    """Where a deployment stands on its current generation. `held`: a `once` one, changed since it ran."""

    status: Status
    phase: Phase | None
    reason: Reason | None
    sentence: str
    held: bool = False
    repeating: str | None = None

    @property
    def ungranted(self) -> bool:
        """Whether no run of the current generation has been granted (or it was given back)."""
        return self.phase in UNGRANTED


class Memory(msgspec.Struct, frozen=True):
    """What is remembered for as long as the deployment lives; see table `memory`."""

    completed_generation: str | None = None
    completed: bytes | None = None
    left_by: str | None = None
    must_run: bool = True
    granted_generation: str | None = None
    started: bool = False
    last_run: str | None = None
    last_generation: str | None = None
    last_boot: str | None = None
    last_changed: int | None = None


class Blocker(msgspec.Struct, frozen=True):
    """A dependency that is not COMPLETE at its current generation."""

    deployment: str
    generation: str
    name: str
    server: str
    status: Status
    phase: Phase | None


class Verdict(msgspec.Struct, frozen=True):
    """What a run came to."""

    status: Literal["COMPLETE", "FAILED"]
    reason: Reason | None
    sentence: str


# ------------------------------------------------------------------------------------------------------------ a new generation


def begin(policy: Policy, memory: Memory, fingerprint: bytes, before: Standing | None, blockers: Iterable[Blocker]) -> Standing:
    """Where a deployment stands on a generation that was made just now (or whose only grant was given back).

    `before` is where it stood on the one before. Complete at once, when the machine never left this fingerprint; held, when it is `once`
    and has been started on this instance; else it waits for a run.
    """
    if not memory.must_run:
        if policy == "once" and memory.started:
            return _held(before)
        if memory.completed == fingerprint and memory.left_by is None:
            return Standing("COMPLETE", None, None, "complete at once: the machine never left this state")
    return waiting(blockers)


def _held(before: Standing | None) -> Standing:
    note = "changed since it ran; `rerun` applies the change"
    if before is None or before.status == "COMPLETE" or before.ungranted:
        return Standing("COMPLETE", None, None, note, held=True)
    return msgspec.structs.replace(before, sentence=f"{_base(before.sentence)}; {note}", held=True)


def _base(sentence: str) -> str:
    return sentence.partition("; changed since it ran")[0]


def waiting(blockers: Iterable[Blocker]) -> Standing:
    """Waits for a grant: blocked on what is named, or pending."""
    blocked = list(blockers)
    if not blocked:
        return Standing("IN_PROGRESS", "pending", None, "ready; its machine has not asked for it yet")
    return Standing("IN_PROGRESS", "blocked", None, "waits for " + ", ".join(_blocker(one) for one in blocked))


def _blocker(one: Blocker) -> str:
    stands = one.status if one.status == "FAILED" else one.phase or one.status
    return f"{one.server}/{one.name} ({stands})"


# ------------------------------------------------------------------------------------------------------------ events of its runs


def granted(standing: Standing, after: Iterable[str]) -> Standing:
    """A run was granted: the machine may start it (after those of its own server that are named)."""
    names = list(after)
    sentence = "granted; no word that it has started" + (f" (it starts after {', '.join(names)})" if names else "")
    return Standing("IN_PROGRESS", "granted", None, sentence, repeating=standing.repeating)


def started(standing: Standing, run: str, repeat: Repeat | None) -> Standing:
    """The machine says that it has started. A repeat runs beside the status and never takes it back."""
    if repeat is not None and not standing.ungranted and standing.phase is None:
        return msgspec.structs.replace(standing, repeating=run)
    if standing.status != "IN_PROGRESS":
        return standing
    return Standing("IN_PROGRESS", "running", None, "running")


def finished(standing: Standing, verdict: Verdict) -> Standing:
    """The machine says what it came to."""
    return Standing(verdict.status, None, verdict.reason, verdict.sentence, held=standing.held)


# ------------------------------------------------------------------------------------------------------------ outcomes


def judge(
    outcome: Outcome,
    status_code: object,
    outputs: dict[str, Any],
    error_outputs: Iterable[str],
    message: str | None,
    timeout: int | None,
) -> Verdict:
    """What a finished run came to. Heat's rules: a non-zero `deploy_status_code`, or a received output that is flagged
    `error_output` (whatever its value), is FAILED; no status code at all is success.
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
        return Verdict(
            "FAILED", "error-output", "error output: " + ", ".join(f"{name} : {_clip(outputs[name])}" for name in received)
        )
    return Verdict("COMPLETE", None, "complete")


def _clip(value: object) -> str:
    text = str(value).strip()
    return text if len(text) <= 200 else text[:197] + "..."


# ------------------------------------------------------------------------------------------------------------ order

NodeId = str


def run_order(items: Iterable[tuple[NodeId, str | None, int, Iterable[NodeId]]]) -> list[NodeId]:
    """Ids in run order: dependencies first, then name (bytewise), then creation.

    `items` are (id, name, creation order, ids it depends on); dependencies on others than these are not looked at. They must be acyclic.
    """
    known = {id: ((name or "").encode(), seq, list(needs)) for id, name, seq, needs in items}
    ordered: list[NodeId] = []
    placed: set[NodeId] = set()
    rank = sorted(known, key=lambda id: known[id][:2])
    while len(ordered) < len(known):
        ready = next(id for id in rank if id not in placed and all(need in placed or need not in known for need in known[id][2]))
        placed.add(ready)
        ordered.append(ready)
    return ordered


def cycle(edges: dict[NodeId, Iterable[NodeId]], start: NodeId) -> list[NodeId] | None:
    """A cycle through `start` as the list of ids along it, or None."""
    path: list[NodeId] = []
    seen: set[NodeId] = set()

    def walk(id: NodeId) -> bool:
        path.append(id)
        for need in edges.get(id, ()):
            if need == start:
                return True
            if need not in seen:
                seen.add(need)
                if walk(need):
                    return True
        path.pop()
        return False

    return path if walk(start) else None


# ------------------------------------------------------------------------------------------------------------ who is asking


class Instance(msgspec.Struct, frozen=True):
    """Which machine an agent runs on, as far as it can be read there."""

    machine: str | None = None
    root: str | None = None
    cloud: str | None = None


def same_instance(known: Instance, other: Instance, *, same_state: bool) -> bool:
    """Whether two are one: no part known to both differs; and where neither root nor cloud id is known to both (containers), an agent state
    that was lost counts as another instance.
    """
    pairs = [(known.machine, other.machine), (known.root, other.root), (known.cloud, other.cloud)]
    if any(one is not None and two is not None and one != two for one, two in pairs):
        return False
    return same_state or any(one is not None and two is not None for one, two in pairs[1:])
