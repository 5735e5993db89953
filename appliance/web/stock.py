"""The two URLs stock agents call: os-collect-config's `request` collector polls one, heat-config-notify reports to the other."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.errors import Invalid
from appliance.operations import stock
from appliance.operations.signals import Effect
from appliance.operations.stock import Urls
from appliance.store.tx import Tx
from appliance.web.context import context
from appliance.web.respond import Json, body_of, perform

SIGNAL_BODY = 4 << 20


async def metadata(request: Request) -> Response:
    """GET|HEAD /metadata/{secret}. A GET that shows something new is answered only after the commit that records it as granted."""
    appliance = context(request)
    secret = request.path_params["secret"]
    urls = Urls(appliance.settings.url)
    server = appliance.database.read(stock.whose_metadata, appliance.key, secret)
    if request.method == "GET":
        if appliance.database.read(stock.has_news, server.id):
            await perform(request, stock.deliver, appliance.key, server.id)
        appliance.seen.note(server.id, appliance.database.clock(), appliance.database.commit_no)
    content = appliance.database.read(stock.current_document, appliance.key, urls, server.id)
    return Response(content, media_type="application/json")


async def signal(request: Request) -> Response:
    """PUT|POST /signal/{secret}: idempotent; 404 only for a URL that never was one."""
    appliance = context(request)
    secret = request.path_params["secret"]
    run = appliance.database.read(stock.whose_signal, appliance.key, secret)
    raw = await body_of(request, SIGNAL_BODY)
    try:
        body = msgspec.json.decode(raw) if raw.strip() else {}
    except msgspec.DecodeError as error:
        raise Invalid(f"the signal is not valid JSON: {error}") from None
    except RecursionError:
        raise Invalid("the signal is nested too deeply") from None

    def record(tx: Tx) -> Effect:
        return stock.report(tx, appliance.key, secret, body)

    effect = await perform(request, record)
    appliance.seen.note(run.server, appliance.database.clock())
    return Json(effect)


routes = [
    Route("/metadata/{secret}", metadata, methods=["GET", "HEAD"]),
    Route("/signal/{secret}", signal, methods=["PUT", "POST"]),
]
