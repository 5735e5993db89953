"""Evidence: claims and their answers, runs, signals, outputs."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from appliance.deployment import Release, Repeat, Verdict
from appliance.store.tx import Reader, Tx

Stands = Literal["granted", "running", "ended", "released"]
Effect = Literal["recorded", "none"]

_COLUMNS = (
    "seq, id, server, deployment, generation, terms, attempt, leg, repeat, stands, status, reason, sentence, status_code, after,"
    " agent_state, boot, changed, granted_at, started_at, ended_at, owed, effect, effect_why"
)


class Run(msgspec.Struct, frozen=True):
    """One granted or journaled execution. Times in ms; `changed` is the commit it acted on."""

    seq: int
    id: str
    server: str
    deployment: str
    generation: str
    terms: int | None
    attempt: int
    leg: int
    repeat: Repeat | None
    stands: Stands
    status: Literal["COMPLETE", "FAILED"] | None
    reason: str | None
    sentence: str | None
    status_code: int | None
    after: list[str]
    agent_state: str | None
    boot: str | None
    changed: int | None
    granted_at: int | None
    started_at: int | None
    ended_at: int | None
    owed: bool
    effect: Effect
    effect_why: str | None


class Output(msgspec.Struct, frozen=True):
    """What a run printed and put out. `sizes` are the whole sizes in bytes, `truncated` the names of what was cut."""

    outputs: dict[str, Any]
    stdout: str | None
    stderr: str | None
    sizes: dict[str, int]
    truncated: list[str]


class Claim(msgspec.Struct, frozen=True):
    """The answer a run id got, and will get again."""

    run: str
    server: str
    answer: Literal["granted", "refused"]
    why: str | None
    message: str | None
    after: list[str]


_make_run: Callable[..., Run] = Run


def _run(row: tuple[Any, ...]) -> Run:
    after = msgspec.json.decode(row[14]) if row[14] else []
    return _make_run(*row[:14], after, *row[15:21], bool(row[21]), *row[22:])


def by_id(tx: Reader, id: str) -> Run | None:
    """One run, or None."""
    found = tx.row(f"SELECT {_COLUMNS} FROM run WHERE id = ?", (id,))
    return None if found is None else _run(found)


def of_deployment(tx: Reader, deployment: str, limit: int = 50) -> list[Run]:
    """A deployment's runs, newest first."""
    return [_run(row) for row in tx.rows(f"SELECT {_COLUMNS} FROM run WHERE deployment = ? ORDER BY seq DESC LIMIT ?", (deployment, limit))]


def open_of_server(tx: Reader, server: str) -> list[Run]:
    """A server's runs that are not over."""
    sql = f"SELECT {_COLUMNS} FROM run WHERE server = ? AND stands IN ('granted', 'running', 'rebooting') ORDER BY seq"
    return [_run(row) for row in tx.rows(sql, (server,))]


def open_of_deployment(tx: Reader, deployment: str) -> list[Run]:
    """A deployment's runs that are not over."""
    sql = f"SELECT {_COLUMNS} FROM run WHERE deployment = ? AND stands IN ('granted', 'running', 'rebooting') ORDER BY seq"
    return [_run(row) for row in tx.rows(sql, (deployment,))]


def claim_of(tx: Reader, run: str) -> Claim | None:
    """The answer a run id got before."""
    found = tx.row("SELECT run, server, answer, why, message, after FROM claim WHERE run = ?", (run,))
    if found is None:
        return None
    run_id, server, given, why, message, after = found
    return Claim(run_id, server, given, why, message, msgspec.json.decode(after))


def answer(tx: Tx, claim: Claim, deployment: str, generation: str, attempt: int) -> None:
    """Remember an answer to a claim."""
    tx.execute(
        "INSERT INTO claim (run, server, deployment, generation, attempt, answer, why, message, after, commit_no, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            claim.run,
            claim.server,
            deployment,
            generation,
            attempt,
            claim.answer,
            claim.why,
            claim.message,
            msgspec.json.encode(claim.after).decode(),
            tx.commit,
            tx.now,
        ),
    )


def grant(
    tx: Tx,
    id: str,
    server: str,
    deployment: str,
    generation: str,
    terms: int,
    *,
    attempt: int = 1,
    after: list[str] | None = None,
    instance: str | None = None,
    agent_state: str | None = None,
    boot: str | None = None,
    changed: int | None = None,
    owed: bool = False,
) -> None:
    """Add a granted run."""
    tx.execute(
        "INSERT INTO run (id, server, deployment, generation, terms, attempt, stands, after, instance, agent_state, boot, changed,"
        " granted_at, granted_commit, owed) VALUES (?, ?, ?, ?, ?, ?, 'granted', ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id,
            server,
            deployment,
            generation,
            terms,
            attempt,
            msgspec.json.encode(after or []).decode(),
            instance,
            agent_state,
            boot,
            changed,
            tx.now,
            tx.commit,
            int(owed),
        ),
    )
    tx.touch(f"deployment:{deployment}")


def report(
    tx: Tx,
    id: str,
    server: str,
    deployment: str,
    generation: str,
    terms: int,
    *,
    attempt: int,
    leg: int,
    repeat: Repeat | None,
    instance: str | None,
    agent_state: str | None,
    boot: str | None,
    changed: int | None,
    released: bool = False,
) -> None:
    """Add a run that is known by its report only: a repeat, or one whose grant this file does not know (`released`: and never will)."""
    tx.execute(
        "INSERT INTO run (id, server, deployment, generation, terms, attempt, leg, repeat, stands, instance, agent_state, boot, changed,"
        " started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id,
            server,
            deployment,
            generation,
            terms,
            attempt,
            leg,
            repeat,
            "released" if released else "running",
            instance,
            agent_state,
            boot,
            changed,
            None if released else tx.now,
        ),
    )


def start(tx: Tx, id: str, *, boot: str | None, changed: int | None) -> None:
    """A granted run has started."""
    tx.execute(
        "UPDATE run SET stands = 'running', started_at = coalesce(started_at, ?), boot = coalesce(?, boot), changed = coalesce(?, changed)"
        " WHERE id = ? AND stands = 'granted'",
        (tx.now, boot, changed, id),
    )


def end(tx: Tx, id: str, verdict: Verdict, status_code: int | None, effect: Effect, why: str | None, *, reported: bool = True) -> None:
    """A run has ended; `effect` is what that did to its deployment. One whose end was `reported` has been started."""
    tx.execute(
        "UPDATE run SET stands = 'ended', status = ?, reason = ?, sentence = ?, status_code = ?, ended_at = ?, ended_commit = ?, "
        " effect = ?, effect_why = ?, started_at = coalesce(started_at, ?) WHERE id = ?",
        (
            verdict.status,
            verdict.reason,
            verdict.sentence,
            status_code,
            tx.now,
            tx.commit,
            effect,
            why,
            tx.now if reported else None,
            id,
        ),
    )


def note_start(tx: Tx, id: str) -> None:
    """A run that is over was started, as is heard now."""
    tx.execute("UPDATE run SET started_at = ? WHERE id = ? AND stands = 'ended' AND started_at IS NULL", (tx.now, id))


def release(tx: Tx, id: str, why: Release) -> None:
    """A granted run was given back unstarted."""
    tx.execute(
        "UPDATE run SET stands = 'released', reason = ?, ended_at = ?, ended_commit = ? WHERE id = ? AND stands = 'granted'",
        (why, tx.now, tx.commit, id),
    )


def granted_after(tx: Reader, run: Run) -> Run | None:
    """The newest run of the same deployment that was granted after this one and not given back, or None."""
    sql = (
        f"SELECT {_COLUMNS} FROM run WHERE deployment = ? AND seq > ? AND granted_commit IS NOT NULL AND stands <> 'released'"
        " ORDER BY seq DESC LIMIT 1"
    )
    found = tx.row(sql, (run.deployment, run.seq))
    return None if found is None else _run(found)


def owe(tx: Tx, id: str) -> None:
    """A granted run stands for a waiting rerun: its release gives that back."""
    tx.execute("UPDATE run SET owed = 1 WHERE id = ?", (id,))


def put_output(tx: Tx, run: str, output: Output) -> None:
    """Keep what a run put out; once."""
    tx.execute(
        "INSERT INTO run_output (run, outputs, stdout, stderr, sizes, truncated) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (run, _json(output.outputs), output.stdout, output.stderr, _json(output.sizes), _json(output.truncated)),
    )


def output_of(tx: Reader, run: str) -> Output | None:
    """What a run put out, or None."""
    found = tx.row("SELECT outputs, stdout, stderr, sizes, truncated FROM run_output WHERE run = ?", (run,))
    if found is None:
        return None
    outputs, stdout, stderr, sizes, truncated = found
    return Output(msgspec.json.decode(outputs), stdout, stderr, msgspec.json.decode(sizes), msgspec.json.decode(truncated))


def signalled(tx: Reader, run: str, leg: int, kind: str) -> tuple[str, str | None] | None:
    """(body, why it had no effect) of the report of this kind that counts for a leg of a run, or None."""
    sql = "SELECT body, why FROM signal WHERE run = ? AND leg = ? AND kind = ? AND n = 0 AND effect = 'recorded'"
    found = tx.row(sql, (run, leg, kind))
    return None if found is None else (found[0], found[1])


def record_signal(tx: Tx, run: str, leg: int, kind: str, body: str, effect: Effect, why: str | None) -> None:
    """Keep a report as it came; one that contradicts an earlier one (`none`) is kept once.

    Raises ConstraintFailed for a second one that is said to be recorded.
    """
    sql = "SELECT 1 FROM signal WHERE run = ? AND leg = ? AND kind = ? AND body = ?"
    if effect == "none" and tx.row(sql, (run, leg, kind, body)) is not None:
        return
    tx.execute(
        "INSERT INTO signal (run, leg, kind, body, effect, why, commit_no, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (run, leg, kind, body, effect, why, tx.commit, tx.now),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
