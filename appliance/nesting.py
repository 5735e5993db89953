"""How deep JSON may be nested: what is deeper cannot be encoded again everywhere. Pure."""

from typing import Any

DEPTH = 100


def too_deep(value: Any, depth: int = DEPTH) -> bool:
    """Whether `value` has lists or objects inside each other more than `depth` deep."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def shallow(value: Any) -> Any:
    """`value`, or a text that says that it is left out because it is too deep."""
    return f"(left out: nested more than {DEPTH} deep)" if too_deep(value) else value
