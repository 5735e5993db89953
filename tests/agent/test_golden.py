"""The wire as recorded JSON: what this agent sends and what it understands, for the tests of the appliance to use.

`APPLIANCE_GOLDEN=write pytest tests/agent/test_golden.py` records anew. Old files stay when the format grows.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from appliance.agent import VERSION

from .conftest import Machine
from .fake import SERVER, Fake, after, script

GOLDEN = Path(__file__).resolve().parents[1] / "golden/agent"
RUN = "99999999-9999-4999-8999-{:012d}"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
WALL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
HEADERS = (
    "Authorization", "Appliance-Instance", "Appliance-Agent-State", "Appliance-Boot", "Appliance-Journal",
    "Appliance-Agent", "Appliance-Hooks", "If-None-Match", "Content-Type",
)  # fmt: skip


def fixed(number: int, item: dict[str, Any]) -> dict[str, Any]:
    """The item with ids that are the same in every recording."""
    item["deployment"] = f"dddddddd-dddd-4ddd-8ddd-{number:012d}"
    item["generation"] = f"eeeeeeee-eeee-4eee-8eee-{number:012d}"
    item["config"]["id"] = f"cccccccc-cccc-4ccc-8ccc-{number:012d}"
    return item


class Recorder:
    """Turns what is random or depends on the clock into constants, the same for the same value."""

    def __init__(self, machine: Machine) -> None:
        self._runs: dict[str, str] = {}
        self._paths = str(machine.state)
        self._constants = {
            (machine.root / "etc/machine-id").read_text().strip(): "0" * 32,
            (machine.root / "proc/sys/kernel/random/boot_id").read_text().strip(): "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb",
            machine.fake.requests[0][3]["agent_state"]: "a" * 32,
        }

    def same(self, found: object) -> Any:
        text = json.dumps(found)
        for value, constant in self._constants.items():
            text = text.replace(value, constant)
        text = text.replace(self._paths, "/var/lib/appliance-agent")
        text = UUID.sub(lambda match: self._run(match.group()), text)
        return json.loads(WALL.sub("2026-01-01T00:00:00.000Z", text))

    def _run(self, value: str) -> str:
        if value[0] * 8 == value[:8] or value == SERVER:
            return value
        return self._runs.setdefault(value, RUN.format(len(self._runs) + 1))


def check(name: str, found: Any) -> None:
    """What is recorded under `name` is what was found; with APPLIANCE_GOLDEN=write, record it."""
    file = GOLDEN / f"{name}.json"
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("APPLIANCE_GOLDEN") == "write":
        GOLDEN.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.read_text() == text, name


def test_the_wire_is_as_recorded(machine: Machine, fake: Fake) -> None:
    outputs = [{"name": "result", "type": "String", "error_output": False}]
    inputs = [{"name": "who", "type": "String", "value": "you"}, {"name": "deploy_action", "type": "String", "value": "CREATE"}]
    first = fixed(1, script("echo hello $who; printf ok > $heat_outputs_path.result", name="base", inputs=inputs, outputs=outputs))
    second = fixed(2, after(script("echo second; exit 3", name="second", policy="per-boot"), first))
    slow = fixed(3, script("sleep 100", name="slow", timeout=0.2))
    lonely = fixed(4, script("x", name="tool", group="ansible", verbatim=True))
    invalid = fixed(5, script("echo hi", name="no-interpreter", verbatim=True))
    waiting = fixed(6, after(script("true", name="waiting"), second))
    refused = fixed(7, script("true", name="refused"))
    gone = {"deployment": "dddddddd-dddd-4ddd-8ddd-000000000008", "deleted": True}
    refusal = {"answer": "refused", "why": "superseded", "message": "a newer generation exists"}
    fake.on_claim = lambda run: refusal if run["deployment"] == refused["deployment"] else None
    fake.change([first, second, slow, lonely, invalid, waiting, refused, gone])
    fake.observed[gone["deployment"]] = {"status": "COMPLETE", "phase": None, "generation": first["generation"], "last": None}
    machine.one_pass(check=1)
    repeat = len(fake.signals)
    recorder = Recorder(machine)
    requests = [{"method": method, "path": path, "headers": {name: headers[name] for name in HEADERS if name in headers},
                 "body": body} for method, path, headers, body in fake.requests]  # fmt: skip
    for request in requests:
        if "Appliance-Journal" in request["headers"]:
            request["headers"]["Appliance-Journal"] = "7"
    claim = next(request for request in requests if request["path"].endswith("/claim"))
    answers = [fake._known[run["run"]] for run in claim["body"]["runs"]]
    check("join", recorder.same({"request": requests[0], "response": {
        "server": SERVER, "name": "web-1", "token": "agent-token", "epoch": fake.epoch}}))  # fmt: skip
    check("document", recorder.same({"request": requests[1], "response": fake.document()}))
    check("claim", recorder.same({"request": claim, "response": {"answers": answers}}))
    assert requests[1]["headers"]["Appliance-Agent"] == VERSION
    signals = {
        (signal["kind"], signal.get("outcome"), signal["deployment"]): {"run": signal["run"], "body": signal} for signal in fake.signals
    }
    wanted = {
        "started": ("started", None, first), "finished-complete": ("finished", "ended", first),
        "finished-failed": ("finished", "ended", second), "finished-timeout": ("finished", "timeout", slow),
        "finished-no-hook": ("finished", "no-hook", lonely), "finished-invalid": ("finished", "invalid", invalid),
        "released": ("released", None, waiting),
    }  # fmt: skip
    for name, (kind, outcome, item) in wanted.items():
        check(name, recorder.same(bare(signals[kind, outcome, item["deployment"]])))
    machine.reboot()
    machine.one_pass(check=1)
    again = next(signal for signal in fake.signals[repeat:] if signal["kind"] == "started")
    check("started-repeat", recorder.same(bare({"run": again["run"], "body": again})))


def test_an_interrupted_run_is_as_recorded(machine: Machine, fake: Fake) -> None:
    fake.change([fixed(9, script("echo begun; sleep 100", name="slow"))])
    agent = machine.start()
    fake.wait_for(lambda: any(path.read_text() for path in machine.state.glob("runs/*/stdout")))
    machine.kill(agent)
    machine.one_pass()
    (found,) = fake.of("finished")
    check("finished-interrupted", Recorder(machine).same(bare({"run": found["run"], "body": found})))


def test_a_cancelled_run_is_as_recorded(machine: Machine, fake: Fake) -> None:
    item = fixed(10, script("echo begun; sleep 100", name="slow"))
    fake.change([item])
    agent = machine.start()
    fake.wait_for(lambda: any(path.read_text() for path in machine.state.glob("runs/*/stdout")))
    begun = fake.wait_for(lambda: fake.of("started"))[0]
    fake.change([{**item, "cancel": [begun["run"]]}])
    (found,) = fake.wait_for(lambda: fake.of("finished"))
    machine.kill(agent)
    check("finished-cancelled", Recorder(machine).same(bare({"run": found["run"], "body": found})))


def test_the_recorded_documents_and_answers_are_understood(machine: Machine, fake: Fake) -> None:
    recorded = json.loads((GOLDEN / "document.json").read_text())["response"]
    fake.raw_document = json.dumps(recorded).encode()
    machine.one_pass(check=1)
    asked = [run["deployment"] for claim in fake.claims for run in claim["runs"]]
    assert asked == [item["deployment"] for item in recorded["desired"]["items"] if not item.get("deleted")]


def bare(found: dict[str, Any]) -> dict[str, Any]:
    """A request to report on a run: its path and body."""
    body = {name: value for name, value in found["body"].items() if name != "run"}
    return {"request": {"method": "POST", "path": f"/v1/runs/{found['run']}/signals", "body": body},
            "response": {"effect": "recorded"}}  # fmt: skip
