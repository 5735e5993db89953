"""From the domain to Heat's wire, field by field. Pure."""

from typing import Any

import msgspec

from appliance.config import Input, Output
from appliance.document import times
from appliance.heat import Shown
from appliance.operations.heat import Config, Line


def line_view(line: Line) -> dict[str, Any]:
    """One config in a list."""
    return {"id": line.id, "name": line.name, "group": line.group, "creation_time": times(line.created_at)}


def config_view(config: Config) -> dict[str, Any]:
    """One whole config."""
    statement = config.statement
    return {
        "id": config.id,
        "name": statement.name,
        "group": statement.group,
        "creation_time": times(config.created_at),
        "config": statement.body,
        "inputs": [_input(one) for one in statement.inputs],
        "outputs": [_output(one) for one in statement.outputs],
        "options": statement.options,
    }


def _input(one: Input) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name}
    if one.description is not None:
        found["description"] = one.description
    found["type"] = one.type
    if one.default is not msgspec.UNSET:
        found["default"] = one.default
    if one.replace_on_change:
        found["replace_on_change"] = True
    if one.value is not msgspec.UNSET:
        found["value"] = one.value
    return found


def _output(one: Output) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name}
    if one.description is not None:
        found["description"] = one.description
    return found | {"type": one.type, "error_output": one.error_output}


def deployment_view(shown: Shown) -> dict[str, Any]:
    """One deployment. `updated_time` is there only after the first update."""
    found = {
        "id": shown.id,
        "server_id": shown.server_id,
        "input_values": shown.input_values,
        "output_values": shown.output_values,
        "action": shown.action,
        "status": shown.status,
        "status_reason": shown.status_reason,
        "config_id": shown.config_id,
        "creation_time": times(shown.created_at),
    }
    if shown.updated is not None:
        found["updated_time"] = times(shown.updated)
    return found


def versions_view(base: str) -> dict[str, Any]:
    """The list of API versions."""
    return {"versions": [{"id": "v1.0", "status": "CURRENT", "links": [{"rel": "self", "href": f"{base}/heat/v1/"}]}]}
