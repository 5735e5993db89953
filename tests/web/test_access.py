"""Who may do what: a table over every route, and agents that see their own server only."""

import logging
import re
import uuid

import pytest
from starlette.routing import Route

from appliance import server
from appliance.web.native import openapi

from ..application import error_of

# The least role that each route needs; `open`: none, `agent`: the agent's token of that server, `secret`: the URL is the credential.
# A route that is not in this table fails the test below.
NEEDS = {
    "GET /healthz": "open",
    "GET /openapi.json": "open",
    "GET /agent.pyz": "open",
    "POST /v1/join": "open",
    "GET /v1/servers/{server}/document": "agent",
    "POST /v1/servers/{server}/claim": "agent",
    "POST /v1/servers/{server}/blobs": "agent",
    "GET /v1/servers/{server}/blobs/{digest}": "agent",
    "POST /v1/runs/{run}/signals": "agent",
    "GET /v1/servers": "viewer",
    "POST /v1/servers": "operator",
    "GET /v1/servers/{server}": "viewer",
    "PATCH /v1/servers/{server}": "operator",
    "DELETE /v1/servers/{server}": "admin",
    "GET /v1/servers/{server}/configuration": "operator",
    "POST /v1/servers/{server}/token": "operator",
    "POST /v1/servers/{server}/reset": "operator",
    "POST /v1/servers/{server}/keep": "operator",
    "GET /v1/tokens": "admin",
    "POST /v1/tokens": "admin",
    "DELETE /v1/tokens/{token}": "admin",
    "GET /v1/audit": "viewer",
    "GET /v1/plans": "viewer",
    "GET /v1/plans/{plan}": "viewer",
    "DELETE /v1/plans/{plan}": "admin",
    "POST /v1/plans/{plan}/archive": "operator",
    "GET /v1/plans/{plan}/diff": "viewer",
    "GET /v1/plans/{plan}/switches": "viewer",
    "POST /v1/plans/{plan}/switch": "operator",
    "POST /v1/plans/{plan}/rollback": "operator",
    "GET /v1/plans/{plan}/versions": "viewer",
    "PUT /v1/plans/{plan}/versions/{digest}": "operator",
    "GET /v1/plans/{plan}/versions/{ref}": "viewer",
    "GET /v1/plans/{plan}/versions/{ref}/archive": "viewer",
    "GET /v1/plans/{plan}/versions/{ref}/files/{path}": "viewer",
    "POST /v1/blobs": "operator",
    "POST /v1/blobs/missing": "operator",
    "PUT /v1/blobs/{digest}": "operator",
    "GET /v1/blobs/{digest}": "viewer",
    "GET /v1/deployments": "viewer",
    "POST /v1/deployments": "operator",
    "PATCH /v1/deployments": "operator",
    "POST /v1/deployments/rerun": "operator",
    "POST /v1/deployments/cancel": "operator",
    "POST /v1/deployments/{ref}/suspend": "operator",
    "POST /v1/deployments/{ref}/resume": "operator",
    "POST /v1/deployments/{ref}/cancel": "operator",
    "POST /v1/deployments/delete": "operator",
    "POST /v1/deployments/{ref}/rerun": "operator",
    "GET /v1/deployments/{ref}/why": "viewer",
    "GET /v1/deployments/{ref}/runs": "viewer",
    "GET /v1/deployments/{ref}": "viewer",
    "PATCH /v1/deployments/{ref}": "operator",
    "DELETE /v1/deployments/{ref}": "operator",
    "GET /v1/runs/{run}": "viewer",
    "GET /v1/configs": "viewer",
    "POST /v1/configs": "operator",
    "GET /v1/configs/{config}": "viewer",
    "DELETE /v1/configs/{config}": "operator",
    "GET /metadata/{secret}": "secret",
    "POST /signal/{secret}": "secret",
    "PUT /signal/{secret}": "secret",
}

ROLES = ["viewer", "operator", "admin"]
PERSONS = [route for route, need in NEEDS.items() if need in ROLES]
AGENTS = [route for route, need in NEEDS.items() if need == "agent"]

WHO = {
    "Appliance-Instance": '{"machine": "m"}',
    "Appliance-Agent-State": "state",
    "Appliance-Boot": "boot",
    "Appliance-Journal": "1",
}


def concrete(route):
    """A request for a route, with names that nothing has."""
    method, path = route.split(" ")
    return method, re.sub(r"\{\w+\}", "nothing", path)


def routes():
    return [
        (f"{method} {re.sub(r':[a-z]+}', '}', route.path)}", route)
        for route in server.ROUTES
        if isinstance(route, Route)
        for method in sorted(route.methods - {"HEAD"})
    ]


def test_every_route_declares_whom_it_is_for():
    assert sorted(name for name, _ in routes()) == sorted(NEEDS)
    assert {route.endpoint for name, route in routes() if NEEDS[name] in ("open", "secret")} == openapi.OPEN
    for path in {name.partition(" ")[2] for name in NEEDS} - {"/healthz", "/openapi.json", "/agent.pyz"}:
        assert path.startswith(("/v1/", "/metadata/", "/signal/"))


NOBODY = [
    {},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Bearer "},
    {"Authorization": "Basic YWRtaW46eA=="},
    {"Authorization": "admin-secret"},
    {"X-Auth-Token": "wrong"},
    {"Cookie": "token=admin-secret"},
]


@pytest.mark.parametrize("route", PERSONS + AGENTS)
def test_without_a_token_that_is_known_nothing_opens(application, route):
    method, path = concrete(route)
    for headers in NOBODY:
        assert application.fails(401, method, path, None, headers=headers)["code"] == "unauthorized", headers


@pytest.mark.parametrize("route", PERSONS)
def test_a_role_opens_what_it_is_enough_for_and_nothing_more(application, route):
    method, path = concrete(route)
    enough = ROLES.index(NEEDS[route])
    for role in ROLES[:enough]:
        error = application.fails(403, method, path, role)
        assert error["code"] == "forbidden"
        assert NEEDS[route] in error["message"]
    for role in ROLES[enough:]:
        assert application.call(method, path, role).status_code not in (401, 403), role


def test_a_persons_token_speaks_for_no_agent(application):
    for route in AGENTS:
        for role in ROLES:
            assert application.fails(404, *concrete(route), role, headers=WHO)["code"] == "not-found"


def test_sec_09_an_agents_token_opens_nothing_that_is_for_people(application):
    token = application.agent("web-1")
    for route in PERSONS:
        assert application.fails(403, *concrete(route), token)["code"] == "forbidden"


def test_a_join_token_opens_nothing_but_joining(application):
    join = application.ok("POST", "/v1/servers", json={"name": "web-1"})["join_token"]
    for route in PERSONS + AGENTS:
        application.fails(403 if route in PERSONS else 404, *concrete(route), join, headers=WHO)


@pytest.mark.parametrize("header", ["Authorization", "X-Auth-Token"])
def test_both_headers_carry_a_token(application, header):
    value = "Bearer viewer-secret" if header == "Authorization" else "viewer-secret"
    application.ok("GET", "/v1/plans", None, headers={header: value})


def test_the_scheme_is_written_in_any_case(application):
    application.ok("GET", "/v1/plans", None, headers={"Authorization": "bearer  viewer-secret "})


# ---------------------------------------------------------------------------------------------------- agents


@pytest.fixture
def two(application):
    """Two servers with agents, and a deployment on each: (application, A's token, A, B) as dictionaries."""
    tokens = [application.agent(name) for name in ("a", "b")]
    found = []
    for name, token in zip(("a", "b"), tokens, strict=True):
        config = {"group": "script", "body": "#!/bin/sh\ntrue\n"}
        made = application.ok("POST", "/v1/deployments", json={"server": name, "name": "x", "config": config})
        found.append({"token": token, "server": made["server"]["id"], "deployment": made["id"], "generation": made["generation"]["id"]})
    return application, *found


def headers_of(name):
    return WHO | {"Appliance-Instance": f'{{"machine": "{name}"}}', "Appliance-Agent-State": f"state of {name}"}


def report(it):
    return {"kind": "started", "deployment": it["deployment"], "generation": it["generation"]}


def test_an_agent_reads_and_reports_for_its_own_server(two):
    application, a, _ = two
    document = application.ok("GET", f"/v1/servers/{a['server']}/document", a["token"], headers=headers_of("a"))
    assert a["deployment"] in str(document)
    run = str(uuid.uuid4())
    claimed = {"runs": [{"run": run, "deployment": a["deployment"], "generation": a["generation"]}]}
    answer = application.ok("POST", f"/v1/servers/{a['server']}/claim", a["token"], headers=headers_of("a"), json=claimed)
    assert answer["answers"][0]["answer"] == "granted"
    assert application.ok("POST", f"/v1/runs/{run}/signals", a["token"], headers=headers_of("a"), json=report(a))["effect"] == "recorded"


def masked_ids(error, *ids):
    """An error with what was asked for taken out: what is left must be alike for another server's and for none."""
    text = str(error)
    for id in ids:
        text = text.replace(id, "ID")
    return text


def test_sec_09_another_servers_document_and_claims_are_as_unknown_as_those_of_none(two):
    application, a, b = two
    unknown = str(uuid.uuid4())
    for method, rest in (("GET", "document"), ("POST", "claim")):
        errors = [
            masked_ids(application.fails(404, method, f"/v1/servers/{id}/{rest}", a["token"], headers=headers_of("a")), id)
            for id in (b["server"], unknown, "b", "nothing")
        ]
        assert len(set(errors)) == 1, errors


def test_sec_09_another_servers_deployment_cannot_be_reported_on_and_looks_like_none(two):
    application, a, b = two
    unknown = {"deployment": str(uuid.uuid4()), "generation": str(uuid.uuid4())}
    errors = [
        masked_ids(
            application.fails(404, "POST", f"/v1/runs/{uuid.uuid4()}/signals", a["token"], headers=headers_of("a"), json=report(it)),
            it["deployment"],
        )
        for it in (b, unknown)
    ]
    assert len(set(errors)) == 1, errors


def test_sec_09_another_servers_run_cannot_be_reported_on(two):
    application, a, b = two
    run = str(uuid.uuid4())
    claimed = {"runs": [{"run": run, "deployment": b["deployment"], "generation": b["generation"]}]}
    application.ok("POST", f"/v1/servers/{b['server']}/claim", b["token"], headers=headers_of("b"), json=claimed)
    for it in (a, b):
        application.fails(404, "POST", f"/v1/runs/{run}/signals", a["token"], headers=headers_of("a"), json=report(it))


def test_sec_09_another_servers_deployment_cannot_be_claimed_and_looks_deleted(two):
    application, a, b = two
    asked = [{"run": str(uuid.uuid4()), "deployment": id, "generation": b["generation"]} for id in (b["deployment"], str(uuid.uuid4()))]
    found = application.ok("POST", f"/v1/servers/{a['server']}/claim", a["token"], headers=headers_of("a"), json={"runs": asked})
    assert [(one["answer"], one["why"]) for one in found["answers"]] == [("refused", "deleted")] * 2
    assert len({one["message"] for one in found["answers"]}) == 1


def test_an_agents_token_opens_nothing_once_its_server_is_removed(two):
    application, a, _ = two
    application.ok("GET", f"/v1/servers/{a['server']}/document", a["token"], headers=headers_of("a"))
    application.ok("POST", "/v1/deployments/delete", json={"ids": [a["deployment"]]})
    application.ok("DELETE", f"/v1/servers/{a['server']}")
    application.fails(401, "GET", f"/v1/servers/{a['server']}/document", a["token"], headers=headers_of("a"))


# ---------------------------------------------------------------------------------------------------- tokens


def made(application, **more):
    return application.ok("POST", "/v1/tokens", json={"name": "ann", "role": "viewer"} | more)


def test_a_token_opens_nothing_from_the_moment_it_is_revoked(application):
    token = made(application)
    application.ok("GET", "/v1/plans", token["token"])
    application.ok("DELETE", f"/v1/tokens/{token['id']}")
    application.fails(401, "GET", "/v1/plans", token["token"])


def test_a_token_opens_nothing_from_the_moment_it_expires(application):
    token = made(application, expires=60)
    application.clock.pass_(59_999)
    application.ok("GET", "/v1/plans", token["token"])
    application.clock.pass_(1)
    application.fails(401, "GET", "/v1/plans", token["token"])


@pytest.mark.parametrize("expires", [0, -1, 10**12, 10**18, 2**70])
def test_an_expiry_that_makes_no_sense_is_refused(application, expires):
    application.fails(400, "POST", "/v1/tokens", json={"name": "ann", "role": "viewer", "expires": expires})


@pytest.mark.parametrize("role", ["root", "agent", "join", "", "Admin"])
def test_a_token_of_a_role_that_people_do_not_have_is_refused(application, role):
    application.fails(400, "POST", "/v1/tokens", json={"name": "ann", "role": role})


def test_the_list_of_tokens_shows_no_secret(application):
    secret = made(application)["token"]
    text = application.call("GET", "/v1/tokens").text
    assert "ann" in text
    assert secret not in text
    assert "-secret" not in text


def test_sec_03_a_token_in_the_query_opens_nothing_and_is_in_no_log(application, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("token", "access_token", "X-Auth-Token", "auth_token", "authorization", "bearer"):
        for method, path in (("GET", "/v1/plans"), ("POST", "/v1/servers"), ("GET", "/v1/tokens"), ("DELETE", "/v1/plans/x")):
            answer = application.call(method, f"{path}?{name}=admin-secret", None)
            assert answer.status_code == 401
            assert "admin-secret" not in str(error_of(answer))
    ours = [record for record in caplog.records if record.name.startswith("appliance")]
    assert not any("admin-secret" in record.getMessage() for record in ours)


def test_sec_03_tokens_are_stored_hashed(application):
    secret = made(application)["token"].encode()
    application.database.close()
    for path in application.path.parent.iterdir():
        assert secret not in path.read_bytes(), path
        assert b"admin-secret" not in path.read_bytes(), path
