"""Machines: a disk, a boot, processes, and an agent that runs its real code until somebody kills it."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.agent import hooks, identity, runner
from appliance.agent.errors import AgentError
from appliance.agent.facts import Facts
from appliance.agent.loop import Agent
from appliance.agent.process import Ending, Program
from appliance.agent.settings import Settings

from .fibers import Fiber, Killed
from .stage import STAGE, SimClient, SimJournal

if TYPE_CHECKING:
    from .world import World

SPINNING = 100


@dataclass
class Start:
    """A program that really was started, as its own counter would tell. `ended`: its exit code, or why there is none."""

    run: str
    deployment: str
    generation: str
    attempt: int
    repeat: str | None
    changed: int
    boot: str
    mark: str
    at: int
    began: float
    ended: int | str | None = None
    ended_at: float | None = None
    lost: bool = False  # the disk that knew of it was wiped while it ran
    forgotten: bool = False  # the disk that knew of it was wiped
    policy: str = ""
    interval: float | None = None


@dataclass
class Snapshot:
    """A disk as it was, and what had been started by then."""

    disk: Path
    starts: list[Start]


@dataclass
class Process:
    """One agent process."""

    journal: SimJournal
    agent: Agent | None = None
    dead: bool = False
    stopping: bool = False
    fibers: dict[str, Fiber] = field(default_factory=dict)


class Body:
    """One machine. Several may carry the identity of one server: clones."""

    def __init__(self, world: "World", number: int, server: str, name: str, disk: Path) -> None:
        self.world, self.number, self.server, self.name, self.disk = world, number, server, name, disk
        self.instance = {"machine": f"machine-{number}", "cloud": f"i-{number}"}
        self.boot = f"boot-{number}.1"
        self.booted_at = 0
        self.process: Process | None = None
        self.fiber: Fiber | None = None
        self.armed: int | None = None
        self.starts: list[Start] = []
        self.snapshot: Snapshot | None = None
        self.gone = False
        self.tainted = False  # a copy of it was alive, or its time was turned back: its own word is no evidence any more
        self.wiped_in: set[str] = set()  # boots in which it lost its memory

    @property
    def label(self) -> str:
        return f"{self.name}.{self.number}"

    @property
    def settings(self) -> Settings:
        return Settings(state=self.disk, root=self.disk, hooks=(), insecure_http=False, umask=0o22, wait=0)

    def monotonic(self) -> float:
        return (self.world.clock.now - self.booted_at) / 1000

    # ------------------------------------------------------------------------------------------ being killed

    def point(self) -> None:
        """A moment between two steps of the agent, at which it may die."""
        process = self.process
        if process is None or process.dead:
            raise Killed
        if self.armed is not None:
            self.armed -= 1
            if self.armed < 0:
                self.armed, process.dead = None, True
                raise Killed

    def kill(self) -> None:
        """kill -9 of the agent. What it started lives on."""
        process = self.process
        if process is None:
            return
        process.dead, self.armed = True, None
        for fiber in list(process.fibers.values()):
            with STAGE.turn(self):
                fiber.resume(Killed())
        process.fibers.clear()
        process.journal.close()
        if process.agent is not None:
            process.agent.close()
        self.process = None

    # ------------------------------------------------------------------------------------------ activities

    def do(self, name: str, work: Callable[[Process], Any], fates: list[str]) -> None:
        """Begin an activity of the agent, unless that one is under way."""
        process = self.process
        if process is not None and name not in process.fibers and process.agent is not None:
            self._resume(name, Fiber(lambda: work(process), fates))

    def poll(self, fates: list[str]) -> None:
        self.do("poll", lambda process: process.agent.line.poll(0), fates)  # type: ignore[union-attr]

    def deliver(self, fates: list[str]) -> None:
        self.do("deliver", lambda process: process.agent.outbox.deliver(), fates)  # type: ignore[union-attr]

    def step(self, fates: list[str]) -> None:
        self.do("step", self._steps, fates)

    def _steps(self, process: Process) -> None:
        assert process.agent is not None
        for _ in range(SPINNING):
            if process.stopping or not process.agent._step():
                return
        self.world.violated(f"{self.label} is busy and gets nowhere")

    def _resume(self, name: str, fiber: Fiber) -> None:
        process, before = self.process, self.fiber
        assert process is not None
        process.fibers[name], self.fiber = fiber, fiber
        try:
            with STAGE.turn(self):
                fiber.resume()
        finally:
            self.fiber = before
        if fiber.done:
            process.fibers.pop(name, None)
            if isinstance(fiber.error, Killed):
                self.world.say(f"{self.label}: killed in {name}")
                self.kill()
            elif fiber.error is not None:
                raise fiber.error

    def arrive(self, name: str) -> None:
        """What was held up on the line arrives."""
        fiber = self.process.fibers.get(name) if self.process else None
        if fiber is not None and fiber.waits == "line":
            self._resume(name, fiber)

    def cut(self) -> None:
        """End the requests that are under way."""
        for fiber in self.process.fibers.values() if self.process else ():
            fiber.cut = fiber.cut or fiber.waits == "line"

    # ------------------------------------------------------------------------------------------ beginning and ending

    def start(self, fates: list[str]) -> None:
        """Start the agent: what `agent run` does before it works."""
        if self.process is not None or self.gone:
            return
        self._process_with(self._begin_agent, fates)

    def _begin_agent(self, process: Process) -> None:
        settings = self.settings
        me = identity.load(settings, process.journal)
        facts = Facts(dict(self.instance), self.boot)
        process.agent = Agent(settings, process.journal, facts, me)
        runner.settle(settings, process.journal, facts)
        runner.settle_unknown(settings, process.journal)

    def _process_with(self, work: Callable[[Process], Any], fates: list[str]) -> None:
        self.process = process = Process(None)  # type: ignore[arg-type]
        process.agent = None

        def begin() -> None:
            self.disk.joinpath("runs").mkdir(exist_ok=True)
            process.journal = SimJournal(self)
            work(process)

        fiber = Fiber(begin, fates)
        try:
            with STAGE.turn(self):
                before, self.fiber = self.fiber, fiber
                fiber.resume()
        finally:
            self.fiber = before
        assert fiber.done, "nothing is waited for before the agent works"
        if fiber.error is not None or process.agent is None:
            agent, self.process = process.agent, None
            with suppress(AttributeError):
                process.journal.close()
            if agent is not None:
                agent.close()
            if fiber.error is not None and not isinstance(fiber.error, Killed | AgentError):
                raise fiber.error

    def join(self, token: str, fates: list[str]) -> None:
        """What `agent join` does."""
        if self.process is not None or self.gone:
            return

        def work(process: Process) -> None:
            facts = Facts(dict(self.instance), self.boot)
            client: Any = SimClient("http://localhost", insecure_http=False, limit=30)
            answer = identity.join(client, token, facts, process.journal, hooks.groups(()))
            if answer.good:
                identity.moved_in(self.settings, process.journal, identity.from_answer("http://localhost", answer.object()), facts)

        self._process_with(work, [fate for fate in fates if fate in ("drop", "mute", "die", "dead")])

    def stop(self, fates: list[str]) -> None:
        """SIGTERM: end what runs, try to deliver, exit."""
        process = self.process
        if process is None or process.agent is None:
            return
        process.stopping = True
        for start in self.running():
            self.end(start.run, "stopped")
        if self.process is process:
            self.deliver(fates)
        self.kill()

    def reboot(self) -> None:
        """Everything that runs ends; /run is empty, the boot is another one."""
        self.kill()
        for start in self.running():
            start.ended, start.ended_at = "cut", None
        self.boot = f"boot-{self.number}.{self.world.number()}"
        self.booted_at = self.world.clock.now

    # ------------------------------------------------------------------------------------------ processes

    def running(self) -> list[Start]:
        return [start for start in self.starts if start.ended is None]

    def begin(self, run: str, program: Program) -> None:
        """A leader was told what to become: from here on the program has been started."""
        text = Path(program.argv[0]).read_text()
        self.world.invariants.on_start(self, run, text)

    def wait_for(self, run: str) -> Ending:
        assert self.fiber is not None
        [start] = [start for start in self.starts if start.run == run and not start.lost][-1:]
        if start.ended is None:
            self.fiber.park("exit")
        if not isinstance(start.ended, int):
            return Ending("timeout" if start.ended == "timeout" else "stopped", -15)
        return Ending("exited", start.ended)

    def end(self, run: str, how: int | str) -> None:
        """A program ends by itself, or its agent ends it (`timeout`, `stopped`)."""
        fiber = self.process.fibers.get("step") if self.process else None
        for start in self.running():
            if start.run == run:
                waited = fiber is not None and fiber.waits == "exit" and not start.lost
                if waited or isinstance(how, int):
                    start.ended, start.ended_at = how, self.monotonic()
                if waited:
                    assert fiber is not None
                    self._resume("step", fiber)

    def cut_short(self, run: str) -> None:
        for start in self.running():
            if start.run == run:
                start.ended, start.ended_at = "cut", self.monotonic()

    def lives(self, run: str) -> bool:
        return any(start.run == run for start in self.running())

    # ------------------------------------------------------------------------------------------ disks

    def wipe(self, *, whole: bool) -> None:
        """The agent's memory is gone; with `whole` also who it was."""
        self.kill()
        for start in self.starts:
            start.forgotten, start.lost = True, start.ended is None
        self.wiped_in.add(self.boot)
        for path in self.disk.iterdir():
            if whole or path.name != "identity.json":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def reimage(self) -> None:
        """Another machine in the place of this one."""
        self.reboot()
        self.wipe(whole=True)
        number = self.world.number()
        self.instance = {"machine": f"machine-{number}", "cloud": f"i-{number}"}
        self.starts, self.snapshot = [], None

    def copy(self, target: Path) -> Snapshot:
        """The disk as it is now. A copy made while the agent works is one of a machine that was cut from power."""
        shutil.copytree(self.disk, target)
        return Snapshot(target, [replace(start) for start in self.starts])

    def take_snapshot(self) -> None:
        if not self.gone:
            self.snapshot = self.copy(self.world.directory / f"snapshot-{self.world.number()}")

    def revert(self) -> None:
        """Back to the snapshot: what was done since is undone, and nobody here remembers it."""
        if self.snapshot is None:
            return
        self.reboot()
        shutil.rmtree(self.disk)
        shutil.copytree(self.snapshot.disk, self.disk)
        self.starts = [replace(start, ended="cut" if start.ended is None else start.ended) for start in self.snapshot.starts]
        self.tainted = True

    def clone(self) -> "Body":
        """Another machine with a copy of this disk, in a boot of its own."""
        number = len(self.world.bodies)
        snapshot = self.copy(self.world.directory / f"clone-{number}")
        other = Body(self.world, number, self.server, self.name, snapshot.disk)
        other.instance = dict(self.instance)
        other.starts = [replace(start, ended="cut" if start.ended is None else start.ended) for start in snapshot.starts]
        other.boot, other.booted_at = f"boot-{number}.{self.world.number()}", self.world.clock.now
        for body in (self, other):
            body.tainted = True
        return other
