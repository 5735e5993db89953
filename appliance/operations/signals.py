"""What agents report of their runs. Every report is idempotent by run id and kind, and none is dropped without a word."""

from typing import Any, Literal

import msgspec

from appliance.deployment import (
    STATUS_CODE,
    Memory,
    Outcome,
    Release,
    Repeat,
    Standing,
    Verdict,
    begin,
    finished,
    judge,
    started,
    waiting,
)
from appliance.errors import Invalid, NotFound
from appliance.identity import Who
from appliance.names import is_uuid
from appliance.numbers import Whole
from appliance.operations.arrivals import arrive
from appliance.operations.explain import run_sentence
from appliance.operations.fate import apply, concerns, leave, remember_end
from appliance.store import configs, deployments, runs
from appliance.store.deployments import Deployment
from appliance.store.runs import Output, Run
from appliance.store.tx import Tx

TEXT_BYTES = 2 << 20
OUTPUT_BYTES = 2 << 20


class Report(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What every signal says. `at`, `started_at`, `ended_at` are the machine's own wall clock and are kept as evidence only."""

    deployment: str
    generation: str
    attempt: Whole = 1
    leg: Whole = 1
    at: str | None = None


class Started(Report, frozen=True, kw_only=True, tag="started"):
    """The run has been started. `repeat`: why, when it needed no grant; `changed`: the commit it acted on."""

    repeat: Repeat | None = None
    changed: Whole | None = None


class Finished(Report, frozen=True, kw_only=True, tag="finished"):
    """The run is over. `outcome` `ended`: the hook ran to its end, and `status_code` is its own."""

    outcome: Outcome
    status_code: Whole | None = None
    outputs: dict[str, Any] = {}
    stdout: str | None = None
    stderr: str | None = None
    sizes: dict[str, int] = {}
    truncated: list[str] = []
    message: str | None = None
    repeat: Repeat | None = None
    changed: Whole | None = None
    started_at: str | None = None
    ended_at: str | None = None


class Released(Report, frozen=True, kw_only=True, tag="released"):
    """A grant is given back unstarted."""

    why: Release


Signal = Started | Finished | Released


class Effect(msgspec.Struct, frozen=True):
    """What a signal did. `none` with a reason is still kept as evidence."""

    effect: Literal["recorded", "none"]
    why: str | None = None
    status: str | None = None


def signal(tx: Tx, server_id: str, who: Who | None, alive_at: int | None, run_id: str, report: Signal) -> Effect:
    """Record a report. `who` is None for a stock agent.

    Raises Invalid for over-long texts, NotFound for malformed ids and another server's run or deployment.
    """
    for kind, id in (("run", run_id), ("deployment", report.deployment), ("generation", report.generation)):
        if not is_uuid(id):
            raise NotFound(f"no {kind} {id[:60]!r} for this token")
    if isinstance(report, Finished):
        _check_size(report)
    if deployments.server_of(tx, report.deployment) != server_id:
        raise NotFound(f"no deployment {report.deployment!r} for this token")
    run = runs.by_id(tx, run_id)
    if run is not None and (run.server, run.deployment) != (server_id, report.deployment):
        raise NotFound(f"no run {run_id!r} for this token")
    if who is not None:
        arrive(tx, server_id, who, alive_at)
        run = runs.by_id(tx, run_id)  # a lost agent state closes runs
    first = runs.signalled(tx, run_id, report.leg, _kind(report))
    if run is not None and first is not None:
        return _again(tx, run, report, *first)
    if run is None:
        run = _known_by_report(tx, server_id, who, run_id, report)
    deployment = deployments.find(tx, report.deployment)
    assert deployment is not None
    match report:
        case Started():
            effect = _started(tx, run, deployment, report)
        case Finished():
            effect = _finished(tx, run, deployment, report)
        case Released():
            effect = _released(tx, run, deployment, report)
    runs.record_signal(tx, run_id, report.leg, _kind(report), _evidence(report), "recorded", effect.why)
    tx.touch(f"deployment:{report.deployment}")
    return effect


def _kind(report: Signal) -> str:
    return "started" if isinstance(report, Started) else "finished" if isinstance(report, Finished) else "released"


def _check_size(report: Finished) -> None:
    for name, text in (("stdout", report.stdout), ("stderr", report.stderr)):
        if text is not None and len(text) > TEXT_BYTES:
            raise Invalid(f"{name} of {len(text)} characters is over the limit of {TEXT_BYTES}")
    if len(msgspec.json.encode(report.outputs)) > OUTPUT_BYTES:
        raise Invalid(f"the named outputs are over the limit of {OUTPUT_BYTES} bytes")


def _evidence(report: Signal) -> str:
    if isinstance(report, Finished):
        report = msgspec.structs.replace(report, stdout=None, stderr=None, outputs={})
    return msgspec.json.encode(report).decode()


def _again(tx: Tx, run: Run, report: Signal, body: str, why: str | None) -> Effect:
    """A second report of a kind gets the answer of the first. A different result is kept as evidence and has no effect."""
    deployment = deployments.status_is(tx, run.deployment)
    status = deployment[0] if deployment else None
    if isinstance(report, Finished):
        first = msgspec.json.decode(body, type=Finished)
        if (first.outcome, first.status_code) != (report.outcome, report.status_code):
            why = f"this run was reported before as {run_sentence(run)}"
            runs.record_signal(tx, run.id, report.leg, "finished", _evidence(report), "none", why)
    return Effect("recorded" if why is None else "none", why, status)


def _known_by_report(tx: Tx, server_id: str, who: Who | None, run_id: str, report: Signal) -> Run:
    deployment = deployments.find(tx, report.deployment)
    terms = 1 if deployment is None else deployment.terms_number
    runs.report(
        tx,
        run_id,
        server_id,
        report.deployment,
        report.generation,
        terms,
        attempt=report.attempt,
        leg=report.leg,
        repeat=report.repeat if isinstance(report, Started | Finished) else None,
        instance=None if who is None else msgspec.json.encode(who.instance).decode(),
        agent_state=None if who is None else who.agent_state,
        boot=None if who is None else who.boot,
        changed=report.changed if isinstance(report, Started | Finished) else None,
        released=isinstance(report, Released),
    )
    run = runs.by_id(tx, run_id)
    assert run is not None
    if run.stands == "running":
        _remember_start(tx, run, run.changed)
    return run


def _remember_start(tx: Tx, run: Run, changed: int | None) -> None:
    """What the first word of a start leaves in memory, whichever report it is."""
    found = deployments.find(tx, run.deployment)
    if found is None:
        return
    memory = msgspec.structs.replace(
        found.memory,
        started=True,
        last_run=run.id,
        last_generation=run.generation,
        last_boot=run.boot,
        last_changed=changed if changed is not None else run.changed,
    )
    deployments.set_memory(tx, run.deployment, memory)


def _started(tx: Tx, run: Run, deployment: Deployment, report: Started) -> Effect:
    if run.stands == "ended":
        runs.note_start(tx, run.id)
        return Effect("none", "the run was reported as ended before", deployment.standing.status)
    if run.stands == "released":
        return Effect("none", "the run was given back before", deployment.standing.status)
    runs.start(tx, run.id, boot=None, changed=report.changed)
    if run.started_at is None:
        _remember_start(tx, run, report.changed)
    deployment = deployments.by_id(tx, deployment.id) if deployment.deleted_commit is None else deployment
    if deployment.deleted_commit is not None:
        return Effect("none", "the deployment was deleted", deployment.standing.status)
    if run.generation != deployment.generation.id and deployment.standing.run != run.id:  # a held one goes on being about its earlier run
        _hold_if_once(tx, deployment, run.id)
        return Effect("none", _older(tx, run), deployment.standing.status)
    standing = started(deployment.standing, run.id, run.repeat)
    if standing != deployment.standing:
        apply(tx, deployment, standing)
    return Effect("recorded", None, standing.status)


def _hold_if_once(tx: Tx, deployment: Deployment, run: str) -> None:
    """A `once` one was changed before we heard that it had been started: the change must not run, and that first run decides."""
    if deployment.terms.policy == "once" and deployment.standing.ungranted and not deployment.memory.must_run:
        running = Standing("IN_PROGRESS", "running", None, "running", run=run)
        standing = begin("once", deployment.memory, deployment.generation.fingerprint, running, blocked=False, busy=True)
        apply(tx, deployment, standing)
        tx.touch(f"server:{deployment.server}")


def _finished(tx: Tx, run: Run, deployment: Deployment, report: Finished) -> Effect:
    runs.put_output(tx, run.id, _output(report))
    if run.stands == "ended" and run.reason != "lost":
        runs.note_start(tx, run.id)
        return Effect("none", f"the run was closed before: {run.sentence}", deployment.standing.status)
    if run.stands == "released":
        return Effect("none", "the run was given back before", deployment.standing.status)
    verdict = _verdict(tx, run, deployment, report)
    if run.started_at is None and run.agent_state is not None:
        _remember_start(tx, run, report.changed)
    living = deployment.deleted_commit is None
    if living and run.generation != deployment.generation.id:
        _hold_if_once(tx, deployments.by_id(tx, deployment.id), run.id)
    deployment = deployments.find(tx, deployment.id) or deployment
    concerned = concerns(tx, deployment, run)
    why = None if concerned else run.effect_why or (_older(tx, run) if living else "the deployment was deleted")
    runs.end(tx, run.id, verdict, report.status_code, "recorded" if concerned else "none", why)
    remember_end(tx, deployment.id, run, verdict)
    if not concerned:
        leave(tx, deployment, run)
        return Effect("none", why, deployment.standing.status)
    apply(tx, deployment, finished(deployment.standing, run.id, verdict))
    return Effect("recorded", None, verdict.status)


def _verdict(tx: Tx, run: Run, deployment: Deployment, report: Finished) -> Verdict:
    """Judged by the outputs that were declared when the run was granted."""
    config = configs.by_id(tx, deployments.config_under(tx, deployment.id, run.terms or deployment.terms_number))
    flagged = [one.name for one in config.statement.outputs if one.error_output]
    code = report.status_code if report.status_code is not None else report.outputs.get(STATUS_CODE)
    return judge(report.outcome, code, report.outputs, flagged, report.message, deployment.terms.timeout)


def _output(report: Finished) -> Output:
    return Output(report.outputs, report.stdout, report.stderr, report.sizes, report.truncated)


def _released(tx: Tx, run: Run, deployment: Deployment, report: Released) -> Effect:
    """The run does not count as granted: what was remembered for it is taken back, and where the deployment stands is judged anew."""
    if run.stands != "granted":
        return Effect("none", f"the run is {run.stands}", deployment.standing.status)
    runs.release(tx, run.id, report.why)
    memory = deployment.memory
    if run.owed and run.effect == "recorded":
        memory = _give_back(tx, run, memory)
        deployments.set_memory(tx, deployment.id, memory)
    if deployment.deleted_commit is not None:
        return Effect("none", "the deployment was deleted", deployment.standing.status)
    standing = deployment.standing
    if run.effect == "none":  # somebody set the status by hand meanwhile
        return Effect("recorded", None, standing.status)
    if run.generation != deployment.generation.id and standing.run != run.id and not standing.ungranted:
        return Effect("recorded", None, standing.status)
    again = begin(
        deployment.terms.policy,
        memory,
        deployment.generation.fingerprint,
        waiting(blocked=False, repeating=standing.repeating),
        blocked=bool(deployments.blockers(tx, deployment.id)),
        busy=bool(runs.open_of_deployment(tx, deployment.id)),
    )
    apply(tx, deployment, again)
    tx.touch(f"server:{deployment.server}")
    return Effect("recorded", None, again.status)


def _give_back(tx: Tx, run: Run, memory: Memory) -> Memory:
    """The rerun that `run` was granted for waits again, unless a run that was granted since does for it."""
    later = runs.granted_after(tx, run)
    if later is None:
        return msgspec.structs.replace(memory, must_run=True)
    if later.stands == "granted":
        runs.owe(tx, later.id)
    return memory


def _older(tx: Tx, run: Run) -> str:
    known = deployments.generation_of(tx, run.deployment, run.generation)
    if known is None:
        return "this file does not know that generation (an older one was restored); rerun to apply"
    return f"generation {known[0]} is not the current one any more"
