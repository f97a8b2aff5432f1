"""Tasks, an extension of the stateless revisions: a slow call is answered with a task that the client polls.

Tasks live in the memory of the server. After a restart their ids are unknown.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.protocol.messages import Request, RequestError, encode_object
from deepwork.kernel.protocol.revisions import (
    CAPABILITIES_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    TASKS_EXTENSION,
)

log = logging.getLogger("deepwork")

GRACE_SECONDS = 2.0
"""A call that ends sooner is answered with its result."""
POLL_SECONDS = 2
KEPT_SECONDS = 60 * 60
"""How long a task is kept after its end."""
MAX_KEPT = 256
MAX_RUNNING = 64

Result = Mapping[str, Any]
Clock = Callable[[], float]


class ProtocolTask:
    """A call that goes on after the client was answered."""

    def __init__(self, request: Request, owner: Hashable, work: Future[Result], clock: Clock) -> None:
        self.id = os.urandom(16).hex()
        self.owner = owner
        self.ended_at: float | None = None
        self._request: Request | None = request
        self._work, self._clock = work, clock
        self._created_at, self._status = clock(), "working"
        work.add_done_callback(self._note_end)

    def cancel(self) -> None:
        """Ask the call to stop early; it may still succeed."""
        if (request := self._request) is not None:
            request.cancel()

    def describe(self) -> dict[str, Any]:
        """Describe the task without its result."""
        request = self._request
        progress = None if request is None else request.progress
        updated_at = self.ended_at or self._created_at
        if progress is not None:  # it counts seconds by another clock
            updated_at = max(updated_at, self._clock() - (time.monotonic() - progress.reported_at))
        fields = {
            "taskId": self.id,
            "status": self._status,
            "statusMessage": None if progress is None else progress.message,
            "createdAt": _format_time(self._created_at),
            "lastUpdatedAt": _format_time(updated_at),
            "ttlMs": round(1000 * ((self.ended_at or self._clock()) - self._created_at + KEPT_SECONDS)),
            "pollIntervalMs": 1000 * POLL_SECONDS,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def describe_fully(self) -> dict[str, Any]:
        """Describe the task with its result or error, if it has ended."""
        described = self.describe()
        if described["status"] == "completed":
            return {**described, "result": encode_object(self._work.result())}
        if described["status"] == "failed":
            error = _to_request_error(self._work.exception())
            return {**described, "statusMessage": error.message, "error": error.to_json()}
        return described

    def _note_end(self, work: Future[Result]) -> None:
        """Note the status, and release the request, whose parameters may be large."""
        assert self._request is not None
        error = work.exception()
        if error is not None and not isinstance(error, RequestError):
            log.error("A task of %s failed", self._request.method, exc_info=error)
        has_failed = error is not None
        is_cancelled = self._request.is_cancelled and (has_failed or work.result().get("isError"))
        self.ended_at = self._clock()
        self._status = "cancelled" if is_cancelled else "failed" if has_failed else "completed"
        self._request = None


class Tasks:
    """The tasks of a server, and the threads in which calls run that may become one."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(MAX_RUNNING, "deepwork-task")
        self._running = 0
        self._kept: dict[str, ProtocolTask] = {}
        self._is_ending = False

    def run(self, request: Request, owner: Hashable, work: Callable[[], Result]) -> Result:
        """Run a call; return its result, or a new task if it takes long.

        While too many calls run, this one is answered as for clients that do not know tasks.
        """
        if not self._reserve():
            return work()
        if request.progress is None:
            request.begin_progress()
        running = self._threads.submit(copy_context().run, work)
        running.add_done_callback(lambda _: self._release())
        wait((running,), GRACE_SECONDS)
        # A server that ends cannot be polled, and the client of a cancelled call gets no answer.
        if running.done() or self._is_ending or request.is_cancelled:
            return running.result()
        task = ProtocolTask(request, owner, running, self._clock)
        self._keep(task)
        return {**task.describe(), "resultType": "task"}

    def find(self, id: str, owner: Hashable) -> ProtocolTask:
        """Find a task of this owner; raise the same error for an unknown one and for one of somebody else."""
        with self._lock:
            self._drop_expired()
            task = self._kept.get(id)
        if task is None or task.owner != owner:
            raise _build_unknown_error()
        return task

    def end(self) -> None:
        """Cancel all tasks and create no more, because nobody can ask for them."""
        with self._lock:
            self._is_ending = True
            kept = list(self._kept.values())
        for task in kept:
            task.cancel()

    def finish(self) -> None:
        """Wait until no call runs."""
        self._threads.shutdown()

    def _reserve(self) -> bool:
        with self._lock:
            is_free = self._running < MAX_RUNNING and not self._is_ending
            self._running += is_free
            return is_free

    def _release(self) -> None:
        with self._lock:
            self._running -= 1

    def _keep(self, task: ProtocolTask) -> None:
        with self._lock:
            self._drop_expired()
            if len(self._kept) >= MAX_KEPT:
                ended = [each for each in self._kept.values() if each.ended_at is not None]
                del self._kept[min(ended, key=lambda each: each.ended_at or 0).id]
            self._kept[task.id] = task

    def _drop_expired(self) -> None:
        since = self._clock() - KEPT_SECONDS
        for task in list(self._kept.values()):
            if task.ended_at is not None and task.ended_at <= since:
                del self._kept[task.id]


def knows_tasks(request: Request) -> bool:
    """Whether the client of this request declares that it can handle tasks."""
    capabilities = request.meta.get(CAPABILITIES_KEY)
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)


def require_tasks(request: Request) -> None:
    """Raise unless the client declares that it can handle tasks."""
    if not knows_tasks(request):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        raise RequestError(MISSING_CAPABILITY, "Missing required client capability", required)


def _build_unknown_error() -> RequestError:
    error = InvalidInput(
        "Task not found. A server keeps a task in its memory until an hour after the end of its call.",
        code=Code.TASK_NOT_FOUND,
        suggestion="Repeat the call with the same idempotency key; if it has ended, you get its answer.",
    )
    return RequestError(INVALID_PARAMS, error.message, error.to_dict())


def _to_request_error(error: BaseException | None) -> RequestError:
    if isinstance(error, RequestError):
        return error
    return RequestError(INTERNAL_ERROR, "Internal server error")


def _format_time(seconds: float) -> str:
    whole, fraction = divmod(round(1000 * seconds), 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{fraction:03}Z"
