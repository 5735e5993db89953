"""What stands before every route: hosts, origins, content types, the headers of every answer, the access log, one form of errors."""

import logging

import pytest
from starlette.routing import Route

from appliance import server
from appliance.web.context import Settings
from appliance.web.front import host_of
from appliance.web.respond import masked

from ..application import Application, error_of

JSON = {"Content-Type": "application/json"}


# ---------------------------------------------------------------------------------------------------- hosts


@pytest.mark.parametrize("host", ["testserver", "TESTSERVER", "testserver:8642", "testserver:1"])
def test_its_own_host_is_answered_with_any_port(application, host):
    assert application.call("GET", "/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "", "testserver.evil.example", "evil.example:80", "127.0.0.1", "[::1]", "a@b", "[", ":80"]
)
@pytest.mark.parametrize("method, path", [("GET", "/healthz"), ("GET", "/v1/plans"), ("POST", "/v1/servers"), ("GET", "/metadata/x.y")])
def test_another_host_is_refused_on_every_route(application, host, method, path):
    """A page that was given a name for our address (DNS rebinding) gets nothing."""
    error = application.fails(403, method, path, headers={"Host": host}, **({"json": {"name": "web-1"}} if method == "POST" else {}))
    assert error["code"] == "forbidden"
    assert "--allow-host" in error["hint"]


def test_the_host_of_an_address_is_its_name_without_port_and_brackets():
    assert host_of("Lab.Example:8642") == "lab.example"
    assert host_of("[::1]:8642") == "::1"
    assert host_of("[::1]") == "::1"
    assert host_of("user@lab") == "lab"
    assert host_of("") == ""


def test_an_address_in_brackets_can_be_allowed(tmp_path):
    with Application(tmp_path / "lab.db", Settings(url="http://[::1]:1", hosts=frozenset({"::1"}))) as application:
        assert application.call("GET", "/healthz", headers={"Host": "[::1]:1"}).status_code == 200


# ---------------------------------------------------------------------------------------------------- pages of other sites


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://evil.example:443", "null", "", "http://testserver.evil.example", "http://testserver:3000", "http://[",
               "file://", "testserver", "http://testserver@evil.example"]
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_page_of_another_site_may_not_write(application, origin, method):
    error = application.fails(403, method, "/v1/servers/x", headers={"Origin": origin, **JSON})
    assert error["code"] == "forbidden"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_a_browser_that_says_it_comes_from_elsewhere_may_not_write(application, site):
    application.fails(403, "POST", "/v1/servers", headers={"Sec-Fetch-Site": site}, json={"name": "web-1"})


@pytest.mark.parametrize("origin", ["http://testserver", "https://testserver", "http://TestServer"])
@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_page_of_our_own_may_write(application, origin, site):
    application.ok("POST", "/v1/servers", headers={"Origin": origin, "Sec-Fetch-Site": site}, json={"name": "web-1"})


def test_reading_is_not_writing(application):
    application.ok("GET", "/v1/servers", headers={"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"})


# ---------------------------------------------------------------------------------------------------- content types


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; b=x",
        "text/plain; application/json",
        "application/jsonx",
    ],
)
@pytest.mark.parametrize("method, path", [("POST", "/v1/servers"), ("PUT", "/v1/blobs/x"), ("PATCH", "/v1/servers/x")])
def test_a_content_type_that_a_form_could_send_is_refused(application, method, path, kind):
    error = application.fails(400, method, path, headers={"Content-Type": kind}, content=b'{"name": "web-1"}')
    assert "Content-Type" in error["message"]
    assert "application/json" in error["hint"]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json;x"])
def test_json_is_taken_however_it_is_written(application, kind):
    application.ok("POST", "/v1/servers", headers={"Content-Type": kind}, content=b'{"name": "web-1"}')


def test_a_stock_agent_may_report_without_one(application):
    """heat-config-notify sends none; the URL is the credential."""
    answer = application.call("POST", "/signal/x.y", None, headers={"Content-Type": ""}, content=b"{}")
    assert answer.status_code == 404
    error_of(answer)


# ---------------------------------------------------------------------------------------------------- what every answer carries


@pytest.mark.parametrize(
    "method, path, role, status",
    [
        ("GET", "/healthz", None, 200),
        ("GET", "/agent.pyz", None, 200),
        ("HEAD", "/healthz", None, 200),
        ("GET", "/v1/plans", "viewer", 200),
        ("GET", "/v1/plans", None, 401),
        ("DELETE", "/v1/plans/lab", "viewer", 403),
        ("GET", "/v1/plans/lab", "viewer", 404),
        ("GET", "/nowhere", None, 404),
        ("POST", "/healthz", None, 405),
        ("GET", "/metadata/x.y", None, 404),
    ],
)
def test_every_answer_carries_commit_and_epoch_and_is_not_sniffed(application, method, path, role, status):
    answer = application.call(method, path, role)
    assert answer.status_code == status
    assert answer.headers["Appliance-Commit"] == str(application.database.commit_no)
    assert answer.headers["Appliance-Epoch"] == "1.e"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_commit_in_an_answer_is_not_older_than_what_it_did(application):
    before = application.database.commit_no
    answer = application.call("POST", "/v1/servers", json={"name": "web-1"})
    assert int(answer.headers["Appliance-Commit"]) == before + 1


# ---------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "method, path, status, code",
    [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/v1", 404, "not-found"),
        ("GET", "/v1/plans/", 404, "not-found"),
        ("GET", "/v1/nothing/at/all", 404, "not-found"),
        ("DELETE", "/v1/plans", 405, "method"),
        ("OPTIONS", "/v1/plans", 405, "method"),
        ("BREW", "/v1/plans", 405, "method"),
        ("POST", "/healthz", 405, "method"),
        ("GET", "/v1/join", 405, "method"),
    ],
)
def test_what_is_not_there_has_the_one_form_of_errors(application, method, path, status, code):
    error = application.fails(status, method, path)
    assert error["code"] == code
    assert "/openapi.json" in error["hint"]


def test_405_says_what_is_allowed(application):
    assert "GET" in application.call("DELETE", "/v1/plans").headers["Allow"]


def test_401_says_how_to_authenticate_and_503_when_to_come_back(application):
    assert application.call("GET", "/v1/plans", None).headers["WWW-Authenticate"] == "Bearer"
    application.ok("GET", "/v1/plans")
    application.database.close()
    answer = application.call("POST", "/v1/servers", json={"name": "web-1"})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert error_of(answer)["code"] == "busy"


@pytest.fixture
def broken(application):
    """An application with a route that has a bug."""

    async def bug(request):
        raise RuntimeError("the secret is s3cr3t")

    route = Route("/metadata/bug/{rest}", bug)
    inner = application.client.app.app
    inner.router.routes.insert(0, route)
    yield application
    inner.router.routes.remove(route)


def test_a_bug_is_an_internal_error_in_the_one_form_that_shows_nothing_of_it(broken, caplog):
    answer = broken.call("GET", "/metadata/bug/x.topsecret", None)
    assert answer.status_code == 500
    assert error_of(answer)["code"] == "internal"
    assert "s3cr3t" not in answer.text
    assert "RuntimeError" not in answer.text
    [record] = [one for one in caplog.records if one.name == "appliance.web"]
    assert record.exc_info
    assert record.levelno == logging.ERROR


def test_the_table_of_statuses_has_every_error_of_the_domain():
    from appliance import errors
    from appliance.web.respond import STATUS, status_of

    leaves = [one for one in vars(errors).values() if isinstance(one, type) and one.__mro__[1:2] == (errors.ApplianceError,)]
    assert len(leaves) >= 9
    assert set(leaves) == STATUS.keys()
    assert all(status_of(one("x")) == STATUS[one] for one in leaves)
    assert len({one.code for one in leaves}) == len(leaves)


# ---------------------------------------------------------------------------------------------------- the access log


@pytest.fixture
def logging_application(tmp_path, caplog):
    caplog.set_level(logging.INFO, "appliance.access")
    settings = Settings(url="http://testserver", hosts=frozenset({"testserver"}), access_log=True)
    with Application(tmp_path / "lab.db", settings) as application:
        yield application


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "appliance.access"]


def test_each_request_is_one_line_with_its_status(logging_application, caplog):
    logging_application.call("GET", "/v1/plans")
    logging_application.call("GET", "/v1/plans", None)
    logging_application.call("GET", "/v1/plans", headers={"Host": "evil.example"})
    assert [line.rsplit(" ", 2)[0] for line in lines(caplog)] == ["GET /v1/plans 200", "GET /v1/plans 401", "GET /v1/plans 403"]


@pytest.mark.parametrize(
    "path",
    [
        "/metadata/id.s3cr3t",
        "/signal/id.s3cr3t",
        "//metadata/id.s3cr3t",
        "/metadata//id.s3cr3t",
        "/%6detadata/id.s3cr3t",
        "/x/metadata/id.s3cr3t",
        "/metadata/id.s3cr3t/",
        "/metadata/id%2es3cr3t",
        "/heat/v1/p/signal/id.s3cr3t/more",
    ],
)
def test_url_secrets_are_not_logged_wherever_they_stand(logging_application, caplog, path):
    logging_application.call("POST", f"http://testserver{path}", None, json={})
    [line] = lines(caplog)
    assert "id.***" in line
    assert "s3cr3t" not in line


@pytest.mark.parametrize("query", ["token=s3cr3t", "access_token=s3cr3t", "X-Auth-Token=s3cr3t", "label=s3cr3t"])
def test_queries_are_not_logged(logging_application, caplog, query):
    logging_application.call("GET", f"/v1/servers?{query}")
    assert "s3cr3t" not in "".join(lines(caplog))


def test_a_path_cannot_write_a_line_of_its_own_into_the_log(logging_application, caplog):
    logging_application.call("GET", "/v1/plans/a%0aGET%20/fake%20200%20%1b[31m")
    [line] = lines(caplog)
    assert "\n" not in line
    assert "\x1b" not in line


def test_a_bug_is_in_the_access_log_too(tmp_path, caplog):
    caplog.set_level(logging.INFO, "appliance.access")

    async def bug(request):
        raise RuntimeError

    settings = Settings(url="http://testserver", hosts=frozenset({"testserver"}), access_log=True)
    with Application(tmp_path / "lab.db", settings) as application:
        inner = application.client.app.app
        inner.router.routes.insert(0, Route("/bug", bug))
        application.call("GET", "/bug")
        del inner.router.routes[0]
    assert [line.rsplit(" ", 2)[0] for line in lines(caplog)] == ["GET /bug 500"]


def test_the_log_is_silent_unless_asked_for(application, caplog):
    caplog.set_level(logging.INFO, "appliance.access")
    application.call("GET", "/v1/plans")
    assert lines(caplog) == []


def test_masking_leaves_other_paths_as_they_are():
    assert masked("/v1/runs/r.s/signals") == "/v1/runs/r.s/signals"
    assert masked("/v1/plans/lab/versions/1/files/etc/x.conf") == "/v1/plans/lab/versions/1/files/etc/x.conf"


def test_the_routes_of_two_applications_are_not_shared(application):
    """So that a test, or an embedding program, that adds one does not change the other."""
    assert application.client.app.app.router.routes is not server.ROUTES
