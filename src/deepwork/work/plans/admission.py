"""Whether a task is handed out now: budgets, the backlog of reviews, and the reasons to refuse, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from deepwork.gates.approvals.models import Approval, ApprovalKind
from deepwork.gates.approvals.service import add_waiting
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.budgets.models import MS_PER_DAY, ActiveWork, Budget, Cost, Refusal, SubjectKind, Total
from deepwork.gates.budgets.rules import Limit, find_own_refusal, find_shared_refusal
from deepwork.gates.budgets.service import BudgetService, name_day
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import find_day_budget
from deepwork.kernel.values import measure_duration
from deepwork.work.plans.models import FileConflicts, PlanStatus, Task, Workflow
from deepwork.work.plans.recorder import (
    APPROVAL,
    check_plan,
    check_start,
    describe_obstacle,
    summarize_obstacle,
)
from deepwork.work.plans.responses import Claimed, RefusalReason
from deepwork.work.plans.rules.levels import ActiveTask, build_path_query, find_overlapping
from deepwork.work.plans.rules.transitions import (
    MAX_NAMED,
    describe_pause,
    describe_used_up_attempts,
    format_names,
    measure_active_time,
)
from deepwork.work.plans.stores.claim_store import ActiveStore, ActiveTime
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

_DAY_HINT = "A person raises `budget.day` in the user's settings; a new day begins at midnight UTC."


class Admission:
    """Decides about tasks of one plan. What they share is read once, and only if something is limited."""

    def __init__(self, tx: Transaction, workflow: Workflow, *, is_claim: bool = False) -> None:
        """`is_claim` locks what claims of other plans compete for, and records that a budget is used up."""
        self._tx = tx
        self._workflow = workflow
        self._is_claim = is_claim
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
        day = find_day_budget()
        return Budget(day.usd, day.tokens, day.minutes) if day else None

    # What was spent, and what is active now

    @cached_property
    def _budgets(self) -> BudgetService:
        return BudgetService(self._tx)

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
        return ActiveStore(self._tx).list_of_plan(self._workflow.id)

    @cached_property
    def _of_all_plans(self) -> Sequence[ActiveTime]:
        return ActiveStore(self._tx).list_of_all_plans()

    @cached_property
    def _work_of_plan(self) -> dict[str, ActiveWork]:
        return self._load_work(self._of_plan)

    @cached_property
    def _work_of_all_plans(self) -> dict[str, ActiveWork]:
        return self._load_work(self._of_all_plans)

    @cached_property
    def _backlog(self) -> int:
        return ActiveStore(self._tx).count_unreviewed(self._workflow.id)

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


@dataclass(frozen=True)
class ActiveTasks:
    """The other tasks of the workflow that are claimed or running."""

    count: int
    overlapping: list[ActiveTask]
    """Those likely to change the same files; empty if the workflow ignores file conflicts."""


class ClaimRefusals:
    """Finds out why tasks cannot be claimed; the caller has locked the workflow."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._plans = PlanStore(tx)
        self._tasks = TaskStore(tx)
        self._active = ActiveStore(tx)

    def find_active_tasks(self, workflow: Workflow, task: Task) -> ActiveTasks:
        """Find the other active tasks; files are read only of those that can conflict with this one."""
        if not task.files or workflow.file_conflicts is FileConflicts.IGNORE:
            return ActiveTasks(self._active.count_active(workflow.id, excluding=task.id), [])
        if wanted := build_path_query(task.files):
            others, count = self._active.find_active_with_paths(workflow.id, wanted, excluding=task.id)
        else:
            others = self._active.list_active_files(workflow.id, excluding=task.id)
            count = len(others)
        return ActiveTasks(count, find_overlapping(task.files, others))

    def find_refusal(
        self, workflow: Workflow, task: Task, others: ActiveTasks, agent_id: str, *, has_begun: bool = False
    ) -> Claimed | None:
        """Return why the agent cannot claim the task now; asks for the approvals that it needs.

        `has_begun`: the approval to begin the task was used by the same call.
        """
        if refusal := self._find_lasting_refusal(workflow, task, agent_id):
            return refusal
        open_ones, count = self._tasks.list_open_dependencies(task, MAX_NAMED)
        if count:
            return build_refusal("blocked", f"It waits for {format_names(open_ones, count)}.")
        if not has_begun and (waits_for := check_start(self._tx, workflow, task, agent_id)):
            add_waiting(self._tx, waits_for, agent_id)
            return _build_approval_refusal(waits_for)
        if others.count >= workflow.max_parallel_tasks:
            running = "1 task is" if others.count == 1 else f"{others.count} tasks are"
            limit = workflow.max_parallel_tasks
            return build_refusal("limit", f"{running} active and the workflow's limit is {limit}.")
        if others.overlapping and workflow.file_conflicts is FileConflicts.REFUSE:
            names = format_names(others.overlapping, len(others.overlapping))
            message = f"Its files overlap with those of {names}."
            return build_refusal("files", message, conflicts_with=[other.id for other in others.overlapping])
        return self.find_budget_refusal(workflow, task)

    def find_budget_refusal(self, workflow: Workflow, task: Task) -> Claimed | None:
        """Return which budget is used up, or that too many results wait for a person."""
        refusal = Admission(self._tx, workflow, is_claim=True).find_refusal(task)
        return build_refusal(refusal.reason, refusal.message) if refusal else None

    def _find_lasting_refusal(self, workflow: Workflow, task: Task, agent_id: str) -> Claimed | None:
        """Return why the task is not handed out until a person acts."""
        if task.waits_for_person:
            return build_refusal("attempts", describe_used_up_attempts(task))
        if not workflow.status.hands_out_tasks:
            return build_refusal(
                "workflow", f"{self._describe_status(workflow)} Its tasks cannot be claimed."
            )
        if waits_for := self._find_waiting_work(task):
            return _build_approval_refusal(waits_for)
        if waits_for := check_plan(self._tx, workflow, agent_id):
            add_waiting(self._tx, waits_for, agent_id)
            return _build_approval_refusal(waits_for)
        return None

    def _find_waiting_work(self, task: Task) -> Approval | None:
        """Return the approval that decides about work which is done."""
        if task.waits_for != APPROVAL:
            return None
        return next(iter(ApprovalStore(self._tx).list_of_subject(ApprovalKind.TASK, task.id)), None)

    def _describe_status(self, workflow: Workflow) -> str:
        if workflow.status is PlanStatus.PAUSED:
            return describe_pause(workflow, self._plans.find_pause(workflow.id))
        return f"Workflow {workflow.name!r} is {workflow.status}."


def _build_approval_refusal(approval: Approval) -> Claimed:
    return build_refusal("approval", describe_obstacle(approval), approval=summarize_obstacle(approval))


def build_refusal(reason: RefusalReason, message: str, **more: Any) -> Claimed:
    """Build the answer of a claim that was refused."""
    return Claimed(success=False, reason=reason, message=message, **more)
