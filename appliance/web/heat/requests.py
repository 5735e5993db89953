"""From a request to plain values; lenient: unknown keys and parameters are ignored."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.errors import Invalid
from appliance.nesting import DEPTH, too_deep
from appliance.web.heat.faults import Fault, malformed
from appliance.web.respond import body_of

BODY_BYTES = 1_048_576
READ_BYTES = 8 * BODY_BYTES  # read, so that the answer can say how large it was

Handler = Callable[[Request], Awaitable[Response]]


async def json_of(request: Request) -> Any:
    """The body as JSON; None for an empty one. Raises Fault."""
    raw = await body_of(request, READ_BYTES)
    if len(raw) > BODY_BYTES:
        text = f"JSON body size ({len(raw)} bytes) exceeds maximum allowed size ({BODY_BYTES} bytes)."
        raise Fault(400, "RequestLimitExceeded", f"Request limit exceeded: {text}")
    if not raw.strip():
        return None
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise malformed() from None
    if too_deep(found):
        raise Fault(400, "HTTPBadRequest", f"The body is nested more than {DEPTH} deep.")
    return found


async def map_of(request: Request) -> dict[str, Any]:
    """The body as a map. Raises Fault."""
    found = await json_of(request)
    if not isinstance(found, dict):
        raise malformed()
    return found


def limit_of(request: Request) -> int | None:
    """The query's `limit`, or None. Raises Invalid as Heat words it."""
    text = request.query_params.get("limit")
    if text is None:
        return None
    try:
        limit = int(text)
    except ValueError:
        raise Invalid("Only integer is acceptable by 'limit'.") from None
    if limit < 0:
        raise Invalid(f"Value '{limit}' is invalid for 'limit' which only accepts non-negative integer.")
    return min(limit, 1 << 31)


def resource(path: str, **handlers: Handler) -> Route:
    """One path with a handler for each of its methods; OPTIONS says which they are, any other method is 405."""
    methods = [*handlers, "OPTIONS"]

    async def handle(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" and "HEAD" not in handlers else request.method
        if method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ",".join(sorted(handlers))})
        return await handlers[method](request)

    handle.__doc__ = "\n".join(f"{name}: {one.__doc__}" for name, one in handlers.items())
    return Route(path, handle, methods=methods)
