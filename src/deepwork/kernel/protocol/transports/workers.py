"""Threads that answer requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.messages import Request

WORKERS = 40
LONG_WORKERS = 64

Result = TypeVar("Result")


class Workers:
    """Two pools of threads: calls that may take minutes never delay the others."""

    def __init__(self, handler: MessageHandler, most: int = LONG_WORKERS) -> None:
        """`most`: no pool has more threads than that."""
        self._handler = handler
        self._threads = ThreadPoolExecutor(min(WORKERS, most), "deepwork-call")
        self._long_threads = ThreadPoolExecutor(min(LONG_WORKERS, most), "deepwork-long-call")

    def submit(self, request: Request, answer: Callable[[], Result]) -> Future[Result]:
        """Run `answer` in a thread of the pool that fits the request."""
        is_long = self._handler.is_long(request)
        return (self._long_threads if is_long else self._threads).submit(answer)

    def finish(self) -> None:
        """Wait until every request is answered."""
        self._threads.shutdown()
        self._long_threads.shutdown()
        self._handler.tasks.finish()

    def finish_within(self, seconds: float) -> bool:
        """Wait until every request is answered, but not for longer; return whether they are."""
        waiting = threading.Thread(target=self.finish, name="deepwork-finish", daemon=True)
        waiting.start()
        waiting.join(seconds)
        return not waiting.is_alive()
