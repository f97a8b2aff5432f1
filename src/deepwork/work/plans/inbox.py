"""Tasks that wait for a person."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from deepwork.gates.approvals.models import ApprovalStatus
from deepwork.gates.budgets.rules import describe_budget
from deepwork.kernel.attention import Attention, Listed, format_detail
from deepwork.kernel.call import current_call
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.states import Cause, Command
from deepwork.work.agents.lease_conditions import HAS_RUN_OUT
from deepwork.work.plans.models import parse_plan_requirements, parse_task_requirements
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


def list_failed_tasks(tx: Transaction, limit: int) -> Listed:
    """List the failed tasks of active plans, those without attempts left first."""
    found = f"""plans JOIN plan_tasks AS task ON task.workflow_id = plans.id
        WHERE {_IS_OPEN} AND task.status = 'failed'"""
    columns = (
        "task.id, task.name, task.workflow_id, task.error, task.updated_at, task.failures,"
        " task.failures >= task.max_attempts AS waits_for_person"
    )
    order = (
        "CASE WHEN task.failures >= task.max_attempts THEN 0 ELSE 1 END,"
        " task.updated_at, plans.created_seq, task.position"
    )
    rows, total = tx.list_first(columns, found, order, limit)
    return [_describe_failure(row) for row in rows], total


def _describe_failure(row: Row) -> Attention:
    return Attention(
        kind="failed_task",
        id=row["id"],
        title=f"{row['name']} {_say_how_it_failed(row)}",
        why=Cause.ATTEMPTS_USED_UP if row["waits_for_person"] else Cause.FAILED_TASKS,
        next=Command.RETRY.about(row["id"]),
        since=row["updated_at"],
        detail=format_detail(row["error"]),
        run_id=row["workflow_id"],
        task_id=row["id"],
        task_name=row["name"],
    )


def _say_how_it_failed(row: Row) -> str:
    """Say whether agents try it again by themselves, or it waits for a person."""
    if not row["waits_for_person"]:
        return "failed"
    times = "once" if row["failures"] == 1 else f"{row['failures']} times"
    return f"failed {times} and waits for you"


def list_lost_claims(tx: Transaction, limit: int) -> Listed:
    """List started tasks of active plans whose claim has expired."""
    found = f"""leases JOIN plan_tasks AS task ON task.id = leases.what
        JOIN plans ON plans.id = task.workflow_id JOIN agents ON agents.id = leases.who
        WHERE leases.who IS NOT NULL AND {HAS_RUN_OUT} AND task.claimed_by = leases.who
          AND task.status IN ('planning', 'in_progress', 'paused')
          AND plans.status IN ('ready', 'in_progress')"""
    columns = (
        "task.id, task.name, task.workflow_id, leases.who,"
        " CASE WHEN leases.until < :now THEN leases.until ELSE :now END AS until,"
        " agents.name AS agent_name, agents.last_heartbeat"
    )
    order = "leases.until, plans.created_seq, task.position"
    rows, total = tx.list_first(columns, found, order, limit, now=tx.now)
    return [_describe_lost_claim(row) for row in rows], total


def _describe_lost_claim(row: Row) -> Attention:
    return Attention(
        kind="lost_claim",
        id=row["id"],
        title=f"{row['agent_name']} left {row['name']}",
        why=Cause.AGENT_GONE,
        next=Command.RUN.about(row["workflow_id"]),
        since=row["until"] or row["last_heartbeat"],
        detail="The claim expired; any agent can claim the task now.",
        run_id=row["workflow_id"],
        task_id=row["id"],
        task_name=row["name"],
        agent_name=row["agent_name"],
        agent_id=row["who"],
    )


def list_paused_plans(tx: Transaction, limit: int) -> Listed:
    """List paused plans with the reason given."""
    columns = """id, name, updated_at, (
        SELECT reason FROM plan_history WHERE workflow_id = plans.id AND after = 'paused'
         ORDER BY number DESC LIMIT 1) AS reason"""
    order = "updated_at, created_seq"
    rows, total = tx.list_first(columns, "plans WHERE status = 'paused'", order, limit)
    return [_describe_pause(row) for row in rows], total


def _describe_pause(row: Row) -> Attention:
    return Attention(
        kind="waiting_plan",
        id=row["id"],
        title=f"{row['name']} is paused",
        why=Cause.PAUSED,
        next=Command.RESUME_PLAN.about(row["id"]),
        since=row["updated_at"],
        detail=format_detail(row["reason"]),
        run_id=row["id"],
    )


def list_reached_budgets(tx: Transaction, limit: int) -> Listed:
    """List the plans and tasks whose budget is used up, the oldest first."""
    found = f"""spending_totals AS total
        LEFT JOIN plan_tasks AS task ON total.subject_kind = 'task' AND task.id = total.subject_id
        JOIN plans ON plans.id = coalesce(task.workflow_id, total.subject_id)
        WHERE total.reached_at IS NOT NULL AND total.subject_kind IN ('plan', 'task') AND {_IS_OPEN}
          AND (task.id IS NULL OR task.status NOT IN ('completed', 'skipped'))"""
    columns = (
        "total.subject_id AS id, coalesce(task.name, plans.name) AS name, task.id AS task_id,"
        " plans.id AS workflow_id, total.reached_at, plans.requirements,"
        " task.requirements AS task_requirements"
    )
    rows, total = tx.list_first(columns, found, "total.reached_at, total.subject_id", limit)
    return [_describe_reached_budget(row) for row in rows], total


def _describe_reached_budget(row: Row) -> Attention:
    allowed = (
        parse_task_requirements(row["task_requirements"])
        if row["task_id"]
        else parse_plan_requirements(row["requirements"])
    )
    limit = describe_budget(allowed.budget) if allowed and allowed.budget else ""
    return Attention(
        kind="budget",
        id=row["id"],
        title=f"{row['name']} used up its budget",
        why=Cause.BUDGET,
        next=Command.SET_BUDGET.about(row["id"]),
        since=row["reached_at"],
        detail=f"It may cost {limit}. Raise that, or end it." if limit else "",
        run_id=row["workflow_id"],
        task_id=row["task_id"],
        task_name=row["name"] if row["task_id"] else None,
    )


_IS_OPEN = "plans.status IN ('ready', 'in_progress', 'paused', 'failed')"
