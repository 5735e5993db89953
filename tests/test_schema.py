"""What the schema itself refuses: for every table a row it takes, and for every CHECK one it does not."""

import re

import pytest

from appliance.store import migrations
from appliance.store.tx import ConstraintFailed

from .samples import opened

D = b"d" * 32  # a digest, or a fingerprint

# One row for every table, in an order in which they can be written.
GOOD = {
    "file": {"one": 1, "epoch_number": 1, "epoch_id": "e", "key_id": "k", "last_commit": 1, "created_at": 1},
    "pack": {"id": 1, "size": 1, "data": b"x"},
    "large": {"id": 1, "size": 1},
    "large_part": {"large": 1, "n": 0, "encoding": 0, "data": b"x"},
    "blob": {"id": 1, "digest": D, "size": 1, "pack": 1, "start": 0, "large": None, "created_at": 1},
    "listing": {"id": 1, "digest": D, "base": None, "entries": 1, "bytes": 1, "data": b"x"},
    "names": {"listing": 1, "blob": 1},
    "plan": {"id": 1, "name": "lab", "commit_no": 1, "created_at": 1},
    "version": {"plan": 1, "number": 1, "listing": 1, "commit_no": 1, "created_at": 1, "by": "ann"},
    "switch": {"plan": 1, "serial": 1, "version": 1, "commit_no": 1, "at": 1, "by": "ann"},
    "server": {"seq": 1, "id": "s", "name": "web", "kind": "agent", "changed": 1, "commit_no": 1, "created_at": 1},
    "label": {"server": "s", "label": "x"},
    "seen": {"server": "s", "at": 1},
    "token": {"id": "t", "secret": D, "role": "agent", "server": "s", "name": "n", "commit_no": 1, "created_at": 1, "uses_left": None},
    "join_use": {"token": "t", "agent_state": "a", "server": "s", "at": 1},
    "config": {"seq": 1, "id": "c", "body": '"x"', "plan": None, "path": None, "commit_no": 1, "created_at": 1, "by": "ann"},
    "deployment": {"seq": 1, "id": "d", "server": "s", "commit_no": 1, "created_at": 1, "by": "ann"},
    "terms": {"deployment": "d", "number": 1, "policy": "always", "config": "c", "inputs": "{}", "commit_no": 1, "by": "ann"},
    "generation": {
        "seq": 1, "id": "g", "deployment": "d", "number": 1, "action": "CREATE", "terms": 1, "fingerprint": D, "parts": "{}",
        "cause": "create", "action_start": 1, "commit_no": 1, "created_at": 1, "by": "ann",
    },
    "source": {"generation": "g", "plan": 1, "kind": "file", "path": "a", "version": 1, "digest": D},
    "pin": {"generation": "g", "listing": 1},
    "state": {
        "deployment": "d", "generation": "g", "terms": 1, "status": "IN_PROGRESS", "phase": "pending", "reason": None, "sentence": "s",
        "since": 1, "commit_no": 1,
    },
    "memory": {"deployment": "d"},
    "need": {"needs": "d", "deployment": "e"},
    "uses": {"plan": 1, "path": "a", "kind": "file", "deployment": "d"},
    "stock_item": {"deployment": "d", "run": "r", "sealed": "x"},
    "run": {"seq": 1, "id": "r", "server": "s", "deployment": "d", "generation": "g", "stands": "ended", "status": "COMPLETE"},
    "run_leg": {"run": "r", "leg": 1, "started_at": 1},
    "run_output": {"run": "r", "outputs": "{}"},
    "run_log": {"run": "r", "n": 1, "stream": "stdout", "at": 1, "text": "x"},
    "claim": {
        "run": "r", "server": "s", "deployment": "d", "generation": "g", "attempt": 1, "answer": "granted", "why": None, "commit_no": 1,
        "at": 1,
    },
    "signal": {"seq": 1, "run": "r", "kind": "started", "body": "{}", "effect": "recorded", "commit_no": 1, "at": 1},
    "audit": {"seq": 1, "commit_no": 1, "at": 1, "by": "ann", "verb": "v", "object": "o"},
    "idempotency": {"who": "t", "key": "k", "request": b"x", "status": 200, "at": 1},
}  # fmt: skip

# What, changed in that row, a CHECK must refuse.
BAD = [
    ("file", {"one": 2}),
    ("file", {"epoch_number": 0}),
    ("file", {"grace_s": 0}),
    ("file", {"stock_grace_s": 0}),
    ("file", {"retry_s": 0}),
    ("file", {"delete_s": 0}),
    ("state", {"attempt": 0}),
    ("state", {"tries": 0}),
    ("pack", {"size": 0}),
    ("large", {"complete": 2}),
    ("large_part", {"n": -1}),
    ("large_part", {"encoding": 2}),
    ("blob", {"digest": b"short"}),
    ("blob", {"size": -1}),
    ("blob", {"start": -1}),
    ("blob", {"pack": None, "start": None}),
    ("blob", {"large": 1}),
    ("blob", {"start": None}),
    ("listing", {"digest": b"short"}),
    ("version", {"number": 0}),
    ("switch", {"serial": 0}),
    ("switch", {"forced": 2}),
    ("server", {"id": ""}),
    ("server", {"id": "x" * 37}),
    ("server", {"kind": "robot"}),
    ("token", {"secret": b"short"}),
    ("token", {"role": "root", "server": None}),
    ("token", {"uses_left": -1}),
    ("token", {"role": "admin"}),
    ("token", {"server": None}),
    ("config", {"body": "not json"}),
    ("config", {"inputs": "not json"}),
    ("config", {"outputs": "not json"}),
    ("config", {"options": "not json"}),
    ("config", {"path": "a"}),
    ("config", {"plan": 1, "path": "a"}),
    ("terms", {"number": 0}),
    ("terms", {"policy": "sometimes"}),
    ("terms", {"interval_s": 29}),
    ("terms", {"timeout_s": 0}),
    ("terms", {"max_attempts": 0}),
    ("terms", {"actions": "not json"}),
    ("terms", {"inputs": "not json"}),
    ("terms", {"needs": "not json"}),
    ("terms", {"policy": "once", "interval_s": 60}),
    ("generation", {"number": 0}),
    ("generation", {"action": "EXPLODE"}),
    ("generation", {"fingerprint": b"short"}),
    ("generation", {"parts": "not json"}),
    ("generation", {"cause": "weather"}),
    ("source", {"kind": "directory"}),
    ("source", {"digest": b"short"}),
    ("state", {"status": "NEW"}),
    ("state", {"phase": "asleep"}),
    ("state", {"status": "FAILED", "phase": None, "reason": "bad luck"}),
    ("state", {"held": 2}),
    ("state", {"heat": "not json"}),
    ("state", {"phase": None}),
    ("state", {"status": "COMPLETE"}),
    ("state", {"reason": "exit"}),
    ("memory", {"left": 2}),
    ("memory", {"must_run": 2}),
    ("memory", {"started": 2}),
    ("need", {"follow": 2}),
    ("need", {"deployment": "d"}),
    ("uses", {"kind": "directory"}),
    ("run", {"repeat": "yes"}),
    ("run", {"stands": "lying", "status": None}),
    ("run", {"status": "MAYBE"}),
    ("run", {"owed": 2}),
    ("run", {"cancel": 2}),
    ("run", {"effect": "some"}),
    ("run", {"stands": "running"}),
    ("run_leg", {"leg": 0}),
    ("run_output", {"outputs": "not json"}),
    ("run_log", {"stream": "stdin"}),
    ("claim", {"answer": "perhaps"}),
    ("claim", {"answer": "refused", "why": "mood"}),
    ("claim", {"answer": "refused"}),
    ("signal", {"kind": "smoke"}),
    ("signal", {"effect": "some"}),
    ("audit", {"detail": "not json"}),
]

# What keys, triggers and unique indexes must refuse once all of those rows are there.
REFUSED = [
    ("foreign-key", "DELETE FROM blob"),
    ("foreign-key", "DELETE FROM listing"),
    ("foreign-key", "DELETE FROM pack"),
    ("foreign-key", "INSERT INTO switch VALUES (1, 2, 9, NULL, 0, 1, 1, 'ann')"),
    ("foreign-key", "DELETE FROM config"),
    ("trigger", "UPDATE version SET by = 'bob'"),
    ("trigger", "DELETE FROM version"),
    ("trigger", "UPDATE switch SET version = 1"),
    ("trigger", "DELETE FROM switch"),
    ("trigger", "UPDATE terms SET policy = 'once'"),
    ("trigger", "UPDATE generation SET action = 'UPDATE'"),
    ("trigger", "UPDATE source SET path = 'b'"),
    ("trigger", "UPDATE config SET body = '1'"),
    ("trigger", "UPDATE audit SET by = 'bob'"),
    ("unique", "INSERT INTO switch VALUES (1, 1, 1, NULL, 0, 1, 1, 'bob')"),
    ("unique", "INSERT INTO version VALUES (1, 2, 1, 1, 1, 'bob')"),
    ("unique", "INSERT INTO plan (name, commit_no, created_at) VALUES ('lab', 1, 1)"),
    ("unique", "INSERT INTO server (id, name, kind, changed, commit_no, created_at) VALUES ('z', 'web', 'agent', 1, 1, 1)"),
    ("unique", "INSERT INTO signal (run, kind, body, effect, commit_no, at) VALUES ('r', 'started', '{}', 'recorded', 2, 2)"),
    ("check", "INSERT INTO seen (server, at) VALUES ('s', 'yesterday')"),
    ("check", "INSERT INTO label (server, label) VALUES ('s', NULL)"),
]


class Undone(Exception):
    """Ends an operation that is only looked at."""


def insert(tx, table, row):
    columns = ", ".join(f'"{name}"' for name in row)
    tx.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({", ".join("?" * len(row))})', tuple(row.values()))


def plain(expression):
    """As SQLite quotes it; of one that begins with a quoted name only that name."""
    return expression.split('"')[1] if expression.startswith('"') else " ".join(expression.split())


def checks_of_schema():
    """The text of every CHECK in the schema."""
    text = re.sub(r"--[^\n]*", "", migrations.schema_text())
    found = []
    for match in re.finditer(r"\bCHECK \(", text):
        depth, at = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found.append(plain(text[match.end() : at - 1]))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file with one row in every table, which no test changes."""
    for database in opened(tmp_path_factory.mktemp("schema")):
        database.write(lambda tx: tx.execute("DELETE FROM file"))

        def write(tx):
            for table, row in GOOD.items():
                insert(tx, table, row)
                if table == "deployment":
                    insert(tx, table, row | {"seq": 2, "id": "e"})

        database.write(write)
        yield database


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A file with no row at all and foreign keys off, so that only CHECKs can refuse."""
    for database in opened(tmp_path_factory.mktemp("bare")):
        database.write(lambda tx: tx.execute("DELETE FROM file"))
        database._writer.pragma("foreign_keys", 0)
        yield database


def test_every_table_has_a_row_it_takes(whole):
    tables = whole.read(
        lambda tx: [name for (name,) in tx.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    )
    assert sorted(tables) == sorted(GOOD)


@pytest.mark.parametrize(
    "table, change", BAD, ids=lambda one: one if isinstance(one, str) else "-".join(f"{k}={v}" for k, v in one.items())
)
def test_a_bad_row_is_refused_by_its_check(bare, table, change):
    with pytest.raises(ConstraintFailed) as caught:
        bare.write(insert, table, GOOD[table] | change)
    assert caught.value.kind == "check"


def test_every_check_refuses_one_of_those_rows(bare):
    refused = set()
    for table, change in BAD:
        with pytest.raises(ConstraintFailed) as caught:
            bare.write(insert, table, GOOD[table] | change)
        refused.add(plain(str(caught.value).partition("failed: ")[2]))
    assert sorted(set(checks_of_schema()) - refused) == []


@pytest.mark.parametrize("kind, statement", REFUSED, ids=lambda text: text[:60])
def test_the_file_itself_refuses(whole, kind, statement):
    with pytest.raises(ConstraintFailed) as caught:
        whole.write(lambda tx: tx.execute(statement))
    assert caught.value.kind == kind


def test_a_second_grant_of_one_attempt_is_refused_by_the_file(whole):
    grant = GOOD["run"] | {"granted_commit": 1, "stands": "granted", "status": None}

    def op(tx):
        insert(tx, "run", grant | {"seq": 8, "id": "r8"})
        insert(tx, "run", grant | {"seq": 9, "id": "r9"})

    with pytest.raises(ConstraintFailed) as caught:
        whole.write(op)
    assert caught.value.kind == "unique"


def test_a_deleted_plan_lets_its_history_go_and_its_name_be_used_again(whole):
    def op(tx):
        tx.execute("UPDATE plan SET deleted_commit = 5, deleted_at = 5")
        tx.execute("INSERT INTO plan (name, commit_no, created_at) VALUES ('lab', 6, 6)")
        tx.execute("DELETE FROM switch")
        tx.execute("DELETE FROM version")
        raise Undone

    with pytest.raises(Undone):
        whole.write(op)


def test_what_is_current_is_the_greatest_serial(whole):
    def op(tx):
        insert(tx, "switch", GOOD["switch"] | {"serial": 2})
        found.extend(tx.rows("SELECT plan, serial FROM current"))
        raise Undone

    found: list = []
    with pytest.raises(Undone):
        whole.write(op)
    assert found == [(1, 2)]
