"""What the agent says while it runs: one line on standard error, never a value of an input, never a token."""

from __future__ import annotations

import sys
import threading

_lock = threading.Lock()


def say(sentence: str) -> None:
    """Say one thing."""
    with _lock:
        sys.stderr.write(f"agent: {sentence}\n")
        sys.stderr.flush()
