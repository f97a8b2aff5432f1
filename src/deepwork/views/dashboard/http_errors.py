"""Converts errors to HTTP responses: one body format, and a status by kind of error."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deepwork.kernel.errors import Code, Conflict, DeepworkError, InvalidInput, NotFound


class HttpError(InvalidInput):
    """The HTTP request itself is wrong: path, method or body. `status` is the response's status."""

    def __init__(self, status: int, message: str, suggestion: str, *, allow: str | None = None) -> None:
        super().__init__(message, suggestion=suggestion)
        self.status, self.allow = status, allow


def require_method(request: Request, *allowed: str) -> None:
    """Raise a 405 error for any other method."""
    if request.method not in allowed:
        raise HttpError(
            405, f"{request.method[:20]} is not allowed here.", f"Use {allowed[0]}.", allow=", ".join(allowed)
        )


def error_to_response(error: Exception, body: dict[str, Any]) -> Response:
    """Convert an error to a response with this body."""
    headers = {"Allow": error.allow} if isinstance(error, HttpError) and error.allow else None
    return JSONResponse(body, status_code=get_http_status(error), headers=headers)


_STATUS_BY_CODE = {
    Code.STORAGE_ERROR: 503,
    Code.STORAGE_FULL: 503,
    Code.STORE_NOT_ADOPTED: 503,
    Code.UNAUTHORIZED: 403,
    Code.TOO_LARGE: 413,
    Code.INVALID_STATE: 409,
    Code.INVALID_TRANSITION: 409,
    Code.NO_ACTIVE_SESSION: 409,
    Code.TASK_BLOCKED: 409,
    Code.NOT_CLAIMED: 409,
}


def get_http_status(error: Exception) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, HttpError):
        return error.status
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Conflict):
        return 409
    return _STATUS_BY_CODE.get(error.code, 400) if isinstance(error, DeepworkError) else 500
