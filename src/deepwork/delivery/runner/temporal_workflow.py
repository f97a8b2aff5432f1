"""The Temporal workflow of a run: it keeps as many attempts going as agents were asked for.

It decides nothing about tasks: each activity asks the store what there is to do, and tells how it ended. So a
workflow that is repeated, or an activity that Temporal starts again, can start nothing twice.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from deepwork.kernel.records import dataclass

WORKFLOW, ACTIVITY = "deepwork-run", "deepwork-attempt"
_LONGEST_ATTEMPT = timedelta(days=30)
"""Attempts have limits of their own; a worker that dies is noticed by its heartbeats."""
_FIRST_WAIT, _LONGEST_WAIT = 2.0, 60.0


@dataclass(frozen=True)
class RunInput:
    """What a workflow needs to know."""

    run_id: str
    agents: int
    heartbeat_seconds: float = 30.0


@dataclass(frozen=True)
class AttemptReport:
    """How an activity ended."""

    status: str
    """`worked`, `failed`, `parked` or `nothing`."""
    run_status: str
    is_over: bool
    """Whether the run has ended."""
    attempt_id: str | None = None
    reason: str | None = None
    wait_seconds: float | None = None
    """When to look again, if that is known."""


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """Keeps a run going until it has ended in the store."""

    def __init__(self) -> None:
        self._news = 0
        self._final: str | None = None

    @workflow.run
    async def run(self, given: RunInput) -> str:
        """Return the status of the run."""
        await asyncio.gather(*(self._keep_working(given) for _ in range(given.agents)))
        if self._final is None:
            workflow.continue_as_new(given)
        return self._final

    async def _keep_working(self, given: RunInput) -> None:
        """Start one attempt after another."""
        wait = _FIRST_WAIT
        while not self._is_over():
            seen = self._news
            report = await self._work(given)
            if report.is_over:
                self._final = report.run_status
            elif report.status in ("worked", "failed"):
                self._news += 1
                wait = _FIRST_WAIT
            else:
                await self._wait_for_news(seen, report.wait_seconds or wait)
                wait = min(_LONGEST_WAIT, wait * 2)

    async def _work(self, given: RunInput) -> AttemptReport:
        report: AttemptReport = await workflow.execute_activity(
            ACTIVITY,
            given.run_id,
            result_type=AttemptReport,
            start_to_close_timeout=_LONGEST_ATTEMPT,
            heartbeat_timeout=timedelta(seconds=given.heartbeat_seconds),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1)
            ),
        )
        return report

    async def _wait_for_news(self, seen: int, seconds: float) -> None:
        """Wait until another attempt has ended, or for this long."""
        try:
            await workflow.wait_condition(
                lambda: self._news != seen or self._is_over(),
                timeout=timedelta(seconds=min(seconds, _LONGEST_WAIT)),
            )
        except TimeoutError:
            return

    def _is_over(self) -> bool:
        """Return whether to start no more: the run has ended, or the history has become long."""
        return self._final is not None or workflow.info().is_continue_as_new_suggested()
