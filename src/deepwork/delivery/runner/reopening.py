"""Opens a completed task again for the attempt that completed it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.delivery.runner.interfaces import ToolCaller
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import copy_with
from deepwork.work.plans.status_changes import reopen_task


class NotClaimed(Exception):
    """The task is open again, but the agent of the attempt could not claim it; the message says why."""


def reopen_for_attempt(
    tx: Transaction,
    call: ToolCaller,
    attempt: Attempt,
    text: str,
    *,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> Attempt | None:
    """Open the task again and claim it for the same agent; None if another runner changed the attempt."""
    reopen_task(tx, attempt.task_id, text, reason=reason, detail=detail)
    wanted = {"task_id": attempt.task_id, "agent_id": attempt.agent_id, "start": True}
    claimed = call("task_claim", wanted)
    if not claimed["success"]:
        raise NotClaimed(f"{text}\n{claimed.get('message') or ''}")
    after: Attempt = copy_with(attempt, updated_at=tx.now, claim_epoch=int(claimed["claim_epoch"]))
    return after if AttemptStore(tx).save(attempt, after) else None
