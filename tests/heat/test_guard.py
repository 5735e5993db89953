"""Every route of the edge has a test and a row in its README; without the edge the rest stands."""

import ast
import json
import re
from pathlib import Path

from appliance import server
from appliance.operations import heat_identity
from appliance.web.heat import app

from ..samples import KEY
from .edge import BASE

HERE = Path(__file__).parent
README = Path(app.__file__).with_name("README.md")
P = "/heat/v1/{project}"
RESOURCE = f"{P}/stacks/{{stack}}/{{server}}/resources/{{resource}}"
ACCOUNT = "/v1/AUTH_appliance"

# By which test each route is shown to do what it should.
SHOWN_BY = {
    "GET /heat": "test_the_versions_and_the_odd_questions_are_answered",
    "GET /heat/": "test_the_versions_and_the_odd_questions_are_answered",
    "GET /heat/setup": "test_only_an_operator_is_told_how_to_set_up_clients",
    f"GET {P}/software_configs": "test_lists_are_newest_first_and_page",
    f"POST {P}/software_configs": "test_every_field_may_be_missing",
    f"GET {P}/software_configs/{{id}}": "test_a_body_is_any_json_and_comes_back_as_it_was",
    f"DELETE {P}/software_configs/{{id}}": "test_a_config_in_use_cannot_be_deleted_and_one_used_before_can",
    f"GET {P}/software_deployments": "test_lists_page_oldest_first",
    f"POST {P}/software_deployments": "test_a_server_is_found_by_id_then_by_name_else_made",
    f"GET {P}/software_deployments/{{id}}": "test_one_made_here_is_seen_natively_and_the_other_way_round",
    f"PUT {P}/software_deployments/{{id}}": "test_another_config_is_always_a_new_generation_and_the_answer_names_it",
    f"DELETE {P}/software_deployments/{{id}}": "test_a_delete_is_final_and_natively_a_tombstone",
    f"GET {P}/software_deployments/metadata/{{server}}": "test_equal_names_and_no_name_are_allowed_and_keep_the_order_of_creation",
    f"POST {P}/validate": "test_a_template_is_validated_as_far_as_it_is_known",
    f"GET {P}/services": "test_the_versions_and_the_odd_questions_are_answered",
    f"GET {P}/resource_types": "test_the_versions_and_the_odd_questions_are_answered",
    f"GET {P}/build_info": "test_the_versions_and_the_odd_questions_are_answered",
    f"GET {RESOURCE}/metadata": "test_the_heat_collector_gets_the_same_document_and_its_own_settings",
    f"POST {RESOURCE}/signal": "test_heat_signal_logs_in_and_signals_a_resource",
    "POST /heat/cfn/v1/signal/{arn:path}": "test_a_cloudformation_shaped_url_reports_too",
    "PUT /heat/cfn/v1/signal/{arn:path}": "test_a_cloudformation_shaped_url_reports_too",
    "GET /heat/identity": "test_the_identity_service_says_which_versions_it_has",
    "GET /heat/identity/": "test_the_identity_service_says_which_versions_it_has",
    "GET /heat/identity/v3": "test_the_identity_service_says_which_versions_it_has",
    "GET /heat/identity/v3/": "test_the_identity_service_says_which_versions_it_has",
    "POST /heat/identity/v3/auth/tokens": "test_a_login_answers_with_a_catalog_of_public_urls",
    f"HEAD {ACCOUNT}": "test_a_client_finds_the_key_and_makes_its_objects",
    f"POST {ACCOUNT}": "test_a_client_finds_the_key_and_makes_its_objects",
    f"PUT {ACCOUNT}/{{container}}": "test_a_client_finds_the_key_and_makes_its_objects",
    f"PUT {ACCOUNT}/{{container}}/{{object:path}}": "test_what_is_put_to_a_temporary_url_is_the_result_and_the_first_one_stands",
}


def routes() -> set[str]:
    """`METHOD path` of each, without the HEAD and OPTIONS that come along."""
    found = set()
    for route in app.ROUTES:
        extra = {"OPTIONS"} if route.methods == {"HEAD", "OPTIONS", "POST"} else {"OPTIONS", "HEAD"}
        found |= {f"{method} {route.path}" for method in (route.methods or set()) - extra}
    return found


def test_every_route_is_shown_by_a_test_that_there_is():
    assert routes() == set(SHOWN_BY)
    trees = [ast.parse(path.read_text()) for path in HERE.glob("test_*.py")]
    there = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert set(SHOWN_BY.values()) <= there


def test_every_route_has_a_row_in_the_readme_and_every_row_a_route():
    rows = [line.split("|")[1] for line in README.read_text().splitlines() if line.startswith("| `")]
    named = {one for row in rows for one in re.findall(r"`([A-Z]+ \S+)`", row)}
    assert {one.replace(" P/", f" {P}/") for one in named} == routes()


def test_every_path_says_its_methods_and_refuses_others(edge):
    for path, allowed in (("/software_configs", "GET,POST"), ("/software_deployments/x", "DELETE,GET,PUT")):
        answer = edge.call("OPTIONS", path)
        assert (answer.status_code, answer.headers["Allow"], answer.content) == (204, allowed, b"")
        error = edge.fails(405, "PATCH", path, json={})
        assert error["type"] == "HTTPMethodNotAllowed"
    for path in (BASE, f"{BASE}/nope", "/heat/v1", "/heat/nope", f"{BASE}/software_configs/", "/v1/AUTH_appliance/"):
        answer = edge.application.call("GET", path)
        assert answer.status_code in (404, 405), path
        assert answer.json()["error"]["message"]


def test_the_versions_and_the_odd_questions_are_answered(edge):
    for path in ("/heat", "/heat/"):
        answer = edge.application.call("GET", path, None)
        assert answer.status_code == 300
        assert answer.json()["versions"][0]["links"][0]["href"] == "http://testserver/heat/v1/"
    assert edge.fails(403, "GET", "/services")["message"] == "You are not authorized to use service:index."
    assert edge.ok("GET", "/resource_types?name=Value") == {"resource_types": ["OS::Heat::Value"]}
    described = edge.ok("GET", "/resource_types?with_description=True&name=Value")
    assert described == {"resource_types": [{"resource_type": "OS::Heat::Value", "description": ""}]}
    assert edge.ok("GET", "/build_info").keys() == {"api", "engine"}


def test_a_template_is_validated_as_far_as_it_is_known(edge):
    parameters = {"n": {"type": "number", "default": 1}, "s": {"type": "string", "description": "d", "hidden": True, "label": "L"}}
    template = {"description": "T", "parameters": parameters, "resources": {"c": {"type": "OS::Heat::SoftwareConfig"}}}
    for form in (template, json.dumps(template)):
        found = edge.ok("POST", "/validate", json={"template": form, "environment": {"parameters": {"n": 2}, "odd": 1}})
        assert found["Description"] == "T"
        assert found["Parameters"] == {
            "n": {"Type": "Number", "Description": "", "NoEcho": "false", "Label": "n", "Default": 1},
            "s": {"Type": "String", "Description": "d", "NoEcho": "true", "Label": "L"},
        }
        assert found["Environment"]["parameters"] == {"n": 2}
        assert "odd" not in found["Environment"]
    bad = {"template": {"resources": {"v": {"type": "OS::Nope::Thing"}}}}
    assert edge.fails(400, "POST", "/validate", json=bad)["message"] == "The Resource Type (OS::Nope::Thing) could not be found."


def test_the_limit_of_a_body_is_heats(edge):
    content = b'{"config": "' + b"x" * (1 << 20) + b'"}'
    error = edge.fails(400, "POST", "/software_configs", content=content, headers={"Content-Type": "application/json"})
    assert error["type"] == "RequestLimitExceeded"
    assert f"JSON body size ({len(content)} bytes) exceeds maximum allowed size (1048576 bytes)" in error["message"]


def test_the_native_product_stands_without_the_edge(application):
    from starlette.testclient import TestClient

    with TestClient(server.build(application.context, heat=False), raise_server_exceptions=False) as client:
        headers = {"Authorization": "Bearer admin-secret"}
        assert client.get("/v1/servers", headers=headers).status_code == 200
        for path in ("/heat", "/heat/v1/appliance/software_configs", "/v1/AUTH_appliance/x"):
            assert client.get(path, headers=headers).status_code == 404


def test_secrets_in_paths_are_masked_in_the_log():
    from appliance.web.respond import masked

    path = f"/heat/v1/{heat_identity.open_project(KEY)}/software_configs"
    assert masked(path) == "/heat/v1/none.***/software_configs"
    secret = KEY.url_secret("signal", "run", 1)
    assert masked(f"/heat/cfn/v1/signal/arn:x/resources/{secret}").endswith("/resources/run.***")
