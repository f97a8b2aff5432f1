"""The engine `temporal`: Temporal places, watches and retries attempts; the store stays the only truth.

One workflow for each run, one activity for each attempt. The activity executes the same attempt as the other
engines: claimed with an epoch, locked on its host. If its worker dies, Temporal starts the activity again; on
the same host it goes on with the agent that still runs, or resumes it; elsewhere it takes another task.
Import this module only when the engine is used: it needs the extra `temporal`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from deepwork.delivery.runner.models import Attempt, Run, WorkResult
from deepwork.delivery.runner.temporal_workflow import ACTIVITY, AttemptReport, RunInput, RunWorkflow
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepwork.delivery.runner.runner import Runner

log = logging.getLogger("deepwork")

DEFAULT_QUEUE = "deepwork"
_CONNECT_SECONDS = 15.0
_BEAT_SECONDS = 0.5


@dataclass(frozen=True)
class TemporalPlace:
    """Which Temporal server and which of its queues; None is what Temporal's own configuration says."""

    address: str | None = None
    namespace: str | None = None
    queue: str = DEFAULT_QUEUE


def start_workflow(place: TemporalPlace, given: RunInput) -> str:
    """Start the workflow of a run, unless it goes on; return its id."""

    async def start() -> str:
        client = await _connect(place)
        handle = await client.start_workflow(
            RunWorkflow.run,
            given,
            id=given.run_id,
            task_queue=place.queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        return handle.id

    return asyncio.run(start())


def serve_attempts(
    place: TemporalPlace, runner: Runner, agents: int, stop: threading.Event, on_ready: Callable[[], object]
) -> None:
    """Work on what Temporal hands out, at most this many attempts at a time, until `stop` is set."""
    with ThreadPoolExecutor(agents, thread_name_prefix="deepwork-temporal") as pool:

        async def serve() -> None:
            activities = AttemptActivities(runner, stop)
            async with Worker(
                await _connect(place),
                task_queue=place.queue,
                workflows=[RunWorkflow],
                activities=[activities.work],
                activity_executor=pool,
                max_concurrent_activities=agents,
                workflow_runner=UnsandboxedWorkflowRunner(),
            ):
                on_ready()
                await asyncio.to_thread(stop.wait)

        asyncio.run(serve())


async def _connect(place: TemporalPlace) -> Client:
    """Connect as Temporal's variables and configuration file say, such as TEMPORAL_API_KEY."""
    config: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    config |= {"target_host": place.address} if place.address else {}
    config |= {"namespace": place.namespace} if place.namespace else {}
    address = config.setdefault("target_host", "localhost:7233")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            return await Client.connect(**config)
    except (RuntimeError, RPCError, TimeoutError) as error:
        reason = str(error) or f"no answer within {_CONNECT_SECONDS:g} s"
        raise NotAllowed(
            f"The Temporal server at {address} cannot be reached: {reason}",
            suggestion="Name it with --temporal-address HOST:PORT or in TEMPORAL_ADDRESS.",
        ) from error


class AttemptActivities:
    """What a worker does for Temporal."""

    def __init__(self, runner: Runner, stop: threading.Event) -> None:
        self._runner, self._stop = runner, stop

    @activity.defn(name=ACTIVITY, no_thread_cancel_exception=True)
    def work(self, run_id: str) -> AttemptReport:
        """Bring one attempt of a run to its end; its agent goes on if the worker is stopped meanwhile."""
        leave = threading.Event()
        with _send_heartbeats(self._stop, leave):
            result, run = self._runner.work_in_run(run_id, leave)
        if leave.is_set():
            raise ApplicationError("The worker was stopped; the next one on its host goes on.")
        return build_report(result, run, round(time.time() * 1000))


@contextmanager
def _send_heartbeats(stop: threading.Event, leave: threading.Event) -> Iterator[None]:
    """Send heartbeats from a thread; it sets `leave` when the worker is stopped or the activity cancelled."""
    done = threading.Event()

    def send() -> None:
        while not done.wait(_BEAT_SECONDS):
            activity.heartbeat()  # Temporal's library sends as many as the server needs
            if stop.is_set() or activity.is_cancelled():
                leave.set()

    activity.heartbeat()
    thread = threading.Thread(target=contextvars.copy_context().run, args=(send,), name="heartbeats")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def build_report(result: WorkResult, run: Run, now: int) -> AttemptReport:
    """Tell the workflow how an attempt ended."""
    attempt = result.attempt
    return AttemptReport(
        status=result.status.value,
        run_status=run.status.value,
        is_over=run.status.is_final,
        attempt_id=attempt.id if attempt else None,
        reason=result.reason,
        wait_seconds=_compute_wait(attempt, now),
    )


def _compute_wait(attempt: Attempt | None, now: int) -> float | None:
    if attempt is None or attempt.not_before is None:
        return None
    return max(1.0, (attempt.not_before - now) / 1000)
