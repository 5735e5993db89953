"""What makes a run necessary, as keyed digests, and what of it changed. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from appliance.config import Statement
from appliance.keys import Key


def body_digest(body: Any) -> bytes:
    """Digest of a body: of its bytes when it is text, so that moving a script into a plan changes nothing; else of its JSON."""
    raw = body.encode() if isinstance(body, str) else b"json\0" + msgspec.json.encode(body, order="deterministic")
    return hashlib.sha256(raw).digest()


def parts_of(
    key: Key,
    statement: Statement,
    body: bytes,
    values: dict[str, Any],
    followed: dict[str, str | None] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> dict[str, str]:
    """Keyed digests by part: `group`, `body`, `options`, `input:NAME` of each triggering value, `follow:ID`, `files:PLAN/PREFIX`.

    `body` is the digest of the body or of the plan file that is the body; `values` are `config.triggering(...)`; `files` are digests of
    subtrees by where they come from.
    """
    parts = {
        "group": _digest(key, "group", statement.group),
        "body": key.fingerprint(b"body", body)[:16].hex(),
        "options": _digest(key, "options", statement.options),
    }
    parts |= {f"files:{name}": key.fingerprint(b"files", digest)[:16].hex() for name, digest in (files or {}).items()}
    parts |= {f"input:{name}": _digest(key, "input", [name, value]) for name, value in values.items()}
    return parts | {f"follow:{id}": _digest(key, "follow", generation) for id, generation in (followed or {}).items()}


def _digest(key: Key, kind: str, value: Any) -> str:
    return key.fingerprint(kind.encode(), msgspec.json.encode(value, order="deterministic"))[:16].hex()


def whole(key: Key, parts: dict[str, str]) -> bytes:
    """The fingerprint, 32 bytes."""
    return key.fingerprint(msgspec.json.encode(parts, order="deterministic"))


def changed_parts(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Names of the parts that differ, sorted."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def describe(before: dict[str, str], after: dict[str, str], statement: Statement) -> str:
    """What differs, as one phrase for people: `script changed, input who added`."""
    body = (
        f"file {statement.source.plan}:{statement.source.path}"
        if statement.source
        else statement.group
        if statement.group == "script"
        else "body"
    )
    texts = []
    for name in changed_parts(before, after):
        if name.startswith("follow:"):
            texts.append("what it follows changed")
            continue
        word = body if name == "body" else name.replace(":", " ", 1) if name.startswith(("input:", "files:")) else name
        texts.append(f"{word} {'added' if name not in before else 'removed' if name not in after else 'changed'}")
    return ", ".join(dict.fromkeys(texts))
