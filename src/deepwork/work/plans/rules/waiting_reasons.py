"""Why no task of a workflow can start now, in words for an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deepwork.work.plans.models import PlanStatus, TaskStatus


def explain_no_tasks(
    status: PlanStatus,
    by_status: Mapping[TaskStatus, int],
    running: Sequence[tuple[str, str | None]],
    running_count: int,
) -> str:
    """Explain why there is nothing to claim; `running` has the first running tasks and their holders."""
    if status is PlanStatus.PLANNING:
        return "The workflow has no plan yet; set it with workflow_set_plan."
    if not status.hands_out_tasks:
        return f"The workflow is {status}; its tasks cannot be claimed."
    failed, blocked = by_status[TaskStatus.FAILED], by_status[TaskStatus.BLOCKED]
    if running_count:
        waiting = f"{_count_tasks(blocked)} for" if blocked else "No other task is left;"
        return f"{waiting} {_format_running(running, running_count)}. wait_seconds waits for a change."
    if failed:
        return (
            f"{failed} failed and not offered again: include_failed offers those with attempts left, "
            "the others wait for a person."
        )
    return "All tasks are done."


def _count_tasks(blocked: int) -> str:
    return "1 task waits" if blocked == 1 else f"{blocked} tasks wait"


def _format_running(running: Sequence[tuple[str, str | None]], count: int) -> str:
    named = ", ".join(f"{name!r} (held by {holder})" if holder else repr(name) for name, holder in running)
    more = count - len(running)
    return named + (f" and {more} more" if more else "")
