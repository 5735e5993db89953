"""The command line of a user, before a serving process with real agents (`cli`), or before an empty one of its own (`shell`)."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ..lab import Lab, Machine, until
from .serving import Shell, served

HELLO = "#!/bin/sh\necho hello $who\n"


class Cli(Shell):
    """The user of a lab, in the lab's own directory or one below it."""

    def __init__(self, lab: Lab, root: Path, capsys, monkeypatch) -> None:
        super().__init__(root, lab.url, capsys, monkeypatch)
        self.lab = lab
        self.environment = {"APPLIANCE_CONFIG": str(lab.path / "client.toml"), "XDG_STATE_HOME": str(root / "state")}

    def json(self, *arguments: str) -> Any:
        """The JSON a command that must succeed prints; it says nothing beside it."""
        out, err = self.ok(*arguments, "--json")
        assert err == ""
        return json.loads(out)

    @contextmanager
    def waiting(self, ref: str, *more: str) -> Iterator[subprocess.Popen]:
        """`appliance wait` as a process of its own, once it was told where the deployment stands."""
        asked = f"GET /v1/deployments/{ref} 200 "
        log = self.lab.path / "appliance.log"
        before = log.read_text().count(asked)
        with self.started("wait", ref, *more) as process:
            until("the command to have asked", lambda: log.read_text().count(asked) > before or process.poll() is not None)
            assert process.poll() is None
            yield process

    def file(self, name: str, text: str | bytes = HELLO) -> str:
        """A file in the user's directory; its name."""
        path = self.root / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name


@pytest.fixture(scope="session")
def serving(tmp_path_factory) -> Iterator[Lab]:
    """One appliance for all tests of the command line that have servers of their own in it."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    lab.options = ["--access-log"]
    lab.serve()
    yield lab
    lab.close()


_numbers = count(1)


@pytest.fixture
def name() -> str:
    """A server's name that no other test has."""
    return f"s{next(_numbers)}"


@pytest.fixture
def cli(serving, tmp_path, capsys, monkeypatch) -> Cli:
    return Cli(serving, tmp_path, capsys, monkeypatch)


@pytest.fixture
def machine(serving, name) -> Machine:
    """A machine that joined."""
    return serving.machine(name)


@pytest.fixture
def own(tmp_path) -> Iterator[Lab]:
    """An appliance of this test's own, which it may stop."""
    lab = Lab(tmp_path)
    lab.options = ["--access-log"]
    lab.serve()
    yield lab
    lab.close()


@pytest.fixture
def shell(database, tmp_path, capsys, monkeypatch) -> Iterator[Shell]:
    """The admin of an appliance with nothing in it."""
    with served(database) as url:
        yield Shell(tmp_path, url, capsys, monkeypatch)
