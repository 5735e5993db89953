"""A lab of real processes for tests: one appliance, machines with agents, scripts that count themselves."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from appliance.client import Client, Profile, Unreachable

TOP = Path(__file__).resolve().parents[1]
PATIENCE = 60.0


def until(what: str, true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until `true` returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while True:
        found = true()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.01)


class Process:
    """A process whose output goes to a file."""

    def __init__(self, words: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as opened:
            self._process = subprocess.Popen(words, env=env, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=opened, stderr=opened)
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self, number: int = signal.SIGTERM, seconds: float = 20) -> int:
        """Send a signal and wait for the end; the exit code (negative: a signal)."""
        if self.alive:
            self._process.send_signal(number)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"no end {seconds} s after signal {number}:\n{self.log.read_text()}") from None


class Machine:
    """One managed machine: its own root with facts, its own state, and its agent."""

    def __init__(self, lab: "Lab", name: str) -> None:
        self.lab, self.name = lab, name
        self.root = lab.path / name
        self.state = self.root / "var/lib/appliance-agent"
        self.hooks = self.root / "hooks"
        self.hooks.mkdir(parents=True)
        self.agent: Process | None = None
        self._before = 0
        self.python = [sys.executable, "-m", "appliance", "agent"]
        self.more: dict[str, str] = {}
        self._fact("etc/machine-id", uuid.uuid4().hex)
        self._fact("var/lib/cloud/data/instance-id", f"i-{name}")
        self.boot()

    def _fact(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def boot(self) -> None:
        """What a boot changes: the kernel's boot id, the start of process 1, and /run is empty."""
        self._fact("proc/sys/kernel/random/boot_id", str(uuid.uuid4()))
        self._fact("proc/1/stat", "1 (init) S " + " ".join(["0"] * 18) + " 30 0 0")
        run = self.root / "run"
        subprocess.run(["rm", "-rf", str(run)], check=True)
        run.mkdir()

    def env(self) -> dict[str, str]:
        return self.lab.env() | {
            "APPLIANCE_AGENT_STATE": str(self.state),
            "APPLIANCE_AGENT_ROOT": str(self.root),
            "APPLIANCE_AGENT_HOOKS": str(self.hooks),
            "APPLIANCE_AGENT_BACKOFF": "0.05:0.3",
            "APPLIANCE_AGENT_GRACE": "0.3",
            **self.more,
        }

    def run(self, *words: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        """One command of the agent, to its end."""
        done = subprocess.run([*self.python, *words], env=self.env(), cwd=self.root, capture_output=True, text=True, timeout=PATIENCE)
        assert check is None or done.returncode == check, done.stderr
        return done

    def join(self) -> "Machine":
        token = self.lab.client.post(f"/v1/servers/{self.name}/token")["join_token"]
        self.run("join", self.lab.url, token)
        return self

    def start(self) -> Process:
        self._before = self._contacts()
        self.agent = Process([*self.python, "run"], self.env(), self.lab.path / f"{self.name}.log")
        return self.agent

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.agent is not None
        return self.agent.end(number)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def one_pass(self, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.run("run", "--one-pass", check=check)

    def counting(self, name: str) -> str:
        """Shell text that adds a line to what `count` counts."""
        return f"echo {name} >> {self.root}/counts"

    def count(self, name: str) -> int:
        file = self.root / "counts"
        return file.read_text().split().count(name) if file.exists() else 0

    def script(self, name: str, text: str = "") -> str:
        """A script that counts itself."""
        return f"#!/bin/sh\n{self.counting(name)}\n{text}\n"

    def in_contact(self) -> None:
        """Wait until the agent that was started last has its document."""
        until(f"{self.name} to be in contact", lambda: self._contacts() > self._before)

    def polled(self) -> None:
        """Wait until the agent was seen once more."""
        before = self.lab.client.get(f"/v1/servers/{self.name}")["seen_at"]
        until(f"{self.name} to be seen", lambda: self.lab.client.get(f"/v1/servers/{self.name}")["seen_at"] != before)

    def _contacts(self) -> int:
        log = self.lab.path / f"{self.name}.log"
        return log.read_text().count("in contact with") if log.exists() else 0

    def ended(self, runs: int) -> None:
        """Wait until the agent's own log says that so many runs ended."""
        log = self.lab.path / f"{self.name}.log"
        until(f"{runs} runs", lambda: log.exists() and sum(log.read_text().count(f" {word} (") for word in ("COMPLETE", "FAILED")) >= runs)


class Lab:
    """The appliance and its machines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = path / "lab.db"
        self.appliance: Process | None = None
        self.machines: dict[str, Machine] = {}
        self.port = 0
        self.options: list[str] = []
        self.url = ""
        self._clients: list[Client] = []
        self._client: Client | None = None

    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("APPLIANCE_", "XDG_", "HEAT_"))}
        return kept | {
            "APPLIANCE_CONFIG": str(self.path / "client.toml"),
            "XDG_STATE_HOME": str(self.path / "state"),
            "XDG_DATA_HOME": str(self.path / "data"),
        }

    def command(self, *words: str, check: int | None = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        """One command of the command line, to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "appliance", *words],
            env=self.env(), cwd=self.path, capture_output=True, text=True, timeout=PATIENCE, **more,
        )  # fmt: skip
        assert check is None or done.returncode == check, done.stderr
        return done

    def begin(self, *words: str) -> Process:
        """A command of the command line, in the background."""
        return Process([sys.executable, "-m", "appliance", *words], self.env(), self.path / "command.log")

    # ------------------------------------------------------------------------------------------ the appliance

    def serve(self) -> None:
        """Start the appliance, at its first start on a free port, which it keeps."""
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as found:
                self.port = found.getsockname()[1]
            self.url = f"http://127.0.0.1:{self.port}"
        words = ["serve", "--db", str(self.db), "--listen", f"127.0.0.1:{self.port}", *self.options]
        self.appliance = Process([sys.executable, "-m", "appliance", *words], self.env(), self.path / "appliance.log")
        until("the appliance to answer", self._answers)

    def _answers(self) -> bool:
        assert self.appliance is not None
        assert self.appliance.alive, (self.path / "appliance.log").read_text()
        try:
            with closing(Client(Profile(self.url, "", ""), timeout=5)) as client:
                return bool(client.get("/healthz"))
        except Unreachable:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.appliance is not None
        if self._client is not None:
            self._client.close()
        return self.appliance.end(number)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def connect(self, timeout: float = 70) -> Client:
        """One more client with the admin's token."""
        text = (self.path / "client.toml").read_text()
        token = text.partition('token = "')[2].partition('"')[0]
        client = Client(Profile(self.url, token, "the test"), timeout=timeout)
        self._clients.append(client)
        return client

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self.connect()
        return self._client

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The file itself, while nothing serves it."""
        with closing(sqlite3.connect(self.db)) as connection:
            yield connection
            connection.commit()

    # ------------------------------------------------------------------------------------------ what is in it

    def machine(self, name: str = "m1") -> Machine:
        """A server with a machine that joined it."""
        self.client.post("/v1/servers", {"name": name})
        made = self.machines[name] = Machine(self, name)
        return made.join()

    def deploy(self, machine: Machine | str, name: str, text: str, **fields: Any) -> dict[str, Any]:
        """Create a deployment of a script."""
        server = machine if isinstance(machine, str) else machine.name
        config: dict[str, Any] = {"body": text}
        for part in ("outputs", "inputs_declared", "group", "options"):
            if part in fields:
                config[part.removesuffix("_declared")] = fields.pop(part)
        found: dict[str, Any] = self.client.post("/v1/deployments", {"server": server, "name": name, "config": config, **fields})
        return found

    def of(self, ref: str) -> dict[str, Any]:
        """A deployment as it stands."""
        found: dict[str, Any] = self.client.get(f"/v1/deployments/{ref}")
        return found

    def wait(self, ref: str, status: str = "COMPLETE") -> dict[str, Any]:
        """Wait until a deployment has a status, at its current generation."""
        found: dict[str, Any] = until(f"{ref} to be {status}", lambda: found if (found := self.of(ref))["status"] == status else None)
        return found

    def runs(self, ref: str) -> list[dict[str, Any]]:
        """The runs of a deployment, the oldest first, with their output."""
        found = self.client.get(f"/v1/deployments/{ref}/runs")["runs"]
        return [self.client.get(f"/v1/runs/{run['id']}") for run in reversed(found)]

    def close(self) -> None:
        for machine in self.machines.values():
            if machine.agent is not None:
                machine.agent.end()
        for client in self._clients:
            client.close()
        if self.appliance is not None:
            self.appliance.end(signal.SIGKILL)
