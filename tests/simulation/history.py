"""Histories: lists of events that a seed chooses as the world goes on, that can be played again, and made shorter."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from .appliance import File
from .choices import Choice
from .stage import installed
from .world import Event, Image, Violation, World, begin, prepare


@dataclass(frozen=True)
class History:
    """What happened: so many servers, and these events."""

    servers: int
    events: list[Event]

    def text(self) -> str:
        lines = ",\n  ".join(json.dumps(event) for event in self.events)
        return f'{{"servers": {self.servers}, "events": [\n  {lines}\n]}}\n'

    @staticmethod
    def of(text: str) -> "History":
        found = json.loads(text)
        return History(found["servers"], found["events"])


class Playground:
    """A place in memory where histories are played, one after the other."""

    def __init__(self, file: File, image: Image, directory: Path) -> None:
        self._file, self._image, self._directory = file, image, directory
        self._count = count()

    @contextmanager
    def _world(self, servers: int, *, tracing: bool) -> Iterator[World]:
        directory = self._directory / f"h{next(self._count)}"
        world = begin(self._file, self._image, directory, servers, tracing=tracing)
        try:
            with installed():
                try:
                    yield world
                finally:
                    world.close()
        finally:
            shutil.rmtree(directory)

    def play(self, history: History, *, trace: list[str] | None = None) -> Violation | None:
        """Play a history to its end; what did not hold, if anything."""
        with self._world(history.servers, tracing=trace is not None) as world:
            try:
                for event in history.events:
                    world.happen(event)
                world.heal()
            except Violation as found:
                return found
            finally:
                if trace is not None:
                    trace += world.trace
        return None

    def make(self, seed: int) -> tuple[History, Violation | None]:
        """Let a seed choose a history as it goes; what did not hold, if anything."""
        choice = Choice(seed)
        events: list[Event] = []
        with self._world(choice.servers, tracing=False) as world:
            try:
                for _ in range(choice.length):
                    event = choice.next(world)
                    events.append(event)
                    world.happen(event)
                world.heal()
            except Violation as found:
                return History(choice.servers, events), found
        return History(choice.servers, events), None


@contextmanager
def playground() -> Iterator[Playground]:
    """A playground in memory, where there is such a file system."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="appliance-simulation-") as name:
        image = Path(name) / "image"
        image.mkdir()
        prepared = prepare(image)
        shutil.copyfile(image / "lab.db", image / "played.db")
        with closing(File(str(image / "played.db"))) as file:
            file.lay_beside(str(image / "lab.db"))
            yield Playground(file, prepared, Path(name))
