"""MCP over standard streams; slow calls run in threads beside the reader.

The reader answers quick requests itself, because passing them to a thread would take longer than they do.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import TypeVar

from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.messages import MAX_FRAME, InvalidFrame, Peer, Request, parse_frame
from deepwork.kernel.records import dataclass

WORKERS = 40
LONG_WORKERS = 64

Result = TypeVar("Result")


class Workers:
    """Two pools of threads: calls that may take minutes never delay the others."""

    def __init__(self, handler: MessageHandler, most: int = LONG_WORKERS) -> None:
        """`most`: no pool has more threads than that."""
        self._handler = handler
        self._threads = ThreadPoolExecutor(min(WORKERS, most), "deepwork-call")
        self._long_threads = ThreadPoolExecutor(min(LONG_WORKERS, most), "deepwork-long-call")

    def submit(self, request: Request, answer: Callable[[], Result]) -> Future[Result]:
        """Run `answer` in a thread of the pool that fits the request."""
        is_long = self._handler.is_long(request)
        return (self._long_threads if is_long else self._threads).submit(answer)

    def finish(self) -> None:
        """Wait until every request is answered."""
        self._threads.shutdown()
        self._long_threads.shutdown()
        self._handler.tasks.finish()

    def finish_within(self, seconds: float) -> bool:
        """Wait until every request is answered, but not for longer; return whether they are."""
        waiting = threading.Thread(target=self.finish, name="deepwork-finish", daemon=True)
        waiting.start()
        waiting.join(seconds)
        return not waiting.is_alive()


GRACE_SECONDS = 4.5
NOTIFY_SECONDS = 1.0
"""A notification is left out if the client does not read for so long."""
_CHUNK = 64 * 1024
"""The capacity of a pipe; a larger buffer would only take time to allocate."""
_ATOMIC = select.PIPE_BUF
"""A pipe that is writable takes this many bytes without blocking."""
_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The flag of Linux for a write that does only what is possible now; 0 elsewhere. A descriptor that never
blocks would be no replacement: the client may share it."""


def serve_stdio(handler: MessageHandler) -> None:
    """Serve until the client closes its end or a signal arrives; requests received by then are answered."""
    input, output = reserve_stdio()
    stop_reading, stop_writing = os.pipe()
    session = StdioSession(handler, ResponseWriter(output))
    _stop_on_signals(stop_writing, session)
    serve_lines(session, RequestReader(input, stop_reading).read_lines(), output)


def serve_lines(session: StdioSession, lines: Iterable[bytes], output: int) -> None:
    """Answer the lines of a client to their end, then wait until every request is answered."""
    for line in lines:
        session.receive(line)
    _cancel_when_client_leaves(output, session)
    session.finish()


def reserve_stdio() -> tuple[int, int]:
    """Reserve stdin and stdout for the protocol; other code gets /dev/null and stderr instead."""
    input = _replace_descriptor(0, os.open(os.devnull, os.O_RDONLY))
    output = _replace_descriptor(1, os.dup(2))
    sys.stdout = sys.stderr
    return input, output


class TooManyRequests(Exception):
    """A client has more requests without an answer than its connection may have."""


@dataclass(frozen=True)
class SessionLimits:
    """How much of a server one connection may use, where a server has clients that it does not trust."""

    threads: int = LONG_WORKERS
    requests: int | None = None
    """How many may be without an answer; those count too whose answers the client has not read."""


NO_LIMITS = SessionLimits()


class StdioSession:
    """The connection to one client over standard streams or a socket."""

    def __init__(
        self, handler: MessageHandler, responses: ResponseWriter, limits: SessionLimits = NO_LIMITS
    ) -> None:
        self._handler, self._responses, self._limits = handler, responses, limits
        self._workers = Workers(handler, limits.threads)
        self._writer = ThreadPoolExecutor(1, "deepwork-write")
        self._peer = Peer(lambda line: responses.try_write(line, NOTIFY_SECONDS))
        self._counting, self._open = threading.Lock(), 0
        self._late = 0
        """How many answers of the reader wait for the client."""

    def receive(self, line: bytes) -> None:
        """Answer one line, here or in a worker; raises TooManyRequests."""
        try:
            request = self._handler.accept(parse_frame(line), self._peer)
        except InvalidFrame as invalid:
            self._begin()
            self._respond(invalid.answer)
            return
        if request is None:
            return
        self._begin()
        if not self._handler.is_quick(request):
            self._workers.submit(request, lambda: self._answer_in_worker(request))
        elif (answer := self._handler.answer(request)) is not None:
            self._respond(answer.body)
        else:
            self._end()

    def _begin(self) -> None:
        with self._counting:
            self._open += 1
            if self._limits.requests is not None and self._open > self._limits.requests:
                raise TooManyRequests

    def _end(self) -> None:
        with self._counting:
            self._open -= 1

    def cancel_all(self) -> None:
        """Interrupt the requests that are still running."""
        self._peer.cancel_all()

    def finish(self) -> None:
        """Wait until every request is answered. Tasks are cancelled: nobody can ask for them any more."""
        self._handler.tasks.end()
        self._workers.finish()
        self._writer.shutdown()

    def _respond(self, line: bytes) -> None:
        """Write from the reader. It must not block there: a client may send everything before it reads.

        A line that is begun must be finished next, so none is while others wait for the thread that does it.
        """
        write_rest = partial(self._responses.write, line) if self._late else self._responses.begin(line)
        if write_rest is None:
            self._end()
            return
        with self._counting:
            self._late += 1
        self._writer.submit(self._write_late, write_rest)

    def _write_late(self, write_rest: Callable[[], None]) -> None:
        write_rest()
        with self._counting:
            self._late -= 1
        self._end()

    def _answer_in_worker(self, request: Request) -> None:
        try:
            if (answer := self._handler.answer(request)) is not None:
                self._responses.write(answer.body)
        finally:
            self._end()


class RequestReader:
    """Reads lines from the client, keeping little of those that are too long."""

    def __init__(self, input: int, stop: int) -> None:
        self._input, self._stop = input, stop
        self._partial = bytearray()
        self._waiting = select.poll()  # `select` knows no descriptor above 1023
        for descriptor in (input, stop):
            self._waiting.register(descriptor, select.POLLIN)

    def read_lines(self) -> Iterator[bytes]:
        """Yield each line until the input ends or the descriptor `stop` becomes readable."""
        while received := self._receive():
            if b"\n" in received:
                *lines, rest = (bytes(self._partial) + received).split(b"\n")
                self._partial = bytearray(rest)
                yield from (line for line in lines if line.strip())
                continue
            self._partial += received
            if len(self._partial) > 2 * MAX_FRAME:
                # Keep the beginning, which has the id to answer, and discard the rest.
                del self._partial[MAX_FRAME + 1 :]

    def _receive(self) -> bytes:
        """Wait for input; return nothing at its end and on a stop signal."""
        ready = {descriptor for descriptor, _ in self._waiting.poll()}
        try:
            return b"" if self._stop in ready else os.read(self._input, _CHUNK)
        except ConnectionResetError:  # the other end of a socket was closed before it had read everything
            return b""


class ResponseWriter:
    """Serialises writes so that each line reaches stdout whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._can_write_part = _NO_WAIT != 0

    def write(self, line: bytes) -> None:
        """Write a line; nothing happens if the client is gone."""
        with self._writing:
            self._write_all(line)

    def begin(self, line: bytes) -> Callable[[], None] | None:
        """Write what is possible without waiting; return what writes the rest, if there is any."""
        if not self._writing.acquire(blocking=False):
            return lambda: self.write(line)
        try:
            written = self._write_without_waiting(line)
        except BaseException:  # such as a full disk, if the output is a file
            self._writing.release()
            raise
        if written == len(line):
            self._writing.release()
            return None
        return lambda: self._finish(memoryview(line)[written:])

    def _finish(self, rest: memoryview) -> None:
        """Write the rest of a line that was begun; until then every other line waits."""
        try:
            self._write_all(rest)
        finally:
            self._writing.release()

    def _write_without_waiting(self, line: bytes) -> int:
        """Write as much as the other end can take now; return how much. A client that is gone takes all."""
        if self._can_write_part:
            try:
                return os.pwritev(self._descriptor, (line,), -1, _NO_WAIT)
            except BlockingIOError:
                return 0
            except (BrokenPipeError, ConnectionResetError):
                return len(line)
            except OSError:  # not for this kind of descriptor, or not on this system
                self._can_write_part = False
        if len(line) > _ATOMIC or not self._wait(0):
            return 0
        self._write_all(line)
        return len(line)

    def try_write(self, line: bytes, seconds: float = 0) -> bool:
        """Write a line if that is possible without waiting, or without waiting longer than that."""
        if len(line) > _ATOMIC or not self._writing.acquire(timeout=seconds):
            return False
        try:
            is_writable = self._wait(seconds)
            if is_writable:
                self._write_all(line)
            return is_writable
        finally:
            self._writing.release()

    def _write_all(self, line: bytes | memoryview) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._write_part(rest) :]
        except (BrokenPipeError, ConnectionResetError):  # the end of the input will follow
            return

    def _write_part(self, part: memoryview) -> int:
        try:
            return os.write(self._descriptor, part)
        except BlockingIOError:  # the client made its end non-blocking
            self._wait()
            return 0

    def _wait(self, seconds: float | None = None) -> bool:
        """Wait until the descriptor takes something, or the client is gone; return whether that is so."""
        writable = select.poll()
        writable.register(self._descriptor, select.POLLOUT)
        return bool(writable.poll(None if seconds is None else seconds * 1000))


def _replace_descriptor(descriptor: int, replacement: int) -> int:
    """Return a private copy of a standard descriptor and put a harmless one in its place."""
    private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(replacement, descriptor)
    os.close(replacement)
    return private


def _cancel_when_client_leaves(output: int, session: StdioSession) -> None:
    """Cancel running requests when nobody can read their answers any more.

    A client that has sent all its requests may close its end and still read; one that was killed does not.
    """

    def wait() -> None:
        hang_up = select.poll()
        hang_up.register(output, 0)  # reports only errors: the other end is closed
        hang_up.poll()
        session.cancel_all()

    threading.Thread(target=wait, name="deepwork-client", daemon=True).start()


def _stop_on_signals(stop: int, session: StdioSession) -> None:
    def stop_serving(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of signal handlers
        signal.signal(number, lambda *_: os._exit(1))  # a second signal exits immediately
        os.write(stop, b"!")
        _start_timer(GRACE_SECONDS - 0.5, session.cancel_all)
        _start_timer(GRACE_SECONDS, lambda: os._exit(0))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_serving)


def _start_timer(seconds: float, act: Callable[[], object]) -> None:
    """Act later if the server still runs then; transactions that are open at its exit are rolled back."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
