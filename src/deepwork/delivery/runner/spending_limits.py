"""Finds agents at work that have used up a budget: of their run, task, plan, day or step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run
from deepwork.delivery.runner.rules import find_run_overrun
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.work_sources import StepBudget, WorkSources
from deepwork.gates.budgets.models import Cost, SubjectKind
from deepwork.gates.budgets.rules import find_own_refusal
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, StorageError
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.models import Task
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


class SpendingLimits:
    """Compares what attempts have spent with what they may."""

    def __init__(self, database: Database, sources: WorkSources) -> None:
        self._database, self._sources = database, sources

    def find_overruns(self, runs: Mapping[str, Run], attempts: Sequence[Attempt]) -> dict[str, str]:
        """Return which budget is used up, by the id of the attempt; announces it if it is that of a plan."""
        if not attempts:
            return {}
        with self._database.reading() as tx:
            of_runs = dict(_list_overrun_runs(tx, runs, attempts))
            found = {each.id: of_runs[each.run_id] for each in attempts if each.run_id in of_runs}
            rest = [each for each in attempts if each.id not in found]
            over = set(_list_overrun_tasks(tx, rest))
        announced = {each.id: self._announce(each) for each in rest if each.task_id in over}
        announced |= {each.id: self._find_step_overrun(each) for each in rest if each.workflow_id is None}
        return found | {id: message for id, message in announced.items() if message}

    def _find_step_overrun(self, attempt: Attempt) -> str | None:
        try:
            limit = self._sources.find(attempt).find_budget(attempt)
        except StorageError:
            raise
        except DeepworkError:  # job.yml is being edited; what was allowed before is not known any more
            return None
        if limit is None:
            return None
        with self._database.transaction() as tx:
            message = find_step_overrun(tx, attempt.task_id, limit, _find_running_since(attempt))
            if message:
                BudgetService(tx).mark_reached(SubjectKind.TASK, attempt.task_id, None, message)
            return message

    def _announce(self, attempt: Attempt) -> str | None:
        with self._database.transaction() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get_for_update(task.workflow_id)
            overrun = Admission(tx, workflow, is_claim=True).find_overrun(task)
            return overrun.message if overrun else None


def find_step_overrun(
    tx: Transaction, task_id: str, limit: StepBudget, running_since: int | None = None
) -> str | None:
    """Return why nothing more may be spent on a step; its minutes are those in which an agent worked."""
    tokens, usd_micros = AttemptStore(tx).sum_of_task(task_id)
    worked = BudgetService(tx).find_total(SubjectKind.TASK, task_id).cost.active_ms
    worked += max(0, tx.now - running_since) if running_since is not None else 0
    refusal = find_own_refusal(limit.budget, Cost(usd_micros, tokens, worked), limit.hint, "step")
    return refusal.message if refusal else None


def _find_running_since(attempt: Attempt) -> int | None:
    return attempt.started_at if attempt.stage is AttemptStage.RUNNING else None


def _list_overrun_runs(
    tx: Transaction, runs: Mapping[str, Run], attempts: Sequence[Attempt]
) -> Iterator[tuple[str, str]]:
    for run_id in sorted({each.run_id for each in attempts}):
        options = runs[run_id].options
        if options.max_usd is None:
            continue
        if overrun := find_run_overrun(options, AttemptStore(tx).sum_usd_micros(run_id)):
            yield run_id, overrun


def _list_overrun_tasks(tx: Transaction, attempts: Sequence[Attempt]) -> Iterator[str]:
    """List the tasks that have used up a budget of their own or of their plan."""
    of_plans = [each.task_id for each in attempts if each.workflow_id is not None]
    tasks = TaskStore(tx).find_by_ids(of_plans) if of_plans else {}
    by_plan: dict[str, list[Task]] = {}
    for task in tasks.values():
        by_plan.setdefault(task.workflow_id, []).append(task)
    for workflow_id, of_plan in by_plan.items():
        admission = Admission(tx, PlanStore(tx).get(workflow_id))
        yield from (task.id for task in of_plan if admission.find_overrun(task))
