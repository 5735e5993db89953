"""The built-in script hook, by real runs of a real agent."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Machine
from .fake import Fake, script


def result(machine: Machine, fake: Fake, item: dict[str, Any], **env: str) -> dict[str, Any]:
    """The `finished` signal of one run of `item`."""
    fake.change([item])
    machine.one_pass(check=None, **env)
    (found,) = fake.of("finished", item["deployment"])
    return found


def given(name: str, value: object, kind: str = "String") -> dict[str, Any]:
    return {"name": name, "type": kind, "value": value}


def test_outputs_status_and_both_streams_are_reported(machine: Machine, fake: Fake) -> None:
    text = 'echo out; echo err >&2; printf "a\\n" > "$heat_outputs_path.one"; printf b > $heat_outputs_path.other; exit 3'
    found = result(machine, fake, script(text, outputs=[{"name": "one"}, {"name": "absent"}]))
    assert (found["outcome"], found["status_code"]) == ("ended", 3)
    assert (found["stdout"], found["stderr"]) == ("out\n", "err\n")
    assert found["outputs"] == {"one": "a\n"}
    assert (found["truncated"], found["sizes"]) == ([], {"stdout": 4, "stderr": 4})
    assert machine.status()["deployments"][0]["verdict"] == "FAILED"


def test_json_on_standard_output_does_not_hide_the_exit_status(machine: Machine, fake: Fake) -> None:
    found = result(machine, fake, script("echo '{\"x\": 1}'; exit 3"))
    assert (found["status_code"], found["stdout"]) == (3, '{"x": 1}\n')


def test_an_output_flagged_error_output_is_a_failure(machine: Machine, fake: Fake) -> None:
    item = script(": > $heat_outputs_path.bad", outputs=[{"name": "bad", "error_output": True}])
    found = result(machine, fake, item)
    assert (found["status_code"], found["outputs"]) == (0, {"bad": ""})
    assert machine.status()["deployments"][0]["verdict"] == "FAILED"


def test_inputs_arrive_as_documented(machine: Machine, fake: Fake) -> None:
    inputs = [
        given("s", "x y"), given("n", 3, "Number"), given("f", 1.5, "Number"), given("big", 1e21, "Number"),
        given("t", True, "Boolean"), given("no", False, "Boolean"), given("l", ["a", {"b": 1}], "Json"),
        given("HOME", None), given("quoted", 3),
    ]  # fmt: skip
    text = 'echo "$s|$n|$f|$big|$t|$no|$l|${HOME-unset}|$quoted"'
    found = result(machine, fake, script(text, inputs=inputs))
    assert found["stdout"] == 'x y|3|1.5|1000000000000000000000|true|false|["a", {"b": 1}]|unset|3\n'


def test_risky_inputs_and_our_own_variables_stay_out_of_the_environment(machine: Machine, fake: Fake) -> None:
    risky = ["LD_PRELOAD", "PATH", "IFS", "BASH_ENV", "PYTHONPATH", "APPLIANCE_TOKEN", "heat_outputs_path", "a=b", ""]
    item = script("env", inputs=[given(name, "evil") for name in risky])
    found = result(machine, fake, item, APPLIANCE_TOKEN="secret-token", NOTIFY_SOCKET="/x", HEAT_X="1")
    assert "evil" not in found["stdout"]
    assert "secret-token" not in found["stdout"]
    names = {line.partition("=")[0] for line in found["stdout"].splitlines()}
    assert {name for name in names if name.startswith("APPLIANCE_")} == {"APPLIANCE_RUN"}
    assert not names & {"NOTIFY_SOCKET", "HEAT_X"}
    assert "LD_PRELOAD" in found["message"]


def test_a_config_may_allow_names_in_its_environment(machine: Machine, fake: Fake) -> None:
    options = {"allow_environment": ["PYTHONPATH", "APPLIANCE_TOKEN"]}
    inputs = [given("PYTHONPATH", "/mine"), given("APPLIANCE_TOKEN", "x")]
    found = result(machine, fake, script('echo "$PYTHONPATH,$APPLIANCE_TOKEN"', inputs=inputs, options=options))
    assert found["stdout"] == "/mine,\n"


@pytest.mark.parametrize(
    "text,quoted",
    [
        ("echo hi\n", "'echo hi'"),
        ("#!/bin/sh\r\necho hi\r\n", "'#!/bin/sh\\r'"),
        ("\ufeff#!/bin/sh\n", "'\\ufeff#!/bin/sh'"),
        ("", "empty"),
        ("#!/no/such/interpreter\n", "'#!/no/such/interpreter'"),
        ({"a": 1}, "no text"),
    ],
)
def test_what_cannot_be_started_is_invalid_and_quotes_line_1(machine: Machine, fake: Fake, text: Any, quoted: str) -> None:
    item = script("x")
    item["config"]["config"] = text
    found = result(machine, fake, item)
    assert (found["outcome"], found["status_code"]) == ("invalid", None)
    assert quoted in found["message"]


def test_an_input_too_large_for_an_environment_is_invalid(machine: Machine, fake: Fake) -> None:
    found = result(machine, fake, script("true", inputs=[given("big", "x" * 200_000)]))
    assert (found["outcome"], "too large" in found["message"]) == ("invalid", True)


def test_any_bytes_on_standard_output_are_reported_as_valid_text(machine: Machine, fake: Fake) -> None:
    text = f"#!{os.sys.executable}\nimport sys\nsys.stdout.buffer.write(bytes(range(256)) + b'\\xed\\xa0\\x80' + b'x' * 1000000)\n"
    found = result(machine, fake, script(text))
    assert found["outcome"] == "ended"
    assert found["status_code"] == 0
    assert found["stdout"].startswith(bytes(range(128)).decode() + "\ufffd")
    assert found["sizes"]["stdout"] == 256 + 3 + 1_000_000
    assert found["truncated"] == ["stdout"]


def test_a_large_output_keeps_head_and_tail_and_the_whole_on_the_machine(machine: Machine, fake: Fake) -> None:
    text = "echo first; head -c 10485760 /dev/zero | tr '\\0' x; echo; echo last; printf ok > $heat_outputs_path.result; exit 4"
    found = result(machine, fake, script(text, outputs=[{"name": "result"}]))
    assert found["stdout"].startswith("first\n")
    assert found["stdout"].endswith("x\nlast\n")
    assert len(found["stdout"]) < 300_000
    assert (found["status_code"], found["outputs"]["result"]) == (4, "ok")
    assert (found["truncated"], found["sizes"]["stdout"]) == (["stdout"], 10_485_760 + 12)
    assert (machine.state / "runs" / found["run"] / "stdout").stat().st_size == 10_485_760 + 12


def test_named_outputs_are_limited_in_all_and_the_longest_is_cut(machine: Machine, fake: Fake) -> None:
    text = "head -c 2000000 /dev/zero | tr '\\0' x > $heat_outputs_path.long; printf s > $heat_outputs_path.short"
    found = result(machine, fake, script(text, outputs=[{"name": "long"}, {"name": "short"}]))
    assert found["outputs"]["short"] == "s"
    assert len(found["outputs"]["long"]) < 700_000
    assert found["truncated"] == ["long"]


def test_odd_output_files_harm_nothing(machine: Machine, fake: Fake) -> None:
    text = "mkfifo $heat_outputs_path.fifo; mkdir $heat_outputs_path.dir; printf '\\377' > $heat_outputs_path.bytes"
    names = ["fifo", "dir", "bytes", "../../escape", "deploy_stdout"]
    found = result(machine, fake, script(text, outputs=[{"name": name} for name in names]))
    assert found["outputs"] == {"bytes": "\ufffd"}


def test_a_background_child_delays_nobody_and_is_left_alone(machine: Machine, fake: Fake) -> None:
    began = time.monotonic()
    found = result(machine, fake, script("sleep 1000 & echo $!; exit 0"))
    assert time.monotonic() - began < 2
    assert found["status_code"] == 0
    child = int(found["stdout"])
    os.kill(child, 0)
    os.kill(child, 9)


@pytest.mark.parametrize(
    "text",
    [
        "sleep 1000",
        "trap '' TERM; while :; do sleep 0.05; done",
        "setsid sh -c \"trap '' TERM; while :; do sleep 0.05; done\" & echo $!; wait",
        "sh -c 'setsid sleep 1000 & sleep 1000' & wait",
    ],
)
def test_the_time_limit_ends_everything_that_was_started(machine: Machine, fake: Fake, text: str) -> None:
    began = time.monotonic()
    found = result(machine, fake, script(text, timeout=0.3))
    assert time.monotonic() - began < 4
    assert (found["outcome"], "time limit" in found["message"]) == ("timeout", True)
    assert marked(found["run"]) == []


def marked(run: str) -> list[str]:
    """Living processes that carry the run's mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            carries = f"APPLIANCE_RUN={run}".encode() in (process / "environ").read_bytes()
            if carries and b"State:\tZ" not in (process / "status").read_bytes():
                found.append(process.name)
    return found


def test_standard_input_is_empty_and_there_is_a_directory_of_its_own(machine: Machine, fake: Fake) -> None:
    found = result(machine, fake, script("read x; echo $?; pwd; umask; ls -l /proc/self/fd | wc -l"))
    lines = found["stdout"].splitlines()
    assert lines[0] == "1"
    assert lines[1] == str(machine.state / "runs" / found["run"] / "work")
    assert int(lines[2], 8) == os.umask(os.umask(0o022))


def test_a_group_without_a_hook_is_reported_at_once(machine: Machine, fake: Fake) -> None:
    found = result(machine, fake, script("x", group="ansible"))
    assert found["outcome"] == "no-hook"
    assert found["message"] == "no hook `ansible` on this machine; it has: plan, script"


def test_secrets_are_nowhere_but_in_the_environment_and_private_files(machine: Machine, fake: Fake) -> None:
    item = script("exit 1", inputs=[given("password", "s3cr3t-XYZ")])
    fake.change([item])
    said = machine.one_pass(check=1).stderr + machine.agent("status").stdout + machine.agent("status", "--json").stdout
    assert "s3cr3t-XYZ" not in said + str(fake.signals)
    assert "agent-token" not in said
    for path in [machine.state, *machine.state.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    holders = {path.name for path in machine.state.rglob("*") if path.is_file() and b"s3cr3t-XYZ" in path.read_bytes()}
    assert holders == {"document.json"}
