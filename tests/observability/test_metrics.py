"""`/metrics` with real stores: current activity, delivery time of events, refused requests."""

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

from application import LEASE_MS, Clock, call_tool, make_app
from dashboard.make_agent_runs import add_attempt, start_run
from deepwork.delivery.runner.models import AttemptStage
from deepwork.edge.server.application import Application
from deepwork.edge.server.http import metrics
from deepwork.edge.server.http.metrics import MetricsEndpoint, RefusalCounterMiddleware
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.hub import EventHub
from deepwork.views.observability.calls import Counters
from deepwork.views.overview.current_work_store import ActivityCounts, ActivityStore
from observability.prometheus_reader import ParsedMetric, get_value, parse_metrics

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "observe.md"


class Scraper:
    """The metrics of one process, as a collector reads them."""

    def __init__(self, app: Starlette, counters: Counters) -> None:
        self._app, self.counters = app, counters

    async def __call__(self) -> dict[str, ParsedMetric]:
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
        return parse_metrics(body["body"].decode())


@asynccontextmanager
async def start_scraping(app: Application) -> AsyncIterator[Scraper]:
    hub, counters = EventHub(app.feed), Counters()
    figures = MetricsEndpoint(app.database, app.presence, hub, counters)
    try:
        yield Scraper(Starlette(routes=figures.build_routes()), counters)
    finally:
        hub.close()


async def scrape_until(scrape: Scraper, is_so: Any) -> dict[str, ParsedMetric]:
    """Return the first metrics that satisfy the condition."""
    async with asyncio.timeout(100):
        while not is_so(found := await scrape()):  # noqa: ASYNC110 - polling is the only way
            await asyncio.sleep(0.02)
        return found


async def deliver_events(app: Application, scrape: Scraper) -> dict[str, ParsedMetric]:
    """Return the metrics once every event has arrived; emits events until the process listens."""
    register = partial(call_tool, app, "agent_register", name="A", runtime="custom")
    await asyncio.to_thread(register)
    while "deepwork_event_delivered_seq" not in await scrape():
        await asyncio.sleep(0.1)
        await asyncio.to_thread(register)
    last = app.feed.get_last_seq()
    return await scrape_until(scrape, lambda found: get_value(found, "deepwork_event_delivered_seq") == last)


def test_current_activity_is_counted(app: Application, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
    ada, bob, cid = (call_tool(app, "agent_register", name=name, runtime="custom")["id"] for name in "ABC")
    workflow = call_tool(
        app, "workflow_create", name="W", source_type="prompt", source_content="x", max_parallel_tasks=5
    )["id"]
    call_tool(
        app, "workflow_set_plan", id=workflow, plan={"summary": "s", "tasks": [{"name": "a"}, {"name": "b"}]}
    )
    for task, agent in zip(
        call_tool(app, "workflow_next_tasks", workflow_id=workflow)["tasks"], (ada, bob), strict=False
    ):
        assert call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)["success"]
    run = start_run(app, workflow)
    add_attempt(app, run, "tk_one")
    add_attempt(app, run, "tk_two", stage=AttemptStage.PARKED)
    add_attempt(app, run, "tk_three", stage=AttemptStage.DONE, ended_at=1)
    call_tool(app, "agent_unregister", id=cid)
    call_tool(app, "agent_update", id=bob, status="offline")

    async def scenario() -> None:
        async with start_scraping(app) as scrape:
            found = await scrape()
            assert (get_value(found, "deepwork_store_up"), get_value(found, "deepwork_live_agents")) == (1, 1)
            assert get_value(found, "deepwork_open_claims") == 2
            assert get_value(found, "deepwork_job_sessions_active") == 0
            assert get_value(found, "deepwork_runs_open") == 1
            assert get_value(found, "deepwork_attempts_open", stage="parked") == 1
            assert get_value(found, "deepwork_attempts_open", stage="checking") == 0
            assert get_value(found, "deepwork_event_last_seq") == app.feed.get_last_seq()

            clock.advance(seconds=LEASE_MS / 1000 + 1)
            later = await scrape()
            assert (get_value(later, "deepwork_live_agents"), get_value(later, "deepwork_open_claims")) == (
                0,
                0,
            )

    asyncio.run(scenario())


def test_the_store_is_queried_rarely_however_often_metrics_are_collected(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    asked = 0

    class Counting(ActivityStore):
        def count_activity(self, alive_since: int) -> ActivityCounts:
            nonlocal asked
            asked += 1
            return super().count_activity(alive_since)

    monkeypatch.setattr(metrics, "ActivityStore", Counting)
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 1e9)

    async def scenario() -> None:
        async with start_scraping(app) as scrape:
            for found in await asyncio.gather(*(scrape() for _ in range(20))):
                assert get_value(found, "deepwork_store_up") == 1
            assert asked == 1
            monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
            await scrape()
            assert asked == 2

    asyncio.run(scenario())


def test_an_event_is_timed_from_its_transaction_to_its_arrival(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    call_tool(app, "agent_register", name="before", runtime="custom")

    async def scenario() -> None:
        async with start_scraping(app) as scrape:
            first = await scrape()
            assert "deepwork_event_delivered_seq" not in first
            found = await deliver_events(app, scrape)
            count = get_value(found, "deepwork_event_delivery_seconds", "_count")
            assert 0 < count < app.feed.get_last_seq()
            assert get_value(found, "deepwork_event_delivery_seconds", "_sum") < count * 100

    asyncio.run(scenario())
    app.close()


def test_the_page_names_every_metric_with_its_kind_and_no_other(tmp_path: Path):
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_]+(?:\{[a-z,]+\})?`(?:, `[a-z_]+`)*) \| (\w+) \|", page, re.MULTILINE)
    named = {name: kind for names, kind in rows for name in re.findall(r"`([a-z_]+)", names)}
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))

    async def told() -> dict[str, ParsedMetric]:
        async with start_scraping(app) as scrape:
            await scrape()
            return await deliver_events(app, scrape)

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


def test_other_metrics_are_served_while_the_store_is_unavailable(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)
    real = app.database.reading

    def away() -> Any:
        raise StorageError("The database is away.")

    async def scenario() -> None:
        async with start_scraping(app) as scrape:
            scrape.counters.record_call("agent_list", 0.01)
            monkeypatch.setattr(app.database, "reading", away)
            found = await scrape()
            assert get_value(found, "deepwork_store_up") == 0
            assert "deepwork_open_claims" not in found
            assert get_value(found, "deepwork_tool_calls_total", tool="agent_list") == 1

            monkeypatch.setattr(app.database, "reading", real)
            assert get_value(await scrape(), "deepwork_store_up") == 1
            await deliver_events(app, scrape)

    asyncio.run(scenario())


def test_refused_requests_are_counted_by_status():
    counters = Counters()

    def answering(status: int, kind: str = "http") -> RefusalCounterMiddleware:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": f"{kind}.response.start", "status": status, "headers": []})
            await send({"type": f"{kind}.response.body", "body": b""})

        return RefusalCounterMiddleware(app, counters)

    async def scenario() -> None:
        async def send(message: Message) -> None:
            pass

        async def receive() -> Message:
            return {"type": "http.request"}

        for status in (200, 404, 429, 429, 401):
            await answering(status)({"type": "http"}, receive, send)
        await answering(403, "websocket.http")({"type": "websocket"}, receive, send)

    asyncio.run(scenario())

    assert counters.take_snapshot().refusals == {429: 2, 401: 1, 403: 1}
