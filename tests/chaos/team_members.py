"""Clients on the hosts of a team: writers over MCP that repeat interrupted calls, and followers of the stream."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.types import TextContent
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from chaos.ledger import Entry, Ledger
from chaos.team_servers import BEARER, TeamServer
from chaos.writer import Writer
from deepwork.edge.server.mcp_service import KEY

CALL_SECONDS = 120
"""Seconds after which a call without an answer or error counts as hanging."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


def wait_for_port(server: TeamServer) -> None:
    """Wait until the server listens again: trying to connect is cheap, a failing MCP client is not."""
    deadline = time.monotonic() + CALL_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.05)
        with suppress(OSError), socket.create_connection((server.host.address, server.port), timeout=5):
            return


class McpConnection:
    """A real MCP client over HTTP with blocking calls, for one thread."""

    def __init__(self, server: TeamServer) -> None:
        self._server = server
        self._url = f"http://{server.place}/mcp"
        self._loop = asyncio.new_event_loop()
        self._held: AsyncExitStack | None = None
        self._client: Client[Any] | None = None
        self.cuts: Counter[str] = Counter()
        self.repeated: set[str] = set()
        """The keys of calls that were sent more than once."""

    def call(self, tool: str, arguments: dict[str, Any], key: str | None = None) -> Any:
        """Call a tool; errors of the server raise `Refused`, other failures raise what the client raises."""
        return self._loop.run_until_complete(self._call(tool, arguments, key))

    def persist(self, tool: str, arguments: dict[str, Any], key: str) -> Any:
        """Call a tool with a key, and repeat the call until it is answered."""
        while True:
            try:
                return self.call(tool, arguments, key)
            except Refused as refused:
                # A correct call may be refused for one reason only: the database was unavailable.
                if refused.error["code"] != "STORAGE_ERROR" or not refused.error["recoverable"]:
                    raise
                self.cuts[refused.error["message"]] += 1
                self.repeated.add(key)
                time.sleep(0.02)
            except TimeoutError:
                raise AssertionError(f"{tool} hangs") from None
            except Exception as error:  # noqa: BLE001 - the server was killed; clients raise many kinds of errors then
                self.cuts[type(error).__name__] += 1
                self.repeated.add(key)
                self._loop.run_until_complete(self._hang_up())
                wait_for_port(self._server)

    def close(self) -> None:
        self._loop.run_until_complete(self._hang_up())
        self._loop.close()

    async def _call(self, tool: str, arguments: dict[str, Any], key: str | None) -> Any:
        async with asyncio.timeout(CALL_SECONDS):
            client = await self._connect()
            meta = {} if key is None else {KEY: key}
            result = await client.call_tool(tool, arguments, meta=meta, raise_on_error=False)
        if result.is_error:
            [content] = result.content
            assert isinstance(content, TextContent)
            raise Refused(json.loads(content.text))
        return result.structured_content

    async def _connect(self) -> Client[Any]:
        if self._client is None:
            held = AsyncExitStack()
            client = Client(StreamableHttpTransport(self._url, headers=BEARER, httpx_client_factory=_direct))
            await held.enter_async_context(client)
            self._held, self._client = held, client
        return self._client

    async def _hang_up(self) -> None:
        held, self._held, self._client = self._held, None, None
        if held is not None:
            try:
                await held.aclose()
            except Exception:  # noqa: BLE001 - the server is gone
                return


def _direct(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    **more: Any,
) -> httpx2.AsyncClient:
    """Build a client that ignores proxy settings."""
    return httpx2.AsyncClient(trust_env=False, headers=headers, timeout=timeout, auth=auth, **more)


class Member:
    """A client that works in a thread on a host; `finish` raises its error."""

    def __init__(self, server: TeamServer) -> None:
        self.server = server
        self.cuts: Counter[str] = Counter()
        self.repeated: set[str] = set()
        self.done = 0
        self._fault: BaseException | None = None
        self._thread = server.host.thread(self._begin)

    def finish(self) -> None:
        """Wait for the last call."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def work(self, client: McpConnection) -> None:
        raise NotImplementedError

    def _begin(self) -> None:
        client = McpConnection(self.server)
        self.cuts, self.repeated = client.cuts, client.repeated
        try:
            self.work(client)
        except BaseException as error:  # noqa: BLE001 - raised by `finish`
            self._fault = error
        finally:
            client.close()


class Scribe(Member):
    """Makes all kinds of writes, and records them in a ledger."""

    def __init__(self, server: TeamServer, ledger: Path, count: int, seed: int, shared: str = "") -> None:
        self.ledger = Ledger(ledger)
        self._name, self._count, self._seed, self._shared = ledger.name, count, seed, shared
        super().__init__(server)

    def work(self, client: McpConnection) -> None:
        def ask(entry: Entry) -> Any:
            answer = client.persist(entry.tool, entry.arguments, entry.key)
            self.done += 1
            return answer

        writer = Writer(self._name, self.ledger, ask, random.Random(self._seed), self._shared)
        for _ in range(self._count):
            writer.write()
        self.ledger.close()


class Crier(Member):
    """Broadcasts messages: one call each, which emits an event for every recipient."""

    def __init__(self, server: TeamServer, sender: str, crowd: str, count: int) -> None:
        self._sender, self._crowd, self._count = sender, crowd, count
        self.cries: list[str] = []
        super().__init__(server)

    def work(self, client: McpConnection) -> None:
        for number in range(self._count):
            cry = f"{self.server.host.name}-cry-{number}"
            answer = client.persist(
                "message_broadcast",
                {
                    "sender_id": self._sender, "message_type": "notification", "body": {"cry": cry},
                    "recipient_filter": {"runtime": self._crowd},
                },
                cry,
            )  # fmt: skip
            assert answer["sent_count"] == len(set(answer["message_ids"]))
            self.cries.append(cry)
            self.done += 1


class Claimer(Member):
    """Claims and completes tasks until none is left; none starts a second task before all have done a first."""

    def __init__(
        self, server: TeamServer, name: str, workflow_id: str, all_at_work: threading.Barrier
    ) -> None:
        self._name, self._workflow_id, self._all_at_work = name, workflow_id, all_at_work
        self.claims: list[tuple[str, int]] = []
        self.completed: list[tuple[str, str]] = []
        super().__init__(server)

    def work(self, client: McpConnection) -> None:
        registration = {"name": self._name, "runtime": "custom"}
        agent_id = client.persist("agent_register", registration, f"{self._name}-registers")["id"]
        chance, number = random.Random(self._name), 0
        while tasks := self._list_claimable(client):
            number += 1
            before = self.done
            self._take(client, chance.choice(tasks)["id"], agent_id, f"{self._name}-{number}")
            if (before, self.done) == (0, 1):
                self._all_at_work.wait(timeout=CALL_SECONDS)

    def _list_claimable(self, client: McpConnection) -> list[dict[str, Any]]:
        """List claimable tasks; waits while others hold the last ones."""
        while True:
            found = client.persist("workflow_next_tasks", {"workflow_id": self._workflow_id, "limit": 5}, "-")
            if found["tasks"] or found["all_complete"]:
                tasks: list[dict[str, Any]] = found["tasks"]
                return tasks
            time.sleep(0.05)

    def _take(self, client: McpConnection, task_id: str, agent_id: str, key: str) -> None:
        try:
            claim = client.persist("task_claim", {"task_id": task_id, "agent_id": agent_id}, f"{key}-claim")
        except Refused as refused:
            if refused.error["code"] != "INVALID_STATE":  # completed after we listed it
                raise
            return
        if not claim["success"]:
            return
        self.claims.append((task_id, claim["claim_epoch"]))
        report = {
            "id": task_id, "status": "completed", "outcome": agent_id, "agent_id": agent_id,
            "claim_epoch": claim["claim_epoch"],
        }  # fmt: skip
        try:
            client.persist("task_update_status", report, f"{key}-done")
        except Refused as refused:
            if (
                refused.error["code"] != "STALE_CLAIM"
            ):  # we were slow and another agent took over, as intended
                raise
            return
        self.completed.append((task_id, agent_id))
        self.done += 1


class Follower:
    """Follows a server's event stream; after an interruption it continues after the last event it saw."""

    def __init__(self, server: TeamServer) -> None:
        self._server = server
        self._is_over = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self.connections = self.cuts = 0
        self._thread = server.host.thread(self._follow)

    @property
    def last(self) -> int:
        return self.seen[-1]["seq"] if self.seen else 0

    def wait_for(self, seq: int) -> None:
        """Wait until this event was seen."""
        self._wait_until(lambda: self.last >= seq, f"event {seq}")

    def wait_for_type(self, type: str) -> int:
        """Wait until an event of this type was seen; return its number."""
        self._wait_until(lambda: any(event["type"] == type for event in self.seen), type)
        return next(int(event["seq"]) for event in self.seen if event["type"] == type)

    def wait_for_connections(self, count: int) -> None:
        """Wait until it was connected `count` times."""
        self._wait_until(lambda: self.connections >= count, f"{count} connections")

    def _wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        while not is_so():
            problem = f"no {what} after events up to {self.last} and {self.connections} connections"
            assert time.monotonic() < deadline, problem
            time.sleep(0.02)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._is_over.is_set():
            try:
                url = f"ws://{self._server.place}/ws?since={self.last}"
                # No timeouts: only the end of the server ends the stream, however slowly it answers.
                with connect(
                    url, additional_headers=BEARER, proxy=None, open_timeout=CALL_SECONDS, ping_interval=None
                ) as stream:
                    self.connections += 1
                    self._listen(stream)
            except (OSError, WebSocketException):
                self.cuts += 1
                wait_for_port(self._server)

    def _listen(self, stream: Any) -> None:
        while not self._is_over.is_set():
            try:
                self.seen.append(json.loads(stream.recv(timeout=0.5)))
            except TimeoutError:
                continue
