"""/openapi.json says what there is, and all of it."""

import re

import pytest
from starlette.routing import Route

from appliance import server
from appliance.web.native import openapi

ROUTES = [route for route in server.ROUTES if isinstance(route, Route)]


def plain(path: str) -> str:
    return re.sub(r":[a-z]+\}", "}", path)


def test_every_route_is_described(application):
    answer = application.call("GET", "/openapi.json", None)
    found = answer.json()
    assert answer.status_code == 200
    assert found["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert described == {(method, plain(route.path)) for route in ROUTES for method in route.methods - {"HEAD"}}
    assert len(ROUTES) == len(server.ROUTES), "a route that is not described here"


def test_every_reference_leads_to_a_schema():
    found = openapi.document(ROUTES)
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', str(found).replace("'", '"')))
    assert names <= found["components"]["schemas"].keys()
    assert {"DeploymentIn", "ConfigIn", "SwitchIn", "ManifestIn", "Asked", "Started", "Finished", "Error"} <= names


def test_operations_have_unique_ids():
    ids = [one["operationId"] for path in openapi.document(ROUTES)["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{sorted(route.methods)[0]} {route.path}")
def test_every_handler_says_its_method_and_path(route):
    """So that the description, which quotes it, cannot be another route's."""
    said = re.match(r"([A-Z|]+(?: and HEAD)?) (/[^\s?:,]*?)\.?(?=[\s?:,]|$)", route.endpoint.__doc__)
    assert said, route.endpoint.__doc__
    methods = set(said[1].replace(" and ", "|").split("|"))
    assert methods <= route.methods
    assert route.methods - {"HEAD"} <= methods
    assert re.sub(r"\{\w+\}", "{}", said[2]) == re.sub(r"\{\w+\}", "{}", plain(route.path))


def test_every_route_that_writes_says_what_it_takes():
    writing = {route.endpoint for route in ROUTES if route.methods & {"POST", "PUT", "PATCH"}}
    assert writing == openapi.BODIES.keys()


def test_only_what_needs_no_token_is_described_so():
    paths = openapi.document(ROUTES)["paths"]
    free = {path for path, methods in paths.items() for one in methods.values() if one.get("security") == []}
    assert free == {"/healthz", "/openapi.json", "/agent.pyz", "/v1/join", "/metadata/{secret}", "/signal/{secret}"}


def test_query_parameters_stand_in_the_description():
    got = openapi.document(ROUTES)["paths"]["/v1/deployments/{ref}"]["get"]["parameters"]
    assert [(one["in"], one["name"]) for one in got] == [("path", "ref"), ("query", "wait"), ("query", "generation")]
