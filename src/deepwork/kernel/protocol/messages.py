"""Requests of one connection, and how answers become JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.kernel.protocol.progress import Progress
from deepwork.kernel.protocol.revisions import INVALID_PARAMS, REVISION_KEY

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonText(str):
    """A value that is JSON already, so that it is not encoded again."""

    __slots__ = ()


def to_json(value: Any) -> JsonText:
    """Encode a value compactly."""
    return JsonText(_encode(value))


def encode_object(fields: Mapping[str, Any]) -> JsonText:
    """Encode an object some of whose values may be `JsonText`."""
    members = (
        f'"{name}":{value if type(value) is JsonText else _encode(value)}' for name, value in fields.items()
    )
    return JsonText("{" + ",".join(members) + "}")


def encode_response(request_id: int | str | None, key: str, value: JsonText) -> bytes:
    """Encode a whole response; `key` is `result` or `error`.

    Names of files may contain lone surrogates: they are escaped, which JSON allows, because UTF-8 has no
    form for them.
    """
    text = f'{{"jsonrpc":"2.0","id":{_encode(request_id)},"{key}":{value}}}\n'
    return text.encode("utf-8", "backslashreplace")


def encode_notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Encode a notification to the client."""
    return (_encode({"jsonrpc": "2.0", "method": method, "params": params}) + "\n").encode(
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
