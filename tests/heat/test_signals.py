"""Reports on every transport a client or template can ask for, and the `heat` collector."""

import configparser
import hashlib
import hmac

import pytest

from appliance.operations.heat_signals import temp_url_key

from ..samples import KEY
from .edge import BASE
from .test_documents import fit

OBJECT = "/v1/AUTH_appliance/box/thing"


def transport(value):
    return [{"name": "deploy_signal_transport", "type": "String", "value": value}]


def login(edge, user, password, project="appliance"):
    user = {"id": user, "password": password}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": {"project": {"id": project}}}
    return edge.application.call("POST", "/heat/identity/v3/auth/tokens", None, json={"auth": auth})


def signed(path=OBJECT, expires=1_800_000_000, name="sha256", key=None):
    signature = hmac.digest((key or temp_url_key(KEY)).encode(), f"PUT\n{expires}\n{path}".encode(), getattr(hashlib, name)).hex()
    return f"{path}?temp_url_sig={signature}&temp_url_expires={expires}"


@pytest.mark.parametrize(
    ("asked", "verb"),
    [("TEMP_URL_SIGNAL", "PUT"), ("NO_SIGNAL", "PUT"), ("ZAQAR_SIGNAL", "PUT"), ("CFN_SIGNAL", "POST"), ("nonsense", "PUT"), (None, "PUT")],
)
def test_a_transport_that_needs_a_url_gets_our_own(edge, asked, verb):
    stock = edge.stock("old-1")
    foreign = [{"name": "deploy_signal_id", "value": "http://elsewhere/"}, {"name": "deploy_signal_verb", "value": "POST"}]
    inputs = (transport(asked) if asked else []) + foreign
    made = edge.deploy("old-1", edge.config(inputs=inputs)["id"], status="IN_PROGRESS")
    [item] = stock.poll()
    told = stock.inputs(item)
    assert told["deploy_signal_id"].startswith("http://testserver/signal/")
    assert told["deploy_signal_verb"] == verb
    assert told["deploy_signal_transport"] == (asked or "TEMP_URL_SIGNAL")
    assert stock.report(item, deploy_stdout="out", deploy_stderr="", deploy_status_code=0).status_code == 200
    assert edge.show(made["id"])["status"] == "COMPLETE"


def test_a_derived_config_passes_its_own_words_on(edge):
    stock = edge.stock("old-1")
    given = {"deploy_server_id": "nova-1", "deploy_action": "SUSPEND", "deploy_stack_id": "s/1", "deploy_resource_name": "r", "w": "me"}
    edge.deploy("old-1", edge.config(inputs=[{"name": name, "value": value} for name, value in given.items()])["id"])
    [item] = stock.poll()
    told = stock.inputs(item)
    assert {name: told[name] for name in given} == given


def test_outputs_and_reasons_are_worded_as_heat_words_them(edge):
    stock = edge.stock("old-1")
    outputs = [{"name": "result"}, {"name": "err", "error_output": True}, {"name": "never"}]
    made = edge.deploy("old-1", edge.config(outputs=outputs)["id"])
    [item] = stock.poll()
    stock.report(item, result="R", err="E", undeclared="u", deploy_stdout="o", deploy_stderr="e", deploy_status_code="7")
    shown = edge.show(made["id"])
    assert shown["status"] == "FAILED"
    assert shown["status_reason"] == "deploy_status_code : Deployment exited with non-zero status code: 7, err : E"
    wanted = {"result": "R", "err": "E", "deploy_stdout": "o", "deploy_stderr": "e", "deploy_status_code": "7"}
    assert shown["output_values"] == wanted
    assert shown["updated_time"] == "2023-11-14T22:13:20Z"


def test_an_empty_report_is_complete_with_three_nulls(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1")
    [item] = stock.poll()
    stock.report(item)
    shown = edge.show(made["id"])
    assert (shown["status"], shown["status_reason"]) == ("COMPLETE", "Outputs received")
    assert shown["output_values"] == {"deploy_stdout": None, "deploy_stderr": None, "deploy_status_code": None}


def test_a_second_signal_gets_the_first_answer_and_an_unknown_url_is_not_found(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1")
    [item] = stock.poll()
    first = stock.report(item, deploy_status_code=0)
    assert stock.report(item, deploy_status_code=0).json() == first.json()
    different = stock.report(item, deploy_status_code=1).json()
    assert different == {"effect": "none", "why": "this run was reported before as COMPLETE", "status": "COMPLETE"}
    assert edge.show(made["id"])["status"] == "COMPLETE"
    for path in ("/signal/nope.aaaa", "/heat/cfn/v1/signal/arn:openstack:heat::p:stacks/s/i/resources/nope.aaaa"):
        assert edge.application.call("POST", path, None, json={}).status_code == 404


def test_a_cloudformation_shaped_url_reports_too(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1", edge.config(inputs=transport("CFN_SIGNAL"))["id"])
    [item] = stock.poll()
    secret = stock.inputs(item)["deploy_signal_id"].rpartition("/")[2]
    path = f"/heat/cfn/v1/signal/arn%3Aopenstack%3Aheat%3A%3Aappliance%3Astacks/s/i/resources/{secret}?Signature=x"
    headers = {"Content-Type": ""}
    assert edge.application.call("POST", path, None, content=b'{"deploy_status_code": 0}', headers=headers).status_code == 200
    assert edge.show(made["id"])["status"] == "COMPLETE"


def test_heat_signal_logs_in_and_signals_a_resource(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1", edge.config(inputs=transport("HEAT_SIGNAL"))["id"])
    [item] = stock.poll()
    told = stock.inputs(item)
    assert "deploy_signal_id" not in told
    assert told["deploy_auth_url"] == "http://testserver/heat/identity/v3"
    given = login(edge, told["deploy_user_id"], told["deploy_password"], told["deploy_project_id"])
    assert given.status_code == 201
    catalog = {one["type"]: one["endpoints"][0]["url"] for one in given.json()["token"]["catalog"]}
    endpoint = catalog["orchestration"].removeprefix("http://testserver")
    path = f"{endpoint}/stacks/{told['deploy_stack_id']}/resources/{told['deploy_resource_name']}/signal"
    headers = {"X-Auth-Token": given.headers["X-Subject-Token"]}
    report = {"deploy_stdout": "o", "deploy_status_code": 0}
    for _ in range(2):
        answer = edge.application.call("POST", path, None, json=report, headers=headers)
        assert (answer.status_code, answer.json()) == (200, None)
    assert edge.show(made["id"])["status"] == "COMPLETE"
    elsewhere = path.replace(told["deploy_resource_name"], "00000000-0000-4000-8000-00000000ffff")
    assert edge.application.call("POST", elsewhere, None, json=report, headers=headers).status_code == 404
    for other in (f"{BASE}/software_configs", f"{BASE}/software_deployments/{made['id']}", "/v1/servers"):
        assert edge.application.call("GET", other, None, headers=headers).status_code in (401, 403)
    for role in ("admin", "viewer"):  # people have no business there
        assert edge.application.call("POST", path, role, json=report).status_code == 404


def test_a_stock_agent_reports_and_reads_nothing_of_another_server(edge):
    edge.stock("old-1")
    edge.stock("old-2")
    edge.deploy("old-2", edge.config(inputs=transport("HEAT_SIGNAL"))["id"])
    mine, other = (configuration(edge, name) for name in ("old-1", "old-2"))
    given = login(edge, mine["user_id"], mine["password"])
    headers = {"X-Auth-Token": given.headers["X-Subject-Token"]}
    path = f"{BASE}/stacks/{other['stack_id']}/resources/{other['resource_name']}/metadata"
    assert edge.application.call("GET", path, None, headers=headers).status_code == 404
    assert login(edge, other["user_id"], mine["password"]).status_code == 401
    assert login(edge, mine["user_id"], mine["password"] + "x").status_code == 401
    assert login(edge, "nobody", "x.y").status_code == 401
    assert edge.call("GET", "/software_deployments/metadata/old-2", None, headers=headers).status_code == 403
    assert edge.call("GET", "/software_deployments/metadata/old-1", None, headers=headers).json() == {"metadata": []}


def configuration(edge, name):
    text = edge.application.ok("GET", f"/v1/servers/{name}/configuration")["heat_configuration"]
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(text)
    assert parsed["DEFAULT"]["collectors"] == "heat"
    return {
        name: parsed["heat"][name] for name in ("auth_url", "user_id", "password", "project_id", "stack_id", "resource_name", "region_name")
    }


def test_the_heat_collector_gets_the_same_document_and_its_own_settings(edge):
    stock = edge.stock("old-1")
    made = edge.deploy("old-1")
    asked = configuration(edge, "old-1")
    given = login(edge, asked["user_id"], asked["password"], asked["project_id"])
    path = f"{BASE}/stacks/{asked['stack_id']}/resources/{asked['resource_name']}/metadata"
    answer = edge.application.call("GET", path, None, headers={"X-Auth-Token": given.headers["X-Subject-Token"]})
    document = answer.json()["metadata"]
    fit(document, "heat")
    assert document["os-collect-config"]["heat"] == asked
    assert document["deployments"] == stock.poll()
    assert edge.native(made["id"])["phase"] == "granted"
    assert edge.native(made["id"])["sentence"].startswith("delivered, no result since 2023-11-14T22:13:20Z")


def test_a_login_of_a_removed_server_opens_nothing(edge):
    edge.stock("old-1")
    asked = configuration(edge, "old-1")
    token = login(edge, asked["user_id"], asked["password"]).headers["X-Subject-Token"]
    edge.application.ok("DELETE", "/v1/servers/old-1")
    path = f"{BASE}/stacks/{asked['stack_id']}/resources/{asked['resource_name']}/metadata"
    assert edge.application.call("GET", path, None, headers={"X-Auth-Token": token}).status_code == 401
    assert login(edge, asked["user_id"], asked["password"]).status_code == 401


# ---------------------------------------------------------------------------------------------------- the object store


def waiting(edge, path=OBJECT, server="somewhere"):
    inputs = [{"name": "deploy_signal_id", "value": f"http://testserver{signed(path)}"}, *transport("TEMP_URL_SIGNAL")]
    return edge.deploy(server, edge.config(inputs=inputs, outputs=[{"name": "result"}])["id"], status="IN_PROGRESS")["id"]


def put(edge, path, **report):
    return edge.application.call("PUT", path, None, json=report)


def test_a_client_finds_the_key_and_makes_its_objects(edge):
    application = edge.application
    answer = application.call("HEAD", "/v1/AUTH_appliance")
    assert answer.headers["X-Account-Meta-Temp-Url-Key"] == temp_url_key(KEY)
    assert application.call("HEAD", "/v1/AUTH_appliance", "viewer").status_code == 403
    assert application.call("PUT", "/v1/AUTH_appliance/box", content=b"", headers={"Content-Type": ""}).status_code == 201
    assert application.call("PUT", OBJECT, content=b"", headers={"Content-Type": ""}).status_code == 201
    assert application.call("PUT", OBJECT, content=b"data", headers={"Content-Type": ""}).status_code == 403
    assert application.call("POST", "/v1/AUTH_appliance", headers={"X-Account-Meta-Temp-Url-Key": "mine"}).status_code == 403
    assert application.call("POST", "/v1/AUTH_appliance", headers={"X-Account-Meta-Temp-Url-Key": temp_url_key(KEY)}).status_code == 204


@pytest.mark.parametrize("name", ["sha1", "sha256", "sha512"])
def test_what_is_put_to_a_temporary_url_is_the_result_and_the_first_one_stands(edge, name):
    id = waiting(edge)
    assert put(edge, signed(name=name), result="R", deploy_stdout="out", deploy_status_code=0).status_code == 201
    shown = edge.show(id)
    assert (shown["status"], shown["status_reason"]) == ("COMPLETE", "Outputs received")
    assert shown["output_values"] == {"result": "R", "deploy_stdout": "out", "deploy_stderr": None, "deploy_status_code": 0}
    assert put(edge, signed(name=name), deploy_status_code=1).status_code == 201
    assert edge.show(id) == shown


def test_a_result_of_a_delivered_one_is_that_of_its_run(edge):
    stock = edge.stock("old-1")
    id = waiting(edge, server="old-1")
    stock.poll()
    put(edge, signed(), deploy_stdout="out", deploy_status_code=0)
    [run] = edge.application.ok("GET", f"/v1/deployments/{id}/runs")["runs"]
    assert (run["status"], edge.show(id)["status"]) == ("COMPLETE", "COMPLETE")


def test_an_expired_or_wrongly_signed_url_is_refused_and_so_is_one_nobody_waits_for(edge):
    id = waiting(edge)
    for path, status in (
        (signed(expires=1_600_000_000), 401),
        (signed(key="another"), 401),
        (signed().replace("thing", "other"), 401),
        (f"{OBJECT}?temp_url_sig=&temp_url_expires=x", 401),
        (OBJECT, 401),
        (signed("/v1/AUTH_appliance/box/other"), 404),
    ):
        assert put(edge, path, deploy_status_code=0).status_code == status, path
    assert edge.show(id)["status"] == "IN_PROGRESS"


def test_a_result_of_a_new_generation_counts_again(edge):
    id = waiting(edge)
    put(edge, signed(), deploy_stdout="1", deploy_status_code=1)
    inputs = [{"name": "deploy_signal_id", "value": f"http://testserver{signed()}"}]
    edge.put(id, config_id=edge.config(inputs=inputs)["id"])
    assert edge.show(id)["status"] == "IN_PROGRESS"
    put(edge, signed(), deploy_stdout="2", deploy_status_code=0)
    assert edge.show(id)["status"] == "COMPLETE"
    assert edge.show(id)["output_values"]["deploy_stdout"] == "2"
