"""The unmodified os-collect-config, os-refresh-config, os-apply-config and heat-agents against a running appliance."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..conftest import shared_directory
from ..lab import Lab
from .tools import alone, once


class StockMachine:
    """A server marked stock, and what runs its agent once."""

    def __init__(self, lab: Lab, name: str) -> None:
        added = lab.client.post("/v1/servers", {"name": name, "stock": True})
        assert added["metadata_url"].startswith(lab.url)
        self.lab, self.name = lab, name
        self.path = added["metadata_url"].removeprefix(lab.url)
        self.id = f"test-{uuid.uuid4().hex[:12]}"
        self.counts = lab.path / "counts"

    def polls(self) -> None:
        """One poll, and whatever comes of it."""
        shared = shared_directory()
        assert shared is not None
        with alone("real-agent") as where, once(where):
            env = {name: value for name, value in os.environ.items() if not name.startswith(("HEAT_", "OS_", "APPLIANCE_"))}
            settings = {"AGENT_ROOT": str(where), "AGENT_ID": self.id, "METADATA_PATH": self.path, "SELF_CONFIG": "1"}
            done = subprocess.run(
                ["bash", shared / "tools/run-real-agent.sh", self.lab.url],
                env=env | settings, capture_output=True, text=True, timeout=900,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr + self._log(where)

    def _log(self, where: Path) -> str:
        log = where / "agents" / self.id / "log/agent.log"
        return log.read_text() if log.exists() else ""

    def script(self, name: str, text: str = "") -> str:
        return f"#!/bin/sh\necho {name} >> {self.counts}\n{text}\n"

    def count(self) -> dict[str, int]:
        names = self.counts.read_text().split() if self.counts.exists() else []
        return {name: names.count(name) for name in sorted(set(names))}

    def document(self) -> Any:
        with self.lab.client.receive(self.path) as answer:
            return json.loads(answer.read())

    def close(self) -> None:
        with alone("real-agent") as where:
            shutil.rmtree(where / "agents" / self.id, ignore_errors=True)


@pytest.fixture
def machine(lab: Lab) -> Iterator[StockMachine]:
    made = StockMachine(lab, "stock-1")
    yield made
    made.close()


@pytest.mark.real_peer
@pytest.mark.timeout(1800)  # the first use fetches them
def test_stock_agents_run_what_they_must_once_and_report_it(lab: Lab, machine: StockMachine) -> None:
    lab.deploy("stock-1", "a", machine.script("a", 'echo "hello $who"; printf ok > "$heat_outputs_path.result"'),
               outputs=[{"name": "result"}], inputs={"who": "world"})  # fmt: skip
    lab.deploy("stock-1", "b", machine.script("b", "echo wrong >&2; exit 3"))
    machine.polls()
    assert machine.count() == {"a": 1, "b": 1}
    found = lab.of("stock-1/a"), lab.of("stock-1/b")
    assert [(one["status"], one["reason"]) for one in found] == [("COMPLETE", None), ("FAILED", "exit")]
    (a,), (b,) = lab.runs("stock-1/a"), lab.runs("stock-1/b")
    assert (a["stdout"], a["outputs"], a["status_code"]) == ("hello world\n", {"result": "ok"}, 0)
    assert (b["stderr"], b["status_code"]) == ("wrong\n", 3)

    lab.deploy("stock-1", "c", machine.script("c"))  # a neighbour
    machine.polls()
    assert machine.count() == {"a": 1, "b": 1, "c": 1}
    assert lab.of("stock-1/c")["status"] == "COMPLETE"

    lab.client.post("/v1/deployments/stock-1/a/rerun")
    machine.polls()
    assert machine.count() == {"a": 2, "b": 1, "c": 1}
    assert lab.of("stock-1/a")["status"] == "COMPLETE"
    first, second = lab.runs("stock-1/a")
    assert first["id"] != second["id"]

    machine.polls()
    assert machine.count() == {"a": 2, "b": 1, "c": 1}


@pytest.mark.real_peer
@pytest.mark.timeout(1800)
def test_what_is_blocked_is_withheld_from_stock_agents_until_its_dependency_is_complete(lab: Lab, machine: StockMachine) -> None:
    lab.deploy("stock-1", "z-first", machine.script("first"))
    lab.deploy("stock-1", "a-second", machine.script("second"), depends_on=["stock-1/z-first"])
    assert [item["name"] for item in machine.document()["deployments"]] == ["z-first"]
    assert lab.of("stock-1/a-second")["phase"] == "blocked"
    machine.polls()
    assert machine.count() == {"first": 1}
    machine.polls()
    assert machine.count() == {"first": 1, "second": 1}
    assert [lab.of(f"stock-1/{name}")["status"] for name in ("z-first", "a-second")] == ["COMPLETE", "COMPLETE"]
    machine.polls()
    assert machine.count() == {"first": 1, "second": 1}
