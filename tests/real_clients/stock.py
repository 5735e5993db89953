"""The real os-collect-config with the real heat-agents, as the shared runner installs and redirects them."""

import os
import signal
import subprocess
from pathlib import Path

from ..samples import shared
from .openstack import alone, cache


class Agent:
    """One machine with stock agents. Its state lies below the runner's directory, and goes with it."""

    def __init__(self, url: str, metadata_url: str, name: str) -> None:
        self.root = cache() / "stock-agents"
        self.state = self.root / "agents" / name
        self.url, self.path, self.name = url, metadata_url.removeprefix(url), name
        self.runner = shared() / "tools" / "run-real-agent.sh"
        self.more: dict[str, str] = {}
        self._loop: subprocess.Popen[bytes] | None = None
        with alone(self.root):  # the first one installs
            self.run(MODE="print", METADATA_PATH="/healthz")

    def env(self, **settings: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "HEAT_", "APPLIANCE_"))}
        fixed = {"AGENT_ROOT": str(self.root), "AGENT_ID": self.name, "METADATA_PATH": self.path, "VIA": "direct", "POLL": "1"}
        return kept | fixed | {"no_proxy": "127.0.0.1"} | self.more | settings

    def run(self, *words: str, **settings: str) -> str:
        """One poll, and what it leads to."""
        extra = ["--", *words] if words else []
        done = subprocess.run([str(self.runner), self.url, *extra], env=self.env(**settings), capture_output=True, text=True, timeout=400)
        log = self.state / "log" / "agent.log"
        assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")
        return done.stdout

    def start(self) -> None:
        """Poll in the background, in a process group of its own."""
        with (self.state / "loop.log").open("ab") as log:
            words, env = [str(self.runner), self.url], self.env(MODE="loop")
            self._loop = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> None:
        if self._loop is not None and self._loop.poll() is None:
            os.killpg(self._loop.pid, signal.SIGKILL)
            self._loop.wait()

    def close(self) -> None:
        self.stop()
        subprocess.run(["rm", "-rf", str(self.state)], check=True)


def configure(agent: Agent, text: str) -> None:
    """Put a whole os-collect-config.conf in place, and the real template that rewrites it from the document."""
    where = agent.state / "etc" / "os-collect-config.conf"
    Path(where).write_text(text)
    agent.more["SELF_CONFIG"] = "1"
