"""The end of an HTTP server: calls that still run are cancelled, and waited for."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio

from deepwork.edge.server.http.serving import end_calls
from deepwork.kernel.protocol.handler import MessageHandler, ToolAnswer
from deepwork.kernel.protocol.messages import Request
from deepwork.kernel.protocol.transports.http import StreamableHttp
from protocol.fake_service import PATIENCE_SECONDS, FakeService
from protocol.test_transports import STATELESS, HttpExchange
from protocol.transcript import call, wrap


class StubbornService(FakeService):
    """A service whose tool needs a moment to stop after it was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.may_stop = threading.Event()
        self.has_stopped = False

    def call_tool(self, request: Request, *given: Any) -> ToolAnswer:
        answer = super().call_tool(request, *given)
        assert self.may_stop.wait(PATIENCE_SECONDS)
        self.has_stopped = True
        return answer


def test_a_server_that_ends_waits_for_calls_that_are_stopping():
    async def look() -> None:
        service = StubbornService()
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        running = asyncio.create_task(HttpExchange(app, wrap(call("mine", "slow")), **STATELESS).run())
        assert await asyncio.to_thread(service.is_running.wait, PATIENCE_SECONDS)

        in_time = asyncio.create_task(end_calls(app, 0))
        assert await asyncio.to_thread(service.is_interrupted.wait, PATIENCE_SECONDS)
        assert await in_time is False

        waiting = asyncio.create_task(end_calls(app, PATIENCE_SECONDS))
        await asyncio.sleep(0)
        service.may_stop.set()
        assert await waiting is True
        assert service.has_stopped
        await running

    anyio.run(look)
