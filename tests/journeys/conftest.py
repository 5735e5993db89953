from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lab import Lab, Machine


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        made.serve()
        yield made
    finally:
        made.close()


@pytest.fixture
def machine(lab: Lab) -> Machine:
    """A machine that joined; its agent is not started."""
    return lab.machine("m1")
