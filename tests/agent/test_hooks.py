"""Hooks that are executables in a hooks directory: what they get, and how their answers are read."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from .conftest import Machine
from .fake import Fake, script


def answered(machine: Machine, fake: Fake, shell: str, **item: Any) -> dict[str, Any]:
    """The `finished` signal of a run whose hook `tool` is this shell text."""
    machine.hook("tool", f"#!/bin/sh\n{shell}\n")
    fake.change([script("the config", verbatim=True, group="tool", **item)])
    machine.one_pass(check=None)
    (found,) = fake.of("finished")
    return found


def test_a_hook_gets_the_item_and_its_directories_and_its_answer_is_reported(machine: Machine, fake: Fake) -> None:
    code = f"""#!{sys.executable}
import json, os, sys
item = json.load(sys.stdin)
seen = {{name: os.environ.get(name, "") for name in ("HEAT_DOCKER_CMD_WORKING", "HEAT_DOCKER_CMD_OUTPUTS", "HEAT_DOCKER_CMD")}}
print("noise on stderr", file=sys.stderr)
print(json.dumps({{"item": item, "seen": seen, "deploy_stdout": "out", "deploy_stderr": "err", "deploy_status_code": 0}}))
"""
    machine.hook("docker-cmd", code)
    inputs = [
        {"name": "a", "type": "String", "value": True}, {"name": "b", "type": "String", "value": None},
        {"name": "c", "type": "Number", "value": 3}, {"name": "d", "type": "Json", "value": {"x": [1]}},
        {"name": "e", "type": "String", "value": 3}, {"name": "f", "type": "String"},
    ]  # fmt: skip
    item = script("text", verbatim=True, group="docker-cmd", inputs=inputs, options=None, outputs=None)
    fake.change([item])
    machine.one_pass(HEAT_DOCKER_CMD="podman")
    (found,) = fake.of("finished")
    assert (found["outcome"], found["status_code"], found["stdout"], found["stderr"]) == ("ended", 0, "out", "err")
    got = found["outputs"]["item"]
    assert set(got) == {"id", "name", "group", "creation_time", "config", "inputs", "outputs", "options"}
    assert (got["id"], got["config"], got["outputs"], got["options"]) == (found["run"], "text", [], {})
    assert [entry["value"] for entry in got["inputs"]] == ["true", "", 3, {"x": [1]}, "3", ""]
    seen = found["outputs"]["seen"]
    assert seen["HEAT_DOCKER_CMD"] == "podman"
    for name in ("HEAT_DOCKER_CMD_WORKING", "HEAT_DOCKER_CMD_OUTPUTS"):
        assert seen[name].startswith(str(machine.state))
    assert not (machine.state / "runs" / found["run"] / "item.json").exists()


STATUS = '"deploy_status_code"'


@pytest.mark.parametrize(
    "shell,outcome,status,outputs,stdout",
    [
        (f"echo '{{{STATUS}: 0, \"x\": 1}}'", "ended", 0, {"x": 1}, None),
        (f"echo '{{{STATUS}: 5}}'", "ended", 5, {}, None),
        (f"echo '{{{STATUS}: \"6\"}}'", "ended", 6, {}, None),
        (f"echo '{{{STATUS}: 0}}'; exit 3", "ended", 3, {}, None),
        ("echo '{\"x\": 1}'; exit 3", "ended", 3, {"x": 1}, None),
        ("echo '{\"x\": 1}'", "invalid", 0, {"x": 1}, None),
        ("echo '{}'", "invalid", 0, {}, None),
        ("", "invalid", 0, {}, ""),
        ("exit 4", "ended", 4, {}, ""),
        ("echo 123", "ended", 0, {}, "123\n"),
        ("echo '[1]'", "ended", 0, {}, "[1]\n"),
        ("echo plain words", "ended", 0, {}, "plain words\n"),
        (f'echo abc; echo \'{{{STATUS}: 125, "deploy_stdout": "s"}}\'', "ended", 125, {}, "s"),
        (f"printf 'abc'; echo '{{{STATUS}: 1}}'", "ended", 1, {}, None),
        (f"echo abc; echo '{{{STATUS}: 0}}'; echo more", "ended", 0, {}, None),
        ('echo \'{"a": NaN, "b": "\\ud800", ' + STATUS + ": 0}'", "ended", 0, {"a": "NaN", "b": "\ufffd"}, None),
        ('echo \'{"a": 1e400, "b": [-1e999, 1.5], ' + STATUS + ": 0}'", "ended", 0, {"a": "1e400", "b": ["-1e999", 1.5]}, None),
        (f"echo '{{{STATUS}: 1e400}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: -Infinity}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: NaN}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: {'7' * 41}}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: \"{'7' * 41}\"}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: {'7' * 5000}}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: 9007199254740991}}'", "ended", 2**53 - 1, {}, None),
        (f"echo '{{{STATUS}: 9007199254740992}}'", "ended", 1, {}, None),
        (f"echo '{{{STATUS}: 0.0}}'", "ended", 0, {}, None),
        ("head -c 200000 /dev/zero | tr '\\0' '['", "ended", 0, {}, "[" * 200_000),
        ("kill -9 $$", "ended", -9, {}, ""),
    ],
)
def test_answers(machine: Machine, fake: Fake, shell: str, outcome: str, status: int, outputs: dict[str, Any], stdout: str | None) -> None:
    found = answered(machine, fake, shell)
    assert (found["outcome"], found["status_code"], found["outputs"]) == (outcome, status, outputs)
    if stdout is not None:
        assert found["stdout"] == stdout
    if outcome == "invalid":
        assert "installed" in found["message"]


def test_a_hook_named_script_is_preferred_and_gets_text_only(machine: Machine, fake: Fake) -> None:
    machine.hook("script", f'#!/bin/sh\nprintf \'{{"item": %s, {STATUS}: 0}}\' "$(cat)"\n')
    inputs = [
        {"name": "n", "type": "Number", "value": 3}, {"name": "b", "type": "Boolean", "value": False},
        {"name": "z", "type": "Number", "value": None}, {"name": "l", "type": "Json", "value": [1]},
    ]  # fmt: skip
    fake.change([script("true", inputs=inputs)])
    machine.one_pass()
    values = [entry["value"] for entry in fake.of("finished")[0]["outputs"]["item"]["inputs"]]
    assert values == ["3", "false", "", [1]]


@pytest.mark.parametrize(
    "text,mode,outcome,said",
    [
        ("#!/bin/sh\n", 0o644, "no-hook", "not executable"),
        ("echo no interpreter\n", 0o755, "invalid", "#!"),
        ("#!/no/such\n", 0o755, "invalid", "/no/such"),
    ],
)
def test_a_hook_that_cannot_be_started_is_reported(machine: Machine, fake: Fake, text: str, mode: int, outcome: str, said: str) -> None:
    machine.hook("tool", text, mode)
    fake.change([script("x", group="tool")])
    machine.one_pass(check=1)
    (found,) = fake.of("finished")
    assert found["outcome"] == outcome
    assert said in found["message"]


@pytest.mark.parametrize("group", ["../escape", "a/b", "", "x" * 300, ".."])
def test_a_group_is_never_a_path(machine: Machine, fake: Fake, group: str) -> None:
    (machine.path / "escape").write_text("#!/bin/sh\n")
    (machine.path / "escape").chmod(0o755)
    fake.change([script("x", group=group)])
    machine.one_pass(check=1)
    assert fake.of("finished")[0]["outcome"] == "no-hook"


def test_a_hook_installed_later_runs_with_the_next_generation(machine: Machine, fake: Fake) -> None:
    item = script("x", group="tool")
    fake.change([item])
    machine.one_pass(check=1)
    machine.hook("tool", f"#!/bin/sh\necho '{{{STATUS}: 0}}'\n")
    machine.one_pass()
    assert len(fake.of("finished")) == 1
    fake.change([{**item, "generation": "00000000-0000-4000-8000-000000000001"}])
    machine.one_pass()
    assert json.dumps(fake.of("finished")[1]["status_code"]) == "0"


def test_what_is_nested_too_deep_for_the_appliance_is_reported_as_text(machine: Machine, fake: Fake) -> None:
    deep, shallow = "[" * 150 + "]" * 150, "[" * 80 + "]" * 80
    found = answered(machine, fake, f"""echo '{{"deep": {deep}, "shallow": {shallow}, "deploy_stderr": {deep}, {STATUS}: 4}}'""")
    assert (found["status_code"], found["outputs"]["deep"], found["stderr"]) == (4, deep, deep)
    assert json.dumps(found["outputs"]["shallow"]) == shallow


MUCH = "head -c 6000000 /dev/zero | tr '\\0' x"


@pytest.mark.parametrize(
    "shell,outcome,status,outputs",
    [
        (f"{MUCH}; echo; echo '{{{STATUS}: 3, \"a\": 1}}'", "ended", 3, {"a": 1}),
        (f"{MUCH}; echo '{{{STATUS}: 3, \"a\": 1}}'", "ended", 3, {"a": 1}),
        (f"{MUCH}; echo; echo words", "ended", 0, {}),
        (f"printf '{{{STATUS}: 5, \"a\": \"'; {MUCH}; echo '\"}}'", "invalid", 0, {}),
        (f"printf '{{{STATUS}: 5,\\n\"a\": \"'; {MUCH}; printf '\"\\n}}\\n'", "invalid", 0, {}),
        (f'printf \'{{"log": "\'; {MUCH}; printf \'"}}\\n{{"log": 2}}\\n\'', "ended", 0, {}),
    ],
)
def test_of_very_much_output_only_the_last_line_is_read(
    machine: Machine, fake: Fake, shell: str, outcome: str, status: int, outputs: dict[str, Any]
) -> None:
    found = answered(machine, fake, shell)
    assert (found["outcome"], found["status_code"], found["outputs"]) == (outcome, status, outputs)
    assert outcome == "ended" or "larger than 4 MiB" in found["message"]
