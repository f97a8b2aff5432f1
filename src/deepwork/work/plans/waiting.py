"""Waiting until a task can be claimed, in a worker thread, woken by events."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from deepwork.gates.approvals.models import ApprovalStatus
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database
from deepwork.work.plans.queue_responses import NextTasks

MAX_WAIT_SECONDS = 30
_CHECK_EVERY = 0.5
"""How soon a cancelled call stops."""
_LOOK_EVERY = 5.0
"""How soon an expired claim is noticed, since no event announces it."""


def wait_for_tasks(database: Database, look: Callable[[], NextTasks], seconds: float) -> NextTasks:
    """Look again after every change until there is something to say, but not for longer than this."""
    end = time.monotonic() + seconds
    with closing(database.listen()) as listener:
        while True:
            found = look()
            look_again_at = min(end, time.monotonic() + _LOOK_EVERY)
            if _is_news(found) or time.monotonic() >= end:
                return found
            while not listener.wait(min(_CHECK_EVERY, max(0.0, look_again_at - time.monotonic()))):
                if not current_call().is_wanted():
                    return found
                if time.monotonic() >= look_again_at:
                    break


def _is_news(found: NextTasks) -> bool:
    """Whether an agent should act: on a task, or because none will be offered soon."""
    is_refused = found.approval is not None and found.approval["status"] == ApprovalStatus.REFUSED
    is_over = found.all_complete or not found.workflow_status.hands_out_tasks
    return found.recommended_count > 0 or is_over or is_refused
