"""Errors as HTTP says them: one form of body, and the status that fits."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deepwork.errors import Code, Conflict, DeepworkError, InvalidInput, NotFound


class WrongForm(InvalidInput):
    """The request itself is wrong, whatever it is about; `status` is how HTTP says so."""

    def __init__(self, status: int, message: str, suggestion: str, *, allow: str | None = None) -> None:
        super().__init__(message, suggestion=suggestion)
        self.status, self.allow = status, allow


def require_method(request: Request, *allowed: str) -> None:
    """Refuse another method than these."""
    if request.method not in allowed:
        raise WrongForm(
            405,
            f"{request.method[:20]} is not possible here.",
            f"Use {allowed[0]}.",
            allow=", ".join(allowed),
        )


def failure(error: Exception, spoken: dict[str, Any]) -> Response:
    """An error as an HTTP answer."""
    headers = {"Allow": error.allow} if isinstance(error, WrongForm) and error.allow else None
    return JSONResponse(spoken, status_code=status_of(error), headers=headers)


_STATUSES = {
    Code.STORAGE_ERROR: 503, Code.STORAGE_FULL: 503, Code.UNAUTHORIZED: 403, Code.TOO_LARGE: 413,
    Code.INVALID_STATE: 409, Code.INVALID_TRANSITION: 409, Code.NO_ACTIVE_SESSION: 409,
    Code.TASK_BLOCKED: 409, Code.NOT_CLAIMED: 409,
}  # fmt: skip


def status_of(error: Exception) -> int:
    """The status that says of what kind an error is."""
    if isinstance(error, WrongForm):
        return error.status
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Conflict):
        return 409
    return _STATUSES.get(error.code, 400) if isinstance(error, DeepworkError) else 500
