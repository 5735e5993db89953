"""What stock agents ask that speak to Heat itself: the `heat` collector's document, and signals by HEAT_SIGNAL and CFN_SIGNAL."""

from starlette.requests import Request
from starlette.responses import Response

from appliance.operations import heat_signals, stock
from appliance.operations.signals import Effect
from appliance.operations.stock import Urls
from appliance.store.tx import Tx
from appliance.web.context import context
from appliance.web.heat.access import require_stock
from appliance.web.heat.faults import Fault
from appliance.web.heat.requests import json_of, resource
from appliance.web.respond import Json, perform


async def get_document(request: Request) -> Response:
    """A stock server's document, for the agent that logged in as it; delivering is granting."""
    appliance = context(request)
    server = _server(request)
    if request.path_params["resource"] != stock.RESOURCE:
        raise _no_resource(request)
    if request.method == "GET" and appliance.database.read(stock.has_news, server):
        await perform(request, stock.deliver, appliance.key, server)
    appliance.seen.note(server, appliance.database.clock(), appliance.database.commit_no)
    found = appliance.database.read(stock.current_document, appliance.key, Urls(appliance.settings.url), server, "heat")
    return Json(b'{"metadata":%b}' % found)


async def signal_resource(request: Request) -> Response:
    """A stock agent reports one run, as Heat's resource signal. The first report stands; every one is answered alike."""
    appliance = context(request)
    server = _server(request)
    body = await json_of(request)
    await perform(request, heat_signals.by_resource, server, request.path_params["resource"], {} if body is None else body)
    appliance.seen.note(server, appliance.database.clock())
    return Json(None)


def _server(request: Request) -> str:
    if request.path_params["stack"] != stock.STACK:
        raise Fault(404, "EntityNotFound", f"The Stack ({request.path_params['stack']}) could not be found.")
    return require_stock(request, request.path_params["server"])


def _no_resource(request: Request) -> Fault:
    name, stack = request.path_params["resource"], request.path_params["stack"]
    return Fault(404, "ResourceNotFound", f"The Resource ({name}) could not be found in Stack {stack}.")


async def signal_cfn(request: Request) -> Response:
    """A stock agent reports one run at a CloudFormation-shaped URL; the last part of the ARN is the secret."""
    appliance = context(request)
    secret = request.path_params["arn"].rpartition("/")[2]
    body = await json_of(request)

    def record(tx: Tx) -> Effect:
        return stock.report(tx, appliance.key, secret, {} if body is None else body)

    return Json(await perform(request, record))


_RESOURCE = "/heat/v1/{project}/stacks/{stack}/{server}/resources/{resource}"

routes = [
    resource(f"{_RESOURCE}/metadata", GET=get_document),
    resource(f"{_RESOURCE}/signal", POST=signal_resource),
    resource("/heat/cfn/v1/signal/{arn:path}", POST=signal_cfn, PUT=signal_cfn),
]
