"""Parses JSON-RPC messages, and answers those that cannot be read in our error format."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.protocol.revisions import INVALID_REQUEST, PARSE_ERROR

MAX_FRAME = 16 * 1024 * 1024

Message = dict[str, Any]


class InvalidFrame(Exception):
    """The text is not a JSON-RPC message; `answer` is the response to it."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


def parse_frame(data: bytes) -> Message:
    """Parse one message; raise `InvalidFrame` if it is malformed or too large.

    A client that got no answer to a malformed request would wait for it forever.
    """
    if len(data) > MAX_FRAME:
        size_error = _build_size_error(len(data))
        raise InvalidFrame(_build_refusal(_parse_leniently(data[:65536]), size_error, INVALID_REQUEST))
    try:
        message = _parse_strictly(data)
    except (ValueError, RecursionError) as error:
        refusal = _build_refusal(_parse_leniently(data), _build_parse_error(error), PARSE_ERROR)
        raise InvalidFrame(refusal) from None
    if problem := _find_problem(message):
        raise InvalidFrame(_build_refusal(message, InvalidInput(problem), INVALID_REQUEST))
    return message  # type: ignore[no-any-return]


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=_reject_constant)
_escaped_surrogate = re.compile(rb"\\u[dD][89a-fA-F]")


def _parse_strictly(data: bytes) -> Any:
    message = _decoder.decode(data.decode())
    if _escaped_surrogate.search(data):
        json.dumps(message, ensure_ascii=False).encode()  # raises if a surrogate has no partner
    return message


def _find_problem(message: Any) -> str | None:
    """Explain why the value is not a message that we accept."""
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


def _parse_leniently(data: bytes) -> Any:
    """Parse as far as possible, to find the id to answer."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _parse_envelope(data)


def _parse_envelope(data: bytes) -> dict[str, Any]:
    """Extract id and method from a truncated or broken message, if they precede its parameters."""
    decoder, found = json.JSONDecoder(), {}
    text = data[:65536].decode("utf-8", "replace").partition('"params"')[0]
    for key in ("id", "method"):
        place = text.find(f'"{key}":')
        if place >= 0:
            try:
                found[key], _ = decoder.raw_decode(text[place + len(key) + 3 :].lstrip())
            except ValueError:
                continue
    return found


def _build_parse_error(error: Exception) -> InvalidInput:
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
