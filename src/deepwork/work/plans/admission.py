"""Whether budgets and the backlog of reviews allow to hand out another task of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from deepwork.gates.budgets.models import MS_PER_DAY, ActiveWork, Budget, Cost, Refusal, SubjectKind, Total
from deepwork.gates.budgets.rules import Limit, find_own_refusal, find_shared_refusal
from deepwork.gates.budgets.service import BudgetService, load_day_budget, name_day
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.timestamps import measure_duration
from deepwork.work.plans.models import Task, Workflow
from deepwork.work.plans.rules.active_time import measure_active_time
from deepwork.work.plans.stores.active_store import ActiveStore, ActiveTime

_DAY_HINT = "A person raises `budget.day` in the user's settings; a new day begins at midnight UTC."


class Admission:
    """Decides about tasks of one plan. What they share is read once, and only if something is limited."""

    def __init__(self, tx: Transaction, workflow: Workflow, *, is_claim: bool = False) -> None:
        """`is_claim` locks what claims of other plans compete for, and records that a budget is used up."""
        self._tx = tx
        self._workflow = workflow
        self._is_claim = is_claim
        self._budgets = BudgetService(tx)
        self._active = ActiveStore(tx)
        self._totals: dict[str, Total] = {}

    @property
    def has_limits(self) -> bool:
        """Whether anything but a task's own budget can refuse a task."""
        return self._plan_budget is not None or self._max_unreviewed is not None or self._day is not None

    def find_refusal(self, task: Task) -> Refusal | None:
        """Return why the task cannot be handed out now; None if it can."""
        if not self.has_limits and _get_budget(task) is None:
            return None
        refusal = self._find_backlog() or self._find_own(task) or self._find_shared(task)
        if self._is_claim and refusal and refusal.is_final:
            self._announce(refusal, task)
        elif self._is_claim and refusal is None and self._day and self._day_total.reached_at is not None:
            self._budgets.clear_reached(SubjectKind.DAY, name_day(self._tx.now))
        return refusal

    def find_refusals(self, tasks: Sequence[Task]) -> dict[str, Refusal]:
        """Return why tasks cannot be handed out, by their ids; those that can are left out."""
        limited = [task.id for task in tasks if _get_budget(task)]
        if not limited and not self.has_limits:
            return {}
        self._totals |= self._budgets.find_totals(SubjectKind.TASK, limited)
        self._totals |= {id: Total() for id in limited if id not in self._totals}
        return {task.id: refusal for task in tasks if (refusal := self.find_refusal(task))}

    def find_overrun(self, task: Task) -> Refusal | None:
        """Return which budget work on this task has used up, its own or the plan's."""
        if self._plan_budget is None and _get_budget(task) is None:
            return None
        overrun = self._find_own(task) or self._find_used_up_plan()
        if overrun and self._is_claim:
            self._announce(overrun, task)
        return overrun

    def find_plan_refusal(self) -> Refusal | None:
        """Return why no task at all can be handed out, whatever it may cost."""
        return self._find_backlog() or self._find_in_limits(ActiveWork(None, Cost()), None)

    def measure_task(self, task: Task) -> Cost:
        """Return what was spent on the task, with the time that it is active."""
        total = self._totals.get(task.id) or self._budgets.find_total(SubjectKind.TASK, task.id)
        return total.cost + Cost(active_ms=measure_active_time(task, self._tx.now))

    def measure_plan(self) -> Cost:
        """Return what was spent on the plan, with the time that its tasks are active."""
        return self._plan_spent

    # What is limited

    @property
    def _plan_budget(self) -> Budget | None:
        return self._workflow.requirements.budget if self._workflow.requirements else None

    @property
    def _max_unreviewed(self) -> int | None:
        return self._workflow.requirements.max_unreviewed if self._workflow.requirements else None

    @cached_property
    def _day(self) -> Budget | None:
        return load_day_budget()

    # What was spent, and what goes on

    @cached_property
    def _plan_spent(self) -> Cost:
        running = [measure_duration(task.since, self._tx.now) for task in self._of_plan]
        total = self._budgets.find_total(SubjectKind.PLAN, self._workflow.id)
        return total.cost + Cost(active_ms=sum(running))

    @cached_property
    def _day_total(self) -> Total:
        """The total of today; locked in a claim, because claims of other plans compete for the rest."""
        if self._is_claim:
            return self._budgets.get_day_for_update()
        return self._budgets.find_total(SubjectKind.DAY, name_day(self._tx.now))

    @cached_property
    def _day_spent(self) -> Cost:
        total = self._day_total
        midnight = self._tx.now - self._tx.now % MS_PER_DAY
        running = [measure_duration(max(task.since, midnight), self._tx.now) for task in self._of_all_plans]
        return total.cost + Cost(active_ms=sum(running))

    @cached_property
    def _of_plan(self) -> Sequence[ActiveTime]:
        return self._active.list_of_plan(self._workflow.id)

    @cached_property
    def _of_all_plans(self) -> Sequence[ActiveTime]:
        return self._active.list_of_all_plans()

    @cached_property
    def _work_of_plan(self) -> dict[str, ActiveWork]:
        return self._load_work(self._of_plan)

    @cached_property
    def _work_of_all_plans(self) -> dict[str, ActiveWork]:
        return self._load_work(self._of_all_plans)

    @cached_property
    def _backlog(self) -> int:
        return self._active.count_unreviewed(self._workflow.id)

    def _load_work(self, tasks: Sequence[ActiveTime]) -> dict[str, ActiveWork]:
        """Return what active tasks with a budget of their own may cost: only those reserve anything."""
        limited = [task for task in tasks if task.budget]
        totals = self._budgets.find_totals(SubjectKind.TASK, [task.id for task in limited])
        return {
            task.id: ActiveWork(task.budget, totals.get(task.id, Total()).cost + task.measure(self._tx.now))
            for task in limited
        }

    # Refusals

    def _find_backlog(self) -> Refusal | None:
        most = self._max_unreviewed
        if most is None or self._backlog < most:
            return None
        waiting = "1 result waits" if self._backlog == 1 else f"{self._backlog} results wait"
        return Refusal(
            "review_backlog",
            f"{waiting} for a person, and the plan allows {most}. The next task is handed out when a person"
            " has decided about one: `deepwork approvals list`.",
        )

    def _find_used_up_plan(self) -> Refusal | None:
        if (budget := self._plan_budget) is None:
            return None
        limit = Limit(SubjectKind.PLAN, budget, self._plan_spent, (), _hint_raise(self._workflow.id))
        return find_shared_refusal(limit, ActiveWork(None, Cost()))

    def _find_own(self, task: Task) -> Refusal | None:
        budget = _get_budget(task)
        return find_own_refusal(budget, self.measure_task(task), _hint_raise(task.id)) if budget else None

    def _find_shared(self, task: Task) -> Refusal | None:
        budget = _get_budget(task)
        return self._find_in_limits(
            ActiveWork(budget, self.measure_task(task) if budget else Cost()), task.id
        )

    def _find_in_limits(self, work: ActiveWork, task_id: str | None) -> Refusal | None:
        if budget := self._plan_budget:
            others = _list_others(self._work_of_plan, task_id)
            limit = Limit(SubjectKind.PLAN, budget, self._plan_spent, others, _hint_raise(self._workflow.id))
            if refusal := find_shared_refusal(limit, work):
                return refusal
        if self._day is None:
            return None
        spent = self._day_spent  # locked before the tasks of other plans are read
        others = _list_others(self._work_of_all_plans, task_id)
        return find_shared_refusal(Limit(SubjectKind.DAY, self._day, spent, others, _DAY_HINT), work)

    def _announce(self, refusal: Refusal, task: Task) -> None:
        kind, id = {
            SubjectKind.TASK: (SubjectKind.TASK, task.id),
            SubjectKind.PLAN: (SubjectKind.PLAN, self._workflow.id),
            SubjectKind.DAY: (SubjectKind.DAY, name_day(self._tx.now)),
        }[refusal.subject]
        self._budgets.mark_reached(kind, id, self._workflow.id, refusal.message)


def _get_budget(task: Task) -> Budget | None:
    return task.requirements.budget if task.requirements else None


def _list_others(work: Mapping[str, ActiveWork], excluded: str | None) -> list[ActiveWork]:
    return [each for id, each in work.items() if id != excluded]


def _hint_raise(id: str) -> str:
    return f"A person raises it: `deepwork budget set {id} {{option}} N`."
