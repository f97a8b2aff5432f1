"""Who else uses the working tree of a job: running tasks, and workspaces of its repository, of open plans."""

from __future__ import annotations

from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.workspaces.models import WorkspaceStatus

_OPEN = [each.value for each in PlanStatus if not each.is_final]
_RUNNING = [each.value for each in TaskStatus if each.is_running]


def find_reason_to_stay(database: Database, tree: str) -> str | None:
    """Find a reason not to switch the branch under somebody's feet; None if nobody else uses the tree."""
    try:
        with database.reading() as tx:
            tasks, workspaces = count_running_tasks(tx, tree), count_workspaces(tx, tree)
    except DeepworkError as error:
        return f"the store could not be asked who else uses it ({error.message.rstrip('.')})"
    if tasks:
        return f"{_count(tasks, 'task')} of plans {'runs' if tasks == 1 else 'run'} in it"
    if workspaces:
        return f"it has {_count(workspaces, 'active workspace')} of plans"
    return None


def count_running_tasks(tx: Transaction, tree: str) -> int:
    """Count the tasks that agents hold or run in this working tree."""
    sql = """
        SELECT count(*)
          FROM plan_tasks
          JOIN plans ON plans.id = plan_tasks.workflow_id
          LEFT JOIN workspaces ON workspaces.id = plan_tasks.workspace_id
         WHERE plans.status IN :open
           AND (plan_tasks.status IN :running OR plan_tasks.status = 'pending' AND claimed_by IS NOT NULL)
           AND (workspaces.path = :tree
                OR workspaces.id IS NULL
                   AND (plans.repository_path IS NULL OR plans.repository_path = :tree))
    """
    return int(tx.fetch_value(sql, open=_OPEN, running=_RUNNING, tree=tree) or 0)


def count_workspaces(tx: Transaction, tree: str) -> int:
    """Count the active workspaces that are this tree, or whose branches belong to the branch of this tree."""
    sql = """
        SELECT count(*)
          FROM workspaces
          JOIN plans ON plans.id = workspaces.workflow_id
         WHERE workspaces.status = :active
           AND plans.status IN :open
           AND :tree IN (workspaces.path, workspaces.repository_path)
    """
    return int(tx.fetch_value(sql, active=WorkspaceStatus.ACTIVE, open=_OPEN, tree=tree) or 0)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
