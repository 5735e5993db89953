"""The environment a script or hook gets, and inputs as text. Values in, values out."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Iterable, Mapping

from . import procfs
from .capture import clean

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OURS = ("APPLIANCE_",)
_SUPERVISOR = frozenset(
    (
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "LISTEN_FDNAMES",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "CREDENTIALS_DIRECTORY",
        "OS_CONFIG_FILES",
    )
)
_RISKY = re.compile(r"LD_.*|PATH|IFS|BASH_ENV|BASH_FUNC_.*|PYTHON.*|APPLIANCE_.*|heat_outputs_path", re.DOTALL)
_NEVER = re.compile(r"APPLIANCE_.*|heat_outputs_path", re.DOTALL)


def base(environ: Mapping[str, str], run: str, *, hook: bool) -> dict[str, str]:
    """The agent's environment without what is its own, with the run's mark. Hooks keep the admin's HEAT_ settings."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OURS) and name not in _SUPERVISOR and (hook or not name.startswith("HEAT_"))
    }
    kept.setdefault("PATH", PATH)
    kept[procfs.MARK] = run
    return kept


def with_inputs(env: dict[str, str], inputs: Iterable[Mapping[str, Any]], allowed: object) -> tuple[dict[str, str], list[str]]:
    """`env` with every input under its own name, and the names left out.

    Left out is what would change how the script itself is run (`LD_*`, `PATH`, ...) unless the config's options allow
    it by name, and what no environment can carry. A null input unsets its name.
    """
    permitted = set(allowed) if isinstance(allowed, list) else set()
    result, dropped = dict(env), []
    for entry in inputs:
        name, value = str(entry.get("name") or ""), text(entry.get("value", ""))
        risky = _NEVER.fullmatch(name) or (_RISKY.fullmatch(name) and name not in permitted)
        if risky or not name or "=" in name or "\0" in name + (value or "") or clean(name) != name:
            dropped.append(name)
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = clean(value)
    return result, dropped


def text(value: Any) -> str | None:
    """An input as text: strings as they are, `true`/`false`, decimal numbers, lists and objects as JSON, null None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        written = repr(value)
        return format(Decimal(written), "f") if "e" in written else written
    return json.dumps(value)


def for_hook(inputs: Iterable[Mapping[str, Any]], group: str) -> list[dict[str, Any]]:
    """Inputs as a hook gets them: type String is text, as heat-agents do; for a `script` hook all scalars are."""
    found = []
    for entry in inputs:
        value = entry.get("value", "")
        scalar = not isinstance(value, (list, dict))
        if entry.get("type", "String") == "String" or (group == "script" and scalar):
            value = text(value) or ""
        found.append({**entry, "value": value})
    return found
