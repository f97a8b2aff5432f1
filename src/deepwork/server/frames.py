"""Requests that cannot be read: answered in our form instead of dropped without a word.

The SDK ignores a line that it cannot parse, and the client that sent it waits for ever.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from deepwork.errors import Code, InvalidInput

MAX_FRAME = 16 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


def answer_unreadable(line: bytes) -> bytes | None:
    """The answer to a request that the SDK would drop; None for one that it can read."""
    if len(line) > MAX_FRAME:
        return _refuse(_readable_part(line[:65536]), _too_large(len(line)), INVALID_REQUEST)
    try:
        message = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return _refuse(_readable_part(line), _unreadable(error), PARSE_ERROR)
    if problem := _problem(message):
        return _refuse(message, InvalidInput(problem), INVALID_REQUEST)
    return None


def _problem(message: Any) -> str | None:
    """Why the SDK would drop this message, or answer it with less than we can say."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return "The request is no JSON-RPC 2.0 message."
    if "method" not in message:
        return None if "result" in message or "error" in message else "The request names no method."
    if not isinstance(message["method"], str):
        return "`method` must be a text."
    if "id" in message and not _is_id(message["id"]):
        return "`id` must be a text or a whole number."
    params = message.get("params", {})
    if not isinstance(params, dict):
        return "`params` must be an object."
    return _problem_with_call(params) if message["method"] == "tools/call" else None


def _problem_with_call(params: dict[str, Any]) -> str | None:
    if not isinstance(params.get("name"), str):
        return "`name`, the tool to call, must be a text."
    for key in ("arguments", "_meta"):
        if not isinstance(params.get(key), dict | None):
            return f"`{key}` must be an object."
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _refuse(message: Any, error: InvalidInput, code: int) -> bytes:
    message = message if isinstance(message, dict) else {}
    asked = message.get("id")
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked if _is_id(asked) else None}
    if answer["id"] is not None and message.get("method") == "tools/call":
        text = json.dumps(error.as_dict(), ensure_ascii=False)
        answer["result"] = {"content": [{"type": "text", "text": text}], "isError": True}
    else:
        answer["error"] = {"code": code, "message": error.message, "data": error.as_dict()}
    return json.dumps(answer).encode() + b"\n"


def _readable_part(line: bytes) -> Any:
    """What a more patient reader makes of the line: enough to know whom to answer."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _envelope(line)


def _envelope(line: bytes) -> dict[str, Any]:
    """The id and method of a line that is cut or broken, if they come before its parameters."""
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


def _unreadable(error: ValueError) -> InvalidInput:
    return InvalidInput(
        f"The request is not readable JSON: {str(error)[:200]}.",
        suggestion="Send valid JSON in UTF-8, without lone surrogates, NaN or Infinity.",
    )


def _too_large(size: int) -> InvalidInput:
    return InvalidInput(
        f"The request has {size} bytes; at most {MAX_FRAME} are read.",
        code=Code.TOO_LARGE,
        suggestion="Send less, or keep it in a file and send the path.",
    )
