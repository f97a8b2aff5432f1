"""Serves MCP over stdio: keeps other output off stdout, answers every request, and shuts down in time."""

from __future__ import annotations

import fcntl
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fastmcp import FastMCP

from deepwork.server.jsonrpc_validation import MAX_FRAME, reject_if_invalid

GRACE_SECONDS = 4.5


async def serve_stdio(mcp: FastMCP) -> None:
    """Serve until the client closes its end or a signal arrives."""
    with reserve_stdio():
        await mcp.run_async("stdio", show_banner=False)


@contextmanager
def reserve_stdio() -> Iterator[None]:
    """Reserve stdin and stdout for the protocol; other code gets /dev/null and stderr instead."""
    stop_reading, stop_writing = os.pipe()
    reader, writer = (
        _replace_descriptor(0, os.open(os.devnull, os.O_RDONLY)),
        _replace_descriptor(1, os.dup(2)),
    )
    responses = ResponseWriter(writer)
    requests = io.BufferedReader(RequestReader(reader, stop_reading, responses))
    sys.stdin, sys.stdout = _Stream(requests), _Stream(responses)
    _stop_on_signals(stop_writing)
    yield


class RequestReader(io.RawIOBase):
    """Reads request lines; answers invalid ones itself and passes on the rest."""

    def __init__(self, descriptor: int, stop: int, responses: ResponseWriter) -> None:
        self._descriptor, self._stop, self._responses = descriptor, stop, responses
        self._request_count = 0
        self._incoming = bytearray()
        self._accepted = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._accepted:
            if not self._receive():
                _exit_after_grace()
                self._responses.wait_for_responses(self._request_count)
                return 0
        size = min(len(buffer), len(self._accepted))
        buffer[:size] = self._accepted[:size]
        del self._accepted[:size]
        return size

    def _receive(self) -> bool:
        """Read available input; return False at the end of input or on a stop signal."""
        ready, _, _ = select.select([self._descriptor, self._stop], [], [])
        if self._stop in ready:
            return False
        if not (received := os.read(self._descriptor, 1024 * 1024)):
            return False
        seen = len(self._incoming)
        self._incoming += received
        if b"\n" in received:
            end = self._incoming.rindex(b"\n", seen) + 1
            lines, self._incoming = bytes(self._incoming[:end]), self._incoming[end:]
            for line in lines[:-1].split(b"\n"):
                self._accept_line(line + b"\n")
        elif len(self._incoming) > 2 * MAX_FRAME:
            # Keep the beginning, which has the id to answer, and discard the rest.
            del self._incoming[MAX_FRAME + 1 :]
        return True

    def _accept_line(self, line: bytes) -> None:
        if not line.strip():
            return
        if refusal := reject_if_invalid(line):
            self._request_count += 1
            self._responses.write(refusal)
        else:
            self._request_count += _is_request(line)
            self._accepted += line


class ResponseWriter(io.RawIOBase):
    """Serialises writes so that each JSON-RPC line reaches stdout whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Condition()
        self._response_count = 0

    def writable(self) -> bool:
        return True

    def write(self, line: Any, /) -> int:
        rest = memoryview(line).cast("B")
        size = len(rest)
        with self._writing:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._response_count += b'"id":' in line[:64] and b'"method":' not in line[:256]
            self._writing.notify_all()
        return size

    def wait_for_responses(self, count: int) -> None:
        """Wait until `count` responses are written: a client may close its input and still expect them."""
        with self._writing:
            self._writing.wait_for(lambda: self._response_count >= count, timeout=GRACE_SECONDS - 0.5)


class _Stream:
    """Replaces `sys.stdin` and `sys.stdout`; the SDK uses only their `buffer`."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def write(self, text: str) -> int:
        """Send a stray print to stderr."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_request(line: bytes) -> bool:
    """Whether the line expects a response; its keys suffice because it is known to be valid JSON."""
    return b'"id"' in line and b'"method"' in line


def _replace_descriptor(descriptor: int, replacement: int) -> int:
    """Return a private copy of a standard descriptor and put a harmless one in its place."""
    private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(replacement, descriptor)
    os.close(replacement)
    return private


def _stop_on_signals(stop: int) -> None:
    def stop_serving(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of signal handlers
        signal.signal(number, lambda *_: os._exit(1))  # a second signal exits immediately
        os.write(stop, b"!")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_serving)


def _exit_after_grace() -> None:
    """Exit after a grace period; transactions not committed by then are rolled back."""
    timer = threading.Timer(GRACE_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
