"""`/metrics`, over real stores: what is under way, how soon events arrive, and who was turned away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from application import LEASE_MS, Clock, ask, make_app
from deepwork.errors import StorageError
from deepwork.events.hub import Hub
from deepwork.observability.counters import Counters
from deepwork.observability.store import FigureStore, UnderWay
from deepwork.server.application import Application
from deepwork.server.http import metrics
from deepwork.server.http.metrics import CountRefusals, Metrics
from observability.exposition_reader import Read, read, value

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "observe.md"


class Scraped:
    """The figures of one process, as whoever collects them reads them."""

    def __init__(self, app: Starlette, counters: Counters) -> None:
        self._app, self.counters = app, counters

    async def __call__(self) -> dict[str, Read]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/metrics", "headers": [], "query_string": b"",
            "app": self._app,
        }  # fmt: skip
        await self._app(scope, receive, send)
        start, body = sent
        assert start["status"] == 200
        assert dict(start["headers"])[b"content-type"].startswith(b"text/plain; version=0.0.4")
        return read(body["body"].decode())


@asynccontextmanager
async def scraping(app: Application) -> AsyncIterator[Scraped]:
    hub, counters = Hub(app.feed), Counters()
    figures = Metrics(app.database, app.presence, hub, counters)
    try:
        yield Scraped(Starlette(routes=figures.routes()), counters)
    finally:
        hub.close()


async def until(scrape: Scraped, is_so: Any) -> dict[str, Read]:
    """The first figures of which it is so."""
    async with asyncio.timeout(100):
        while not is_so(found := await scrape()):  # noqa: ASYNC110 - only another look tells
            await asyncio.sleep(0.02)
        return found


async def delivered(app: Application, scrape: Scraped) -> dict[str, Read]:
    """The figures once every event has arrived; events are told until the process has begun to listen."""
    register = partial(ask, app, "agent_register", name="A", runtime="custom")
    await asyncio.to_thread(register)
    while "deepwork_event_delivered_seq" not in await scrape():
        await asyncio.sleep(0.1)
        await asyncio.to_thread(register)
    last = app.feed.last()
    return await until(scrape, lambda found: value(found, "deepwork_event_delivered_seq") == last)


def test_what_is_under_way_is_counted(app: Application, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
    ada, bob, cid = (ask(app, "agent_register", name=name, runtime="custom")["id"] for name in "ABC")
    workflow = ask(
        app, "workflow_create", name="W", source_type="prompt", source_content="x", max_parallel_tasks=5
    )["id"]
    ask(
        app,
        "workflow_set_plan",
        id=workflow,
        plan={"summary": "s", "tasks": [{"name": "a"}, {"name": "b"}]},
    )
    for task, agent in zip(
        ask(app, "workflow_next_tasks", workflow_id=workflow)["tasks"], (ada, bob), strict=False
    ):
        assert ask(app, "task_claim", task_id=task["id"], agent_id=agent)["success"]
    ask(app, "agent_unregister", id=cid)
    ask(app, "agent_update", id=bob, status="offline")

    async def scenario() -> None:
        async with scraping(app) as scrape:
            found = await scrape()
            assert (value(found, "deepwork_store_up"), value(found, "deepwork_live_agents")) == (1, 1)
            assert value(found, "deepwork_open_claims") == 2
            assert value(found, "deepwork_job_sessions_active") == 0
            assert value(found, "deepwork_event_last_seq") == app.feed.last()

            clock.advance(seconds=LEASE_MS / 1000 + 1)
            later = await scrape()
            assert (value(later, "deepwork_live_agents"), value(later, "deepwork_open_claims")) == (0, 0)

    asyncio.run(scenario())


def test_the_store_is_asked_once_in_a_while_however_often_one_collects(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    asked = 0

    class Counting(FigureStore):
        def under_way(self, alive_since: int) -> UnderWay:
            nonlocal asked
            asked += 1
            return super().under_way(alive_since)

    monkeypatch.setattr(metrics, "FigureStore", Counting)
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 1e9)

    async def scenario() -> None:
        async with scraping(app) as scrape:
            for found in await asyncio.gather(*(scrape() for _ in range(20))):
                assert value(found, "deepwork_store_up") == 1
            assert asked == 1
            monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
            await scrape()
            assert asked == 2

    asyncio.run(scenario())


def test_an_event_is_timed_from_its_transaction_to_its_arrival(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    ask(app, "agent_register", name="before", runtime="custom")

    async def scenario() -> None:
        async with scraping(app) as scrape:
            first = await scrape()
            assert "deepwork_event_delivered_seq" not in first
            found = await delivered(app, scrape)
            count = value(found, "deepwork_event_delivery_seconds", "_count")
            assert 0 < count < app.feed.last()
            assert value(found, "deepwork_event_delivery_seconds", "_sum") < count * 100

    asyncio.run(scenario())
    app.close()


def test_the_page_names_every_metric_with_its_kind_and_no_other(tmp_path: Path):
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_]+(?:\{[a-z,]+\})?`(?:, `[a-z_]+`)*) \| (\w+) \|", page, re.MULTILINE)
    named = {name: kind for names, kind in rows for name in re.findall(r"`([a-z_]+)", names)}
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))

    async def told() -> dict[str, Read]:
        async with scraping(app) as scrape:
            await scrape()
            return await delivered(app, scrape)

    found = asyncio.run(told())
    app.close()

    assert {name: metric.kind for name, metric in found.items()} == named
    examples = [yaml.safe_load(text) for text in re.findall(r"```text\n(.+?)```", page, re.DOTALL)]
    scraped, alarms = examples
    assert scraped["scrape_configs"][0]["authorization"]["credentials_file"]
    for rule in alarms["groups"][0]["rules"]:
        used = re.findall(r"deepwork_\w+?(?=_bucket|\W)", rule["expr"])
        assert used
        assert set(used) <= set(found), rule["alert"]


def test_while_the_store_is_away_the_rest_is_still_told(app: Application, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
    real = app.database.reading

    def away() -> Any:
        raise StorageError("The database is away.")

    async def scenario() -> None:
        async with scraping(app) as scrape:
            scrape.counters.called("agent_list", 0.01)
            monkeypatch.setattr(app.database, "reading", away)
            found = await scrape()
            assert value(found, "deepwork_store_up") == 0
            assert "deepwork_open_claims" not in found
            assert value(found, "deepwork_tool_calls_total", tool="agent_list") == 1

            monkeypatch.setattr(app.database, "reading", real)
            assert value(await scrape(), "deepwork_store_up") == 1
            await delivered(app, scrape)

    asyncio.run(scenario())


def test_whoever_is_turned_away_is_counted_by_status():
    counters = Counters()

    def answering(status: int, kind: str = "http") -> CountRefusals:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": f"{kind}.response.start", "status": status, "headers": []})
            await send({"type": f"{kind}.response.body", "body": b""})

        return CountRefusals(app, counters)

    async def scenario() -> None:
        async def send(message: Message) -> None:
            pass

        async def receive() -> Message:
            return {"type": "http.request"}

        for status in (200, 404, 429, 429, 401):
            await answering(status)({"type": "http"}, receive, send)
        await answering(403, "websocket.http")({"type": "websocket"}, receive, send)

    asyncio.run(scenario())

    assert counters.seen().refusals == {429: 2, 401: 1, 403: 1}
