"""A lab of real processes in a directory of its own: one appliance, agents on make-believe machines, and a user who types commands.

Nothing of the account is read or written: settings, state and data of every process lie below the directory, and `close` leaves neither a
file nor a process behind.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.cli.common import INTERNAL, Failure
from appliance.client import Client, Profile, Unreachable

PATIENCE = 30.0
OWN = (sys.executable, "-m", "appliance")


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended: its exit code, and all it wrote."""

    code: int
    out: str
    err: str


class Scratch:
    """The lab. Use it as a context manager; with `keep` the directory stays."""

    def __init__(self, *, keep: bool = False) -> None:
        self.keep = keep
        self.directory = Path(tempfile.mkdtemp(prefix="appliance-demo-"))
        self._appliance: subprocess.Popen[bytes] | None = None
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._client: Client | None = None

    def __enter__(self) -> "Scratch":
        return self

    def __exit__(self, *_: object) -> None:
        before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            self.close()
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    # ------------------------------------------------------------------------------------------ the user

    def environment(self) -> dict[str, str]:
        """What a command sees: nothing of this account's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("APPLIANCE_", "XDG_", "HEAT_"))}
        return kept | {
            "APPLIANCE_CONFIG": str(self.directory / "client.toml"),
            "XDG_STATE_HOME": str(self.directory / "state"),
            "XDG_CONFIG_HOME": str(self.directory),
            "XDG_DATA_HOME": str(self.directory / "data"),
        }

    def command(self, *words: str, stdin: str = "") -> Done:
        """Run `appliance WORDS` to its end."""
        done = subprocess.run([*OWN, *words], env=self.environment(), cwd=self.directory, input=stdin, capture_output=True, text=True)
        return Done(done.returncode, done.stdout, done.stderr)

    @property
    def client(self) -> Client:
        """The appliance's API, for what is checked and not shown."""
        if self._client is None:
            text = (self.directory / "client.toml").read_text()
            values = dict(line.split(" = ", 1) for line in text.splitlines())
            self._client = Client(Profile(values["url"].strip('"'), values["token"].strip('"'), "client.toml"))
        return self._client

    # ------------------------------------------------------------------------------------------ the appliance

    def serve(self) -> str:
        """Start the appliance on a free port; its URL."""
        words = [*OWN, "serve", "--db", str(self.directory / "lab.db"), "--listen", "127.0.0.1:0"]
        self._appliance = self._start(words, {}, "appliance.log")
        self.until("the appliance to answer", self._answers)
        return self.client.profile.url

    def _answers(self) -> bool:
        if self._appliance is None or self._appliance.poll() is not None:
            raise Failure(f"the appliance did not start: {self.log('appliance.log')}", code=INTERNAL)
        try:
            return bool(self.client.get("/healthz"))
        except (Unreachable, OSError, KeyError, ValueError):
            self._client = None
            return False

    # ------------------------------------------------------------------------------------------ machines

    def root(self, name: str) -> Path:
        """Where a machine's files are."""
        return self.directory / "machines" / name

    def machine(self, name: str) -> None:
        """Make a machine: an identity, and a boot."""
        facts = {
            "etc/machine-id": uuid.uuid4().hex,
            "var/lib/cloud/data/instance-id": f"i-{name}",
            "proc/sys/kernel/random/boot_id": str(uuid.uuid4()),
            "proc/1/stat": "1 (init) S " + " ".join(["0"] * 18) + " 30 0 0",
        }
        for path, text in facts.items():
            file = self.root(name) / path
            file.parent.mkdir(parents=True)
            file.write_text(text + "\n")

    def agent_environment(self, name: str) -> dict[str, str]:
        """What makes an agent that of this machine."""
        root = self.root(name)
        return {
            "APPLIANCE_AGENT_STATE": str(root / "var/lib/appliance-agent"),
            "APPLIANCE_AGENT_ROOT": str(root),
            "APPLIANCE_AGENT_HOOKS": str(root / "hooks"),
            "APPLIANCE_AGENT_BACKOFF": "0.1:1",
            "EXAMPLE_ROOT": str(root),
        }

    def join(self, name: str, url: str, token: str) -> Done:
        """Join a machine to the appliance."""
        words = [*OWN, "agent", "join", url, "-"]
        environment = self.environment() | self.agent_environment(name)
        done = subprocess.run(words, env=environment, cwd=self.directory, input=token, capture_output=True, text=True)
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, name: str) -> int:
        """Start a machine's agent; its process id."""
        self._agents[name] = self._start([*OWN, "agent", "run"], self.agent_environment(name), f"{name}.log")
        return self._agents[name].pid

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a machine's agent and wait for its end."""
        process = self._agents.pop(name, None)
        if process is not None:
            _end(process, number)

    def log(self, name: str) -> str:
        """What a process wrote."""
        return (self.directory / name).read_text(errors="replace").strip()

    # ------------------------------------------------------------------------------------------ all of it

    def until(self, what: str, true: Callable[[], bool]) -> None:
        """Wait until `true` says so. Raises Failure after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                raise Failure(f"waited {PATIENCE:.0f} s for {what}", code=INTERNAL)
            time.sleep(0.02)

    def _start(self, words: list[str], more: dict[str, str], log: str) -> subprocess.Popen[bytes]:
        """A process that a Ctrl-C does not reach, since we end it ourselves."""
        with (self.directory / log).open("ab") as opened:
            return subprocess.Popen(
                words,
                env=self.environment() | more,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=opened,
                start_new_session=True,
            )

    def close(self) -> None:
        """End every process, then remove every file."""
        if self._client is not None:
            self._client.close()
        for process in self._agents.values():
            process.terminate()
        for name in list(self._agents):
            self.stop(name)
        if self._appliance is not None:
            _end(self._appliance, signal.SIGTERM)
        for pid in _strays(self.directory):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _strays(directory: Path) -> list[int]:
    """Processes that were started for this lab and outlived who started them: its path is in their environment."""
    found = []
    mark = os.fsencode(directory) + b"/"
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found
