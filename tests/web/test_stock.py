"""The two URLs stock agents call."""

import pytest

from .talking import deploy

OK = {"deploy_stdout": "hello\n", "deploy_stderr": "", "deploy_status_code": 0}


@pytest.fixture
def added(application):
    return application.ok("POST", "/v1/servers", json={"name": "s", "stock": True})


def path_of(url):
    assert url.startswith("http://testserver/")
    return url.removeprefix("http://testserver")


def get(application, added, method="GET"):
    return application.call(method, path_of(added["metadata_url"]), None)


def inputs(item):
    return {one["name"]: one["value"] for one in item["inputs"]}


def signal_path(item):
    return path_of(inputs(item)["deploy_signal_id"])


def stands(application, name="a"):
    one = application.ok("GET", f"/v1/deployments/s/{name}")
    return one["phase"] or one["status"]


def test_a_server_for_a_stock_agent_is_added_with_its_whole_configuration(application, added):
    assert added["configuration"].startswith("[DEFAULT]\ncommand = os-refresh-config\ncollectors = request\n")
    assert f"metadata_url = {added['metadata_url']}\n" in added["configuration"]
    assert "join_token" not in added


def test_a_document_always_tells_the_agent_how_to_go_on(application, added):
    answer = get(application, added)
    own = answer.json()["os-collect-config"]
    assert (own["collectors"], own["request"]) == (["request"], {"metadata_url": added["metadata_url"]})
    assert answer.json()["deployments"] == []
    assert "last-modified" not in answer.headers


def test_head_is_answered_and_grants_nothing(application, added):
    deploy(application, "s", "a")
    answer = get(application, added, "HEAD")
    assert (answer.status_code, stands(application)) == (200, "pending")
    assert [item["name"] for item in get(application, added).json()["deployments"]] == ["a"]
    assert stands(application) == "granted"


def test_what_is_handed_out_is_in_the_file_before_it_is_answered(application, added):
    deploy(application, "s", "a")
    commit = application.database.commit_no
    answer = get(application, added)
    assert int(answer.headers["Appliance-Commit"]) > commit
    [item] = answer.json()["deployments"]
    assert application.ok("GET", f"/v1/runs/{item['id']}")["stands"] == "granted"
    assert get(application, added).content == answer.content


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}, {"Content-Type": ""}])
def test_a_report_is_taken_by_either_verb_and_twice(application, added, method, headers):
    deploy(application, "s", "a")
    [item] = get(application, added).json()["deployments"]
    for _ in range(2):
        answer = application.client.request(method, signal_path(item), json=OK, headers=headers)
        assert (answer.status_code, answer.json()["effect"]) == (200, "recorded")
    assert stands(application) == "COMPLETE"
    run = application.ok("GET", f"/v1/runs/{item['id']}")
    assert (run["stdout"], run["status_code"]) == ("hello\n", 0)


def test_an_empty_report_is_heats_success(application, added):
    deploy(application, "s", "a")
    [item] = get(application, added).json()["deployments"]
    assert application.client.put(signal_path(item), content=b"").status_code == 200
    assert stands(application) == "COMPLETE"


def test_a_report_of_the_greatest_size_such_an_agent_sends_is_taken_whole(application, added):
    deploy(application, "s", "a")
    [item] = get(application, added).json()["deployments"]
    assert application.client.put(signal_path(item), json=OK | {"deploy_stdout": "x" * 940_000}).status_code == 200
    assert len(application.ok("GET", f"/v1/runs/{item['id']}")["stdout"]) == 940_000


def test_bad_reports_are_refused_and_change_nothing(application, added):
    deploy(application, "s", "a")
    [item] = get(application, added).json()["deployments"]
    path = signal_path(item)
    application.fails(400, "PUT", path, None, content=b"{")
    application.fails(413, "PUT", path, None, content=b'"' + b"x" * (5 << 20) + b'"')
    application.fails(404, "PUT", path[:-1] + ("a" if path[-1] != "a" else "b"), None, json=OK)
    application.fails(404, "PUT", "/signal/nothing", None, json=OK)
    application.fails(404, "GET", "/metadata/nothing", None)
    application.fails(404, "GET", path.replace("/signal/", "/metadata/"), None)
    assert stands(application) == "granted"


def test_the_urls_of_one_agent_are_not_those_of_the_other_kind(application, added):
    token = application.agent("m")
    id = application.ok("GET", "/v1/servers/m")["id"]
    assert token
    application.fails(404, "GET", f"/metadata/{id}.x", None)
    application.fails(409, "POST", "/v1/servers/s/token", json={})


def test_a_removed_servers_urls_open_nothing(application, added):
    deploy(application, "s", "a")
    get(application, added)
    application.ok("DELETE", "/v1/servers/s")
    application.fails(404, "GET", path_of(added["metadata_url"]), None)


def test_when_it_was_last_seen_is_shown(application, added):
    assert application.ok("GET", "/v1/servers/s")["seen_at"] is None
    get(application, added)
    assert application.ok("GET", "/v1/servers/s")["seen_at"] is not None


def test_a_result_that_is_nested_too_deeply_is_recorded_without_it(application, added):
    deploy(application, "s", "a")
    item = get(application, added).json()["deployments"][0]
    deep = "[" * 300 + "]" * 300
    body = f'{{"deploy_status_code": 0, "deploy_stdout": "x", "odd": {deep}}}'
    answer = application.call("PUT", signal_path(item), None, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, stands(application)) == (200, "COMPLETE")
    run = application.ok("GET", "/v1/deployments/s/a")["run"]
    assert application.ok("GET", f"/v1/runs/{run}")["outputs"]["odd"].startswith("(left out: nested")


@pytest.mark.parametrize("body", ["[" * 100_000, "{", "[]"])
def test_an_unknown_signal_url_is_not_found_whatever_comes_with_it(application, body):
    answer = application.call("POST", "/signal/x.y", None, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 404


def test_a_signal_that_cannot_be_read_at_all_is_refused(application, added):
    deploy(application, "s", "a")
    item = get(application, added).json()["deployments"][0]
    answer = application.call("PUT", signal_path(item), None, content="[" * 100_000, headers={"Content-Type": "application/json"})
    assert (answer.status_code, stands(application)) == (400, "granted")
