"""A real appliance on a real port, in a thread, and the command line in this process or as one of its own."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from appliance import server
from appliance.cli.main import main
from appliance.store import tokens
from appliance.store.database import Database
from appliance.web.context import Context, Settings

from ..samples import KEY


@contextmanager
def served(database: Database, settings: Settings | None = None) -> Iterator[str]:
    """Serve an open file; the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    appliance = Context(database, KEY, 1, "e", settings or Settings(url=url, hosts=frozenset({"127.0.0.1"})))
    for role in ("admin", "operator", "viewer"):
        database.write(tokens.add, f"{role}-secret", role, role)
    running = uvicorn.Server(uvicorn.Config(server.build(appliance), log_config=None, access_log=False))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield url
    finally:
        running.should_exit = True
        thread.join()


class Shell:
    """The command line of one user: an environment and a directory of their own."""

    def __init__(self, root: Path, url: str, capsys, monkeypatch, role: str = "admin") -> None:
        self.root = root
        self.environment = {
            "APPLIANCE_URL": url,
            "APPLIANCE_TOKEN": f"{role}-secret",
            "XDG_STATE_HOME": str(root / "state"),
            "APPLIANCE_CONFIG": str(root / "none.toml"),
        }
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def run(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
        """Run in this process: exit code, standard output, standard error."""
        with self._monkeypatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.chdir(cwd or self.root)
            self._capsys.readouterr()
            try:
                code = main(list(arguments))
            except SystemExit as error:
                code = int(error.code or 0)
        out, err = self._capsys.readouterr()
        return code, out, err

    def ok(self, *arguments: str, cwd: Path | None = None) -> tuple[str, str]:
        """Run what must succeed: standard output, standard error."""
        code, out, err = self.run(*arguments, cwd=cwd)
        assert code == 0, err
        return out, err

    def fails(self, code: int, *arguments: str, cwd: Path | None = None) -> str:
        """Run what must end with `code`: its last line of standard error, which is the one that says why."""
        found, _, err = self.run(*arguments, cwd=cwd)
        assert found == code, err
        assert "Traceback" not in err
        return err.splitlines()[-1]

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen]:
        """A command as a process of its own, which does not outlive the block."""
        process = subprocess.Popen(
            [sys.executable, "-m", "appliance", *arguments],
            env={**os.environ, **self.environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
