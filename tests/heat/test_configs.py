"""Configs by Heat's API: any JSON, normalised as Heat does, given back as it is."""

import io
import tarfile

import pytest

from .edge import SCRIPT


def test_every_field_may_be_missing(edge):
    made = edge.ok("POST", "/software_configs", json={"unknown": 1})["software_config"]
    assert {name: one for name, one in made.items() if name not in ("id", "creation_time")} == {
        "name": None,
        "group": None,
        "config": None,
        "inputs": [],
        "outputs": [],
        "options": {},
    }


@pytest.mark.parametrize("body", ["", "no #! line", {"hierarchy": [1, None]}, [1], 7, None, False, "#!/bin/sh\r\n"])
def test_a_body_is_any_json_and_comes_back_as_it_was(edge, body):
    made = edge.config("c", config=body)
    assert made["config"] == body
    assert edge.ok("GET", f"/software_configs/{made['id']}")["software_config"] == made


def test_defaults_become_their_type_where_one_is_named(edge):
    inputs = [
        {"name": "n", "type": "Number", "default": "7"},
        {"name": "l", "type": "CommaDelimitedList", "default": "a,b"},
        {"name": "b", "type": "Boolean", "default": "true"},
        {"name": "j", "type": "Json", "default": {"x": [1]}},
        {"name": "s", "default": 5, "description": ""},
        {"name": "r", "replace_on_change": True, "value": None},
        {"name": "q", "replace_on_change": False, "default": None, "description": None, "type": None},
        {"name": "e", "type": "Number", "default": "", "value": {"any": "thing"}},
    ]
    assert edge.config("c", inputs=inputs)["inputs"] == [
        {"name": "n", "type": "Number", "default": 7},
        {"name": "l", "type": "CommaDelimitedList", "default": ["a", "b"]},
        {"name": "b", "type": "Boolean", "default": True},
        {"name": "j", "type": "Json", "default": {"x": [1]}},
        {"name": "s", "type": "String", "default": 5, "description": ""},
        {"name": "r", "type": "String", "replace_on_change": True, "value": None},
        {"name": "q", "type": "String"},
        {"name": "e", "type": "Number", "value": {"any": "thing"}},
    ]


def test_outputs_always_say_whether_they_are_errors(edge):
    outputs = [{"name": "o"}, {"name": "e", "error_output": True, "description": "d", "type": "Json"}]
    assert edge.config("c", outputs=outputs)["outputs"] == [
        {"name": "o", "type": "String", "error_output": False},
        {"name": "e", "description": "d", "type": "Json", "error_output": True},
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("inputs", [{"default": "a"}]),
        ("inputs", [{"name": "a", "bogus": 1}]),
        ("inputs", [{"name": "a", "type": "Nope"}]),
        ("inputs", [{"name": "a", "type": "Number", "default": "abc"}]),
        ("inputs", [{"name": "a", "replace_on_change": "perhaps"}]),
        ("outputs", [{"name": "a", "value": 1}]),
        ("outputs", [{}]),
    ],
)
def test_a_bad_declaration_is_a_value_error_with_a_sentence(edge, field, value):
    error = edge.fails(400, "POST", "/software_configs", json={"name": "x", field: value})
    assert error["type"] == "ValueError"
    assert error["message"]


@pytest.mark.parametrize(
    "fields", [{"inputs": ["a"]}, {"inputs": {}}, {"outputs": 1}, {"options": []}, {"name": "x" * 256}, {"name": 5}, {"group": "x" * 256}]
)
def test_what_is_no_config_is_refused(edge, fields):
    assert edge.fails(400, "POST", "/software_configs", json=fields)["type"] == "HTTPBadRequest"


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b'"\xff"', b"[" * 90_000, b'{"config":' + b"[" * 200 + b"]" * 200 + b"}"])
def test_what_is_no_map_is_refused(edge, content):
    edge.fails(400, "POST", "/software_configs", content=content, headers={"Content-Type": "application/json"})


def test_lists_are_newest_first_and_page(edge):
    made = [edge.config(f"c-{n}")["id"] for n in range(4)][::-1]

    def listed(query=""):
        return [one["id"] for one in edge.ok("GET", f"/software_configs{query}")["software_configs"]]

    assert listed() == listed("?marker=nope") == made
    assert listed("?limit=0") == []
    assert listed(f"?limit=2&marker={made[0]}") == made[1:3]
    assert set(edge.ok("GET", "/software_configs")["software_configs"][0]) == {"id", "name", "group", "creation_time"}


def test_a_config_in_use_cannot_be_deleted_and_one_used_before_can(edge):
    first, second = edge.config()["id"], edge.config()["id"]
    made = edge.deploy("web-1", first)
    assert edge.fails(409, "DELETE", f"/software_configs/{first}")["type"] == "InvalidRestrictedAction"
    edge.put(made["id"], config_id=second)
    edge.ok("DELETE", f"/software_configs/{first}")
    for method in ("GET", "DELETE"):
        assert edge.fails(404, method, f"/software_configs/{first}")["message"] == f"Software config with id {first} not found"
    assert edge.fails(404, "PUT", f"/software_deployments/{made['id']}", json={"config_id": first})["type"] == "NotFound"


def test_a_config_made_natively_is_shown_and_can_be_deployed(edge):
    made = edge.application.ok(
        "POST", "/v1/configs", json={"body": SCRIPT, "inputs": [{"name": "who", "default": "me", "triggers": False}]}
    )
    shown = edge.ok("GET", f"/software_configs/{made['id']}")["software_config"]
    assert shown["inputs"] == [{"name": "who", "type": "String", "default": "me"}]
    assert edge.deploy("web-1", made["id"])["config_id"] == made["id"]


def test_a_config_that_refers_to_a_plan_shows_the_text(edge):
    application = edge.application
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("setup.sh")
        info.size = len(SCRIPT)
        tar.addfile(info, io.BytesIO(SCRIPT.encode()))
    application.ok("POST", "/v1/plans/lab/archive", content=packed.getvalue(), headers={"Content-Type": "application/x-tar"})
    application.ok("POST", "/v1/plans/lab/switch", json={"to": "1"})
    made = application.ok("POST", "/v1/configs", json={"name": "c", "source": {"plan": "lab", "path": "setup.sh"}})
    assert edge.ok("GET", f"/software_configs/{made['id']}")["software_config"]["config"] == SCRIPT
    edge.deploy("web-1", made["id"])
    assert [one["config"] for one in edge.metadata("web-1")] == [SCRIPT]
