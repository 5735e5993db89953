"""Documents that would kill a stock agent, or stop everything behind one item, are never sent: whatever was declared, given and named."""

import itertools
import json
import re
from email.utils import parsedate_to_datetime
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from appliance.names import is_uuid

from .edge import SCRIPT, Edge

COLLECTORS = {"request", "ec2", "cfn", "heat", "heat_local", "local", "zaqar", "os_config_files"}
ITEM = {"id", "name", "group", "creation_time", "config", "inputs", "outputs", "options"}
NAMES = ["../esc", "request", "a/b", "", "x" * 255, "deploy", "é", "10-db", "local", "a\x00b", ".hidden", "deployment-", "same", "same"]
INPUTS = ["who", "PATH", "deploy_action", "deploy_signal_id", "deploy_signal_verb", "deploy_signal_transport", "a=b", ""]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12
)
names = st.sampled_from(NAMES) | st.text(max_size=255)
inputs = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["who", "PATH", "deploy_action", "deploy_signal_id", "deploy_signal_verb", "a=b", ""])
            | st.text(min_size=1)
        },
        optional={"value": anything, "default": anything, "description": st.text(), "replace_on_change": st.booleans()},
    ),
    max_size=5,
)
configs = st.fixed_dictionaries(
    {},
    optional={
        "name": st.none() | names,
        "group": st.sampled_from([None, "script", "Heat::Ungrouped", "os-apply-config", "ansible", "component", ""]) | st.text(max_size=20),
        "config": anything,
        "inputs": inputs,
        "outputs": st.lists(st.fixed_dictionaries({"name": names}, optional={"error_output": st.booleans()}), max_size=3),
        "options": st.dictionaries(st.text(max_size=8), anything, max_size=3),
    },
)
number = itertools.count()


def fit(document: Any, where: str) -> None:
    """Raise unless os-collect-config and heat-agents live through this document, and report every item that has a hook."""
    assert isinstance(document, dict)
    own = document["os-collect-config"]
    assert own["collectors"] == [where]
    assert own["polling_interval"] > 0
    assert all(isinstance(value, str) and value for value in own[where].values())
    items = document["deployments"]
    for item in items:
        assert set(item) == ITEM
        assert is_uuid(item["id"])
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", item["name"])
        assert item["name"] not in COLLECTORS
        assert isinstance(item["group"], str)
        assert item["group"]
        assert item["config"] is not None
        if item["group"] in ("Heat::Ungrouped", "os-apply-config") and isinstance(item["config"], dict):
            assert "deployments" not in item["config"]  # it is merged over the document
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", item["creation_time"])
        assert isinstance(item["options"], dict)
        assert isinstance(item["outputs"], list)
        assert all(isinstance(one["name"], str) for one in item["outputs"])
        for one in item["inputs"]:
            assert isinstance(one["name"], str)
            assert (one["type"], type(one["value"])) in (("String", str), ("Json", list), ("Json", dict))
        told = {one["name"]: one["value"] for one in item["inputs"]}
        assert ("deploy_signal_id" in told) != ("deploy_auth_url" in told)
        assert "deploy_queue_id" not in told
        assert told.get("deploy_signal_id", "http://testserver/signal/").startswith("http://testserver/signal/")
    assert len({item["id"] for item in items}) == len(items)
    assert len({item["name"] for item in items}) == len(items)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(configs, min_size=1, max_size=4))
@example([{"name": name, "group": "script", "config": name} for name in NAMES])
@example([{"name": "huge", "inputs": [{"name": "n", "value": 1 << 200}], "config": {"n": -(1 << 70)}, "options": {"n": 1e308}}])
@example([{"group": group, "config": {"deployments": None, "a": 1}} for group in ("os-apply-config", None, "ansible")])
@example([{"inputs": [{"name": "deploy_signal_transport", "value": "HEAT_SIGNAL"}, {"name": "deploy_queue_id", "value": "q"}]}])
@example([{"inputs": [{"name": "deploy_signal_transport", "value": None}, {"name": "deploy_signal_id", "value": None}]}])
def test_no_config_and_no_input_makes_a_document_that_harms_its_agent(application, wanted):
    edge = Edge(application)
    server = f"old-{next(number)}"
    stock = edge.stock(server)
    made = []
    for config in wanted:
        answer = edge.call("POST", "/software_configs", content=json.dumps(config).encode(), headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400), answer.text
        if answer.status_code == 200:
            made.append(edge.deploy(server, answer.json()["software_config"]["id"])["id"])
    answer = application.call("GET", stock.path, None)
    fit(answer.json(), "request")
    assert len(answer.json()["deployments"]) == len(made)
    assert application.call("GET", stock.path, None).content == answer.content
    assert [len(edge.metadata(server))] == [len(made)]
    for id in made:
        edge.ok("GET", f"/software_deployments/{id}")
        edge.ok("DELETE", f"/software_deployments/{id}")


def test_a_head_is_answered_and_says_no_odd_time(edge):
    stock = edge.stock("old-1")
    edge.deploy("old-1")
    answer = edge.application.call("HEAD", stock.path, None)
    assert answer.status_code == 200
    if "last-modified" in answer.headers:
        assert parsedate_to_datetime(answer.headers["last-modified"])
    [one] = edge.listed()
    assert edge.native(one["id"])["phase"] == "pending"  # a HEAD hands nothing out


def test_equal_names_of_one_server_become_different_file_names_and_stay(edge):
    stock = edge.stock("old-1")
    first = edge.deploy("old-1", edge.config("same")["id"])["id"]
    second = edge.deploy("old-1", edge.config("same")["id"])["id"]
    names = [item["name"] for item in stock.poll()]
    assert names == ["same", f"same-{second}"]
    edge.ok("DELETE", f"/software_deployments/{first}")
    assert [item["name"] for item in stock.poll()] == [f"same-{second}"]


def test_a_native_config_and_one_by_heat_stand_in_one_document(edge):
    stock = edge.stock("old-1")
    edge.deploy("old-1", edge.config("by-heat")["id"])
    edge.application.ok("POST", "/v1/deployments", json={"server": "old-1", "name": "native", "config": {"body": SCRIPT}})
    fit(edge.application.ok("GET", stock.path, None), "request")
    assert [item["name"] for item in stock.poll()] == ["by-heat", "native"]
