"""From a request to a value, and from a value or an error to an answer: one envelope for the whole native edge."""

import hashlib
import logging
import math
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from appliance import errors
from appliance.errors import ApplianceError, Invalid, TooLarge
from appliance.operations.idempotency import once
from appliance.store.tx import Tx
from appliance.web.access import whose
from appliance.web.context import context

P = ParamSpec("P")
T = TypeVar("T")

BODY_BYTES = 4 << 20
WAIT_SECONDS = 60.0

STATUS: dict[type[ApplianceError], int] = {
    errors.Invalid: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Gone: 410,
    errors.TooLarge: 413,
    errors.Busy: 503,
    errors.StorageFull: 507,
    errors.Corrupt: 500,
}

_log = logging.getLogger("appliance.web")


class Json(Response):
    """A JSON answer from any value msgspec encodes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode, or pass bytes that are JSON already."""
        return content if isinstance(content, bytes) else msgspec.json.encode(content)


async def body_of(request: Request, limit: int = BODY_BYTES) -> bytes:
    """The whole body. Raises TooLarge over `limit` bytes, and Invalid when it was cut short."""
    held = getattr(request.state, "body", None)
    if held is not None:
        return bytes(held)
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise TooLarge(f"the body is over the limit of {limit} bytes for this request")
            parts.append(part)
    except ClientDisconnect:
        raise Invalid("the request was cut short; nothing was stored") from None
    request.state.body = b"".join(parts)
    return bytes(request.state.body)


async def decode(request: Request, type: type[T], limit: int = BODY_BYTES) -> T:
    """The body as a value of `type`. Raises Invalid naming the field that is wrong; an empty body counts as `{}`."""
    raw = await body_of(request, limit)
    return decoded(raw or b"{}", type)


def decoded(raw: bytes, type: type[T]) -> T:
    """JSON text as a value of `type`. Raises Invalid."""
    try:
        return msgspec.json.decode(raw, type=type)
    except msgspec.ValidationError as error:
        raise Invalid(f"the request does not fit: {error}", hint="see /openapi.json for what it takes") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise Invalid("the body is nested too deeply") from None


def number_of(request: Request, name: str) -> int | None:
    """A whole number of the query, or None when it is not there. Raises Invalid."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise Invalid(f"{name}={text[:40]!r} is not a whole number")
    return int(text)


def seconds_to_wait(request: Request) -> float:
    """How long a request says it will wait: `wait`, within what we let it. Raises Invalid."""
    try:
        seconds = float(request.query_params.get("wait", "0"))
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise Invalid("'wait' is a number of seconds")
    return min(max(seconds, 0.0), WAIT_SECONDS)


async def perform(
    request: Request,
    operation: Callable[Concatenate[Tx, P], T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run an operation; its result. For requests whose answer needs no Idempotency-Key (PUT, PATCH, DELETE)."""
    return await context(request).database.awrite(operation, *args, **kwargs)


async def perform_once(
    request: Request,
    run: Callable[[Tx], Any],
    view: Callable[[Any], Any],
    *,
    status: int = 200,
    secret: bool = False,
) -> Response:
    """Run an operation and answer with `view(result)`; with an Idempotency-Key it acts once and is answered alike each time.

    `secret`: the answer holds a secret, so it is not kept for a repeat (which is then refused).
    """
    key = request.headers.get("idempotency-key")

    def answered(tx: Tx) -> tuple[int, bytes]:
        return status, msgspec.json.encode(view(run(tx)))

    database = context(request).database
    if key is None:
        code, content = await database.awrite(answered)
        return Json(content, code)
    raw = await body_of(request)
    head = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    code, content, again = await database.awrite(once, whose(request).id, key, hashlib.sha256(head + raw).digest(), answered, secret=secret)
    return Json(content, code, headers={"Idempotent-Replay": "true"} if again else None)


def envelope(error: ApplianceError) -> dict[str, Any]:
    """`{"error": {"code", "message", "hint"}}`, with `detail` where there is any."""
    inner: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if error.detail:
        inner["detail"] = error.detail
    return {"error": inner}


def status_of(error: ApplianceError) -> int:
    """The HTTP status of an error of the domain."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def render_error(request: Request, error: Exception) -> Response:
    """The one place where an error becomes an answer of the native edge."""
    if isinstance(error, ApplianceError):
        status = status_of(error)
        headers = {"Retry-After": "2"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return Json(envelope(error), status, headers=headers)
    if isinstance(error, HTTPException):
        texts = {
            404: ("not-found", f"there is no {request.url.path} here"),
            405: ("method", f"{request.method} is not for {request.url.path}"),
        }
        code, message = texts.get(error.status_code, ("http", str(error.detail)))
        inner = {"code": code, "message": message, "hint": "see /openapi.json for what there is"}
        return Json({"error": inner}, error.status_code, headers=error.headers)
    _log.error("internal error at %s %s", request.method, masked(request.url.path), exc_info=error)
    inner = {
        "code": "internal",
        "message": "internal error; the appliance's log has the details",
        "hint": "this is a bug: please report it",
    }
    return Json({"error": inner}, 500)


def masked(path: str) -> str:
    """A path for a log: URL secrets (`id.mac`) are not shown, and no character begins a line or steers a terminal."""
    return quote(_MAC.sub(".***", _URL_SECRET.sub(r"\1.***", path)), safe="/:@*=,+!~")


_URL_SECRET = re.compile(r"(/(?:metadata|signal)/+[^/.]*)[^/]*")
_MAC = re.compile(r"\.[a-z2-7]{32}(?=/|\Z)")
