import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lab import Lab


@pytest.fixture
def kills() -> int:
    """How often to kill: $KILLS."""
    return int(os.environ.get("KILLS", "5"))


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> random.Random:
    """Random choices; $SEED repeats those of an earlier run (as far as the clock allows)."""
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    print(f"{request.node.name}: SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        made.serve()
        yield made
    finally:
        made.close()
