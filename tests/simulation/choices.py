"""What a seed chooses to happen next."""

import random
from typing import Any

from .machine import Body
from .network import FATES
from .operator import NAMES, PLANS, POLICIES, VERSIONS
from .world import Event, World

# How likely a kind of event is, and the trouble it belongs to: a history has some kinds of trouble and not others.
_OFTEN: list[tuple[str, float, str | None]] = [
    ("go", 8, None), ("poll", 8, None), ("step", 10, None), ("deliver", 6, None), ("arrive", 8, "line"), ("exit", 18, None),
    ("op", 13, None), ("ops", 1.5, None), ("time", 3, None), ("start", 14, None), ("kill", 2, "kills"), ("arm", 3, "kills"),
    ("stop", 1, "kills"), ("reboot", 1.5, "boots"), ("crash", 1.5, "crashes"), ("flush", 1, None), ("stray", 2, "line"),
    ("clock", 1, "clocks"), ("wipe", 1.2, "disks"), ("join", 6, None), ("reimage", 0.7, "disks"), ("clone", 0.8, "copies"),
    ("snapshot", 1.5, "copies"), ("revert", 1, "copies"), ("gone", 1, "copies"),
]  # fmt: skip
_TROUBLES = {"line": 0.6, "kills": 0.6, "boots": 0.4, "crashes": 0.3, "clocks": 0.2, "disks": 0.2, "copies": 0.12}
_COMMANDS = {
    "create": 5.0, "pair": 2, "source": 6, "policy": 2, "needs": 2, "loud": 2, "quiet": 0.7, "rename": 0.5, "rerun": 3, "delete": 1.2,
    "reset": 0.4, "switch": 3, "rollback": 0.7,
}  # fmt: skip


class Choice:
    """What a seed chooses: motifs that are known to matter, and anything at all between them.

    It looks at the world only to leave out what would do nothing.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance = self.random.random
        self.servers = self.random.choices([1, 2, 3, 4], [66, 26, 5, 3])[0]
        self.length = self.random.randint(12, 45)
        self.names = NAMES[: self.random.choice([1, 1, 2, 2, 3, 6])]
        calm = 0.3 if chance() < 0.4 else 1.0
        self.troubles = {trouble for trouble, likely in _TROUBLES.items() if chance() < likely * calm}
        self.policies = self.random.sample(POLICIES, self.random.choice([1, 2, 4]))
        self.sources = self.random.choice([["1", "2"], ["1", "2"], ["p:f0"], ["p:f0", "p:f1"], ["1", "p:f1"], ["q:f0", "q:f1", "3"]])
        often = [(kind, weight) for kind, weight, trouble in _OFTEN if trouble in (None, *self.troubles)]
        self.often = {kind: weight * self.random.choice([0.3, 1, 1, 2]) for kind, weight in often}
        self.commands = {verb: weight * self.random.choice([0, 0.3, 1, 3]) for verb, weight in _COMMANDS.items()}
        self.commands["source"] += 1
        self.fail = self.random.choice([0.0, 0.3, 0.5])
        self.made: list[str] = []
        self.motifs = self.random.choice([0.0, 0.3, 0.6, 0.8])
        self._planned: list[Event] = []
        self._first: list[tuple[str, Any]] = [("op", "create"), ("op", "create" if chance() < 0.5 else "pair")]
        self._first += [("start", n) for n in range(self.servers) if chance() < 0.9]

    def next(self, world: World) -> Event:
        """The next event."""
        if self._first:
            kind, what = self._first.pop(0)
            return ["start", what, []] if kind == "start" else ["op", self._command(str(what)), "ok"]
        if self._planned and self.random.random() < 0.8:
            planned = self._resolved(self._planned.pop(0), world)
            if planned is not None:
                return planned
        elif not self._planned and self.random.random() < self.motifs:
            self._planned = self._motif()
        while True:
            [kind] = self.random.choices(list(self.often), list(self.often.values()))
            event = self._event(kind, world)
            if event is not None:
                return event

    # ------------------------------------------------------------------------------------------ motifs

    def _motif(self) -> list[Event]:
        """A few events that belong together; others may come between them."""
        one, two = self._neighbours()
        at, code = int(one[1]), int(self.random.random() < 0.5)
        new = self._place()
        its = int(new[1])
        this, other = self.random.sample([["loud", one, "0"], ["loud", one, "1"], ["loud", one, "2"]], 2)
        both: list[Event] = [["op", ["rerun", sorted({one, two})], "ok"], ["poll", at, []], ["step", at, []]]
        ends: list[Event] = [["exit", at, "", code], ["poll", at, []], ["step", at, []], ["deliver", at, self._fates()]]
        motifs: list[list[Event]] = [
            # there and back, with something in between
            [["op", this, "ok"], ["go", at, 0], ["op", other, "ok"], ["go", at, code], ["op", this, "ok"], ["go", at, 0]],
            # changed, and changed back, after it was granted and before it was started
            [["op", this, "ok"], ["go", at, 0], ["go", at, 0], *both, ["op", other, "ok"], *ends, ["op", this, "ok"], ["go", at, 0]],
            # something happens to what was granted
            [*both, ["poll", at, ["short"]], *ends],
            [*both, ["kill", at], ["start", at, []], *ends],
            # changed while it runs, and nobody knows yet that it does
            [["poll", at, []], ["step", at, []], ["op", other, "ok"], ["poll", at, []], ["exit", at, "", code], ["go", at, 0]],
            # what others wait for begins anew
            [["op", ["needs", two, [one]], "ok"], ["op", ["rerun", [one, two]], "ok"], ["go", at, code], ["poll", at, []],
             ["op", ["rerun", [one]], "ok"], ["step", at, []], ["deliver", at, []]],
            # a new one that is changed before anybody knows that it runs
            [["op", ["create", new, "1", self.random.choice(POLICIES[:2]), []], "ok"], ["poll", its, []], ["step", its, []],
             ["op", ["loud", new, "1"], "ok"], ["poll", its, []], ["exit", its, "", code], ["go", its, 0]],
            # a plan there and back, with several that use it
            [["op", ["pair", new, self._place(), "p:f0", self.policies[0]], "ok"], ["go", its, 0],
             ["op", ["switch", "p", 2], "ok"], ["go", at, code], ["op", ["rollback", "p"], "ok"], ["go", at, 0]],
        ]  # fmt: skip
        return self.random.choices(motifs, [2, 4, 1, 1, 1, 1, 1, 1])[0]

    def _resolved(self, event: Event, world: World) -> Event | None:
        """A planned event as it can happen now, or None."""
        body = world.bodies[event[1]] if isinstance(event[1], int) else None
        if event[0] == "exit" and body is not None:
            running = body.running()
            return ["exit", event[1], running[0].run, event[3]] if running else None
        return event

    # ------------------------------------------------------------------------------------------ anything

    def _event(self, kind: str, world: World) -> Event | None:
        body = self.random.choice([body for body in world.bodies if not body.gone])
        at = body.number
        works = body.process is not None
        match kind:
            case "op":
                return ["op", self._command(), self._fate("crashes", ("die", "dead"))]
            case "ops":
                return ["ops", [self._command() for _ in range(self.random.randint(2, 4))]]
            case "time":
                return ["time", self.random.choice([1, 1, 5, 35, 65, 130])]
            case "clock":
                return ["clock", self.random.choice([-600, -30, 30, 600])]
            case "crash" | "flush":
                return [kind]
            case "stray":
                return [kind] if world.network.strays else None
            case "start":
                return None if works else ["start", at, []]
            case "join":
                return None if works or (body.disk / "identity.json").exists() else ["join", at, self._fates()]
            case "reboot" | "reimage" | "snapshot":
                return [kind, at]
            case "wipe":
                return ["wipe", at, self.random.random() < 0.3]
            case "clone":
                return [kind, at] if len(world.bodies) < world.size + 2 else None
            case "gone":
                return [kind, at] if at >= world.size else None
            case "revert":
                return [kind, at] if body.snapshot is not None else None
            case "kill" if works:
                return [kind, at]
            case "arm" if works:
                return [kind, at, self.random.randint(0, 9)]
            case _ if works:
                return self._activity(kind, body, at)
        return None

    def _activity(self, kind: str, body: Body, at: int) -> Event | None:
        assert body.process is not None
        parked = {name: fiber.waits for name, fiber in body.process.fibers.items()}
        match kind:
            case "arrive":
                held = sorted(name for name, waits in parked.items() if waits == "line")
                return [kind, at, self.random.choice(held)] if held else None
            case "exit":
                running = body.running()
                if not running:
                    return None
                how: int | str = "timeout" if self.random.random() < 0.05 else int(self.random.random() < self.fail)
                return [kind, at, running[0].run, how]
            case "go":
                return [kind, at, self.random.choice([None, int(self.random.random() < self.fail)])]
            case "poll" | "step" | "deliver":
                return [kind, at, self._fates()] if kind not in parked else None
            case "stop":
                return [kind, at, self._fates()]
        return None

    def _fates(self) -> list[str]:
        if not self.troubles & {"line", "crashes"} or self.random.random() < 0.6:
            return []
        likely = {"ok": 3.0} | {fate: 1.0 for fate in FATES[1:] if ("crashes" if fate in ("die", "dead") else "line") in self.troubles}
        return self.random.choices(list(likely), list(likely.values()), k=self.random.randint(1, 3))

    def _fate(self, trouble: str, fates: tuple[str, ...]) -> str:
        return self.random.choice(fates) if trouble in self.troubles and self.random.random() < 0.2 else "ok"

    # ------------------------------------------------------------------------------------------ commands

    def _slot(self) -> str:
        if self.made and self.random.random() < 0.9:
            return self.random.choice(self.made)
        return self._place()

    def _neighbours(self) -> tuple[str, str]:
        """Two, where there are two of one server: the second is the first that its machine would run."""
        one = self._slot()
        others = sorted({slot for slot in self.made if slot[:2] == one[:2] and slot != one})
        if not others or self.random.random() < 0.2:
            return one, self._slot()
        two, one = sorted((one, self.random.choice(others)))
        return one, two

    def _place(self) -> str:
        return f"m{self.random.randrange(self.servers)}/{self.random.choice(self.names)}"

    def _slots(self) -> list[str]:
        return sorted({self._slot() for _ in range(self.random.choice([1, 1, 1, 2]))})

    def _command(self, verb: str | None = None) -> list[Any]:
        verb = verb or self.random.choices(list(self.commands), list(self.commands.values()))[0]
        slot, source, policy = self._slot(), self.random.choice(self.sources), self.random.choice(self.policies)
        match verb:
            case "create":
                needs = self._slots() if self.random.random() < 0.4 else []
                self.made.append(self._place())
                return [verb, self.made[-1], source, policy, needs]
            case "pair":
                self.made += [self._place(), self._place()]
                return [verb, *self.made[-2:], source, policy]
            case "source":
                return [verb, slot, source]
            case "policy":
                return [verb, slot, self.random.choice(POLICIES)]
            case "needs":
                return [verb, slot, self._slots() if self.random.random() < 0.7 else []]
            case "loud" | "quiet":
                return [verb, slot, self.random.choice("012")]
            case "rename":
                return [verb, slot, self.random.choice(self.names)]
            case "rerun" | "delete":
                return [verb, self._slots()]
            case "reset":
                return [verb, f"m{self.random.randrange(self.servers)}"]
            case "switch":
                plan = self.random.choice(PLANS)
                return [verb, plan, self.random.randint(1, len(VERSIONS[plan]))]
            case _:
                return [verb, self.random.choice(PLANS)]
