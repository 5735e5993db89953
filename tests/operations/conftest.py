"""A site for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .site import Machine, Site, new_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield from new_site(tmp_path)


@pytest.fixture
def m(site: Site) -> Machine:
    """A machine called `m` that has joined."""
    return site.machine("m")
