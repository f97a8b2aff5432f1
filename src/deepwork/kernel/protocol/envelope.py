"""Checks what the stateless revisions require of every request: its envelope, and over HTTP its headers."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from deepwork.kernel.protocol.messages import Request, RequestError
from deepwork.kernel.protocol.revisions import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    REVISION_KEY,
    STATELESS_REVISIONS,
    UNSUPPORTED_REVISION,
)

REVISION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"

_NAMED_BY = {
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/cancel": "taskId",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tools/call": "name",
}
"""By method, the parameter that the header `Mcp-Name` repeats."""


def check_envelope(request: Request, headers: Mapping[str, str] | None) -> None:
    """Raise unless the envelope is complete and of a supported revision, and the headers repeat it."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict):
        raise RequestError(
            INVALID_PARAMS,
            "params._meta must be an object carrying the required "
            f"{REVISION_KEY!r} and {CAPABILITIES_KEY!r} envelope keys",
        )
    if missing := [key for key in (REVISION_KEY, CAPABILITIES_KEY) if key not in meta]:
        raise RequestError(
            INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
        )
    if headers is not None:
        _check_headers(request, meta[REVISION_KEY], headers)
    if not isinstance(meta[REVISION_KEY], str):
        raise RequestError(INVALID_PARAMS, "the protocol-version envelope value must be a string")
    check_revision(meta[REVISION_KEY])


def check_revision(revision: str) -> None:
    """Raise if the revision is not a stateless one that we speak."""
    if revision not in STATELESS_REVISIONS:
        details = {"supported": list(STATELESS_REVISIONS), "requested": revision}
        raise RequestError(UNSUPPORTED_REVISION, "Unsupported protocol version", details)


def check_for_duplicates(headers: Iterable[tuple[str, str]]) -> None:
    """Raise if a header that proxies route by is repeated: they and we could read different copies."""
    names = [name for name, _ in headers if name in {REVISION_HEADER, METHOD_HEADER, NAME_HEADER}]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise RequestError(HEADER_MISMATCH, f"{name} header appears more than once")


def _check_headers(request: Request, revision: Any, headers: Mapping[str, str]) -> None:
    given = headers.get(REVISION_HEADER)
    if given is None or given != revision:
        raise _build_mismatch(REVISION_HEADER, "request envelope's protocol version")
    if headers.get(METHOD_HEADER) != request.method:
        raise _build_mismatch(METHOD_HEADER, "request body's method")
    name = _NAMED_BY.get(request.method)
    value = request.params.get(name) if name else None
    if value is not None and decode_header(headers.get(NAME_HEADER)) != value:
        raise _build_mismatch(NAME_HEADER, f"request body's {name!r} parameter")


def decode_header(value: str | None) -> str | None:
    """Decode `=?base64?…?=`, the form of values that a header cannot contain; None if it is malformed."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return binascii.a2b_base64(value[len("=?base64?") : -len("?=")], strict_mode=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _build_mismatch(header: str, what: str) -> RequestError:
    return RequestError(HEADER_MISMATCH, f"{header} header does not match the {what}")
