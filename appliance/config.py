"""Configs as values: what they declare, how inputs are typed, and what of them makes a run necessary.

Input types and their coercions are Heat's (String, Number, CommaDelimitedList, Json, Boolean). Pure.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from appliance.errors import Invalid
from appliance.names import check_input, check_word
from appliance.plan import path_problem

InputType = Literal["String", "Number", "CommaDelimitedList", "Json", "Boolean"]

BODY_BYTES = 1 << 20
INPUTS_BYTES = 1 << 20
POLICY_INPUT = "deployment_run_policy"
RESERVED = "deploy_"
CHECKOUT = "plan"  # the group whose configs keep a directory at the current version
KEEP = 3
KEEP_MOST = 100
FILES = 20


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A declared input. One without a default is required. `triggers`: a change of its value makes a new generation."""

    name: str
    type: InputType = "String"
    default: Any = msgspec.UNSET
    description: str | None = None
    triggers: bool = True
    replace_on_change: bool = False
    value: Any = msgspec.UNSET  # Heat's derived configs carry their values in the declaration


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A declared output. One that is reported at all and is flagged `error_output` makes the run FAILED (Heat's rule)."""

    name: str
    type: str = "String"
    description: str | None = None
    error_output: bool = False


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of a plan to be placed beside a config: all below the directory `prefix`, by their paths from there."""

    plan: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.plan}/{self.prefix}" if self.prefix else self.plan


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan's file whose text is a config's body."""

    plan: str
    path: str


class Statement(msgspec.Struct, frozen=True):
    """What a config says, whoever wrote it: immutable, and equal when everything in it is equal."""

    name: str | None
    group: str | None
    body: Any
    source: PlanFile | None
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    options: dict[str, Any] = {}
    files: tuple[Files, ...] = ()


def files_of(given: Iterable[Files]) -> tuple[Files, ...]:
    """Files as a statement holds them: each prefix without slashes at its ends, sorted. Raises Invalid."""
    found = sorted({Files(one.plan, one.prefix.strip("/")) for one in given}, key=lambda one: (one.plan, one.prefix))
    for one in found:
        wrong = path_problem(one.prefix) if one.prefix else None
        if wrong:
            raise Invalid(f"files {one.plan}/{one.prefix[:200]}: {wrong}")
    if len(found) > FILES:
        raise Invalid(f"{len(found)} directories of files are over the limit of {FILES} for one config")
    return tuple(found)


def check(statement: Statement) -> None:
    """Refuse what could never run. Raises Invalid naming the part."""
    if statement.group is not None:
        check_word("group", statement.group)
    for kind, names in (("input", [one.name for one in statement.inputs]), ("output", [one.name for one in statement.outputs])):
        for name in names:
            check_input(name) if kind == "input" else check_word(kind, name)
            if names.count(name) > 1:
                raise Invalid(f"{kind} {name!r} is declared twice")
    for declared in statement.inputs:
        for value in (declared.default, declared.value):
            if value is not msgspec.UNSET:
                typed(declared, value)
    if len(msgspec.json.encode(statement.body)) > BODY_BYTES:
        raise Invalid(f"the config's body is over the limit of {BODY_BYTES} bytes", hint="put large files into a plan")
    if statement.group == CHECKOUT:
        check_checkout(statement)
    elif statement.source is None:
        check_body(statement.group, statement.body, "the config")


class Checkout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of a config of group `plan`: keep the config's files at `path`, and the last `keep` versions of them beside it."""

    path: str
    keep: int = KEEP


def check_checkout(statement: Statement) -> None:
    """Refuse a checkout that no machine could keep. Raises Invalid."""
    if statement.source is not None or len(statement.files) != 1:
        raise Invalid("a config of group 'plan' has 'files' of one plan, and a body that says where", hint=_CHECKOUT_HINT)
    try:
        wanted = msgspec.convert(statement.body, Checkout)
    except msgspec.ValidationError as error:
        raise Invalid(f"the body of a config of group 'plan' does not fit: {error}", hint=_CHECKOUT_HINT) from None
    parts = wanted.path.split("/")
    if wanted.path[:1] != "/" or len(parts) < 3 or path_problem(wanted.path[1:]):
        raise Invalid(
            f"{wanted.path[:200]!r} is no directory to keep files in", hint="an absolute path, two levels deep or more, like /srv/lab"
        )
    if not 1 <= wanted.keep <= KEEP_MOST:
        raise Invalid(f"to keep {wanted.keep} versions is out of range", hint=f"use 1 to {KEEP_MOST}")


_CHECKOUT_HINT = 'for example {"group": "plan", "files": [{"plan": "lab"}], "body": {"path": "/srv/lab", "keep": 3}}'


def check_body(group: str | None, body: Any, where: str) -> None:
    """Refuse a script that no machine can start: no `#!` line, or DOS line ends in it. Raises Invalid quoting line 1."""
    if group != "script":
        return
    if not isinstance(body, str) or not body:
        raise Invalid(f"{where} is for the hook 'script', but its body is {'empty' if body in ('', None) else 'not text'}")
    first = body.partition("\n")[0]
    if "\0" in body:
        raise Invalid(f"{where} has a NUL byte, so it is no script")
    if first.endswith("\r"):
        raise Invalid(f"line 1 of {where} ends in CR LF: {first[:80]!r}", hint="save it with LF line ends; machines cannot start it so")
    if not first.startswith("#!"):
        raise Invalid(f"line 1 of {where} is not a '#!' line: {first[:80]!r}", hint="begin the script with '#!/bin/sh' or the like")


def typed(declared: Input, value: Any, *, secret: bool = False) -> Any:
    """`value` as its declared type, by Heat's coercions. Raises Invalid, which does not show a value that is `secret`."""
    shown = "the secret given" if secret else _short(value)
    if value is None:
        return None
    match declared.type:
        case "String" if isinstance(value, str):
            return value
        case "String" if isinstance(value, bool):
            return "true" if value else "false"
        case "String" if isinstance(value, int | float):
            return str(value)
        case "String":
            return json.dumps(value, ensure_ascii=False)
        case "Number" if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        case "Number" if isinstance(value, str):
            return _number(declared.name, value, shown)
        case "Boolean" if isinstance(value, bool):
            return value
        case "Boolean" if str(value).lower() in _BOOLEANS:
            return _BOOLEANS[str(value).lower()]
        case "CommaDelimitedList" if isinstance(value, list):
            return [one if isinstance(one, str) else json.dumps(one) for one in value]
        case "CommaDelimitedList" if isinstance(value, str):
            return [one.strip() for one in value.split(",")] if value else []
        case "Json" if isinstance(value, dict | list):
            return value
        case "Json" if isinstance(value, str):
            return _json(declared.name, value, shown)
    raise Invalid(f"input {declared.name!r} is of type {declared.type}, and {shown} is not")


_BOOLEANS = {"t": True, "true": True, "on": True, "y": True, "yes": True, "1": True} | {
    "f": False,
    "false": False,
    "off": False,
    "n": False,
    "no": False,
    "0": False,
}


def _number(name: str, text: str, shown: str) -> int | float:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if math.isfinite(number):
            return number
    raise Invalid(f"input {name!r} is of type Number, and {shown} is not")


def _json(name: str, text: str, shown: str) -> Any:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(f"input {name!r} is of type Json, and {shown} is not: {error}") from None
    if not isinstance(found, dict | list):
        raise Invalid(f"input {name!r} is of type Json, and {shown} is neither an object nor a list")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value as stored: in clear, or sealed."""

    value: Any = msgspec.UNSET
    sealed: str | msgspec.UnsetType = msgspec.UNSET


def check_given(statement: Statement, plain: dict[str, Any], secret: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The given values, typed as declared. Raises Invalid for an unknown, reserved or missing one.

    A config that declares no inputs takes any (as String, like Heat); one that declares some takes those.
    """
    declared = {one.name: one for one in statement.inputs}
    both = plain.keys() & secret.keys()
    if both:
        raise Invalid(f"input {min(both)!r} is given both plain and secret")
    for name in plain.keys() | secret.keys():
        check_input(name)
        if name.startswith(RESERVED):
            raise Invalid(f"input {name!r}: names that begin with {RESERVED!r} are set by the appliance")
        if name == POLICY_INPUT and name in secret:
            raise Invalid(f"input {name!r} says when to run and cannot be a secret")
        if "\0" in str(plain.get(name, secret.get(name))):
            raise Invalid(f"input {name!r} has a NUL byte, which no environment can hold")
        if declared and name not in declared and name != POLICY_INPUT:
            raise Invalid(f"the config has no input {name!r}", hint=f"it has: {', '.join(sorted(declared))}")
    missing = [
        one.name
        for one in statement.inputs
        if one.default is msgspec.UNSET and one.value is msgspec.UNSET and one.name not in plain and one.name not in secret
    ]
    if missing:
        raise Invalid(f"required input{'s' if len(missing) > 1 else ''} without a value: {', '.join(missing)}", hint="give it with --input")
    if len(msgspec.json.encode([plain, secret])) > INPUTS_BYTES:
        raise Invalid(f"the inputs are over the limit of {INPUTS_BYTES} bytes", hint="put large texts into a plan")
    return (
        {name: typed(declared[name], value) if name in declared else value for name, value in plain.items()},
        {name: typed(declared[name], value, secret=True) if name in declared else value for name, value in secret.items()},
    )


def effective(statement: Statement, given: dict[str, Any]) -> dict[str, Any]:
    """Name to value as a run receives them: given ones, else values and defaults of the declarations."""
    values: dict[str, Any] = {}
    for declared in statement.inputs:
        if declared.value is not msgspec.UNSET:
            values[declared.name] = typed(declared, declared.value)
        elif declared.default is not msgspec.UNSET:
            values[declared.name] = typed(declared, declared.default)
    return values | given


def triggering(statement: Statement, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the effective values whose change makes a new generation."""
    silent = {one.name for one in statement.inputs if not one.triggers}
    return {name: value for name, value in values.items() if name not in silent and name != POLICY_INPUT and not name.startswith(RESERVED)}
