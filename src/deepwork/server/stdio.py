"""Standard input and output as a wire: only protocol on it, every request answered, a timely end."""

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

from deepwork.server.frames import MAX_FRAME, answer_unreadable

GRACE_SECONDS = 4.5


async def serve_stdio(mcp: FastMCP) -> None:
    """Serve until the client closes its end, or we are told to stop."""
    with wire():
        await mcp.run_async("stdio", show_banner=False)


@contextmanager
def wire() -> Iterator[None]:
    """Take standard input and output away from everything but the protocol."""
    stop_reading, stop_writing = os.pipe()
    reader, writer = _take(0, os.open(os.devnull, os.O_RDONLY)), _take(1, os.dup(2))
    answers = Answers(writer)
    requests = io.BufferedReader(Requests(reader, stop_reading, answers))
    sys.stdin, sys.stdout = _Stream(requests), _Stream(answers)
    _stop_on_signals(stop_writing)
    yield


class Requests(io.RawIOBase):
    """Lines from the client, without those that nobody could read: these are answered here."""

    def __init__(self, descriptor: int, stop: int, answers: Answers) -> None:
        self._descriptor, self._stop, self._answers = descriptor, stop, answers
        self._asked = 0
        self._incoming = bytearray()
        self._approved = bytearray()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._approved:
            if not self._receive():
                _end_in_time()
                self._answers.wait_for(self._asked)
                return 0
        size = min(len(buffer), len(self._approved))
        buffer[:size] = self._approved[:size]
        del self._approved[:size]
        return size

    def _receive(self) -> bool:
        """Read what has come; False at the end of the input, or when told to stop."""
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
                self._take_line(line + b"\n")
        elif len(self._incoming) > 2 * MAX_FRAME:
            # Keep the beginning, by which the client can be answered, and let the rest go by.
            del self._incoming[MAX_FRAME + 1 :]
        return True

    def _take_line(self, line: bytes) -> None:
        if not line.strip():
            return
        if refusal := answer_unreadable(line):
            self._asked += 1
            self._answers.write(refusal)
        else:
            self._asked += _is_request(line)
            self._approved += line


class Answers(io.RawIOBase):
    """Lines to the client, each whole, whoever writes them."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Condition()
        self._answered = 0

    def writable(self) -> bool:
        return True

    def write(self, line: Any, /) -> int:
        rest = memoryview(line).cast("B")
        size = len(rest)
        with self._writing:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._answered += b'"id":' in line[:64] and b'"method":' not in line[:256]
            self._writing.notify_all()
        return size

    def wait_for(self, count: int) -> None:
        """Let so many answers go out first: whoever closes its input after a question still wants to know."""
        with self._writing:
            self._writing.wait_for(lambda: self._answered >= count, timeout=GRACE_SECONDS - 0.5)


class _Stream:
    """What the SDK looks for in `sys.stdin` and `sys.stdout`: a buffer."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def write(self, text: str) -> int:
        """A stray print goes where logs go."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_request(line: bytes) -> bool:
    """Whether the line asks for an answer; told by its keys, as it has been found to be JSON."""
    return b'"id"' in line and b'"method"' in line


def _take(descriptor: int, replacement: int) -> int:
    """Move a standard descriptor out of reach and put a harmless one in its place."""
    private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(replacement, descriptor)
    os.close(replacement)
    return private


def _stop_on_signals(stop: int) -> None:
    def stop_serving(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signals want it
        signal.signal(number, lambda *_: os._exit(1))  # told twice: at once
        os.write(stop, b"!")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_serving)


def _end_in_time() -> None:
    """Whatever still runs has a few seconds; what is stored by then is stored, the rest never was."""
    timer = threading.Timer(GRACE_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
