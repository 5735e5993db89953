"""Configs: immutable statements of what to run."""

from typing import Any

import msgspec

from appliance.config import Files, Input, Output, PlanFile, Statement
from appliance.errors import NotFound
from appliance.store.tx import Reader, Tx

_COLUMNS = (
    'c.id, c.name, c."group", c.body, c.plan, p.name, c.path, c.inputs, c.outputs, c.options, c.created_at, c.by, c.hidden_at,'
    " p.deleted_commit, (SELECT json_group_array(json_object('plan', q.name, 'prefix', f.value ->> 'prefix', 'key', q.id))"
    " FROM json_each(c.files) f JOIN plan q ON q.id = f.value ->> 'plan')"
)
_FROM = "FROM config c LEFT JOIN plan p ON p.id = c.plan"


class Config(msgspec.Struct, frozen=True):
    """A stored statement. `plan` is the integer key of the plan that `statement.source` names; `created_at` in ms.

    `files` are the keys of the plans that `statement.files` name, in their order.
    """

    id: str
    statement: Statement
    plan: int | None
    plan_deleted: bool
    created_at: int
    by: str
    hidden_at: int | None
    files: tuple[int, ...] = ()


class _Placed(msgspec.Struct, frozen=True):
    plan: str
    prefix: str
    key: int


def _config(row: tuple[Any, ...]) -> Config:
    id, name, group, body, plan, plan_name, path, inputs, outputs, options, created_at, by, hidden_at, plan_deleted, placed = row
    files = sorted(msgspec.json.decode(placed, type=list[_Placed]), key=lambda one: (one.plan, one.prefix))
    statement = Statement(
        name,
        group,
        None if body is None else msgspec.json.decode(body),
        None if plan is None else PlanFile(plan_name, path),
        msgspec.json.decode(inputs, type=tuple[Input, ...]),
        msgspec.json.decode(outputs, type=tuple[Output, ...]),
        msgspec.json.decode(options),
        tuple(Files(one.plan, one.prefix) for one in files),
    )
    return Config(id, statement, plan, plan_deleted is not None, created_at, by, hidden_at, tuple(one.key for one in files))


def add(tx: Tx, statement: Statement, plan: int | None, by: str, files: tuple[int, ...] = ()) -> Config:
    """Store a statement; `plan` is the key of the plan its source names, `files` are those of the plans its files name."""
    id = tx.new_id()
    tx.execute(
        'INSERT INTO config (id, name, "group", body, plan, path, files, inputs, outputs, options, commit_no, created_at, by)'
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id,
            statement.name,
            statement.group,
            None if statement.source is not None else _json(statement.body),
            plan,
            None if statement.source is None else statement.source.path,
            _json([{"plan": key, "prefix": one.prefix} for key, one in zip(files, statement.files, strict=True)]) if files else None,
            _json(statement.inputs),
            _json(statement.outputs),
            _json(statement.options),
            tx.commit,
            tx.now,
            by,
        ),
    )
    return Config(id, statement, plan, False, tx.now, by, None, files)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def by_id(tx: Reader, id: str) -> Config:
    """One config, hidden ones too. Raises NotFound."""
    found = tx.row(f"SELECT {_COLUMNS} {_FROM} WHERE c.id = ?", (id,))
    if found is None:
        raise NotFound(f"no config {id!r}", hint="see what there is with: appliance config list")
    return _config(found)


def newest(tx: Reader, *, limit: int, before: str | None = None) -> list[Config]:
    """Configs that were not deleted, newest first; `before` is the id to go on from."""
    last = 1 << 62 if before is None else tx.value("SELECT seq FROM config WHERE id = ?", (before,)) or 1 << 62
    sql = f"SELECT {_COLUMNS} {_FROM} WHERE c.hidden_at IS NULL AND c.seq < ? ORDER BY c.seq DESC LIMIT ?"
    return [_config(row) for row in tx.rows(sql, (last, limit))]


def hide(tx: Tx, id: str) -> None:
    """Delete a config as far as people see; history keeps what it refers to."""
    tx.execute("UPDATE config SET hidden_at = ? WHERE id = ? AND hidden_at IS NULL", (tx.now, id))


def users(tx: Reader, id: str, limit: int = 10) -> list[tuple[str, str | None]]:
    """Living deployments that have this config now: (server name, deployment name)."""
    return [
        (server, name)
        for server, name in tx.rows(
            "SELECT v.name, t.name FROM terms t JOIN state s ON s.deployment = t.deployment AND s.terms = t.number"
            " JOIN deployment d ON d.id = t.deployment JOIN server v ON v.id = d.server"
            " WHERE t.config = ? AND d.deleted_commit IS NULL ORDER BY v.name, t.name LIMIT ?",
            (id, limit),
        )
    ]
