"""Limits on connections that have not sent a request yet, and on clients that stop reading.

Nothing is known about who opened a connection without a request, and it costs a file descriptor, so somebody
who opens many and stays silent could take them all. The oldest silent connection gives way to a new one, so a
client that does send a request always gets in.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deepwork.edge.server.http.addresses import is_loopback

log = logging.getLogger("deepwork")

MAX_SILENT = 512
MAX_SILENT_PER_ADDRESS = 64
"""For addresses of other machines; on this machine all agents share one address."""
HEADER_SECONDS = 10.0
BODY_SECONDS = 30.0
STALL_SECONDS = 10.0
"""How long a client may accept nothing of what waits to be sent."""
_LOOKS_PER_STALL = 20
_WANTED_DESCRIPTORS = 8192
_SECONDS_BETWEEN_WARNINGS = 60.0


@dataclass
class ConnectionLimits:
    """The limits of one server, and its connections that have not sent the headers of a request yet."""

    header_seconds: float = HEADER_SECONDS
    body_seconds: float = BODY_SECONDS
    stall_seconds: float = STALL_SECONDS
    max_silent: int = MAX_SILENT
    max_per_address: int = MAX_SILENT_PER_ADDRESS
    _silent: OrderedDict[asyncio.Transport, str] = field(default_factory=OrderedDict, repr=False)
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    def add_silent(self, transport: asyncio.Transport) -> None:
        """Add a new connection; if there are too many, abort the oldest one that is silent."""
        address = _get_address(transport)
        self._silent[transport] = address
        self._counts[address] += 1
        if address and not is_loopback(address) and self._counts[address] > self.max_per_address:
            self._abort(next(each for each, of in self._silent.items() if of == address))
        elif len(self._silent) > self.max_silent:
            self._abort(next(iter(self._silent)))

    def remove_silent(self, transport: asyncio.Transport) -> None:
        """Remove a connection that sent its headers or was closed."""
        address = self._silent.pop(transport, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def _abort(self, transport: asyncio.Transport) -> None:
        self.remove_silent(transport)
        transport.abort()


class UnstalledConnection:
    """Aborts a connection whose client accepts nothing for too long, although something waits to be sent.

    uvicorn waits for such a client for ever, also to close its connection. A part of its protocols, see
    `limit_connections`.
    """

    limits: ConnectionLimits
    transport: Any
    loop: asyncio.AbstractEventLoop
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        transport.set_write_buffer_limits(high=0)  # `pause_writing` is called as soon as anything waits

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        super().connection_lost(exc)  # type: ignore[misc]

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._look_later(self.transport.get_write_buffer_size(), self.loop.time())

    def resume_writing(self) -> None:
        self._stop_looking()
        super().resume_writing()  # type: ignore[misc]

    def _look_later(self, size: int, since: float) -> None:
        seconds = self.limits.stall_seconds / _LOOKS_PER_STALL
        self._next_look = self.loop.call_later(seconds, self._look, size, since)

    def _look(self, size: int, since: float) -> None:
        now, left = self.loop.time(), self.transport.get_write_buffer_size()
        if left < size:  # more may be added meanwhile, such as a ping: that is no progress
            since = now
        if now - since >= self.limits.stall_seconds:
            self.transport.abort()
        else:
            self._look_later(left, since)

    def _stop_looking(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None


class LimitedConnection:
    """Closes a connection whose headers or body do not arrive in time, however slowly they trickle in.

    A part of uvicorn's protocol, see `limit_connections`.
    """

    limits: ConnectionLimits
    transport: Any
    loop: asyncio.AbstractEventLoop
    cycle: Any
    flow: Any
    _timer: asyncio.TimerHandle | None = None
    _waits_for = ""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._wait_for("headers")
        self.limits.add_silent(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        if self.transport.get_protocol() is not self:  # a WebSocket now, which has its own limits
            self._stop_waiting()
        elif self.cycle is None or self.cycle.response_complete:
            self._wait_for("headers")
        elif self.cycle.more_body:
            self.limits.remove_silent(self.transport)
            self._wait_for("body")
        else:
            self._stop_waiting()

    def _wait_for(self, part: str) -> None:
        """Start the time for this part, unless it runs already: no byte gives a slow client more time."""
        if self._waits_for == part or self.transport.is_closing():
            return
        self._cancel_timer()
        self._waits_for = part
        seconds = self.limits.header_seconds if part == "headers" else self.limits.body_seconds
        self._timer = self.loop.call_later(seconds, self._end_waiting)

    def _end_waiting(self) -> None:
        if self.flow.read_paused:  # the client waits for us
            part, self._waits_for = self._waits_for, ""
            self._wait_for(part)
        else:
            self.limits.remove_silent(self.transport)
            self.transport.abort()

    def _stop_waiting(self) -> None:
        self._cancel_timer()
        self._waits_for = ""
        self.limits.remove_silent(self.transport)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limit_connections(protocol: type[asyncio.Protocol], limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with our limits on silent and slow clients."""
    return type("LimitedProtocol", (LimitedConnection, UnstalledConnection, protocol), {"limits": limits})


def build_websocket_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return uvicorn's WebSocket protocol with our limit on clients that do not read."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import (  # noqa: PLC0415 - most tests need no server
        WebSocketsSansIOProtocol,
    )

    return type("LimitedWebSocket", (UnstalledConnection, WebSocketsSansIOProtocol), {"limits": limits})


def raise_descriptor_limit() -> None:
    """Allow this process more open files than the usual 1,024, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a lower limit that it does not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def build_exception_handler(
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Build a handler for errors of the event loop that logs a failed accept at most once a minute.

    Python tries to accept thousands of times in a row when no file descriptor is left.
    """
    last = -_SECONDS_BETWEEN_WARNINGS

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        if "accept" not in str(context.get("message")):
            loop.default_exception_handler(context)
        elif clock() - last >= _SECONDS_BETWEEN_WARNINGS:
            last = clock()
            log.warning("Cannot accept connections: %s", context.get("exception"))

    return handle


def _get_address(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
