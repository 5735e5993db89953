from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]
if str(TOP) not in sys.path:
    sys.path.insert(0, str(TOP))  # so that the tests run without an installation

from appliance.agent.__main__ import main  # noqa: E402 - see above

from .fake import Fake  # noqa: E402 - see above

PYTHON = os.environ.get("APPLIANCE_TEST_AGENT_PYTHON", sys.executable)  # to run the agent under an older Python


class Machine:
    """One managed machine: a state directory, a root with facts, and real agent processes."""

    def __init__(self, path: Path, fake: Fake) -> None:
        self.path, self.fake = path, fake
        self.state, self.root, self.log = path / "state", path / "root", path / "log"
        self.hooks = path / "hooks"
        self.hooks.mkdir(parents=True)
        self.processes: list[subprocess.Popen[bytes]] = []
        for name, text in (("etc/machine-id", uuid.uuid4().hex), ("var/lib/cloud/data/instance-id", "i-1")):
            file = self.root / name
            file.parent.mkdir(parents=True)
            file.write_text(text + "\n")
        self.reboot()

    def reboot(self) -> str:
        boot = str(uuid.uuid4())
        for name, text in (
            ("proc/sys/kernel/random/boot_id", boot),
            ("proc/1/stat", "1 (init) S " + " ".join(["0"] * 18) + " 30 0 0\n"),
        ):
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return f"{boot}.30"

    def env(self, **more: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("APPLIANCE_", "PYTHON"))},
            "PYTHONPATH": str(TOP),
            "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"agent-tests-{os.getuid()}"),
            "APPLIANCE_AGENT_STATE": str(self.state),
            "APPLIANCE_AGENT_ROOT": str(self.root),
            "APPLIANCE_AGENT_HOOKS": str(self.hooks),
            "APPLIANCE_AGENT_BACKOFF": "0.05:0.2",
            "APPLIANCE_AGENT_REQUEST": "5",
            "APPLIANCE_AGENT_WAIT": "5",
            "APPLIANCE_AGENT_GRACE": "0.3",
            **more,
        }

    def agent(self, *words: str, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """One command to its end: in this process, which is faster, unless the agent is to run under another Python."""
        if sys.executable == PYTHON:
            done = self._here(list(words), self.env(**env))
        else:
            done = subprocess.run(
                [PYTHON, "-m", "appliance.agent", *words],
                env=self.env(**env), capture_output=True, text=True, timeout=30, cwd=self.path,
            )  # fmt: skip
        assert check is None or done.returncode == check, done.stderr
        return done

    def _here(self, words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        os.environ.clear()
        os.environ.update(env)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = main(words)
                except SystemExit as error:
                    code = int(error.code or 0)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def join(self) -> None:
        self.agent("join", self.fake.url, "join-token")

    def one_pass(self, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        return self.agent("run", "--one-pass", check=check, **env)

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """`run` in the background."""
        with self.log.open("ab") as log:
            process = subprocess.Popen([PYTHON, "-m", "appliance.agent", "run"], env=self.env(**env), stderr=log, cwd=self.path)
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> int:
        process.send_signal(number)
        return process.wait(10)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.agent("status", "--json").stdout)
        return found

    def counter(self, name: str) -> str:
        """Shell text that adds a line to the file whose lines `count` counts."""
        return f"echo x >> {self.path}/count-{name}"

    def count(self, name: str) -> int:
        file = self.path / f"count-{name}"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def hook(self, name: str, text: str, mode: int = 0o755) -> None:
        (self.hooks / name).write_text(text)
        (self.hooks / name).chmod(mode)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    yield made
    made.stop()


@pytest.fixture
def unjoined(tmp_path: Path, fake: Fake) -> Iterator[Machine]:
    made = Machine(tmp_path, fake)
    yield made
    made.close()


@pytest.fixture
def machine(unjoined: Machine) -> Machine:
    unjoined.join()
    return unjoined
