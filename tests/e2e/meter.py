"""Measures what a page costs: processor time, memory, nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.browser import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession

FIXED_WORK = """() => {
    const box = document.body.appendChild(document.createElement('div'));
    for (let round = 0; round < 10; round++) {
        box.replaceChildren(...Array.from({length: 500}, (_, index) => {
            const line = document.createElement('p');
            line.textContent = `line ${index} of round ${round}`;
            return line;
        }));
        box.getBoundingClientRect();
    }
    box.remove();
}"""
FIXED_WORK_MS = 100
"""The duration of FIXED_WORK on the machine for which the budgets were set."""


class Meter:
    """Measures what a page has cost so far, in processor time, so that a busy machine does not matter."""

    def __init__(self, visitor: Visitor) -> None:
        self._page = visitor.page
        self._session: CDPSession = visitor.context.new_cdp_session(visitor.page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read(self, name: str) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == name))

    def milliseconds(self) -> float:
        return 1000 * self.read("TaskDuration")

    def slowness(self) -> float:
        """How much slower FIXED_WORK is here than on that machine; 1 if it is faster."""
        return max(1.0, min(self._fixed_work() for _ in range(3)) / FIXED_WORK_MS)

    def _fixed_work(self) -> float:
        before = self.milliseconds()
        self._page.evaluate(FIXED_WORK)
        return self.milliseconds() - before

    def heap(self) -> float:
        """Heap size in megabytes, after garbage collection."""
        self._session.send("HeapProfiler.collectGarbage")
        return self.read("JSHeapUsedSize") / 1e6


def count_nodes(visitor: Visitor) -> int:
    count: int = visitor.page.evaluate("document.querySelectorAll('*').length")
    return count
