"""The least object store: enough for clients that make a temporary URL for a result, and for whoever puts the result there.

Nothing is kept: a report that is put to such a URL is the signal of the deployment whose config names it.
"""

import base64
import hashlib
import hmac

from starlette.requests import Request
from starlette.responses import Response

from appliance.errors import Forbidden, NotFound, Unauthorized
from appliance.operations import heat_signals, stock
from appliance.web.context import context
from appliance.web.heat.access import require
from appliance.web.heat.requests import json_of, resource
from appliance.web.respond import body_of, perform

KEY_HEADER = "X-Account-Meta-Temp-Url-Key"
ACCOUNT = f"/v1/AUTH_{stock.PROJECT}"


async def head_account(request: Request) -> Response:
    """The key that signs temporary URLs."""
    require(request, "operator")
    return Response(status_code=204, headers={KEY_HEADER: heat_signals.temp_url_key(context(request).key)})


async def post_account(request: Request) -> Response:
    """Setting the key is refused: there is one, and HEAD tells it."""
    require(request, "operator")
    asked = request.headers.get(KEY_HEADER)
    if asked is not None and asked != heat_signals.temp_url_key(context(request).key):
        raise Forbidden("The key of this account cannot be set; HEAD tells the one there is.")
    return Response(status_code=204)


async def put_container(request: Request) -> Response:
    """Every container is there."""
    require(request, "operator")
    await body_of(request)
    return Response(status_code=201)


async def put_object(request: Request) -> Response:
    """With a signature, a result; with a token, nothing: clients first put an empty object."""
    query = request.query_params
    if "temp_url_sig" not in query:
        require(request, "operator")
        if (await body_of(request)).strip():
            raise Forbidden("This object store takes results by temporary URL only.")
        return Response(status_code=201)
    appliance = context(request)
    path = request.url.path
    _check(request, heat_signals.temp_url_key(appliance.key), path)
    body = await json_of(request)
    try:
        await perform(request, heat_signals.by_object, path, body if isinstance(body, dict) else {})
    except NotFound:
        raise NotFound("No deployment waits for this object.") from None
    return Response(status_code=201)


def _check(request: Request, key: str, path: str) -> None:
    """Raise Unauthorized unless the URL is signed with the account's key and has not expired."""
    expires, given = request.query_params.get("temp_url_expires", ""), request.query_params["temp_url_sig"]
    if not (expires.isascii() and expires.isdecimal() and len(expires) < 16) or int(expires) * 1000 <= context(request).database.clock():
        raise Unauthorized("This temporary URL has expired.")
    text = f"PUT\n{expires}\n{path}".encode()
    good = []
    for name in ("sha1", "sha256", "sha512"):
        digest = hmac.digest(key.encode(), text, getattr(hashlib, name))
        good += [digest.hex(), f"{name}:{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"]
    if not any(hmac.compare_digest(given.rstrip("=").encode(), one.encode()) for one in good):
        raise Unauthorized("This temporary URL is not signed with the account's key.")


routes = [
    resource(ACCOUNT, HEAD=head_account, POST=post_account),
    resource(f"{ACCOUNT}/{{container}}", PUT=put_container),
    resource(f"{ACCOUNT}/{{container}}/{{object:path}}", PUT=put_object),
]
