"""The messages of MCP: how they are framed, read and answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.protocol.progress import Progress
from deepwork.kernel.protocol.revisions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    REVISION_KEY,
)
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import encode

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


class JsonText(str):
    """A value that is JSON already, so that it is not encoded again."""

    __slots__ = ()


def to_json(value: Any) -> JsonText:
    """Encode a value compactly."""
    return JsonText(encode(value))


def encode_object(fields: Mapping[str, Any]) -> JsonText:
    """Encode an object some of whose values may be `JsonText`."""
    members = [
        f'"{name}":{value if type(value) is JsonText else encode(value)}' for name, value in fields.items()
    ]
    return JsonText("{" + ",".join(members) + "}")


def encode_response(request_id: int | str | None, key: str, value: JsonText) -> bytes:
    """Encode a whole response; `key` is `result` or `error`.

    Names of files may contain lone surrogates: they are escaped, which JSON allows, because UTF-8 has no
    form for them.
    """
    text = f'{{"jsonrpc":"2.0","id":{encode(request_id)},"{key}":{value}}}\n'
    return text.encode("utf-8", "backslashreplace")


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Encode a notification to the client."""
    return (encode({"jsonrpc": "2.0", "method": method, "params": params}) + "\n").encode(
        "utf-8", "backslashreplace"
    )


class RequestError(Exception):
    """A JSON-RPC error, sent to the client as it is."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def to_json(self) -> JsonText:
        """Encode the error; `data` is left out if there is none."""
        error = {"code": self.code, "message": self.message}
        return to_json(error if self.data is None else {**error, "data": self.data})


def build_parameter_error() -> RequestError:
    """Build the error for parameters that the protocol does not allow."""
    return RequestError(INVALID_PARAMS, "Invalid request parameters", "")


@dataclass(frozen=True)
class Response:
    """The response to a request; `status` is its HTTP status."""

    body: bytes
    status: int = 200


@dataclass(eq=False)
class Request:
    """One request of a client."""

    id: int | str
    method: str
    params: Mapping[str, Any]
    caller: Any = None
    """Who sent it; set by the transport for the service, and unknown to the protocol."""
    peer: Peer | None = None
    notify: Callable[[bytes], object] | None = None
    """Sends a line to the client while the request is being answered; None if that is impossible."""
    is_stateless: bool = False
    is_cancelled: bool = False
    """Whether the client no longer wants the answer; a service may look at it and stop early."""
    progress: Progress | None = None
    """Set when the work first reports something, and from the start for calls that may take minutes."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of the request; empty if there is none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    def cancel(self) -> None:
        """Note that the client no longer wants the answer."""
        self.is_cancelled = True

    def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the request is, if it asked for that with a `progressToken`."""
        if self.can_report:
            (self.progress or self.begin_progress()).report(progress, total, message)

    @property
    def can_report(self) -> bool:
        """Whether progress reaches the client: by notifications, or as the status of a task."""
        return self.progress is not None or self.wants_progress

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked for notifications, and can get them."""
        return self.notify is not None and self.meta.get("progressToken") is not None

    def begin_progress(self) -> Progress:
        """Prepare to report, from any thread."""
        self.progress = Progress(self._send_progress if self.wants_progress else None)
        return self.progress

    def _send_progress(self, params: Mapping[str, Any]) -> None:
        if self.notify is not None and not self.is_cancelled:
            named = {"progressToken": self.meta["progressToken"], **params}
            self.notify(encode_notification("notifications/progress", named))


def has_envelope(params: Mapping[str, Any]) -> bool:
    """Whether the parameters belong to a stateless revision; older clients never send this key."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and REVISION_KEY in meta


class Peer:
    """The other end of a connection: the revision it speaks, and its requests that are being answered."""

    def __init__(
        self, notify: Callable[[bytes], object] | None = None, *, is_stateless: bool | None = None
    ) -> None:
        """`notify` sends a line to the client; the first request decides if `is_stateless` is None."""
        self.notify = notify
        self.is_stateless = is_stateless
        self.is_initialized = False
        self._running: set[Request] = set()

    def begin(self, request: Request) -> None:
        """Note that a request is being answered; the first one decides the kind of the connection."""
        if self.is_stateless is None:
            self.is_stateless = request.method != "initialize" and has_envelope(request.params)
        request.is_stateless, request.notify = self.is_stateless, self.notify
        self._running.add(request)

    def end(self, request: Request) -> None:
        """Note that a request is answered."""
        self._running.discard(request)

    def cancel(self, request_id: Any) -> None:
        """Cancel a request; ids that are not being answered are ignored."""
        for request in list(self._running):
            if request.id == request_id and not isinstance(request_id, bool):
                request.cancel()

    def cancel_all(self) -> None:
        """Cancel every request, because the client is gone."""
        for request in list(self._running):
            request.cancel()


Check = Callable[[Any], bool]


class CheckedField(NamedTuple):
    """A field of an object: how it is checked, and whether it may be absent or null."""

    name: str
    check: Check
    is_optional: bool = False


Shape = tuple[CheckedField, ...]

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def check_parameters(method: str, params: Mapping[str, Any], *, is_stateless: bool) -> None:
    """Raise unless the parameters fit the method."""
    is_valid = _is_meta(params.get("_meta"), is_stateless=is_stateless) and _fits(params, _SHAPES[method])
    if not is_valid:
        raise build_parameter_error()


def _fits(value: Any, shape: Shape) -> bool:
    """Whether an object has the fields of a shape."""
    if not isinstance(value, dict):
        return False
    for name, check, is_optional in shape:
        field = value.get(name)
        if not (is_optional if field is None else check(field)):
            return False
    return True


def _is_meta(meta: Any, *, is_stateless: bool) -> bool:
    if meta is None:
        return True
    return _fits(meta, _META) and (not is_stateless or _fits(meta, _ENVELOPE))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_token(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_text_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_client(value: Any) -> bool:
    return _fits(value, _CLIENT)


def _is_reference(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    return (kind == "ref/prompt" and _fits(value, _NAMED)) or (
        kind == "ref/resource" and _fits(value, _LOCATED)
    )


def _is_argument(value: Any) -> bool:
    return _fits(value, (*_NAMED, CheckedField("value", _is_text)))


def _is_context(value: Any) -> bool:
    return _fits(value, (_TEXTS,))


_NAMED: Shape = (CheckedField("name", _is_text),)
_LOCATED: Shape = (CheckedField("uri", _is_text),)
_TEXTS = CheckedField("arguments", _is_text_by_name, is_optional=True)
_CLIENT: Shape = (*_NAMED, CheckedField("version", _is_text))
_META: Shape = (CheckedField("progressToken", _is_token, is_optional=True),)
_ENVELOPE: Shape = (
    CheckedField(CAPABILITIES_KEY, _is_object),
    CheckedField(CLIENT_KEY, _is_client, is_optional=True),
)
_PAGE: Shape = (CheckedField("cursor", _is_text, is_optional=True),)
_TASK: Shape = (CheckedField("taskId", _is_text),)
_SHAPES: Mapping[str, Shape] = {
    "completion/complete": (
        CheckedField("ref", _is_reference),
        CheckedField("argument", _is_argument),
        CheckedField("context", _is_context, is_optional=True),
    ),
    "initialize": (
        CheckedField("protocolVersion", _is_text),
        CheckedField("capabilities", _is_object),
        CheckedField("clientInfo", _is_client),
    ),
    "logging/setLevel": (CheckedField("level", _LEVELS.__contains__),),
    "ping": (),
    "prompts/get": (*_NAMED, _TEXTS),
    "prompts/list": _PAGE,
    "resources/list": _PAGE,
    "resources/read": _LOCATED,
    "resources/templates/list": _PAGE,
    "server/discover": (),
    "tasks/cancel": _TASK,
    "tasks/get": _TASK,
    "tasks/update": (*_TASK, CheckedField("inputResponses", _is_object)),
    "tools/call": (*_NAMED, CheckedField("arguments", _is_object, is_optional=True)),
    "tools/list": _PAGE,
}
