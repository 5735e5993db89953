"""The appliance of a simulated world: real operations on a real file, and what its door does for agents."""

from collections.abc import Callable
from typing import Any

import apsw
import msgspec

from appliance.agent.wire import Answer
from appliance.errors import ApplianceError, Conflict, Forbidden, NotFound, Unauthorized
from appliance.identity import Instance, Who
from appliance.operations import arrivals, claims, documents, servers, signals
from appliance.operations.claims import Asked
from appliance.operations.signals import Signal
from appliance.store import servers as server_rows
from appliance.store import tokens
from appliance.store.database import Database, _connect, _Job
from appliance.store.servers import Server
from appliance.store.tx import Reader, Tx
from appliance.web.native.agents import JoinIn
from appliance.web.respond import envelope, status_of
from appliance.web.seen import SeenBuffer

from ..samples import KEY

EPOCH = (1, "e")
CONTENT = ("blob", "pack", "large", "large_part", "listing", "names", "plan", "version", "label")


class Died(Exception):
    """The appliance was killed before it could answer."""


class File(Database):
    """The database without its threads: one connection, the real writer's transactions, run at once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._writer = self._front = _connect(path, apsw.SQLITE_OPEN_READWRITE)
        # nobody else opens it, and no power is cut here: what is killed has committed or not
        for pragma, value in (("locking_mode", "EXCLUSIVE"), ("synchronous", "OFF"), ("foreign_keys", 1)):
            self._writer.pragma(pragma, value)
        self.again()

    def again(self) -> None:
        """Begin as a process that was just started: what was not committed is gone, and all that was only in memory."""
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        self._commit_no = self._writer.execute("SELECT max(last_commit) FROM file").get
        self.uptime = lambda: 0  # no tick is played here, so nothing becomes overdue

    def lay_beside(self, image: str) -> None:
        """Name the file whose rows `restore` brings back."""
        self._writer.execute("ATTACH ? AS image", (image,))
        names = self._writer.execute("SELECT name FROM image.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        # other tables than these (contents, plans) do not change here
        self._tables = [name for (name,) in names if name not in CONTENT]

    def restore(self) -> None:
        """Bring every row back to what it is in the image. The connection stays, and with it all prepared statements."""
        db = self._writer
        settings = (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, apsw.SQLITE_DBCONFIG_ENABLE_FKEY)
        for setting in settings:
            db.config(setting, 0)
        db.execute("BEGIN IMMEDIATE")
        for name in self._tables:
            db.execute(f"DELETE FROM main.{name}")
            db.execute(f"INSERT INTO main.{name} SELECT * FROM image.{name}")
        db.execute("COMMIT")
        for setting in settings:
            db.config(setting, 1)
        self.again()

    def batch(self, operations: list[Callable[[Tx], Any]]) -> list[Any]:
        """Run operations as one batch of the writer; each result, or the error it ended with."""
        jobs = [_Job(operation, None, None) for operation in operations]  # type: ignore[arg-type]
        self._run(jobs)
        return [job.result if job.error is None else job.error for job in jobs]

    def doomed(self, operation: Callable[[Tx], Any]) -> None:
        """Run an operation and be killed before its commit."""
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            operation(Tx(self._writer, self.clock(), self.uptime(), self._commit_no + 1, self.new_id, set()))
        except ApplianceError:
            return
        finally:
            self.again()

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close(True)


class Appliance:
    """One appliance process after another on one file."""

    def __init__(self, file: File, clock: Callable[[], int]) -> None:
        self.file, self._clock = file, clock
        self.doomed = False
        self.seen = SeenBuffer()

    def crash(self) -> None:
        """kill -9, and started again."""
        self.file.again()
        self.seen = SeenBuffer()

    def write(self, operation: Callable[[Tx], Any]) -> Any:
        """One operation, committed; raises what it ends with. Raises Died where the appliance is to be killed in it."""
        if self.doomed:
            self.doomed = False
            self.file.doomed(operation)
            self.crash()
            raise Died
        [result] = self.file.batch([operation])
        if isinstance(result, Exception) and not isinstance(result, ApplianceError):
            raise result
        return result

    def perform(self, operation: Callable[[Tx], Any]) -> Any:
        """`write`, raising an error of the domain."""
        result = self.write(operation)
        if isinstance(result, ApplianceError):
            raise result
        return result

    def flush(self) -> None:
        """Write down who was seen."""
        rows = [(server, seen.at, seen.delivered) for server, seen in self.seen._fresh.items()]
        if rows:
            self.seen._fresh = {}
            self.write(lambda tx: server_rows.seen(tx, rows))

    # ------------------------------------------------------------------------------------------ the door, as in web/native/agents.py

    def handle(self, method: str, path: str, headers: dict[str, str], message: Any) -> Answer:
        """Answer one request of an agent. Raises Died, and whatever is no error of the domain: that is a bug."""
        try:
            status, found, more = self._route(path, headers, msgspec.json.encode(message))
        except ApplianceError as error:
            status, found, more = status_of(error), msgspec.json.encode(envelope(error)), {}
        return Answer(status, more, found)

    def _route(self, path: str, headers: dict[str, str], raw: bytes) -> tuple[int, bytes, dict[str, str]]:
        parts = path.partition("?")[0].split("/")[2:]
        if parts == ["join"]:
            return 200, self._join(msgspec.json.decode(raw, type=JoinIn)), {}
        who = Who(
            msgspec.json.decode(headers["Appliance-Instance"], type=Instance),
            headers["Appliance-Agent-State"],
            headers["Appliance-Boot"],
            int(headers["Appliance-Journal"]),
            headers["Appliance-Agent"],
            headers["Appliance-Hooks"].split(","),
        )
        token = self.file.read(tokens.by_secret, headers["Authorization"].removeprefix("Bearer "))
        if token is None or token.server is None or not token.holds(self._clock()):
            raise Unauthorized("no such token")
        if parts[0] == "servers" and parts[1] != token.server:
            raise Forbidden("not this server's token")
        match parts:
            case ["servers", server, "document"]:
                return self._document(server, who, headers.get("If-None-Match", ""))
            case ["servers", server, "claim"]:
                return 200, self._claim(server, who, msgspec.json.decode(raw, type=Asked)), {}
            case ["runs", run, "signals"]:
                return 200, self._signal(token.server, who, run, msgspec.json.decode(raw, type=Signal)), {}
        raise NotFound("no such path")

    def _join(self, asked: JoinIn) -> bytes:
        who = Who(asked.instance, asked.agent_state, asked.boot, asked.journal, asked.version, asked.hooks)
        joined = self.perform(lambda tx: servers.join(tx, KEY, asked.token, who, f"token-{tx.new_id()}"))
        self.seen.note(joined.server.id, self._clock())
        answer = {"server": joined.server.id, "name": joined.server.name, "token": joined.token, "epoch": {"number": 1, "id": "e"}}
        return msgspec.json.encode(answer)

    def alive_at(self, tx: Reader, server: str) -> int | None:
        seen = self.seen.of(tx, server)
        return None if seen is None else seen.at

    def _document(self, id: str, who: Who, known: str) -> tuple[int, bytes, dict[str, str]]:
        server, found = self.file.read(lambda tx: arrivals.peek(tx, id, who, self.alive_at(tx, id)))
        _agent_only(server)
        described = (who.version, who.hooks) == (server.agent_version, server.hooks)
        if server.trouble is None and (found != "known" or server.doubted_at is not None or not described):
            alive = self.file.read(lambda tx: self.alive_at(tx, id))
            server = self.perform(lambda tx: arrivals.arrive(tx, id, who, alive))
        refused = arrivals.refusal(server, who)
        if refused is not None:
            raise refused
        current = self.file.read(documents.document, KEY, EPOCH, id)
        self.seen.note(id, self._clock(), current.commit)
        if current.etag == known:
            return 304, b"", {"etag": current.etag}
        return 200, current.content, {"etag": current.etag}

    def _claim(self, id: str, who: Who, asked: Asked) -> bytes:
        server, alive = self.file.read(lambda tx: (server_rows.by_id(tx, id), self.alive_at(tx, id)))
        _agent_only(server)
        answers = self.perform(lambda tx: claims.claim(tx, id, who, alive, asked))
        self.seen.note(id, self._clock())
        return msgspec.json.encode({"answers": answers})

    def _signal(self, server: str, who: Who, run: str, report: Signal) -> bytes:
        alive = self.file.read(lambda tx: self.alive_at(tx, server))
        effect = self.perform(lambda tx: signals.signal(tx, server, who, alive, run, report))
        if self.file.read(server_rows.by_id, server).agent_state == who.agent_state:
            self.seen.note(server, self._clock())
        return msgspec.json.encode(effect)


def _agent_only(server: Server) -> None:
    if server.kind != "agent":
        raise Conflict(f"{server.name!r} is {server.kind}; only a server that joined has an agent", hint="join it first")
