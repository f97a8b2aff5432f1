"""Answers invalid JSON-RPC requests with our error format.

The SDK silently drops a line that it cannot parse, and the client that sent it would wait forever.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from deepwork.errors import Code, InvalidInput

MAX_FRAME = 16 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


def reject_if_invalid(line: bytes) -> bytes | None:
    """Return the error response to a request that the SDK would drop; None if it is valid."""
    if len(line) > MAX_FRAME:
        return _build_refusal(_parse_leniently(line[:65536]), _build_size_error(len(line)), INVALID_REQUEST)
    try:
        message = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return _build_refusal(_parse_leniently(line), _build_parse_error(error), PARSE_ERROR)
    if problem := _find_problem(message):
        return _build_refusal(message, InvalidInput(problem), INVALID_REQUEST)
    return None


def _find_problem(message: Any) -> str | None:
    """Explain why the SDK would drop this message or answer it without details."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return "The request is not a JSON-RPC 2.0 message."
    if "method" not in message:
        return None if "result" in message or "error" in message else "The request has no `method`."
    if not isinstance(message["method"], str):
        return "`method` must be a string."
    if "id" in message and not _is_request_id(message["id"]):
        return "`id` must be a string or an integer."
    params = message.get("params", {})
    if not isinstance(params, dict):
        return "`params` must be an object."
    return _find_call_problem(params) if message["method"] == "tools/call" else None


def _find_call_problem(params: dict[str, Any]) -> str | None:
    if not isinstance(params.get("name"), str):
        return "`name`, the tool to call, must be a string."
    for key in ("arguments", "_meta"):
        if not isinstance(params.get(key), dict | None):
            return f"`{key}` must be an object."
    return None


def _is_request_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _build_refusal(message: Any, error: InvalidInput, code: int) -> bytes:
    message = message if isinstance(message, dict) else {}
    request_id = message.get("id")
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id if _is_request_id(request_id) else None}
    if answer["id"] is not None and message.get("method") == "tools/call":
        text = json.dumps(error.to_dict(), ensure_ascii=False)
        answer["result"] = {"content": [{"type": "text", "text": text}], "isError": True}
    else:
        answer["error"] = {"code": code, "message": error.message, "data": error.to_dict()}
    return json.dumps(answer).encode() + b"\n"


def _parse_leniently(line: bytes) -> Any:
    """Parse a line as far as possible, to find the id to answer."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _parse_envelope(line)


def _parse_envelope(line: bytes) -> dict[str, Any]:
    """Extract id and method from a truncated or broken line, if they precede its parameters."""
    decoder, found = json.JSONDecoder(), {}
    text = line[:65536].decode("utf-8", "replace").partition('"params"')[0]
    for key in ("id", "method"):
        place = text.find(f'"{key}":')
        if place >= 0:
            try:
                found[key], _ = decoder.raw_decode(text[place + len(key) + 3 :].lstrip())
            except ValueError:
                continue
    return found


def _build_parse_error(error: ValueError) -> InvalidInput:
    return InvalidInput(
        f"The request is not valid JSON: {str(error)[:200]}.",
        suggestion="Send valid JSON in UTF-8, without lone surrogates, NaN or Infinity.",
    )


def _build_size_error(size: int) -> InvalidInput:
    return InvalidInput(
        f"The request has {size} bytes; the limit is {MAX_FRAME}.",
        code=Code.TOO_LARGE,
        suggestion="Send less, or put the content in a file and send its path.",
    )
