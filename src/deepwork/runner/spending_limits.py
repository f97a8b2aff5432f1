"""Finds agents at work that have used up a budget: of their run, task, plan or day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deepwork.budgets.models import MICROS_PER_USD
from deepwork.database.transaction import Database, Transaction
from deepwork.plans.admission import Admission
from deepwork.plans.models import Task
from deepwork.plans.stores.plan_store import PlanStore
from deepwork.plans.stores.task_store import TaskStore
from deepwork.runner.models import Attempt, Run
from deepwork.runner.store import AttemptStore


class SpendingLimits:
    """Compares what attempts have spent with what they may."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        return found | {id: message for id, message in announced.items() if message}

    def _announce(self, attempt: Attempt) -> str | None:
        with self._database.transaction() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get_for_update(task.workflow_id)
            overrun = Admission(tx, workflow, is_claim=True).find_overrun(task)
            return overrun.message if overrun else None


def _list_overrun_runs(
    tx: Transaction, runs: Mapping[str, Run], attempts: Sequence[Attempt]
) -> Iterator[tuple[str, str]]:
    for run_id in sorted({each.run_id for each in attempts}):
        most = runs[run_id].options.max_usd
        if most is None:
            continue
        spent = AttemptStore(tx).sum_usd_micros(run_id)
        if spent >= most * MICROS_PER_USD:
            yield run_id, f"The run has spent {spent / MICROS_PER_USD:.2f} $ of {most:g} $."


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
