"""Who may do what, by every way in which OpenStack's clients say who they are."""

import base64

import pytest

from appliance.operations import heat_identity
from appliance.web.context import Settings

from ..application import Application
from ..samples import KEY
from .edge import BASE, Edge

OPEN = f"/heat/v1/{heat_identity.open_project(KEY)}"


def login(application, password="admin-secret", **more):
    user = {"name": "anybody", "domain": {"id": "default"}, "password": password}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": {"name": "appliance"}}} | more
    return application.call("POST", "/heat/identity/v3/auth/tokens", None, json={"auth": auth})


def basic(password):
    return {"Authorization": "Basic " + base64.b64encode(f"any:{password}".encode()).decode()}


WAYS = {
    "x-auth-token": lambda application, secret: {"X-Auth-Token": secret},
    "bearer": lambda application, secret: {"Authorization": f"Bearer {secret}"},
    "basic": lambda application, secret: basic(secret),
    "login": lambda application, secret: {"X-Auth-Token": login(application, secret).headers["X-Subject-Token"]},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_viewer_reads_and_an_operator_writes_by_each_way(edge, way):
    application = edge.application
    id = edge.config()["id"]
    for role in ("viewer", "operator", "admin"):
        headers = WAYS[way](application, f"{role}-secret")
        assert edge.call("GET", "/software_configs", None, headers=headers).status_code == 200
        answer = edge.call("POST", "/software_deployments", None, headers=headers, json={"config_id": id, "server_id": "s"})
        assert answer.status_code == (403 if role == "viewer" else 200)


def test_a_viewer_writes_nothing(edge):
    made = edge.deploy("web-1")
    for method, path in (
        ("POST", "/software_configs"),
        ("DELETE", f"/software_configs/{made['config_id']}"),
        ("POST", "/software_deployments"),
        ("PUT", f"/software_deployments/{made['id']}"),
        ("DELETE", f"/software_deployments/{made['id']}"),
    ):
        edge.fails(403, method, path, "viewer", json={})


@pytest.mark.parametrize("headers", [{}, {"X-Auth-Token": "notused"}, {"X-Auth-Token": "x"}, basic("x"), {"Authorization": "Basic !"}])
def test_an_unknown_credential_is_refused(edge, headers):
    for path in ("/software_configs", "/software_deployments", "/software_deployments/metadata/x", "/build_info"):
        answer = edge.call("GET", path, None, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["message"] == "The request you have made requires authentication."


def test_a_token_in_the_query_opens_nothing(edge):
    assert edge.call("GET", "/software_configs?token=admin-secret&access_token=admin-secret", None).status_code == 401


def test_another_project_is_forbidden(edge):
    assert edge.application.call("GET", "/heat/v1/other/software_configs").status_code == 403


def test_an_agent_of_ours_may_read_its_own_metadata_and_nothing_else(edge):
    token = edge.application.agent("web-1")
    edge.deploy("web-1")
    assert len(edge.ok("GET", "/software_deployments/metadata/web-1", token)["metadata"]) == 1
    for path in ("/software_deployments/metadata/web-2", "/software_deployments", "/software_configs"):
        edge.fails(403, "GET", path, token)


# ---------------------------------------------------------------------------------------------------- login


def test_a_login_answers_with_a_catalog_of_public_urls(edge):
    answer = login(edge.application)
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert token["project"]["id"] == "appliance"
    assert {one["type"]: one["endpoints"][0]["url"] for one in token["catalog"]} == {
        "identity": "http://testserver/heat/identity/v3",
        "orchestration": "http://testserver/heat/v1/appliance",
        "object-store": "http://testserver/v1/AUTH_appliance",
    }
    assert token["expires_at"] == "2023-11-14T23:13:20.000000Z"


def test_a_login_ends_after_an_hour_and_with_the_token_it_was_made_with(edge):
    application = edge.application
    made = application.ok("POST", "/v1/tokens", json={"name": "ci", "role": "operator"})
    given = login(application, made["token"]).headers["X-Subject-Token"]
    assert edge.call("GET", "/software_configs", given).status_code == 200
    application.clock.pass_(3_600_000)
    assert edge.call("GET", "/software_configs", given).status_code == 401
    fresh = login(application, made["token"]).headers["X-Subject-Token"]
    assert edge.call("GET", "/software_configs", fresh).status_code == 200
    application.ok("DELETE", "/v1/tokens/ci")
    assert edge.call("GET", "/software_configs", fresh).status_code == 401
    assert login(application, made["token"]).status_code == 401


def test_a_login_can_be_exchanged_and_does_not_open_the_native_api(edge):
    given = login(edge.application).headers["X-Subject-Token"]
    auth = {"identity": {"methods": ["token"], "token": {"id": given}}, "scope": {"project": {"id": "appliance"}}}
    answer = edge.application.call("POST", "/heat/identity/v3/auth/tokens", None, json={"auth": auth})
    assert answer.status_code == 201
    assert edge.application.call("GET", "/v1/servers", given).status_code == 401


def test_nothing_of_a_login_is_stored(edge):
    before = edge.application.rows()
    login(edge.application)
    assert edge.application.rows() == before


@pytest.mark.parametrize(
    "auth",
    [
        {},
        {"identity": []},
        {"identity": {"methods": ["password"]}},
        {"identity": {"methods": ["password"], "password": {"user": {"name": "a", "password": "wrong"}}}},
        {"identity": {"methods": ["token"], "token": {"id": "token~99999999999999~x.aaaa"}}},
        {
            "identity": {"methods": ["password"], "password": {"user": {"id": "x", "password": "admin-secret"}}},
            "scope": {"project": {"id": "other"}},
        },
    ],
)
def test_what_is_no_login_is_refused(edge, auth):
    assert edge.application.call("POST", "/heat/identity/v3/auth/tokens", None, json={"auth": auth}).status_code in (400, 401)


def test_an_agents_or_a_join_token_logs_nobody_in(edge):
    assert login(edge.application, edge.application.agent("web-1")).status_code == 401
    joining = edge.application.ok("POST", "/v1/servers", json={"name": "web-2"})["join_token"]
    assert login(edge.application, joining).status_code == 401
    assert edge.call("GET", "/software_configs", joining).status_code == 401


def test_the_identity_service_says_which_versions_it_has(edge):
    for path in ("/heat/identity", "/heat/identity/"):
        answer = edge.application.call("GET", path, None)
        assert (answer.status_code, answer.json()["versions"]["values"][0]["id"]) == (300, "v3.14")
    for path in ("/heat/identity/v3", "/heat/identity/v3/"):
        assert edge.application.ok("GET", path, None)["version"]["status"] == "stable"


# ---------------------------------------------------------------------------------------------------- no credential at all


@pytest.fixture
def open_edge(tmp_path):
    hosts = frozenset({"testserver"})
    with Application(tmp_path / "lab.db", Settings(url="http://testserver", hosts=hosts, heat_none=True)) as application:
        yield Edge(application)


def test_without_the_switch_nobody_gets_in_without_a_credential(edge):
    answer = edge.application.call("GET", f"{OPEN}/software_configs", None, headers={"X-Auth-Token": "notused"})
    assert answer.status_code == 401
    assert edge.application.ok("GET", "/heat/setup")["open_endpoint"] is None


def test_with_the_switch_the_secret_project_is_open_and_no_other(open_edge):
    application = open_edge.application
    headers = {"X-Auth-Token": "notused"}
    assert application.ok("GET", "/heat/setup")["open_endpoint"] == f"http://testserver{OPEN}"
    assert application.ok("POST", f"{OPEN}/software_configs", None, headers=headers, json={"name": "c"})["software_config"]["name"] == "c"
    assert application.call("GET", f"{OPEN}/software_configs", None).status_code == 200
    for path in (
        f"{BASE}/software_configs",
        f"{OPEN}x/software_configs",
        "/heat/v1/none/software_configs",
        "/heat/v1/none.x/software_configs",
    ):
        assert application.call("GET", path, None, headers=headers).status_code == 401
    assert application.call("GET", f"{OPEN}/software_configs", None, headers={"X-Auth-Token": "other"}).status_code == 401


@pytest.mark.parametrize("headers", [{"Origin": "http://testserver"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_page_of_a_browser_may_use_the_secret_project(open_edge, headers, method):
    answer = open_edge.application.call(method, f"{OPEN}/software_configs", None, headers=headers, json={})
    assert answer.status_code == 403
    assert open_edge.application.ok("GET", f"{BASE}/software_configs")["software_configs"] == []


def test_a_name_that_is_rebound_to_this_host_is_refused(open_edge):
    assert open_edge.application.call("GET", f"{OPEN}/software_configs", None, headers={"Host": "evil.example"}).status_code == 403


def test_a_page_of_another_site_may_not_write_with_a_stolen_token(edge):
    headers = {"Origin": "http://evil.example"}
    assert edge.call("POST", "/software_configs", headers=headers, json={}).status_code == 403


def test_only_an_operator_is_told_how_to_set_up_clients(edge):
    edge.application.fails(403, "GET", "/heat/setup", "viewer")
    edge.application.fails(401, "GET", "/heat/setup", None)


@pytest.mark.parametrize("odd", ["a~\u00b2~b.x", "a~" + "9" * 5000 + "~b.x", "~~."])
def test_an_odd_token_is_refused_like_any_other(edge, odd):
    answer = edge.call("GET", "/software_configs", None, headers={"X-Auth-Token": odd.encode("latin-1")})
    assert answer.status_code == 401


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_token_of_our_own_agent_takes_nothing_by_the_way_of_stock_agents(edge, method):
    application = edge.application
    added = application.ok("POST", "/v1/servers", json={"name": "web-1"})
    asked = {"token": added["join_token"], "instance": {"machine": "m"}, "agent_state": "s", "boot": "b"}
    token = application.call("POST", "/v1/join", None, json=asked).json()["token"]
    application.ok("POST", "/v1/deployments", json={"server": "web-1", "name": "a", "config": {"body": "#!/bin/sh\n"}})
    path = f"/stacks/servers/{added['id']}/resources/deployments/metadata"
    assert edge.call(method, path, None, headers={"X-Auth-Token": token}).status_code == 409
    assert application.ok("GET", "/v1/deployments/web-1/a")["phase"] == "pending"
