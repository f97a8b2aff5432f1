"""Uses the extra `fast` where it is installed: httptools parses requests, uvloop is the event loop."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from deepwork.edge.server.http.limits import MAX_HEADERS

_TOO_LONG = b"The headers are too long."
_TOO_LONG_RESPONSE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_TOO_LONG), _TOO_LONG)
)


def get_loop_options() -> dict[str, bool]:
    """Return the options of `anyio.run`."""
    return {"use_uvloop": find_spec("uvloop") is not None}


def choose_http_protocol() -> type[asyncio.Protocol]:
    """Choose how uvicorn parses requests.

    Both ways refuse headers that do not end in time; the guard refuses complete ones that are too long.
    """
    return _build_httptools_protocol() if find_spec("httptools") is not None else _build_h11_protocol()


def _build_h11_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - not needed with httptools

    class BoundedH11Protocol(H11Protocol):
        """Answers 431 instead of 400 to headers without end."""

        def send_400_response(self, msg: str) -> None:
            unparsed, _ = self.conn.trailing_data
            if len(unparsed) > MAX_HEADERS:
                _refuse_headers(self.transport)
            else:
                super().send_400_response(msg)

    return BoundedH11Protocol


def _build_httptools_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415 - may not be installed

    class BoundedHttpProtocol(HttpToolsProtocol):
        """Reads headers as h11 does: refuses them if they do not end, and leaves out spaces after a value."""

        _unparsed = 0
        """How many bytes have arrived since the headers or a part of the body were complete."""

        def data_received(self, data: bytes) -> None:
            self._unparsed += len(data)
            super().data_received(data)
            if self._unparsed > MAX_HEADERS and not self.transport.is_closing():
                _refuse_headers(self.transport)

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value.rstrip(b" \t"))

        def on_headers_complete(self) -> None:
            self._unparsed = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unparsed = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unparsed = 0
            super().on_message_complete()

    return BoundedHttpProtocol


def _refuse_headers(transport: asyncio.Transport) -> None:
    transport.write(_TOO_LONG_RESPONSE)
    transport.close()
