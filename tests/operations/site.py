"""A site to test with: an appliance file, machines whose agents do what a test says, and people who change what they must run."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from appliance.config import Input, Output, PlanFile, Statement
from appliance.identity import Instance, Who
from appliance.operations import actions, arrivals, cancels, claims, deployments, documents, fate, servers, signals
from appliance.operations.claims import Ask, Asked
from appliance.operations.deployments import Done, Edit, Wanted
from appliance.operations.references import find_deployment
from appliance.operations.servers import NewServer, new_secret
from appliance.operations.signals import Effect, Finished, Released, Started
from appliance.operations.tick import tick
from appliance.store import runs
from appliance.store import servers as server_rows
from appliance.store.database import Database
from appliance.store.deployments import Deployment
from appliance.store.servers import Server

from ..application import Clock
from ..samples import KEY, opened

EPOCH = (1, "e")
SCRIPT = "#!/bin/sh\necho hello\n"


def script(text: str = "echo hello", inputs: tuple[Input, ...] = (), outputs: tuple[Output, ...] = ()) -> Statement:
    return Statement(None, "script", f"#!/bin/sh\n{text}\n", None, inputs, outputs)


def from_plan(plan: str, path: str) -> Statement:
    return Statement(None, "script", None, PlanFile(plan, path))


class Site:
    """One appliance file with a clock that stands."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database, self.clock = database, clock

    def passes(self, seconds: float) -> None:
        """Time passes, and what is due by then happens."""
        self.clock.pass_(int(seconds * 1000))
        self.database.write(tick)

    # ------------------------------------------------------------------------------------------ machines

    def machine(self, name: str, cloud: str | None = "same") -> "Machine":
        """A server whose agent has joined. `cloud` None: neither cloud-init id nor file system can be read, as in a container."""
        secret = new_secret()
        added = self.database.write(servers.add, NewServer(name), secret, "ann")
        who = Who(Instance(f"machine of {name}", None, cloud and f"i-{name}"), "state-1", "boot-1", 1, "1", ["script"])
        joined = self.database.write(servers.join, KEY, secret, who, new_secret())
        return Machine(self, added.server.id, name, who, joined.token)

    def server(self, name: str, *, stock: bool = False) -> Server:
        """A server nobody has joined as."""
        return self.database.write(servers.add, NewServer(name, stock=stock), new_secret(), "ann").server

    def reset(self, name: str) -> int:
        return self.database.write(servers.reset, KEY, name, "ann")

    def keep(self, name: str) -> None:
        self.database.write(servers.keep, name, "ann")

    def row(self, name: str) -> Server:
        return self.database.read(server_rows.find, name)

    # ------------------------------------------------------------------------------------------ deployments

    def deploy(self, ref: str, config: str | Statement | None = None, **more: Any) -> str:
        """Create (or with `update` bring) `SERVER/NAME`; its id."""
        return self.bring(ref, config, **more).id

    def bring(self, ref: str, config: str | Statement | None = None, **more: Any) -> Done:
        [done] = self.deploy_all([(ref, config, more)])
        return done

    def deploy_all(self, items: list[tuple[str, str | Statement | None, dict[str, Any]]]) -> list[Done]:
        wanted = [Wanted(*ref.split("/"), config or script(), **more) for ref, config, more in items]
        return self.database.write(deployments.create, KEY, wanted, "ann")

    def edit(self, ref: str, **changes: Any) -> Done:
        [done] = self.database.write(deployments.update, KEY, [(ref, Edit(**changes))], "ann")
        return done

    def rerun(self, *refs: str) -> None:
        self.database.write(lambda tx: fate.rerun(tx, KEY, [find_deployment(tx, ref).id for ref in refs], "ann"))

    def cancel(self, *refs: str, force: bool = False) -> None:
        self.database.write(lambda tx: cancels.cancel(tx, [find_deployment(tx, ref).id for ref in refs], "ann", force=force))

    def delete(self, *refs: str, force: bool = False) -> list[str]:
        return self.database.write(lambda tx: fate.delete(tx, KEY, [find_deployment(tx, ref).id for ref in refs], "ann", force=force))

    def suspend(self, ref: str) -> None:
        self.database.write(lambda tx: actions.suspend(tx, KEY, find_deployment(tx, ref).id, "ann"))

    def resume(self, ref: str) -> None:
        self.database.write(lambda tx: actions.resume(tx, KEY, find_deployment(tx, ref).id, "ann"))

    def of(self, ref: str) -> Deployment:
        return self.database.read(find_deployment, ref)

    def stands(self, *refs: str) -> Any:
        """Where deployments stand, in a word or two: `COMPLETE`, `FAILED exit`, or the phase of those in progress."""
        found = [self._stands(self.of(ref)) for ref in refs]
        return found[0] if len(found) == 1 else found

    def _stands(self, one: Deployment) -> str:
        standing = one.standing
        words = standing.phase or standing.status
        return f"{words} {standing.reason}" if standing.reason else f"{words} held" if standing.held else words

    def number(self, ref: str) -> int:
        return self.of(ref).generation.number

    def runs(self, ref: str) -> list[runs.Run]:
        """Its runs, oldest first."""
        return self.database.read(runs.of_deployment, self.of(ref).id)[::-1]

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the file but commit numbers given out."""

        def read(tx: Any) -> dict[str, list[tuple[Any, ...]]]:
            names = [name for (name,) in tx.rows("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
            return {name: list(tx.rows(f'SELECT * FROM "{name}"')) for name in names if name != "file"}

        return self.database.read(read)

    def value(self, sql: str, *bindings: Any) -> Any:
        return self.database.read(lambda tx: tx.value(sql, bindings))

    def broken_references(self) -> list[tuple[Any, ...]]:
        return self.database.read(lambda tx: list(tx.rows("PRAGMA foreign_key_check")))


class Machine:
    """A server's machine and its agent, which does nothing by itself."""

    def __init__(self, site: Site, id: str, name: str, who: Who, token: str) -> None:
        self.site, self.id, self.name, self.who, self.token = site, id, name, who, token
        self.alive_at: int | None = None  # when the appliance last heard the agent it knows

    def copy(self, **changes: Any) -> "Machine":
        """The same server's token on a machine that says of itself what `changes` say."""
        other = Machine(self.site, self.id, self.name, msgspec.structs.replace(self.who, **changes), self.token)
        other.alive_at = self.alive_at
        return other

    def says(self, **changes: Any) -> None:
        """From now on the agent says this of itself."""
        self.who = msgspec.structs.replace(self.who, **changes)

    def boots(self, boot: str) -> None:
        self.says(boot=boot, journal=self.who.journal + 1)

    def arrives(self) -> Server:
        return self.site.database.write(arrivals.arrive, self.id, self.who, self.alive_at)

    # ------------------------------------------------------------------------------------------ document

    def etag(self) -> str:
        return self.site.database.read(documents.document, KEY, EPOCH, self.id).etag

    def document(self) -> dict[str, Any]:
        return msgspec.json.decode(self.site.database.read(documents.document, KEY, EPOCH, self.id).content)

    def items(self) -> list[dict[str, Any]]:
        return [item for item in self.document()["desired"]["items"] if not item.get("deleted")]

    def item(self, name: str) -> dict[str, Any]:
        [found] = [item for item in self.items() if item["name"] == name]
        return found

    def inputs(self, name: str) -> dict[str, Any]:
        return {one["name"]: one["value"] for one in self.item(name)["config"]["inputs"]}

    def tombstones(self) -> list[str]:
        return [item["deployment"] for item in self.document()["desired"]["items"] if item.get("deleted")]

    # ------------------------------------------------------------------------------------------ claims and signals

    def asks(self, *names: str) -> list[Ask]:
        """What it would ask for these items, under new run ids."""
        return self.asks_of([self.item(name) for name in names])

    def asks_of(self, items: list[dict[str, Any]]) -> list[Ask]:
        return [Ask(str(uuid.uuid4()), it["deployment"], it["generation"], it["attempt"]) for it in items]

    def claim_these(self, asks: list[Ask], forgotten: list[str] | None = None) -> list[str]:
        """The answers, in words: `granted`, or why not."""
        self.says(journal=self.who.journal + 1)
        answers = self.site.database.write(claims.claim, self.id, self.who, self.alive_at, Asked(asks, forgotten or []))
        if isinstance(answers, Exception):
            raise answers
        return [one.why or one.answer for one in answers]

    def claim(self, *names: str) -> list[str]:
        return self.claim_these(self.asks(*names))

    def granted(self, name: str) -> Ask:
        """Ask for one, which must be granted."""
        [ask] = self.asks(name)
        assert self.claim_these([ask]) == ["granted"]
        return ask

    def after(self, ask: Ask) -> list[str]:
        """The generations a run was granted after."""
        found = self.site.database.read(runs.claim_of, ask.run)
        assert found is not None
        return found.after

    def starts(self, ask: Ask, **more: Any) -> Effect:
        return self.reports(ask, Started(deployment=ask.deployment, generation=ask.generation, attempt=ask.attempt, **more))

    def ends(self, ask: Ask, code: int | None = 0, outcome: str = "ended", **more: Any) -> Effect:
        kind = Finished(
            deployment=ask.deployment, generation=ask.generation, attempt=ask.attempt, outcome=outcome, status_code=code, **more
        )
        return self.reports(ask, kind)

    def releases(self, ask: Ask, why: Any = "superseded") -> Effect:
        return self.reports(ask, Released(deployment=ask.deployment, generation=ask.generation, attempt=ask.attempt, why=why))

    def reports(self, ask: Ask, report: Any) -> Effect:
        self.says(journal=self.who.journal + 1)
        return self.site.database.write(signals.signal, self.id, self.who, self.alive_at, ask.run, report)

    def runs(self, name: str, code: int = 0, **more: Any) -> Ask:
        """Ask for one, start it and report its end."""
        ask = self.granted(name)
        self.starts(ask)
        self.ends(ask, code, **more)
        return ask

    def repeats(self, name: str, repeat: Any, code: int | None = 0) -> Ask:
        """A repeat, which needs no grant: started, and ended unless `code` is None."""
        [ask] = self.asks(name)
        self.starts(ask, repeat=repeat, changed=self.document()["desired"]["changed"])
        if code is not None:
            self.ends(ask, code, repeat=repeat)
        return ask


def new_site(directory: Path) -> Iterator[Site]:
    clock = Clock()
    for database in opened(directory):
        database.clock = database.uptime = clock
        yield Site(database, clock)
