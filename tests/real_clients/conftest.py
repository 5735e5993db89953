from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lab import Lab
from .openstack import Client
from .stock import Agent


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    """An appliance that also takes requests without a credential."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    made.options = ["--heat-none"]
    try:
        made.serve()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def client(lab) -> Client:
    """OpenStack's client, set up by our own command."""
    return made_client(lab, lab.path / "home")


def made_client(lab: Lab, home: Path) -> Client:
    home.mkdir()
    text = ""
    for auth in ("admin_token", "password", "http_basic", "none"):
        found = lab.command("heat", "clouds-yaml", "--auth", auth, "--name", auth).stdout
        text += found if not text else found.partition("\n")[2]
    (home / "clouds.yaml").write_text(text)
    return Client(home, cloud="admin_token")


@pytest.fixture
def agents(lab) -> Iterator[list[Agent]]:
    """Stock agents to be ended after the test."""
    made: list[Agent] = []
    yield made
    for agent in made:
        agent.close()
