import pytest

from .edge import Edge


@pytest.fixture
def edge(application) -> Edge:
    """The Heat edge of a new file."""
    return Edge(application)
