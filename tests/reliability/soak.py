"""A stream of events for a page with ten thousand tasks in a real browser: its memory and the server's stay flat."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from application import call_tool
from e2e.browser import FLAGS, Dashboard, Visitor
from e2e.make import make_large_run, open_app
from e2e.meter import Meter, count_nodes
from quick import PLAIN
from reliability.result import Result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST_PAGE_MB = 150
MOST_GROWTH_MB = 30
"""From the sample after a tenth of the time, when caches are filled, to the last one."""
MOST_NODES = 2000
SAMPLES = 10


def soak_page(folder: Path, *, seconds: int, rate: int = 200, tasks: int = 10_000) -> Result:
    """Send events at this rate, or as fast as the machine can, and measure memory ten times."""
    project = folder / "project"
    project.mkdir()
    id = make_large_run(project, tasks)
    with (
        Dashboard(project, program=PLAIN) as dashboard,
        open_browser() as browser,
        Visitor(browser, dashboard) as visitor,
    ):
        stream = Stream(visitor, dashboard)
        stream.send(id, rate, seconds)
        stream.result.count(minutes=seconds // 60)
        return stream.result


class Stream:
    """Sends the events, and records what page and server cost."""

    def __init__(self, visitor: Visitor, dashboard: Dashboard) -> None:
        self._visitor, self._dashboard = visitor, dashboard
        self._meter, self._server = Meter(visitor), psutil.Process(dashboard.pid)
        self.result = Result()

    def send(self, run_id: str, rate: int, seconds: float) -> None:
        """Send events about a running task of the run that the page shows."""
        task = self._open_page(run_id)
        app, clock = open_app(self._dashboard.project)
        began, number, samples = time.monotonic(), 0, 0
        try:
            while (passed := time.monotonic() - began) < seconds:
                clock.now = int(time.time() * 1000)
                call_tool(
                    app, "log_milestone", task_id=task, message=f"step {number}.", progress=number % 100
                )
                number += 1
                if passed > seconds * (samples + 1) / SAMPLES:
                    samples += 1
                    self._measure()
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
        finally:
            app.close()
        self.result.count(events=number, calls=number, acknowledged=number, first_try=number)
        self.result.measured["events_per_second"] = [round(number / seconds, 1)]
        self._wait_for(task, f"step {number - 1}.")
        self._measure()
        self._judge()

    def _open_page(self, run_id: str) -> str:
        """Open the page of the run; return the id of a task in it."""
        self._visitor.open(f"/runs/{run_id}?tab=tasks")
        row = self._visitor.page.locator(".tasks .row[data-key]", has_text="running").first
        row.wait_for()
        return str(row.get_attribute("data-key"))

    def _measure(self) -> None:
        measured = self.result.measured
        measured.setdefault("page_mb", []).append(round(self._meter.heap(), 1))
        measured.setdefault("server_mb", []).append(round(self._server.memory_info().rss / 1e6, 1))

    def _wait_for(self, task: str, last: str) -> None:
        """Wait until the page shows the last event: none before it may have stopped the stream."""
        self._visitor.page.locator(f'.row[data-key="{task}"]', has_text=last).wait_for()

    def _judge(self) -> None:
        measured, nodes = self.result.measured, count_nodes(self._visitor)
        for name in ("page_mb", "server_mb"):
            growth = measured[name][-1] - measured[name][0]
            if growth > MOST_GROWTH_MB:
                self.result.faults.append(f"{name} grew by {growth:.0f} MB: {measured[name]}")
        if measured["page_mb"][-1] > MOST_PAGE_MB or nodes > MOST_NODES:
            self.result.faults.append(f"the page has {measured['page_mb'][-1]} MB and {nodes} nodes")
        self.result.faults += self._visitor.troubles


@contextmanager
def open_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched: Any = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield launched
        launched.close()
