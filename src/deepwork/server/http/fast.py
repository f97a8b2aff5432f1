"""Uses the extra `fast` where it is installed: httptools parses requests, uvloop is the event loop."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from deepwork.server.http.limits import MAX_HEADERS


def get_loop_options() -> dict[str, bool]:
    """Return the options of `anyio.run`."""
    return {"use_uvloop": find_spec("uvloop") is not None}


def choose_http_protocol() -> type[asyncio.Protocol]:
    """Choose how uvicorn parses requests."""
    if find_spec("httptools") is not None:
        return _build_httptools_protocol()
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - not needed with httptools

    return H11Protocol


def _build_httptools_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415 - may not be installed

    class BoundedHttpProtocol(HttpToolsProtocol):
        """Reads headers as h11 does: refuses long ones with 400, and leaves out spaces after a value."""

        _unparsed = 0
        """How many bytes have arrived since the headers or a part of the body were complete."""

        def data_received(self, data: bytes) -> None:
            self._unparsed += len(data)
            super().data_received(data)
            if self._unparsed > MAX_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too long.")

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value.rstrip(b" \t"))

        def on_headers_complete(self) -> None:
            self._unparsed = 0
            if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEADERS:
                raise ValueError("The headers are too long.")  # httptools refuses the request
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unparsed = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unparsed = 0
            super().on_message_complete()

    return BoundedHttpProtocol
