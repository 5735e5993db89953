"""The appliance as a process: what it refuses, how it ends, and the agent it hands out."""

import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from appliance.client import Refused, Unreachable

from ..lab import PATIENCE, Lab, Machine

OLDEST = (3, 9)


def oldest_python() -> str:
    """The oldest Python at hand that an agent runs on."""
    for minor in range(OLDEST[1], sys.version_info.minor):
        for found in sorted((Path.home() / ".pyenv/versions").glob(f"3.{minor}.*/bin/python3.{minor}")):
            return str(found)
    return sys.executable


def test_the_agent_it_hands_out_joins_and_runs_with_the_oldest_python(lab: Lab) -> None:
    lab.client.post("/v1/servers", {"name": "m1"})
    machine = lab.machines["m1"] = Machine(lab, "m1")
    with lab.client.receive("/agent.pyz") as answer:
        (machine.root / "agent.pyz").write_bytes(answer.read())
    machine.python = [oldest_python(), "-I", str(machine.root / "agent.pyz")]
    machine.join()
    lab.deploy(machine, "a", machine.script("a", "printf ok > $heat_outputs_path.x"), outputs=[{"name": "x"}])
    machine.one_pass()
    assert lab.of("m1/a")["status"] == "COMPLETE"
    assert lab.runs("m1/a")[0]["outputs"] == {"x": "ok"}
    machine.one_pass()
    assert machine.count("a") == 1


def refused(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    done = lab.command("serve", *words, check=None)
    assert done.returncode in (2, 6), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done


def test_it_refuses_a_port_that_is_taken(lab: Lab) -> None:
    done = refused(lab, "--db", "other.db", "--listen", f"127.0.0.1:{lab.port}")
    assert done.returncode == 6
    assert f"port {lab.port}" in done.stderr
    assert not (lab.path / "other.db").exists()


def test_it_refuses_a_file_that_is_served_and_says_by_whom_and_since_when(lab: Lab) -> None:
    done = refused(lab, "--db", "lab.db", "--listen", "127.0.0.1:0")
    assert done.returncode == 6
    assert lab.appliance is not None
    assert str(lab.appliance.pid) in done.stderr
    assert "since" in done.stderr
    assert lab.client.get("/healthz")["status"] == "ok"
    lab.kill()
    lab.serve()  # a killed one leaves no lock


def test_it_refuses_a_file_that_is_not_its_own_and_leaves_it_alone(lab: Lab) -> None:
    with contextlib.closing(sqlite3.connect(lab.path / "foreign.db")) as database:
        database.execute("CREATE TABLE theirs (x)")
        database.commit()
    (lab.path / "text.db").write_text("no database at all, but longer than a header of one\n" * 40)
    for name in ("foreign.db", "text.db"):
        before = (lab.path / name).read_bytes()
        refused(lab, "--db", name, "--listen", "127.0.0.1:0")
        assert (lab.path / name).read_bytes() == before
        assert not list(lab.path.glob(f"{name}.*"))


def test_it_refuses_a_file_of_a_newer_version(lab: Lab) -> None:
    assert lab.stop() == 0
    with lab.database() as database:
        database.execute("PRAGMA user_version = 9999")
    done = refused(lab, "--db", "lab.db", "--listen", "127.0.0.1:0")
    assert "newer" in done.stderr


def test_pro_01_it_ends_at_once_with_fifty_long_polls_waiting(lab: Lab) -> None:
    lab.client.post("/v1/servers", {"name": "m1"})
    lab.deploy("m1", "a", "#!/bin/sh\n")
    answers: list[str] = []
    asked = threading.Semaphore(0)

    def ask() -> None:
        client = lab.connect()
        client.get("/healthz")
        connection = client._connect(None)
        send = connection.request

        def sending(*request: Any) -> None:
            send(*request)
            asked.release()

        connection.request = sending  # type: ignore[assignment]
        try:
            answers.append(client.get("/v1/deployments/m1/a", wait=60)["status"])
        except (Refused, Unreachable) as error:
            answers.append(type(error).__name__)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    assert all(asked.acquire(timeout=PATIENCE) for _ in range(50))
    for _ in range(3):  # by then the appliance has read what was sent before
        lab.client.get("/healthz")
    began = time.monotonic()
    assert lab.appliance is not None
    assert lab.appliance.end(seconds=5) == 0
    assert time.monotonic() - began < 5
    for thread in threads:
        thread.join(10)
    assert len(answers) == 50
    assert set(answers) <= {"IN_PROGRESS", "Refused"}
    assert "Traceback" not in (lab.path / "appliance.log").read_text()
