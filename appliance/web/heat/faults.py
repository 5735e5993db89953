"""From an error to Heat's fault body: the one place for the whole edge."""

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from appliance import errors
from appliance.errors import ApplianceError
from appliance.heat import BadDeclaration
from appliance.operations.heat import LongProject, Referenced
from appliance.web.respond import Json, masked

_log = logging.getLogger("appliance.web.heat")

MALFORMED = "The server could not comply with the request since it is either malformed or otherwise incorrect."
MISSING = "The resource could not be found."
DENIED = "Access was denied to this resource."

# Status to title and explanation, as Heat has them.
TEXTS: dict[int, tuple[str, str]] = {
    400: ("Bad Request", MALFORMED),
    401: ("Unauthorized", "The request you have made requires authentication."),
    403: ("Forbidden", DENIED),
    404: ("Not Found", MISSING),
    405: ("Method Not Allowed", MALFORMED),
    409: ("Conflict", "There was a conflict when trying to complete your request."),
    500: ("Internal Server Error", "The server has either erred or is incapable of performing the requested operation."),
    503: ("Service Unavailable", "The server is currently unavailable. Please try again at a later time."),
    507: ("Insufficient Storage", "There was not enough space to save the resource."),
}

# An error of the domain to its status and the name of Heat's class, which some clients look at. The first that fits counts.
KINDS: tuple[tuple[type[ApplianceError], int, str], ...] = (
    (Referenced, 409, "InvalidRestrictedAction"),
    (BadDeclaration, 400, "ValueError"),
    (LongProject, 400, "Invalid"),
    (errors.Invalid, 400, "HTTPBadRequest"),
    (errors.Unauthorized, 401, "Unauthorized"),
    (errors.Forbidden, 403, "Forbidden"),
    (errors.NotFound, 404, "NotFound"),
    (errors.Gone, 404, "NotFound"),
    (errors.Conflict, 409, "Conflict"),
    (errors.TooLarge, 400, "RequestLimitExceeded"),
    (errors.Busy, 503, "ServiceUnavailable"),
    (errors.StorageFull, 507, "StorageFull"),
)


class Fault(Exception):
    """An error of this edge alone: its status, Heat's name of it, and a sentence (the explanation where None is given)."""

    def __init__(self, status: int, kind: str, message: str | None = None) -> None:
        super().__init__(message or kind)
        self.status = status
        self.kind = kind
        self.message = message if message is not None else TEXTS[status][1]


def malformed() -> Fault:
    """A body that is none."""
    return Fault(400, "HTTPBadRequest")


def body_of_fault(status: int, kind: str, message: str) -> dict[str, Any]:
    """Heat's fault body. The client prints `error.message`."""
    title, explanation = TEXTS[status]
    error = {"type": kind, "traceback": None, "message": message}
    return {"code": status, "title": title, "explanation": explanation, "error": error}


def render(request: Request, error: Exception) -> Response:
    """An answer for any error."""
    if isinstance(error, Fault):
        return Json(body_of_fault(error.status, error.kind, error.message), error.status)
    if isinstance(error, ApplianceError):
        status, kind = next(((status, name) for known, status, name in KINDS if isinstance(error, known)), (500, "Error"))
        message = f"{error.message} ({error.hint})" if error.hint else error.message
        headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}.get(status)
        return Json(body_of_fault(status, kind, message), status, headers=headers)
    if isinstance(error, HTTPException):
        status = error.status_code if error.status_code in TEXTS else 400
        kind = {404: "HTTPNotFound", 405: "HTTPMethodNotAllowed"}.get(status, "HTTPBadRequest")
        return Json(body_of_fault(status, kind, TEXTS[status][1]), status, headers=error.headers)
    _log.error("internal error at %s %s", request.method, masked(request.url.path), exc_info=error)
    return Json(body_of_fault(500, "Error", "internal error; the appliance's log has the details"), 500)
