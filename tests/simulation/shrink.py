"""Making a failing history shorter, by leaving events out as long as something of the same kind does not hold."""

import re

from .history import History, Playground
from .world import Event, Violation


def shrunk(place: Playground, history: History, violation: Violation, *, tries: int = 600) -> History:
    """The shortest history found that fails alike (delta debugging)."""
    wanted, events, left = _kind(violation), history.events, tries

    def fails(candidate: list[Event]) -> bool:
        nonlocal left
        left -= 1
        found = place.play(History(history.servers, candidate))
        return found is not None and _kind(found) == wanted

    size = max(1, len(events) // 2)
    while left > 0:
        at, shorter = 0, False
        while at < len(events) and left > 0:
            candidate = events[:at] + events[at + size :]
            if candidate and fails(candidate):
                events, shorter = candidate, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return History(history.servers, events)


def _kind(violation: Violation) -> str:
    """What was violated, whatever the names in it."""
    return re.sub(r"[0-9a-f-]{8,}|m\d+[./]\w+|\d+", "", str(violation))[:60]
