"""Heat's own ways, as values: how it normalises configs, words outcomes, and shows a deployment. Pure.

The rules were observed on a real Heat; `web/heat/README.md` lists where we differ from it on purpose.
"""

from typing import Any

import msgspec

from appliance.config import Input, Output, Statement, typed
from appliance.deployment import POLICIES, STATUS_CODE, Policy, Status
from appliance.errors import Invalid

NAME_LIMIT = 255
SERVER_LIMIT = 36
USER_PROJECT_LIMIT = 64
TYPES = ("String", "Number", "CommaDelimitedList", "Json", "Boolean")
POLICY_INPUT = "deployment_run_policy"
TRANSPORT_INPUT = "deploy_signal_transport"
SIGNAL_INPUT = "deploy_signal_id"
RECEIVED = "Outputs received"
UNSET_REASON = "None"  # Heat shows a reason that nobody gave as this text

_INPUT_KEYS = frozenset(("name", "description", "type", "default", "replace_on_change", "value"))
_OUTPUT_KEYS = frozenset(("name", "description", "type", "error_output"))


class BadDeclaration(Invalid):
    """An input or output that Heat refuses."""


# ------------------------------------------------------------------------------------------------------------ configs


def statement_of(body: dict[str, Any]) -> Statement:
    """The config a request describes; every field may be missing, unknown ones are ignored. Raises Invalid, BadDeclaration."""
    name, group = body.get("name"), body.get("group")
    for kind, text in (("name", name), ("group", group)):
        if text is not None and not isinstance(text, str):
            raise Invalid(f"The {kind} of a software config must be a string.")
        if text is not None and len(text) > NAME_LIMIT:
            raise Invalid(f"The {kind} of a software config may have {NAME_LIMIT} characters at most.")
    options = body.get("options")
    if options is not None and not isinstance(options, dict):
        raise Invalid("The options of a software config must be a map.")
    inputs = tuple(_input(one) for one in _maps(body.get("inputs"), "inputs"))
    outputs = tuple(_output(one) for one in _maps(body.get("outputs"), "outputs"))
    return Statement(name, group, body.get("config"), None, inputs, outputs, options or {})


def _maps(found: Any, kind: str) -> list[dict[str, Any]]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise Invalid(f"The {kind} of a software config must be a list of maps.")
    return found


def _input(raw: dict[str, Any]) -> Input:
    _known(raw, _INPUT_KEYS, "input")
    said = raw.get("type")
    kind = _type(said)
    name = _name(raw, "input")
    default: Any = raw.get("default")
    if default is None or (default == "" and kind != "String"):
        default = msgspec.UNSET
    elif said is not None:
        try:
            default = typed(Input(name, kind), default)
        except Invalid as error:
            raise BadDeclaration(error.message) from None
    replace = raw.get("replace_on_change")
    return Input(
        name,
        kind,
        default,
        _text(raw.get("description")),
        replace_on_change=False if replace is None else _flag(replace, "replace_on_change"),
        value=raw.get("value", msgspec.UNSET),
    )


def _output(raw: dict[str, Any]) -> Output:
    _known(raw, _OUTPUT_KEYS, "output")
    flag = raw.get("error_output")
    return Output(
        _name(raw, "output"),
        _type(raw.get("type")),
        _text(raw.get("description")),
        False if flag is None else _flag(flag, "error_output"),
    )


def _known(raw: dict[str, Any], keys: frozenset[str], kind: str) -> None:
    strange = sorted(raw.keys() - keys)
    if strange:
        raise BadDeclaration(f"Unknown key {strange[0]!r} in an {kind}.")


def _name(raw: dict[str, Any], kind: str) -> str:
    name = raw.get("name")
    if name is None or isinstance(name, dict | list):
        raise BadDeclaration(f"An {kind} has no name.")
    return name if isinstance(name, str) else _plain(name)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise BadDeclaration("A description must be a string.")
    return _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(said: Any) -> Any:
    if said is None:
        return "String"
    if said not in TYPES:
        raise BadDeclaration(f"{said!r} is not a type; the types are {', '.join(TYPES)}.")
    return said


def _flag(value: Any, key: str) -> bool:
    try:
        return bool(typed(Input(key, "Boolean"), value))
    except Invalid as error:
        raise BadDeclaration(error.message) from None


def policy_of(statement: Statement) -> Policy | None:
    """The run policy an input of a config asks for, or None without such an input. Raises Invalid."""
    for declared in statement.inputs:
        if declared.name == POLICY_INPUT:
            said = declared.default if declared.value is msgspec.UNSET or declared.value is None else declared.value
            if said is msgspec.UNSET or said == "":
                return "on-change"
            for policy in POLICIES:
                if said == policy:
                    return policy
            raise Invalid(f"Input {POLICY_INPUT} is {said!r}; it is one of {', '.join(POLICIES)}.")
    return None


def input_text(statement: Statement, name: str) -> str | None:
    """The value (or default) of a declared input, when it is text."""
    for declared in statement.inputs:
        if declared.name == name:
            found = declared.default if declared.value is msgspec.UNSET else declared.value
            return found if isinstance(found, str) else None
    return None


# ------------------------------------------------------------------------------------------------------------ outcomes


def reported(statement: Statement, outputs: dict[str, Any], stdout: str | None, stderr: str | None, code: int | None) -> dict[str, Any]:
    """`output_values` after a run: each declared output that was received, and always the three `deploy_*` keys."""
    found = {one.name: outputs[one.name] for one in statement.outputs if one.name in outputs}
    said = outputs.get(STATUS_CODE, code)
    return found | {"deploy_stdout": stdout, "deploy_stderr": stderr, STATUS_CODE: said}


def reasons(statement: Statement, values: dict[str, Any]) -> str | None:
    """Why `output_values` mean FAILED, joined as Heat does; None when they mean COMPLETE."""
    found: list[str] = []
    code = values.get(STATUS_CODE)
    if code is not None and str(code) != "0":
        found.append(f"{STATUS_CODE} : Deployment exited with non-zero status code: {code}")
    found += [f"{one.name} : {values[one.name]}" for one in statement.outputs if one.error_output and one.name in values]
    return ", ".join(found) or None


# ------------------------------------------------------------------------------------------------------------ what a deployment keeps


class Over(msgspec.Struct, frozen=True):
    """Where a deployment stood when something was set verbatim; that holds until it stands elsewhere."""

    generation: str
    status: Status
    run: str | None

    def holds(self, generation: str, status: Status, run: str | None) -> bool:
        """Whether nothing that matters has moved since. While IN_PROGRESS, being granted or started does not."""
        return self.generation == generation and self.status == status and (status == "IN_PROGRESS" or self.run == run)


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """Heat's own fields of one deployment. `status`, `status_reason`, `output_values` count as long as `over` holds; times in ms.

    `made`: it was made here, so it is named as its config is, and has the policy its config asks for.
    """

    server_id: str
    over: Over
    action: str | None = None
    status: str | None = None
    status_reason: str = UNSET_REASON
    input_values: Any = msgspec.field(default_factory=dict)
    output_values: Any = None
    updated: int | None = None
    made: bool = False


class Shown(msgspec.Struct, frozen=True):
    """One deployment as Heat's users see it. Times in ms."""

    id: str
    server_id: str
    config_id: str
    action: str | None
    status: str | None
    status_reason: str
    input_values: Any
    output_values: Any
    created_at: int
    updated: int | None


def given(value: Any) -> bool:
    """Whether a key of a PUT counts: null and empty values are not given."""
    return value is not None and value not in ("", {}, [])
