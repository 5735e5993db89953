"""Deployments as they stand: terms, generations, state, memory, dependencies, uses of plan files."""

from collections.abc import Callable
from typing import Any

import msgspec

from appliance.config import Given
from appliance.deployment import WORKS, Action, Blocker, Cause, Memory, Phase, Policy, Standing, Status
from appliance.errors import Gone, NotFound
from appliance.store.tx import Reader, Tx

_COLUMNS = """
  d.seq, d.id, d.server, v.name, v.kind, d.created_at, d.deleted_commit, d.deleted_at,
  t.number, t.name, t.policy, t.interval_s, t.timeout_s, t.config, t.inputs, t.max_attempts, t.actions, t.needs,
  g.id, g.number, g.terms, g.action, g.fingerprint, g.parts, g.cause, g.detail, g.action_start, g.commit_no, g.created_at, g.by,
  s.status, s.phase, s.reason, s.sentence, s.held, s.run, s.repeating, s.attempt, s.tries, s.next_at,
  s.since, s.commit_no,
  m.completed_generation, m.completed, m."left", m.must_run, m.started, m.substantial, m.last_run, m.last_generation, m.last_boot,
  m.last_changed
"""
_FROM = """
  FROM deployment d
  JOIN server v ON v.id = d.server
  JOIN state s ON s.deployment = d.id
  JOIN terms t ON t.deployment = s.deployment AND t.number = s.terms
  JOIN generation g ON g.id = s.generation
  JOIN memory m ON m.deployment = d.id
"""


_LEAVING = (
    "EXISTS (SELECT 1 FROM state s JOIN generation g ON g.id = s.generation"
    " WHERE s.deployment = need.needs AND g.action = 'DELETE' AND g.cause = 'delete')"
)


class Terms(msgspec.Struct, frozen=True):
    """What is desired of a deployment. Seconds; `timeout` None for none; `config` is an id, `inputs` are those given.

    `attempts`: how often it is tried at most. `actions`: those it has work for. `follows`: of what it
    depends on, that of which a new generation makes one of this.
    """

    name: str | None
    policy: Policy
    interval: int | None
    timeout: int | None
    config: str
    inputs: dict[str, Given]
    attempts: int = 1
    actions: tuple[Action, ...] = WORKS
    follows: tuple[str, ...] = ()


class Generation(msgspec.Struct, frozen=True):
    """One desired state of a deployment that a machine must reach. `terms` are those it was made by."""

    id: str
    number: int
    terms: int
    action: Action
    fingerprint: bytes
    parts: dict[str, str]
    cause: Cause
    detail: str | None
    action_start: int
    commit: int
    created_at: int
    by: str


class Deployment(msgspec.Struct, frozen=True):
    """A deployment with its current terms, generation, standing and memory. Times in ms."""

    seq: int
    id: str
    server: str
    server_name: str
    server_kind: str
    created_at: int
    deleted_commit: int | None
    deleted_at: int | None
    terms_number: int
    terms: Terms
    generation: Generation
    standing: Standing
    since: int
    state_commit: int
    memory: Memory

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted: what is left of it is its DELETE work."""
        return (self.generation.action, self.generation.cause) == ("DELETE", "delete")

    @property
    def label(self) -> str:
        """`SERVER/NAME`, for people."""
        return f"{self.server_name}/{self.terms.name or self.id}"


_make: Callable[..., Deployment] = Deployment
_make_terms: Callable[..., Terms] = Terms
_make_generation: Callable[..., Generation] = Generation
_make_standing: Callable[..., Standing] = Standing
_make_memory: Callable[..., Memory] = Memory


def _deployment(row: tuple[Any, ...]) -> Deployment:
    inputs = msgspec.json.decode(row[14], type=dict[str, Given])
    actions = msgspec.json.decode(row[16], type=tuple[Action, ...])
    follows = tuple(one["deployment"] for one in msgspec.json.decode(row[17]) if one["follow"])
    parts = msgspec.json.decode(row[23], type=dict[str, str])
    return _make(
        *row[:9],
        _make_terms(*row[9:14], inputs, row[15], actions, follows),
        _make_generation(*row[18:23], parts, *row[24:30]),
        _make_standing(*row[30:34], bool(row[34]), *row[35:40]),
        *row[40:42],
        _make_memory(*row[42:44], bool(row[44]), bool(row[45]), bool(row[46]), *row[47:52]),
    )


# ------------------------------------------------------------------------------------------------------------ reading


def by_id(tx: Reader, id: str) -> Deployment:
    """One living deployment. Raises NotFound, and Gone for a deleted one."""
    found = find(tx, id)
    if found is None:
        raise NotFound(f"no deployment {id!r}", hint="see what there is with: appliance deployment list")
    if found.deleted_commit is not None:
        raise Gone(f"deployment {found.label} was deleted")
    return found


def find(tx: Reader, id: str) -> Deployment | None:
    """One deployment, deleted ones too, or None."""
    found = tx.row(f"SELECT {_COLUMNS} {_FROM} WHERE d.id = ?", (id,))
    return None if found is None else _deployment(found)


def of_server(tx: Reader, server: str) -> list[Deployment]:
    """A server's living deployments, oldest first."""
    sql = f"SELECT {_COLUMNS} {_FROM} WHERE d.server = ? AND d.deleted_commit IS NULL ORDER BY d.seq"
    return [_deployment(row) for row in tx.rows(sql, (server,))]


def named(tx: Reader, server: str, name: str) -> list[Deployment]:
    """A server's living deployments of this name: natively none or one, more where the Heat edge made them."""
    sql = f"SELECT {_COLUMNS} {_FROM} WHERE d.server = ? AND d.deleted_commit IS NULL AND t.name = ? ORDER BY d.seq"
    return [_deployment(row) for row in tx.rows(sql, (server, name))]


def page(tx: Reader, *, status: str | None = None, after: int = 0, limit: int = 1000) -> list[Deployment]:
    """Living deployments of all servers in order of creation; `after` is the `seq` to go on from."""
    where = "AND s.status = :status" if status is not None else ""
    sql = f"SELECT {_COLUMNS} {_FROM} WHERE d.deleted_commit IS NULL AND d.seq > :after {where} ORDER BY d.seq LIMIT :limit"
    return [_deployment(row) for row in tx.rows(sql, {"status": status, "after": after, "limit": limit})]


def tombstones(tx: Reader, server: str) -> list[str]:
    """Deleted deployments of a server that its agent has not forgotten yet."""
    sql = "SELECT id FROM deployment WHERE server = ? AND deleted_commit IS NOT NULL AND acknowledged_at IS NULL ORDER BY seq"
    return [id for (id,) in tx.rows(sql, (server,))]


def counts(tx: Reader, server: str, delivered: int | None = None) -> dict[str, int]:
    """How many of a server's living deployments stand where: `COMPLETE`, `FAILED`, or the phase of those IN_PROGRESS; `held` too.

    What is pending since the commit `delivered` or before was handed to its agent.
    """
    found: dict[str, int] = {}
    for word, held, number in tx.rows(
        "SELECT iif(s.phase = 'pending' AND s.commit_no <= ?, 'delivered', coalesce(s.phase, s.status)), s.held, count(*)"
        " FROM deployment d JOIN state s ON s.deployment = d.id"
        " WHERE d.server = ? AND d.deleted_commit IS NULL GROUP BY 1, 2",
        (delivered, server),
    ):
        found[word] = found.get(word, 0) + number
        if held:
            found["held"] = found.get("held", 0) + number
    return found


def needs(tx: Reader, deployment: str) -> list[str]:
    """What a deployment depends on, apart from others' DELETE work that goes before it."""
    return [id for (id,) in tx.rows(f"SELECT needs FROM need WHERE deployment = ? AND NOT {_LEAVING} ORDER BY needs", (deployment,))]


def needs_on(tx: Reader, server: str) -> dict[str, list[str]]:
    """What each of a server's deployments depends on; those that depend on nothing are not in it."""
    found: dict[str, list[str]] = {}
    sql = "SELECT n.deployment, n.needs FROM need n JOIN deployment d ON d.id = n.deployment WHERE d.server = ? ORDER BY n.needs"
    for deployment, needs in tx.rows(sql, (server,)):
        found.setdefault(deployment, []).append(needs)
    return found


def needed_by(tx: Reader, deployment: str) -> list[str]:
    """Living deployments that depend on this one."""
    sql = "SELECT n.deployment FROM need n JOIN deployment d ON d.id = n.deployment WHERE n.needs = ? ORDER BY d.seq"
    return [id for (id,) in tx.rows(sql, (deployment,))]


def substantial(tx: Reader, deployment: str) -> str | None:
    """The generation of a deployment that those who follow it look at."""
    found: str | None = tx.value("SELECT substantial FROM memory WHERE deployment = ?", (deployment,))
    return found


def blockers(tx: Reader, deployment: str) -> list[Blocker]:
    """Its dependencies that are not COMPLETE at their current generation."""
    sql = f"SELECT {_BLOCKER} FROM need n {_BLOCKER_FROM} WHERE n.deployment = ? {_BLOCKER_REST}"
    return [Blocker(*row) for row in tx.rows(sql, (deployment,))]


def blockers_on(tx: Reader, server: str) -> dict[str, list[Blocker]]:
    """The same for all of a server's deployments; those that nothing blocks are not in it."""
    found: dict[str, list[Blocker]] = {}
    sql = (
        f"SELECT n.deployment, {_BLOCKER} FROM deployment o JOIN need n ON n.deployment = o.id {_BLOCKER_FROM}"
        f" WHERE o.server = ? AND o.deleted_commit IS NULL {_BLOCKER_REST}"
    )
    for deployment, *blocker in tx.rows(sql, (server,)):
        found.setdefault(deployment, []).append(Blocker(*blocker))
    return found


_BLOCKER = "d.id, s.generation, coalesce(t.name, d.id), d.server, v.name, s.status, s.phase"
_BLOCKER_FROM = (
    "JOIN deployment d ON d.id = n.needs JOIN server v ON v.id = d.server JOIN state s ON s.deployment = n.needs"
    " JOIN terms t ON t.deployment = s.deployment AND t.number = s.terms"
)
_BLOCKER_REST = "AND s.status <> 'COMPLETE' AND d.deleted_commit IS NULL ORDER BY v.name, t.name, d.seq"


def server_of(tx: Reader, deployment: str) -> str | None:
    """The server of a deployment, deleted ones too."""
    found: str | None = tx.value("SELECT server FROM deployment WHERE id = ?", (deployment,))
    return found


# ------------------------------------------------------------------------------------------------------------ writing


def add(tx: Tx, server: str, by: str) -> str:
    """A new deployment without terms, generation and state: the caller adds them in the same operation."""
    id = tx.new_id()
    tx.execute("INSERT INTO deployment (id, server, commit_no, created_at, by) VALUES (?, ?, ?, ?, ?)", (id, server, tx.commit, tx.now, by))
    tx.execute("INSERT INTO memory (deployment) VALUES (?)", (id,))
    return id


def set_terms(tx: Tx, deployment: str, number: int, terms: Terms, needs: list[str], by: str) -> None:
    """Add terms `number`, with what it depends on. `state.terms` is moved by the caller's `set_state`."""
    tx.execute(
        "INSERT INTO terms (deployment, number, name, policy, interval_s, timeout_s, max_attempts, actions, config, inputs, needs,"
        " commit_no, by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            deployment,
            number,
            terms.name,
            terms.policy,
            terms.interval,
            terms.timeout,
            terms.attempts,
            msgspec.json.encode(terms.actions).decode(),
            terms.config,
            msgspec.json.encode(terms.inputs).decode(),
            msgspec.json.encode([{"deployment": one, "follow": one in terms.follows} for one in needs]).decode(),
            tx.commit,
            by,
        ),
    )
    tx.execute(f"DELETE FROM need WHERE deployment = ? AND NOT {_LEAVING}", (deployment,))
    rows = [(one, deployment, int(one in terms.follows)) for one in needs]
    tx.many("INSERT INTO need (needs, deployment, follow) VALUES (?, ?, ?)", rows)


def add_generation(tx: Tx, deployment: str, new: Generation) -> Generation:
    """Add a generation; its id, commit and time are made here. `state.generation` is moved by the caller's `set_state`."""
    made = msgspec.structs.replace(new, id=tx.new_id(), commit=tx.commit, created_at=tx.now)
    tx.execute(
        "INSERT INTO generation (id, deployment, number, terms, action, fingerprint, parts, cause, detail, action_start, commit_no,"
        " created_at, by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            made.id,
            deployment,
            made.number,
            made.terms,
            made.action,
            made.fingerprint,
            msgspec.json.encode(made.parts).decode(),
            made.cause,
            made.detail,
            made.action_start,
            made.commit,
            made.created_at,
            made.by,
        ),
    )
    return made


def set_state(tx: Tx, deployment: str, generation: str, terms: int, standing: Standing) -> None:
    """Write where a deployment stands. `since` and the commit move only when generation, attempt, status or phase do."""
    same = "generation IS :generation AND status IS :status AND phase IS :phase AND attempt IS :attempt AND next_at IS :next_at"
    tx.execute(
        "INSERT INTO state (deployment, generation, terms, status, phase, reason, sentence, held, run, repeating, attempt, tries, next_at,"
        " since, commit_no)"
        " VALUES (:deployment, :generation, :terms, :status, :phase, :reason, :sentence, :held, :run, :repeating, :attempt, :tries,"
        " :next_at, :now, :commit)"
        " ON CONFLICT (deployment) DO UPDATE SET"
        f" since = CASE WHEN {same} THEN since ELSE :now END,"
        f" commit_no = CASE WHEN {same} THEN commit_no ELSE :commit END,"
        " generation = :generation, terms = :terms, status = :status, phase = :phase, reason = :reason, sentence = :sentence,"
        " held = :held, run = :run, repeating = :repeating, attempt = :attempt, tries = :tries, next_at = :next_at",
        {
            "deployment": deployment,
            "generation": generation,
            "terms": terms,
            "status": standing.status,
            "phase": standing.phase,
            "reason": standing.reason,
            "sentence": standing.sentence,
            "held": int(standing.held),
            "run": standing.run,
            "repeating": standing.repeating,
            "attempt": standing.attempt,
            "tries": standing.tries,
            "next_at": standing.next_at,
            "now": tx.now,
            "commit": tx.commit,
        },
    )
    tx.touch(f"deployment:{deployment}")


def set_memory(tx: Tx, deployment: str, memory: Memory) -> None:
    """Write what is remembered."""
    tx.execute(
        'UPDATE memory SET completed_generation = ?, completed = ?, "left" = ?, must_run = ?, started = ?, substantial = ?,'
        " last_run = ?, last_generation = ?, last_boot = ?, last_changed = ? WHERE deployment = ?",
        (
            memory.completed_generation,
            memory.completed,
            int(memory.left),
            int(memory.must_run),
            int(memory.started),
            memory.substantial,
            memory.last_run,
            memory.last_generation,
            memory.last_boot,
            memory.last_changed,
            deployment,
        ),
    )


def bury(tx: Tx, deployment: str, *, acknowledged: bool) -> None:
    """Make a deployment a tombstone. `acknowledged`: no machine has to forget it."""
    tx.execute(
        "UPDATE deployment SET deleted_commit = ?, deleted_at = ?, acknowledged_at = ? WHERE id = ?",
        (tx.commit, tx.now, tx.now if acknowledged else None, deployment),
    )
    tx.execute("DELETE FROM uses WHERE deployment = ?", (deployment,))
    tx.execute("DELETE FROM need WHERE deployment = ?1 OR needs = ?1", (deployment,))
    tx.execute("UPDATE state SET deadline = NULL, next_at = NULL WHERE deployment = ?", (deployment,))
    tx.execute("DELETE FROM stock_item WHERE deployment = ?", (deployment,))
    tx.touch(f"deployment:{deployment}")


def forgotten(tx: Tx, server: str, ids: list[str]) -> None:
    """The agent of `server` has forgotten these tombstones."""
    tx.many(
        "UPDATE deployment SET acknowledged_at = ? WHERE id = ? AND server = ? AND deleted_commit IS NOT NULL AND acknowledged_at IS NULL",
        [(tx.now, id, server) for id in ids],
    )


def status_is(tx: Reader, deployment: str) -> tuple[Status, Phase | None] | None:
    """Status and phase of a deployment, or None."""
    found = tx.row("SELECT status, phase FROM state WHERE deployment = ?", (deployment,))
    return None if found is None else (found[0], found[1])
