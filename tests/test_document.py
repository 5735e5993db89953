"""The document an agent polls, and that of a stock agent, as values."""

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config import Input, Output, Statement, effective
from appliance.deployment import Blocker
from appliance.document import Item, build, inputs_of, stock_document, stock_item, stock_name, with_signal

ID, GENERATION, OTHER = (str(uuid.UUID(int=n)) for n in (1, 2, 3))
SERVER, EPOCH = ("s", "web-1"), (1, "e")


def item(statement=None, values=None, **changes):
    statement = statement or Statement("c", "script", "#!/bin/sh\n", None, (), (Output("x", error_output=True),))
    base = Item(
        ID, "a", GENERATION, 3, 1, "CREATE", 1_700_000_000_000, "on-change", None, 60, True, [], [], OTHER, 1_700_000_000_000,
        statement, statement.body, values or {}, "s", "IN_PROGRESS", "pending", None,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def etag(*items, epoch=EPOCH, changed=5, tombstones=()):
    return build(SERVER, epoch, 1, changed, list(items), list(tombstones)).etag


def inputs(found):
    return {one["name"]: one["value"] for one in found}


# ---------------------------------------------------------------------------------------------------- ours


@pytest.mark.parametrize(
    "beside",
    [
        {"status": "COMPLETE", "phase": None},
        {"status": "FAILED", "phase": None},
        {"phase": "running", "ungranted": False},
        {"last": {"run": "r", "generation": GENERATION, "boot": "b", "changed": 4}},
    ],
)
def test_sem_10_what_is_observed_is_beside_the_etag(beside):
    assert etag(item(**beside)) == etag(item())


@pytest.mark.parametrize(
    "desired",
    [
        {"name": "b"},
        {"generation": OTHER},
        {"number": 4},
        {"attempt": 2},
        {"action": "UPDATE"},
        {"policy": "once"},
        {"policy": "always", "interval": 60},
        {"timeout": None},
        {"body": "#!/bin/sh\necho\n"},
        {"values": {"x": 1}},
        {"after": [OTHER]},
        {"blockers": [(Blocker(OTHER, OTHER, "b", "s2", "web-2", "FAILED", None), False)]},
        {"busy": True},
    ],
)
def test_whatever_is_desired_is_in_the_etag(desired):
    assert etag(item(**desired)) != etag(item())


def test_the_epoch_the_tombstones_and_the_last_change_are_in_the_etag_and_the_commit_is_not():
    assert len({etag(item()), etag(item(), epoch=(2, "f")), etag(item(), tombstones=[OTHER]), etag(item(), changed=6), etag()}) == 5
    assert build(SERVER, EPOCH, 1, 5, [item()], []).etag == build(("s", "renamed"), EPOCH, 9, 5, [item()], []).etag


def test_dependencies_block_only_what_was_not_granted():
    blocker = [(Blocker(OTHER, OTHER, "b", "s2", "web-2", "IN_PROGRESS", "running"), False)]
    waiting, granted = (
        msgspec.json.decode(build(SERVER, EPOCH, 1, 5, [item(blockers=blocker, ungranted=ungranted)], []).content)["desired"]["items"][0]
        for ungranted in (True, False)
    )
    assert (waiting["ready"], [one["name"] for one in waiting["blocked_on"]]) == (False, ["web-2/b"])
    assert (granted["ready"], granted["blocked_on"]) == (True, [])


def test_an_item_has_declared_inputs_first_then_given_ones_then_the_appliances_own():
    statement = Statement("c", "ansible", {}, None, (Input("z", "Number"), Input("deploy_action", default="faked")))
    found = inputs_of(item(statement, {"z": 1, "b": [1], "a": True, "deploy_action": "faked"}))
    assert [one["name"] for one in found][:3] == ["z", "a", "b"]
    assert [one["type"] for one in found][:3] == ["Number", "Boolean", "Json"]
    own = inputs(found[3:])
    assert (own["deploy_action"], own["deploy_generation"], own["deploy_attempt"], own["deploy_leg"]) == ("CREATE", "3", "1", "1")
    assert len(found) == len(inputs(found))


# ---------------------------------------------------------------------------------------------------- stock agents

FIELDS = {"id", "name", "group", "creation_time", "config", "options", "inputs", "outputs"}


def test_a_stock_item_has_all_eight_fields_and_scalars_as_text():
    values = {"text": "x", "n": 5, "f": 1.5, "yes": True, "no": False, "none": None, "list": [1, True], "object": {"a": None}}
    found = stock_item(item(values=values), "run-1", "a")
    assert found.keys() == FIELDS
    assert (found["id"], found["name"], found["creation_time"]) == ("run-1", "a", "2023-11-14T22:13:20Z")
    given = inputs(found["inputs"])
    assert {name: given.get(name) for name in values} == {
        "text": "x",
        "n": "5",
        "f": "1.5",
        "yes": "true",
        "no": "false",
        "none": None,
        "list": [1, True],
        "object": {"a": None},
    }
    assert "none" not in given
    assert {one["type"] for one in found["inputs"] if not isinstance(one["value"], str)} == {"Json"}
    assert (given["deploy_action"], given["deploy_server_id"]) == ("CREATE", "s")


def test_a_stock_item_without_a_group_or_a_body_has_them_all_the_same():
    found = stock_item(item(Statement(None, None, None, None)), "run-1", "a")
    assert (found["group"], found["config"], found["options"], found["outputs"]) == ("Heat::Ungrouped", "", {}, [])


def test_where_to_report_is_ours_to_say():
    statement = Statement("c", "script", "#!/bin/sh\n", None, (Input("deploy_signal_id", default="http://elsewhere"),))
    made = stock_item(item(statement, {"deploy_signal_id": "http://elsewhere"}), "run-1", "a")
    assert "http://elsewhere" not in str(made)
    signalled = with_signal(made, {"deploy_signal_id": "http://here", "deploy_signal_verb": "PUT"})
    assert inputs(signalled["inputs"])["deploy_signal_id"] == "http://here"
    assert len(signalled["inputs"]) == len(inputs(signalled["inputs"]))


@pytest.mark.parametrize("name", ["request", "local", "os-collect-config", ID, None, "a/b", "x" * 200, "deployment-x"])
def test_a_name_is_never_a_collectors_nor_a_path(name):
    found = stock_name(OTHER, name)
    assert found.startswith("deployment-")
    assert "/" not in found
    assert len(found) < 200


def test_equal_names_on_one_server_are_told_apart():
    assert stock_name(ID, "a") == "a"
    assert stock_name(ID, "a", ["a"]) != "a"


def test_a_stock_document_always_holds_the_agents_own_settings():
    found = msgspec.json.decode(stock_document({"collectors": ["request"]}, []))
    assert found == {"os-collect-config": {"collectors": ["request"]}, "deployments": []}


# ---------------------------------------------------------------------------------------------------- whatever people write

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
statements = st.builds(
    Statement,
    st.none() | st.text(max_size=5),
    st.none() | st.sampled_from(["script", "ansible", "Heat::Ungrouped"]),
    json_values,
    st.none(),
    st.lists(st.builds(Input, names, st.just("String"), json_values), max_size=4, unique_by=lambda one: one.name).map(tuple),
    st.lists(st.builds(Output, names, error_output=st.booleans()), max_size=3).map(tuple),
    st.dictionaries(names, json_values, max_size=3),
)


@given(statements, st.dictionaries(names, json_values, max_size=5))
def test_any_config_with_any_inputs_makes_documents_that_say_the_same_each_time(statement, values):
    one = item(statement, effective(statement, values))
    first, second = (build(SERVER, EPOCH, 1, 5, [one], []) for _ in range(2))
    assert first == second
    [found] = msgspec.json.decode(first.content)["desired"]["items"]
    assert found["config"]["config"] == msgspec.json.decode(msgspec.json.encode(statement.body))
    assert len(found["config"]["inputs"]) == len(inputs(found["config"]["inputs"]))


@given(statements, st.dictionaries(names, json_values, max_size=5))
def test_any_config_with_any_inputs_makes_a_stock_item_its_agent_can_take(statement, values):
    found = msgspec.json.decode(msgspec.json.encode(stock_item(item(statement, effective(statement, values)), "run-1", "a")))
    assert found.keys() == FIELDS
    assert isinstance(found["options"], dict)
    assert found["group"]
    for one in found["inputs"]:
        assert one.keys() == {"name", "type", "value"}
        assert isinstance(one["value"], str | list | dict)
        assert (one["type"] == "String") == isinstance(one["value"], str)
    assert len(found["inputs"]) == len(inputs(found["inputs"]))
