"""What the journal says of runs: each function is one durable step, named after what has happened."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

from . import signals
from .capture import clip
from .document import Item
from .journal import Journal
from .passes import Adoption, Done, Last, Memory, Mint, Run
from .signals import Result

KEEP_RUNS = 200  # acknowledged runs that are kept, beside the last of each deployment
KEEP_REFUSED = 200
KEEP_BYTES = 64 << 20  # of results that are kept, and of those that wait to be delivered
SHORT = 32 << 10  # a result that is not worth cutting
LONGEST_NAME, MOST_NAMES = 200, 1000  # of what was cut, in a shortened result


@dataclass(frozen=True)
class Running:
    """A start: the run, why it repeats (None: granted), and what it acted on."""

    run: str
    item: Item
    repeat: str | None
    changed: int
    boot: str
    agent_start: str
    started_at: str


def memory(journal: Journal) -> Memory:
    """What `passes.decide` needs to know."""
    return Memory(
        done={
            row["generation"]: Done(row["deployment"], row["attempt"], row["verdict"], row["run"])
            for row in journal.rows("SELECT * FROM done")
        },
        last={
            row["deployment"]: Last(**{key: row[key] for key in row.keys() if key != "deployment"})  # noqa: SIM118
            for row in journal.rows("SELECT * FROM last")
        },
        runs=tuple(
            Run(
                run=row["run"],
                deployment=row["deployment"],
                generation=row["generation"],
                attempt=row["attempt"],
                state=row["state"],
                why=row["why"],
                after=tuple(json.loads(row["after"])),
            )
            for row in journal.rows("SELECT * FROM run WHERE state <> 'finished' ORDER BY seq")
        ),
    )


def adopt(journal: Journal, adoptions: Iterable[Adoption]) -> None:
    """Take over what the appliance knows and this journal does not."""
    with journal.write() as tx:
        for found in adoptions:
            if found.verdict is not None:
                tx.execute(
                    "INSERT OR REPLACE INTO done (generation, deployment, attempt, verdict) VALUES (?, ?, ?, ?)",
                    (found.generation, found.deployment, found.attempt, found.verdict),
                )
            if found.last is not None:
                changed = found.last.get("changed")
                tx.execute(
                    "INSERT INTO last (deployment, boot, changed, verdict) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (deployment) DO UPDATE SET boot = excluded.boot, ended = NULL, "
                    "changed = max(changed, excluded.changed)",
                    (
                        found.deployment,
                        str(found.last.get("boot") or ""),
                        changed if isinstance(changed, int) else 0,
                        found.verdict,
                    ),
                )


def other_policy(journal: Journal, deployments: Iterable[str], boot: str) -> None:
    """Note that these were seen with a policy other than `per-boot` in this boot."""
    with journal.write() as tx:
        tx.executemany("UPDATE last SET other_boot = ? WHERE deployment = ?", [(boot, name) for name in deployments])


def claimed(journal: Journal, mints: Sequence[tuple[str, Mint]]) -> None:
    """Run ids minted, before they are sent."""
    with journal.write() as tx:
        tx.executemany(
            "INSERT INTO run (run, deployment, generation, attempt, state) VALUES (?, ?, ?, ?, 'claimed')",
            [(run, mint.deployment, mint.generation, mint.attempt) for run, mint in mints],
        )


def unanswered(journal: Journal) -> list[dict[str, object]]:
    """The claims without an answer, as the wire wants them, in order."""
    found = journal.rows("SELECT run, deployment, generation, attempt FROM run WHERE state = 'claimed' ORDER BY seq")
    return [dict(row) for row in found]


def answered(journal: Journal, answers: Iterable[Mapping[str, Any]]) -> None:
    """The answers to claims, before any is acted on."""
    with journal.write() as tx:
        for answer in answers:
            granted = answer["answer"] == "granted"
            tx.execute(
                "UPDATE run SET state = ?, why = ?, after = ? WHERE run = ? AND state = 'claimed'",
                (
                    "granted" if granted else "refused",
                    None if granted else str(answer.get("why") or "superseded"),
                    json.dumps(list(answer.get("after") or [])) if granted else "[]",
                    str(answer["run"]),
                ),
            )


def running(journal: Journal, start: Running, pgid: int | None, leader: int | None) -> None:
    """The start, after the leader was forked and before it is released."""
    item = start.item
    with journal.write() as tx:
        if start.repeat is not None:
            tx.execute(
                "INSERT INTO run (run, deployment, generation, attempt, repeat, state) VALUES (?, ?, ?, ?, ?, 'granted')",
                (start.run, item.deployment, item.generation, item.attempt, start.repeat),
            )
        tx.execute(
            "UPDATE run SET state = 'running', changed = ?, policy = ?, boot = ?, pgid = ?, leader = ?, started_at = ? WHERE run = ?",
            (start.changed, item.policy, start.boot, pgid, leader, start.started_at, start.run),
        )
        tx.execute(
            "INSERT INTO last (deployment, boot, changed, agent_start, policy) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (deployment) DO UPDATE SET boot = excluded.boot, changed = excluded.changed, "
            "agent_start = excluded.agent_start, policy = excluded.policy, ended = NULL, verdict = NULL",
            (item.deployment, start.boot, start.changed, start.agent_start, item.policy),
        )
        run = {"deployment": item.deployment, "generation": item.generation, "attempt": item.attempt}
        _send(tx, start.run, signals.body("started", run, repeat=start.repeat, changed=start.changed))


def finished(journal: Journal, run: str, result: Result, verdict: str, ended: float | None) -> None:
    """The whole result, before it is sent. `ended` is the monotonic clock of the run's own boot, if still in it."""
    with journal.write() as tx:
        row = tx.execute("SELECT * FROM run WHERE run = ?", (run,)).fetchone()
        signal = signals.finished(row, result)
        tx.execute(
            "UPDATE run SET state = 'finished', ended_at = ?, result = ? WHERE run = ?",
            (result.ended_at, signals.dumps(signal), run),
        )
        tx.execute(
            "INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row["generation"], row["deployment"], row["attempt"], verdict, run, result.outcome, result.status_code),
        )
        tx.execute("UPDATE last SET ended = ?, verdict = ? WHERE deployment = ?", (ended, verdict, row["deployment"]))
        _send(tx, run, signal)


def released(journal: Journal, releases: Iterable[tuple[str, str]]) -> None:
    """Grants given back unstarted."""
    with journal.write() as tx:
        for run, why in releases:
            row = tx.execute("SELECT * FROM run WHERE run = ?", (run,)).fetchone()
            tx.execute("UPDATE run SET state = 'released', why = ? WHERE run = ?", (why, run))
            _send(tx, run, signals.body("released", row, why=why))


def forgotten(journal: Journal, deployments: Iterable[str]) -> None:
    """A tombstone was seen: everything about these deployments goes, except signals still to be delivered."""
    with journal.write() as tx:
        for name in deployments:
            for table in ("run", "done", "last"):
                tx.execute(f"DELETE FROM {table} WHERE deployment = ?", (name,))  # noqa: S608 - our own names


def again(journal: Journal, generations: Iterable[str]) -> list[str]:
    """Queue the results of these finished generations once more; names the runs. What was only adopted has none."""
    sent = []
    with journal.write() as tx:
        for generation in generations:
            done = tx.execute("SELECT * FROM done WHERE generation = ? AND run IS NOT NULL", (generation,)).fetchone()
            if done is None or tx.execute("SELECT 1 FROM outbox WHERE run = ?", (done["run"],)).fetchone():
                continue
            row = tx.execute("SELECT result FROM run WHERE run = ?", (done["run"],)).fetchone()
            if row is not None and row["result"]:
                signal = signals.loads(row["result"])
            else:
                result = Result(done["outcome"], "", "", done["status"], message="the details are no longer kept")
                signal = signals.finished(done, result)
            _send(tx, done["run"], signal)
            sent.append(str(done["run"]))
    return sent


def pending(journal: Journal) -> list[sqlite3.Row]:
    """Signals to deliver, oldest first; of each run only the oldest, since they go in order."""
    return journal.rows("SELECT min(seq) AS seq, run, kind, body FROM outbox WHERE state = 'pending' GROUP BY run ORDER BY 1")


def unreturned(journal: Journal) -> set[str]:
    """Runs that were given back, of which the appliance does not know it yet."""
    return {row["run"] for row in journal.rows("SELECT run FROM outbox WHERE state = 'pending' AND kind = 'released'")}


def acknowledged(journal: Journal, seq: int) -> None:
    """The appliance has this signal."""
    with journal.write() as tx:
        row = tx.execute("SELECT run, kind FROM outbox WHERE seq = ?", (seq,)).fetchone()
        tx.execute("DELETE FROM outbox WHERE seq = ?", (seq,))
        if row is not None and row["kind"] == "finished":
            tx.execute("UPDATE run SET acknowledged = 1 WHERE run = ?", (row["run"],))


def parked(journal: Journal, seq: int, answer: str) -> None:
    """The appliance will not have this signal: kept and shown, not sent again by itself."""
    with journal.write() as tx:
        tx.execute("UPDATE outbox SET state = 'parked', answer = ? WHERE seq = ?", (answer[:2000], seq))


def shortened(journal: Journal, seq: int) -> bool:
    """Reduce a result that waits to be delivered, however short, to what matters. False if there was nothing to cut."""
    with journal.write() as tx:
        return _shorten(tx, seq, least=0)


def prune(journal: Journal) -> None:
    """Bound the journal: old results go or lose their texts, by count and by bytes; the memory of what is done stays."""
    ended = "state = 'finished' AND acknowledged"
    closed = "state IN ('refused', 'released')"
    spare = [(where, _count(journal, where) - keep) for where, keep in ((ended, KEEP_RUNS), (closed, KEEP_REFUSED))]
    held = journal.rows("SELECT seq, length(result) FROM run WHERE result IS NOT NULL ORDER BY seq DESC")
    waiting = journal.rows("SELECT seq, length(body) FROM outbox WHERE kind = 'finished' ORDER BY seq DESC")
    bare, short = _beyond(held), _beyond(waiting)
    if max(number for _, number in spare) < KEEP_RUNS // 5 and not bare and not short:
        return
    with journal.write() as tx:
        for where, number in spare:
            tx.execute(
                f"DELETE FROM run WHERE seq IN (SELECT seq FROM run WHERE {where} "  # noqa: S608 - our own words
                "AND seq NOT IN (SELECT max(seq) FROM run GROUP BY deployment) ORDER BY seq LIMIT ?)",
                (max(number, 0),),
            )
        tx.executemany("UPDATE run SET result = NULL WHERE seq = ?", [(seq,) for seq in bare])
        for seq in short:
            _shorten(tx, seq)
    journal.shrink()


def _count(journal: Journal, where: str) -> int:
    return int(journal.rows(f"SELECT count(*) FROM run WHERE {where}")[0][0])  # noqa: S608 - our own words


def _beyond(rows: Iterable[sqlite3.Row]) -> list[int]:
    """Of (seq, bytes), newest first: those beyond the limit that are worth cutting."""
    total, found = 0, []
    for seq, size in rows:
        total += size
        if total > KEEP_BYTES and size > SHORT:
            found.append(int(seq))
    return found


def _shorten(tx: sqlite3.Connection, seq: int, least: int = SHORT) -> bool:
    row = tx.execute("SELECT body FROM outbox WHERE seq = ? AND kind = 'finished'", (seq,)).fetchone()
    if row is None or len(row["body"]) <= least:
        return False
    signal = signals.loads(row["body"])
    cut = set(signal["truncated"])
    before = (signal["stdout"], signal["stderr"], signal["outputs"])
    for name in ("stdout", "stderr"):
        signal[name], _, was_cut = clip(signal[name], SHORT // 8)
        cut.update([name] * was_cut)
    cut.update(signal["outputs"])
    signal["outputs"] = {}
    if before == (signal["stdout"], signal["stderr"], {}):
        return False
    signal["truncated"] = sorted(name for name in cut if len(name) <= LONGEST_NAME)[:MOST_NAMES]
    tx.execute("UPDATE outbox SET body = ? WHERE seq = ?", (signals.dumps(signal), seq))
    return True


def _send(tx: sqlite3.Connection, run: str, signal: Mapping[str, object]) -> None:
    tx.execute("INSERT INTO outbox (run, kind, body) VALUES (?, ?, ?)", (run, signal["kind"], signals.dumps(signal)))
