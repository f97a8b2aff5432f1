"""Measures the workload of a public benchmark of MCP servers: four tools, fifty users who pause 100 ms after each round.

The workload is that of https://github.com/thiagomendes/benchmark-mcp-servers: for each tool a user opens a session,
calls the tool and ends the session; then the same for tools/list. All HTTP requests are counted, as there, and also
the calls alone: a server without sessions needs one request less for each. The servers and the load are our own: one
selector loop instead of k6, processes instead of containers.
"""

from __future__ import annotations

import heapq
import selectors
import sys
import time
from collections.abc import Generator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.clients import HttpServer, parse_answer, parse_message
from benchmarks.crowd import Connection
from benchmarks.timing import Effort, Samples

USERS = 50
PAUSE = 0.1
FASTMCP, OURS = "FastMCP", "deepwork's protocol core"
REQUESTS, CALLS = ": requests", ": calls"
ROOT = Path(__file__).parents[1]
ROUNDS = 3

User = Generator[float, bytes, None]
"""A user: sends a request, yields 0 and is sent the answer; or yields the seconds of a pause."""
Asking = Generator[float, bytes, Any]


def measure_four_tools(effort: Effort) -> Samples:
    """Measure HTTP requests per second of both servers, in turns."""
    seconds, users = max(1.0, min(5.0, effort.calls / 4)), min(USERS, 10 * effort.calls)
    data = start_server("data")
    running = {FASTMCP: start_server("fast"), OURS: start_server("ours")}
    try:
        took: Samples = {}
        for _ in range(min(ROUNDS, effort.rounds)):
            for row, server in running.items():
                rates = measure_rates(server.port, f"http://127.0.0.1:{data.port}/api", seconds, users)
                for kind, rate in zip((REQUESTS, CALLS), rates, strict=True):
                    took.setdefault(row + kind, []).append(rate)
        return took
    finally:
        for server in (data, *running.values()):
            server.close()


def start_server(module: str) -> HttpServer:
    program = (sys.executable, "-m", f"benchmarks.four_tools.{module}", "{port}")
    return HttpServer(program=program, folder=ROOT)


def measure_rates(port: int, endpoint: str, seconds: float, users: int) -> tuple[float, float]:
    """Let users work for so long, after a fifth of that to warm up; return requests and calls per second."""
    load = Load(port, endpoint, users)
    try:
        load.run(seconds / 5)
        load.requests = load.calls = 0
        began = time.perf_counter()
        load.run(seconds)
        took = time.perf_counter() - began
        return load.requests / took, load.calls / took
    finally:
        load.close()


class Load:
    """Users of one server, each with its own connection."""

    def __init__(self, port: int, endpoint: str, users: int) -> None:
        self.requests = self.calls = 0
        self._endpoint = endpoint
        self._connections = [Connection(port) for _ in range(users)]
        self._waiting = selectors.DefaultSelector()
        self._pausing: list[tuple[float, int, User, Connection]] = []
        self._numbers = count()
        for connection in self._connections:
            user = self._work(connection)
            self._waiting.register(connection.socket, selectors.EVENT_READ, (connection, user))
            next(user)

    def run(self, seconds: float) -> None:
        """Let them work for so long, and count what is answered."""
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            while self._pausing and self._pausing[0][0] <= now:
                next(heapq.heappop(self._pausing)[2])
            until = min(end, self._pausing[0][0]) if self._pausing else end
            for key, _ in self._waiting.select(max(0.0, until - now)):
                connection, user = key.data
                if (body := connection.receive()) is not None:
                    self.requests += 1
                    self._go_on(connection, user, body)

    def _go_on(self, connection: Connection, user: User, body: bytes) -> None:
        if pause := user.send(body):
            until = time.perf_counter() + pause
            heapq.heappush(self._pausing, (until, next(self._numbers), user, connection))

    def _work(self, connection: Connection) -> User:
        """Call each tool and list the tools, each in a session of its own; pause; begin again."""
        while True:
            fibonacci = yield from self._call(connection, "calculate_fibonacci", {"n": 10})
            assert fibonacci["result"] == 55, fibonacci
            fetched = yield from self._call(connection, "fetch_external_data", {"endpoint": self._endpoint})
            assert fetched["status_code"] == 200, fetched
            data = {"name": "benchmark", "count": 42, "nested": {"key": "value"}}
            changed = yield from self._call(connection, "process_json_data", {"data": data})
            assert changed["transformed_data"]["nested"] == {"key": "VALUE"}, changed
            query = {"query": "SELECT * FROM benchmarks", "delay_ms": 10}
            found = yield from self._call(connection, "simulate_database_query", query)
            assert found["delay_ms"] == 10, found
            listed = yield from ask_in_session(connection, "tools/list", {})
            assert len(listed["result"]["tools"]) == 4, listed
            self.calls += 1
            yield PAUSE

    def _call(self, connection: Connection, tool: str, arguments: dict[str, Any]) -> Asking:
        answer = yield from ask_in_session(connection, "tools/call", {"name": tool, "arguments": arguments})
        self.calls += 1
        return parse_answer(answer)

    def close(self) -> None:
        self._waiting.close()
        for connection in self._connections:
            connection.socket.close()


def ask_in_session(connection: Connection, method: str, params: dict[str, Any]) -> Asking:
    """Open a session, ask, and end the session if the server has any."""
    connection.send_initialize()
    yield 0
    connection.keep_session()
    connection.send_initialized()
    yield 0
    connection.send_request(method, params)
    body = yield 0
    if connection.has_session:
        connection.send_delete()
        yield 0
    connection.forget_session()
    return parse_message(body)
