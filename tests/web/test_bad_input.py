"""What is wrong is refused with the right status and one form of error, and changes nothing: no bad request is ever a 500."""

import re
import uuid

import pytest

from appliance.web.native import openapi

from .test_access import NEEDS, WHO, concrete, headers_of, report, routes

SCRIPT = {"group": "script", "body": "#!/bin/sh\ntrue\n"}
DEPLOYMENT = {"server": "web-1", "name": "x", "config": SCRIPT}
GOOD_DIGEST = "sha256:" + "0" * 64

# Routes that take a JSON body, with the token that opens them.
STRUCTS = [
    name
    for name, route in routes()
    if NEEDS[name] not in ("open", "secret") and openapi.BODIES.get(route.endpoint) not in (None, openapi.UPLOAD)
]

MALFORMED = [
    b"{", b"}", b"{'a': 1}", b'{"a": 1,}', b"\xff\xfe", b'"\xc3', b"nul", b"{} {}", b"NaN", b'{"a": 01}', b'"\\ud800"', b"[" * 100_000,
    b'{"a":' * 50_000, b"\x00", b"%PDF", b"<x/>",
]  # fmt: skip
MISSHAPEN = [b"[]", b"null", b'"text"', b"7", b"true", b"[null]", b'[[{}]]', b'{"no_such_field": 1}', b'{"": 1}']  # fmt: skip


@pytest.fixture
def lab(application):
    """A server with an agent and a deployment on it; `lab.token` is its agent's."""
    application.token = application.agent("web-1")
    application.server = application.ok("GET", "/v1/servers/web-1")["id"]
    application.deployment = application.ok("POST", "/v1/deployments", json=DEPLOYMENT)
    return application


def request_for(lab, name):
    """(method, path, token, headers) of a route, for things that exist where that is easy."""
    method, path = concrete(name)
    if NEEDS[name] == "agent":
        path = path.replace("/servers/nothing", f"/servers/{lab.server}")
        return method, path, lab.token, headers_of("web-1")
    path = path.replace("/deployments/nothing", f"/deployments/{lab.deployment['id']}").replace("/servers/nothing", "/servers/web-1")
    return method, path.replace("/versions/nothing", f"/versions/{GOOD_DIGEST}"), "admin", {}


# ---------------------------------------------------------------------------------------------------- bodies


@pytest.mark.parametrize("name", STRUCTS)
def test_malformed_json_is_refused_on_every_route(lab, name):
    method, path, token, headers = request_for(lab, name)
    for body in MALFORMED:
        error = lab.fails(400, method, path, token, headers=headers | {"Content-Type": "application/json"}, content=body)
        assert error["code"] == "invalid", body


@pytest.mark.parametrize("name", STRUCTS)
def test_json_of_another_shape_is_refused_on_every_route(lab, name):
    method, path, token, headers = request_for(lab, name)
    for body in MISSHAPEN:
        if body == b"[]" and path == "/v1/deployments":
            continue  # an empty list of deployments is nothing to do
        error = lab.fails(400, method, path, token, headers=headers | {"Content-Type": "application/json"}, content=body)
        assert error["code"] == "invalid", body
        assert error["hint"], body


@pytest.mark.parametrize(
    "method, path, body, field",
    [
        ("POST", "/v1/servers", {"name": "a", "lables": []}, "lables"),
        ("POST", "/v1/servers", {"name": 7}, "name"),
        ("POST", "/v1/servers", {}, "name"),
        ("POST", "/v1/deployments", DEPLOYMENT | {"polcy": "once"}, "polcy"),
        ("POST", "/v1/deployments", DEPLOYMENT | {"policy": "sometimes"}, "policy"),
        ("POST", "/v1/deployments", [DEPLOYMENT, DEPLOYMENT | {"name": "y", "timeout": "1h"}], r"[1].timeout"),
        ("POST", "/v1/deployments", DEPLOYMENT | {"config": {"group": "script", "bdy": ""}}, "bdy"),
        ("POST", "/v1/plans/lab/switch", {"to": 1, "expect": 1}, "expect"),
        ("POST", "/v1/plans/lab/switch", {"to": [1]}, "to"),
        ("POST", "/v1/blobs/missing", {"digests": "x"}, "digests"),
    ],
)
def test_the_field_that_is_wrong_is_named(lab, method, path, body, field):
    assert field in lab.fails(400, method, path, json=body)["message"]


def test_a_body_over_the_limit_is_refused_and_the_limit_named(lab):
    error = lab.fails(
        413, "POST", "/v1/servers", content=b'{"name": "' + b"a" * (4 << 20) + b'"}', headers={"Content-Type": "application/json"}
    )
    assert error["code"] == "too-large"
    assert str(4 << 20) in error["message"]


@pytest.mark.parametrize("value", [2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(10**30)])
def test_numbers_beyond_what_can_be_kept_are_refused_and_never_a_bug(lab, value):
    id, generation = lab.deployment["id"], lab.deployment["generation"]["id"]
    signal = f"/v1/runs/{uuid.uuid4()}/signals"
    requests = [
        ("POST", "/v1/deployments", "admin", DEPLOYMENT | {"name": "y", "timeout": value}),
        ("POST", "/v1/deployments", "admin", DEPLOYMENT | {"name": "y", "policy": "always", "interval": value}),
        ("PATCH", f"/v1/deployments/{id}", "admin", {"timeout": value}),
        ("POST", "/v1/plans/lab/switch", "admin", {"to": value}),
        ("POST", "/v1/plans/lab/switch", "admin", {"to": 1, "expected": value}),
        ("POST", "/v1/plans/lab/rollback", "admin", {"expected": value}),
        ("POST", "/v1/tokens", "admin", {"name": "a", "role": "viewer", "expires": value}),
        ("POST", f"/v1/servers/{lab.server}/claim", lab.token,
         {"runs": [{"run": str(uuid.uuid4()), "deployment": id, "generation": generation, "attempt": value}]}),
        ("POST", signal, lab.token, report({"deployment": id, "generation": generation}) | {"attempt": value}),
        ("POST", signal, lab.token, report({"deployment": id, "generation": generation}) | {"leg": value}),
        ("POST", signal, lab.token, report({"deployment": id, "generation": generation}) | {"repeat": "boot", "changed": value}),
        ("PUT", f"/v1/plans/lab/versions/{GOOD_DIGEST}", "admin",
         {"entries": [{"path": "a", "mode": "file", "size": value, "digest": GOOD_DIGEST}]}),
    ]  # fmt: skip
    for method, path, token, body in requests:
        headers = headers_of("web-1") if token == lab.token else {}
        answer = lab.call(method, path, token, headers=headers, json=body)
        assert answer.status_code < 500, (method, path, body, answer.text)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/audit?limit={}",
        "/v1/audit?before={}",
        "/v1/deployments?after={}",
        "/v1/deployments/web-1/x?generation={}",
        "/v1/plans/lab/versions?limit={}",
        "/v1/plans/lab/versions?before={}",
        "/v1/plans/lab/switches?before={}",
        "/v1/servers?after={}",
        "/v1/servers?label={}",
        "/v1/configs?before={}",
        "/v1/plans/lab/diff?from={}",
        "/v1/plans/lab/versions/1/archive?format={}",
    ],
)
def test_queries_that_make_no_sense_are_never_a_bug(lab, path):
    for value in ["x", "", "-1", "0x10", "1e3", "1.5", "nan", "inf", "-inf", "9" * 30, "%D9%A1", " 1", "%00"]:
        assert lab.call("GET", path.format(value)).status_code < 500, value


@pytest.mark.parametrize(
    "name, value",
    [
        ("Appliance-Instance", "{"),
        ("Appliance-Instance", "[]"),
        ("Appliance-Instance", '{"machine": 7}'),
        ("Appliance-Journal", "x"),
        ("Appliance-Journal", "9" * 30),
        ("Appliance-Journal", "-1"),
        ("Appliance-Journal", "1.5"),
        ("Appliance-Agent-State", None),
        ("Appliance-Agent-State", ""),
        ("Appliance-Boot", None),
        ("Appliance-Boot", ""),
        ("Appliance-Journal", None),
        ("Appliance-Instance", None),
    ],
)
def test_headers_of_an_agent_that_make_no_sense_are_refused(lab, name, value):
    headers = {key: text for key, text in (headers_of("web-1") | {name: value}).items() if text is not None}
    for method, path, more in (("GET", "document", {}), ("POST", "claim", {"json": {}})):
        assert lab.fails(400, method, f"/v1/servers/{lab.server}/{path}", lab.token, headers=headers, **more)["code"] == "invalid"


@pytest.mark.parametrize("wait", ["x", "nan", "", "1,5"])
def test_a_wait_that_is_no_number_is_refused(lab, wait):
    lab.fails(400, "GET", f"/v1/servers/{lab.server}/document?wait={wait}", lab.token, headers=headers_of("web-1"))
    lab.fails(400, "GET", f"/v1/deployments/{lab.deployment['id']}?wait={wait}")


# ---------------------------------------------------------------------------------------------------- names that nothing has


NASTY = [
    "nothing",
    "%00",
    "a%00b",
    "..",
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc",
    "a%20b",
    "%ff%fe",
    "%F0%9F%92%A9",
    "x" * 10_000,
    "%0a",
    "'--",
    "%25s",
]


@pytest.mark.parametrize("name", [name for name in NEEDS if "{" in name and NEEDS[name] in ("viewer", "operator", "admin")])
def test_what_is_named_and_not_there_is_refused_and_never_a_bug(lab, name):
    method, path = name.split(" ")
    for nasty in NASTY:
        answer = lab.call(method, "http://testserver" + re.sub(r"\{\w+\}", nasty, path), json={} if method != "GET" else None)
        assert answer.status_code in (307, 400, 404, 405), (nasty, answer.status_code, answer.text)


@pytest.mark.parametrize(
    "method, path, body, said",
    [
        ("GET", "/v1/plans/web", None, "web"),
        ("POST", "/v1/plans/web/switch", {"to": 1}, "web"),
        ("GET", "/v1/plans/web/versions/current", None, "web"),
        ("GET", "/v1/servers/web-9", None, "web-9"),
        ("PATCH", "/v1/servers/web-9", {}, "web-9"),
        ("POST", "/v1/servers/web-9/reset", None, "web-9"),
        ("GET", "/v1/deployments/web-9/x", None, "web-9"),
        ("GET", "/v1/deployments/web-1/nope", None, "nope"),
        ("POST", "/v1/deployments/web-1/nope/rerun", None, "nope"),
        ("POST", "/v1/deployments/rerun", {"ids": ["web-1/x", "web-1/nope"]}, "nope"),
        ("POST", "/v1/deployments/delete", {"ids": ["web-1/x", "web-1/nope"]}, "nope"),
        ("PATCH", "/v1/deployments", [{"id": "web-1/x", "timeout": 9}, {"id": "web-1/nope"}], "nope"),
        ("GET", "/v1/runs/nope", None, "nope"),
        ("GET", "/v1/configs/nope", None, "nope"),
        ("DELETE", "/v1/tokens/nope", None, "nope"),
        ("GET", f"/v1/blobs/{GOOD_DIGEST}", None, GOOD_DIGEST),
    ],
)
def test_ux_07_what_is_not_there_is_named_with_what_to_do(lab, method, path, body, said):
    error = lab.fails(404, method, path, json=body) if body is not None else lab.fails(404, method, path)
    assert said in error["message"]
    assert error["hint"]


@pytest.mark.parametrize(
    "change, status, said",
    [
        ({"server": "web-9"}, 404, "web-9"),
        ({"server": str(uuid.uuid4())}, 404, "no server"),
        ({"config": str(uuid.uuid4())}, 404, "no config"),
        ({"config": "nope"}, 404, "nope"),
        ({"config": {"group": "script", "source": {"plan": "web", "path": "a"}}}, 404, "web"),
        ({"depends_on": ["web-1/nope"]}, 404, "nope"),
        ({"depends_on": [str(uuid.uuid4())]}, 404, "no such deployment"),
        ({"depends_on": ["web-1/y"]}, 400, "after itself"),
        ({"name": "x"}, 409, "x"),
        ({"name": "a b"}, 400, "a b"),
        ({"config": {"group": "a b", "body": "x"}}, 400, "a b"),
        ({"config": {"group": "script"}}, 400, "body"),
        ({"config": {"group": "script", "body": "true\n"}}, 400, "#!"),
        ({"config": {"group": "script", "body": "#!/bin/sh\r\ntrue\n"}}, 400, "#!/bin/sh"),
        ({"config": SCRIPT | {"inputs": [{"name": "must"}]}}, 400, "must"),
        ({"inputs": {"a b": 1}}, 400, "a b"),
        ({"timeout": 0}, 400, "0"),
        ({"policy": "always", "interval": 5}, 400, "30"),
        ({"policy": "once", "interval": 60}, 400, "always"),
    ],
)
def test_ops_15_a_deployment_that_cannot_be_is_refused_naming_why_and_nothing_is_stored(lab, change, status, said):
    error = lab.fails(status, "POST", "/v1/deployments", json=DEPLOYMENT | {"name": "y"} | change)
    assert said in error["message"] + error["hint"]
    lab.fails(status, "POST", "/v1/deployments", json=[DEPLOYMENT | {"name": "first"}, DEPLOYMENT | {"name": "y"} | change])


def test_a_circle_of_dependencies_is_refused_and_shown(lab):
    lab.ok("POST", "/v1/deployments", json=DEPLOYMENT | {"name": "y", "depends_on": ["web-1/x"]})
    error = lab.fails(400, "PATCH", "/v1/deployments/web-1/x", json={"depends_on": ["web-1/y"]})
    assert "web-1/y" in error["message"]
    lab.fails(400, "PATCH", "/v1/deployments/web-1/x", json={"depends_on": ["web-1/x"]})


@pytest.mark.parametrize("name", ["", "a b", "-x", "a/b", "x" * 256, "\u00e9", "a\n"])
def test_a_name_that_is_not_allowed_is_refused_wherever_one_is_given(lab, name):
    lab.fails(400, "POST", "/v1/servers", json={"name": name})
    lab.fails(400, "PATCH", "/v1/servers/web-1", json={"name": name})
    lab.fails(400, "POST", "/v1/servers", json={"name": "web-2", "labels": [name]})
    lab.fails(400, "POST", "/v1/tokens", json={"name": name, "role": "viewer"})
    lab.fails(400, "POST", "/v1/deployments", json=DEPLOYMENT | {"name": name})


def test_a_name_that_is_taken_is_refused(lab):
    assert "web-1" in lab.fails(409, "POST", "/v1/servers", json={"name": "web-1"})["message"]
    lab.ok("POST", "/v1/servers", json={"name": "web-2"})
    lab.fails(409, "PATCH", "/v1/servers/web-2", json={"name": "web-1"})


@pytest.mark.parametrize(
    "change", [{"token": "wrong"}, {"token": ""}, {"agent_state": ""}, {"boot": ""}, {"journal": -1}, {"journal": 2**70}]
)
def test_joining_with_what_is_not_right_is_refused(application, change):
    join = application.ok("POST", "/v1/servers", json={"name": "web-1"})["join_token"]
    body = {"token": join, "instance": {"machine": "m"}, "agent_state": "s", "boot": "b"} | change
    application.fails(401 if "token" in change else 400, "POST", "/v1/join", None, json=body)


# ---------------------------------------------------------------------------------------------------- digests


WRONG_DIGESTS = [
    "sha256:bad", "sha256:" + "A" * 64, "sha256:" + "a" * 63, "sha256:" + "a" * 65,
    "..%2fetc%2fpasswd", "sha256:" + "a" * 10_000,
    "md5:" + "a" * 32, "sha256:",
    "SHA256:" + "a" * 64, "a" * 64, "sha256:" + "g" * 64, "sha256:%00" + "a" * 62, "sha256:" + "a" * 63 + "%0a",
    "sha256:" + "%D9%A1" * 64, "%20sha256:" + "a" * 64,
]  # fmt: skip


@pytest.mark.parametrize("digest", WRONG_DIGESTS, ids=lambda digest: digest[:24])
def test_sec_13_a_malformed_digest_is_refused_on_every_verb(application, digest):
    binary = {"Content-Type": "application/octet-stream"}
    for method, path, more in (
        ("GET", f"/v1/blobs/{digest}", {}),
        ("PUT", f"/v1/blobs/{digest}", {"content": b"x", "headers": binary}),
        ("PUT", f"/v1/plans/lab/versions/{digest}", {"json": {"entries": []}}),
        ("POST", "/v1/blobs/missing", {"json": {"digests": [digest]}}),
        (
            "PUT",
            f"/v1/plans/lab/versions/{GOOD_DIGEST}",
            {"json": {"entries": [{"path": "a", "mode": "file", "size": 1, "digest": digest}]}},
        ),
        ("PUT", f"/v1/plans/lab/versions/{GOOD_DIGEST}", {"json": {"entries": [], "base": digest}}),
    ):
        before = application.rows()
        answer = application.call(method, "http://testserver" + path, **more)
        is_another_path = "%2f" in digest and path.endswith(digest) and "versions" in path
        assert answer.status_code == (404 if is_another_path else 400), (method, path[:80], answer.text)
        assert application.rows() == before
    assert application.call("HEAD", f"http://testserver/v1/blobs/{digest}").status_code == 400


def test_sec_13_an_empty_digest_is_refused(application):
    for method, more in (("GET", {}), ("PUT", {"content": b"x", "headers": {"Content-Type": "application/octet-stream"}})):
        application.fails(400, method, "/v1/blobs/", **more)


def test_agents_of_other_versions_may_say_more_than_we_know_when_they_join(application):
    join = application.ok("POST", "/v1/servers", json={"name": "web-1"})["join_token"]
    body = {"token": join, "instance": {"machine": "m"}, "agent_state": "s", "boot": "b", "from_the_future": [1]}
    application.ok("POST", "/v1/join", None, json=body, headers=WHO)
