"""A whole lab in one thread: an appliance, its machines, people, a line, time. What happens is a list of events, one after the other."""

import json
import re
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from appliance.errors import ApplianceError
from appliance.operations import servers
from appliance.operations.servers import NewServer
from appliance.store import file as file_rows
from appliance.store import servers as server_rows
from appliance.store import tokens
from appliance.store.database import Database

from ..samples import KEY, push, switch_to
from . import ending
from .appliance import Appliance, Died, File
from .clock import Clock
from .invariants import Invariants
from .machine import Body
from .network import Network
from .operator import VERSIONS, command, file_text
from .stage import installed

SERVERS = 4
Event = list[Any]


class Violation(AssertionError):
    """Something that must hold does not."""


@dataclass(frozen=True)
class Image:
    """A prepared lab to begin with: a file with plans and servers that have joined, and the disks of their machines."""

    directory: Path
    numbers: int
    servers: list[str]


class World:
    """One history as it happens, in a directory of its own."""

    def __init__(self, file: File, image: Image, directory: Path, size: int, *, tracing: bool = False) -> None:
        self.directory, self.size, self.tracing = directory, size, tracing
        self.trace: list[str] = []
        self.clock = Clock()
        self._numbers = image.numbers
        self.violation: Violation | None = None
        file.clock, file.new_id = self.clock.wall, self._new_id
        self.appliance = Appliance(file, self.clock.wall)
        self.network = Network(self.appliance)
        self.invariants = Invariants(self)
        self.bodies = [Body(self, n, id, f"m{n}", directory / f"m{n}") for n, id in enumerate(image.servers[:size])]

    def number(self) -> int:
        """The next of all numbers that are made here."""
        self._numbers += 1
        return self._numbers

    def _new_id(self) -> str:
        return f"00000000-0000-4000-8000-{self.number():012x}"

    def say(self, sentence: str) -> None:
        if self.tracing:
            short = re.sub("[01]0000000-0000-4000-8000-0+", "#", sentence)
            self.trace.append(f"{self.clock.now / 1000:9.3f}  {short}")

    def violated(self, what: str) -> NoReturn:
        self.violation = self.violation or Violation(what)
        raise self.violation

    def close(self) -> None:
        """End every agent."""
        for body in self.bodies:
            body.kill()

    # ------------------------------------------------------------------------------------------ events

    def happen(self, event: Event) -> None:
        """One event, and then what must hold. An event that makes no sense (any more) does nothing. Raises Violation."""
        self.say(f"--- {event}")
        kind, *rest = event
        try:
            getattr(self, f"_on_{kind}")(*rest)
            self.clock.pass_(0.1)
            self.invariants.after()
        except Violation:
            raise
        except Exception as error:
            if self.violation is None:
                self.violation = Violation(f"{type(error).__name__}: {error}")
            raise self.violation from error

    def _at(self, number: int) -> Body | None:
        return self.bodies[number] if number < len(self.bodies) and not self.bodies[number].gone else None

    def _on_machine(self, number: int, what: str, *more: Any) -> None:
        """Something that `Body` does."""
        body = self._at(number)
        if body is not None:
            getattr(body, what)(*more)

    def _on_poll(self, number: int, fates: list[str]) -> None:
        self._on_machine(number, "poll", fates)

    def _on_step(self, number: int, fates: list[str]) -> None:
        self._on_machine(number, "step", fates)

    def _on_deliver(self, number: int, fates: list[str]) -> None:
        self._on_machine(number, "deliver", fates)

    def _on_arrive(self, number: int, name: str) -> None:
        self._on_machine(number, "arrive", name)

    def _on_exit(self, number: int, run: str, how: int | str) -> None:
        self._on_machine(number, "end", run, how)

    def _on_start(self, number: int, fates: list[str]) -> None:
        self._on_machine(number, "start", fates)

    def _on_stop(self, number: int, fates: list[str]) -> None:
        self._on_machine(number, "stop", fates)

    def _on_kill(self, number: int) -> None:
        self._on_machine(number, "kill")

    def _on_arm(self, number: int, steps: int) -> None:
        """The agent is to be killed so many of its own steps from now."""
        body = self._at(number)
        if body is not None:
            body.armed = steps

    def _on_reboot(self, number: int) -> None:
        self._on_machine(number, "reboot")

    def _on_reimage(self, number: int) -> None:
        self._on_machine(number, "reimage")

    def _on_snapshot(self, number: int) -> None:
        self._on_machine(number, "take_snapshot")

    def _on_revert(self, number: int) -> None:
        self._on_machine(number, "revert")

    def _on_wipe(self, number: int, whole: bool) -> None:
        body = self._at(number)
        if body is not None:
            body.wipe(whole=whole)

    def _on_go(self, number: int, code: int | None) -> None:
        """Some undisturbed moments; with a code, what runs then ends with it."""
        body = self._at(number)
        if body is not None:
            for _ in range(2):
                body.poll([])
                body.step([])
                for start in body.running() if code is not None else ():
                    body.end(start.run, code)  # type: ignore[arg-type]
                body.deliver([])

    def _on_clone(self, number: int) -> None:
        body = self._at(number)
        if body is not None:
            self.bodies.append(body.clone())

    def _on_gone(self, number: int) -> None:
        """A clone is thrown away."""
        body = self._at(number)
        if body is not None and number >= self.size:
            body.kill()
            body.gone = True

    def _on_join(self, number: int, fates: list[str]) -> None:
        body = self._at(number)
        if body is not None and body.process is None and not (body.disk / "identity.json").exists():
            self._join(body, fates)

    def _join(self, body: Body, fates: list[str]) -> None:
        secret = f"join-{self.number()}"
        self.appliance.perform(lambda tx: servers.renew_join_token(tx, body.server, secret, "ann"))
        body.join(secret, fates)

    def _may_speak(self, body: Body) -> bool:
        me = body.disk / "identity.json"
        if not me.exists():
            return False
        token = self.appliance.file.read(tokens.by_secret, json.loads(me.read_text())["token"])
        return token is not None and token.holds(self.clock.wall())

    def _on_time(self, seconds: float) -> None:
        self.clock.pass_(seconds)

    def _on_clock(self, seconds: float) -> None:
        self.clock.jump(seconds)

    def _on_crash(self) -> None:
        self.appliance.crash()

    def _on_flush(self) -> None:
        self.appliance.flush()

    def _on_stray(self) -> None:
        self.network.stray()

    def _on_op(self, words: list[Any], fate: str) -> None:
        """One command of a person; the appliance may die before or after its commit."""
        self.appliance.doomed = fate == "die"
        try:
            self.appliance.perform(command(words))
        except Died:
            return
        except ApplianceError as error:
            self.say(f"refused: {error}")
        self.appliance.doomed = False
        if fate == "dead":
            self.appliance.crash()

    def _on_ops(self, batch: list[list[Any]]) -> None:
        """Commands that come to the writer together."""
        for result in self.appliance.file.batch([command(words) for words in batch]):
            if isinstance(result, Exception) and not isinstance(result, ApplianceError):
                raise result

    # ------------------------------------------------------------------------------------------ the end

    def heal(self) -> None:
        """Make the line whole, let every agent work and time pass until nothing moves any more; then check what must hold."""
        self.say("=== from here on all is well")
        self.network.strays.clear()
        for body in self.bodies[self.size :]:
            self._on_gone(body.number)
        wait = 1.0
        for _ in range(40):
            for body in self.bodies[: self.size]:
                self._tend(body)
            self.invariants.after()
            left = ending.unfinished(self)
            left += [one for body in self.bodies if not body.gone for one in (ending.undelivered(body) if body.process else [body.label])]
            if not left:
                ending.check(self)
                return
            self.clock.pass_(wait)
            wait = min(wait * 1.5, 300.0)
        self.violated("it does not come to an end: " + "; ".join(left))

    def _tend(self, body: Body) -> None:
        body.armed = None
        server = self.appliance.file.read(server_rows.by_id, body.server)
        if server.trouble is not None:
            self._on_op(["reset", server.id], "ok")
        if not self._may_speak(body):  # nobody joined here yet, or somebody else did since
            body.kill()
            self._join(body, [])
        body.start([])
        for name in ("poll", "step", "deliver"):
            body.arrive(name)
        body.poll([])
        body.step([])
        for _ in range(8):
            running = body.running()
            if not running:
                break
            body.deliver([])
            for start in running:
                body.end(start.run, 0)
            body.step([])
        body.deliver([])


def prepare(directory: Path) -> Image:
    """Make the image to begin with."""
    numbers = iter(range(1, 1 << 30))
    clock = Clock()
    database = Database(str(directory / "lab.db"), clock=clock.wall, new_id=lambda: f"00000000-0000-4000-8000-{next(numbers):012x}")
    with closing(database):
        database.write(file_rows.born, KEY.id)
        for plan, versions in VERSIONS.items():
            for files in versions:
                push(database, plan, {path: file_text(plan, path, content).encode() for path, content in files.items()})
            switch_to(database, plan, 1)
        ids = [database.write(servers.add, NewServer(f"m{n}"), f"secret-{n}", "ann").server.id for n in range(SERVERS)]
    image = Image(directory, 1000, ids)
    with installed(), closing(File(database.path)) as opened:
        world = World(opened, image, directory, SERVERS)
        for body in world.bodies:
            body.disk.mkdir()
            world._on_join(body.number, [])
        world.close()
    return Image(directory, world.number(), ids)


def begin(file: File, image: Image, directory: Path, size: int, *, tracing: bool = False) -> World:
    """A new world from the image, with so many servers."""
    file.restore()
    directory.mkdir()
    for number in range(size):
        shutil.copytree(image.directory / f"m{number}", directory / f"m{number}")
    return World(file, image, directory, size, tracing=tracing)
