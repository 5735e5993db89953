"""`kill -9` of an agent at random moments, under scripts that count themselves."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ..lab import Lab, Machine, until

POLICIES = ("on-change", "once", "per-boot")
EACH = 3

# One line at the start and one at the end, each a single write; a lock that only one script of this machine can have.
SCRIPT = """#!/bin/sh
boot=$(cat {root}/proc/sys/kernel/random/boot_id)
echo "start {name} $deploy_generation $boot $$" >> {root}/lines
exec 9> {root}/one
flock -n 9 || echo "{name} $deploy_generation $$ ran beside another one" >> {root}/overlaps
sleep {seconds}
echo "end {name} $deploy_generation $boot $$" >> {root}/lines
# {salt}
"""


class Scene:
    """One machine, its deployments, and what their scripts wrote."""

    def __init__(self, lab: Lab, machine: Machine, chosen: random.Random) -> None:
        self.lab, self.machine, self.chosen = lab, machine, chosen
        self.names = {f"{policy}-{n}": policy for policy in POLICIES for n in range(EACH)}
        self.reruns = 0

    def body(self, name: str) -> str:
        seconds = self.chosen.choice((0, 0, 0.05, 0.2, 0.5))
        return SCRIPT.format(root=self.machine.root, name=name, seconds=seconds, salt=self.chosen.randrange(1 << 60))

    def create(self) -> None:
        """All of them at once; some after others, so that chains are granted together."""
        items = [
            {
                "server": self.machine.name,
                "name": name,
                "policy": policy,
                "config": {"body": self.body(name)},
                "depends_on": [f"{self.machine.name}/{policy}-0"] if name.endswith("-1") else [],
            }
            for name, policy in self.names.items()
        ]
        self.lab.client.post("/v1/deployments", items)

    def disturb(self) -> None:
        """New generations, reruns of what failed or ended, and now and then the appliance is killed, too."""
        if self.chosen.random() < 0.1:
            self.lab.kill()
            self.lab.serve()
        for name in self.chosen.sample(sorted(self.names), self.chosen.randrange(0, 6)):
            ref = f"/v1/deployments/{self.machine.name}/{name}"
            if self.chosen.random() < 0.5:
                self.lab.client.patch(ref, {"config": {"body": self.body(name)}})
            else:
                self.lab.client.post(f"{ref}/rerun")
                self.reruns += 1

    def wait_a_little(self) -> None:
        """Some moment of any kind, or one just after a script's start."""
        if self.chosen.random() < 0.6:
            time.sleep(self.chosen.uniform(0, 0.6))
            return
        before, deadline = self.lines("start").total(), time.monotonic() + 0.8
        while self.lines("start").total() == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(self.chosen.uniform(0, 0.05))

    def boot(self) -> None:
        """A boot ends every process; then the boot id changes."""
        for pid in self.hooks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until("everything to be gone", lambda: not self.hooks())
        self.machine.boot()

    def hooks(self) -> list[int]:
        """Living processes that a run of this machine started."""
        found = []
        mark = os.fsencode(self.machine.state / "runs")
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def lines(self, kind: str) -> Counter[tuple[str, ...]]:
        """How often each (name, generation, boot) started, or ended."""
        file = self.machine.root / "lines"
        rows = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return Counter((row[1], row[2], row[3]) for row in rows if row[0] == kind)

    def open(self) -> list[str]:
        """Those that have not ended and do not wait for one that failed."""
        found = [self.lab.of(f"{self.machine.name}/{name}") for name in self.names]
        return [f"{one['name']}: {one['phase']}: {one['sentence']}" for one in found if one["settled"] is None]

    def check(self) -> None:
        """No generation ran twice (`per-boot`: twice in one boot), and no two scripts ran at once."""
        overlaps = self.machine.root / "overlaps"
        assert not overlaps.exists(), overlaps.read_text()
        starts: Counter[tuple[str, ...]] = Counter()
        for (name, generation, boot), number in self.lines("start").items():
            starts[(name, generation, boot) if self.names[name] == "per-boot" else (name, generation)] += number
        assert {key: number for key, number in starts.items() if number > 1} == {}


@pytest.mark.kill
@pytest.mark.timeout(1800)
def test_a_killed_agent_runs_nothing_twice_and_leaves_nothing_open(lab: Lab, kills: int, chosen: random.Random) -> None:
    scene = Scene(lab, lab.machine("m1"), chosen)
    machine = scene.machine
    scene.create()
    began = time.monotonic()
    interrupted = 0
    for number in range(kills):
        machine.start()
        scene.wait_a_little()
        scene.disturb()
        scene.wait_a_little()
        machine.kill()
        interrupted += bool(scene.hooks())
        if chosen.random() < 0.15:
            scene.boot()
        assert not (machine.root / "overlaps").exists(), f"after kill {number + 1}"
    machine.start()
    with contextlib.suppress(AssertionError):
        until("everything to be reported", lambda: not scene.open())
    assert scene.open() == []
    scene.check()
    for name, policy in reversed(scene.names.items()):
        found = lab.of(f"m1/{name}")
        if found["status"] == "FAILED":
            assert found["reason"] == "interrupted", found
            lab.client.post(f"/v1/deployments/m1/{name}/rerun")
        elif found["status"] == "IN_PROGRESS":
            assert [one["status"] for one in found["blocked_on"]] == ["FAILED"], found
        elif policy != "per-boot" and not found["held"]:
            generation = str(found["generation"]["number"])
            assert sum(n for (one, which, _), n in scene.lines("end").items() if (one, which) == (name, generation)) == 1
    for name in scene.names:
        lab.wait(f"m1/{name}")
    scene.check()
    for name in scene.names:
        for run in lab.client.get(f"/v1/deployments/m1/{name}/runs")["runs"]:
            assert run["stands"] in ("ended", "released"), run
    machine.stop()
    assert scene.hooks() == []
    starts, ends = (sum(scene.lines(kind).values()) for kind in ("start", "end"))
    took = time.monotonic() - began
    print(f"{kills} kills in {took:.0f} s; {interrupted} in the middle of a run; {starts} starts, {ends} ends, {scene.reruns} reruns")
