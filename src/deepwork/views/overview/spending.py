"""What work cost and may cost, as plain values for people: of a plan, or added up in several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from deepwork.gates.budgets.models import MICROS_PER_USD, MS_PER_DAY, MS_PER_MINUTE, Cost, SubjectKind
from deepwork.gates.budgets.service import BudgetService, load_day_budget, name_day
from deepwork.gates.budgets.store import Grouping, SpendingStore
from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_optional_timestamp
from deepwork.views.overview.run_store import PLAN, WorkListStore, get_run_kind
from deepwork.work.plans.admission import Admission
from deepwork.work.plans.models import Task, Workflow
from deepwork.work.plans.rules.transitions import measure_active_time
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

MAX_ROWS = 200
_Days = Annotated[int | None, Field(ge=1, le=3660, description="Only of so many days, to today")]
SOURCES = ("reported", "priced", "estimated", "unverified")


class Amounts(Answer):
    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None


class Spending(Answer):
    """What was spent, added up in one way, and the budget of the plan or of the day, if there is one."""

    by: str
    spending: list[dict[str, Any]]
    total: Amounts
    plan: dict[str, Any] | None = None
    day: dict[str, Any] | None = None


class SpendingOperations:
    """What people read about what work cost and may cost."""

    traits: ClassVar = Traits(toolset="plans", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def get_spending(
        self, by: Grouping = "task", workflow_id: str | None = None, days: _Days = None
    ) -> Spending:
        """What a run, or all work, cost, beside the budgets; costs of what has ended never change."""
        with self._database.reading() as tx:
            found = build_spending(tx, by, workflow_id, None if days is None else find_start(tx.now, days))
        return Spending(**found | {"total": Amounts(**found["total"])})

    @operation("read")
    def get_budget(self, id: Id) -> dict[str, Any]:
        """What a plan or a task may cost, and what it cost so far."""
        with self._database.reading() as tx:
            if id.startswith("tk_"):
                return build_task_spending(tx, TaskStore(tx).get(id))
            return build_plan_spending(tx, PlanStore(tx).get(id))


def find_start(now: int, days: int) -> int:
    """Return when so many days began, the last of which is today, in UTC."""
    return now - now % MS_PER_DAY - (days - 1) * MS_PER_DAY


def build_spending(
    tx: Transaction, grouping: Grouping, workflow_id: str | None = None, since: int | None = None
) -> dict[str, Any]:
    """Add up the ledger, of one run or of all; with the budget, if there is one."""
    rows = SpendingStore(tx).sum_by(grouping, workflow_id, MAX_ROWS, since)
    names, budgets = _find_names(tx, grouping, rows), _find_budgets(tx, grouping, rows)
    lines = [_build_line(grouping, row, names, budgets) for row in rows]
    answer: dict[str, Any] = {"by": grouping, "spending": lines, "total": _sum_lines(rows)}
    if workflow_id and get_run_kind(workflow_id) != PLAN and WorkListStore(tx).find_names([workflow_id]):
        return answer
    if workflow_id:
        return answer | {"plan": build_plan_spending(tx, PlanStore(tx).get(workflow_id))}
    day = load_day_budget()
    if day:
        spent = BudgetService(tx).find_total(SubjectKind.DAY, name_day(tx.now)).cost
        answer["day"] = {"day": name_day(tx.now), "budget": day.to_dict(), "spent": cost_to_dict(spent)}
    return answer


def build_plan_spending(tx: Transaction, workflow: Workflow) -> dict[str, Any]:
    """Build what a plan cost and may cost."""
    admission, total = Admission(tx, workflow), BudgetService(tx).find_total(SubjectKind.PLAN, workflow.id)
    refusal = admission.find_plan_refusal() if workflow.status.hands_out_tasks else None
    answer = {
        "id": workflow.id,
        "budget": _find_budget(workflow),
        "spent": cost_to_dict(admission.measure_plan()),
        "sources": build_sources(tx, workflow.id),
        "max_unreviewed": workflow.requirements.max_unreviewed if workflow.requirements else None,
        "reached_at": format_optional_timestamp(total.reached_at),
        "reason": refusal.message if refusal else None,
    }
    return {name: value for name, value in answer.items() if value is not None}


def build_task_spending(tx: Transaction, task: Task) -> dict[str, Any]:
    """Build what a task cost and may cost."""
    total = BudgetService(tx).find_total(SubjectKind.TASK, task.id)
    spent = total.cost + Cost(active_ms=measure_active_time(task, tx.now))
    answer = {
        "id": task.id,
        "budget": _find_budget(task),
        "spent": cost_to_dict(spent),
        "sources": build_sources(tx, task.workflow_id, task.id),
        "reached_at": format_optional_timestamp(total.reached_at),
    }
    return {name: value for name, value in answer.items() if value is not None}


def build_sources(tx: Transaction, workflow_id: str, task_id: str | None = None) -> dict[str, float]:
    """Return how many dollars come from which source; sources without any are left out."""
    rows = SpendingStore(tx).sum_by_source(workflow_id, task_id)
    return {row["source"]: _to_usd(row["usd_micros"]) for row in rows}


def cost_to_dict(cost: Cost) -> dict[str, Any]:
    """Return a cost in the units of budgets."""
    return {
        "usd": _to_usd(cost.usd_micros),
        "tokens": cost.tokens,
        "minutes": round(cost.active_ms / MS_PER_MINUTE, 2),
    }


def _find_budget(subject: Workflow | Task) -> dict[str, float] | None:
    budget = subject.requirements.budget if subject.requirements else None
    return budget.to_dict() if budget else None


def _find_budgets(tx: Transaction, grouping: Grouping, rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Map the plans or tasks among these that have budgets to them; of days, today's is the same for all."""
    ids = [row["key"] for row in rows if row["key"]]
    if grouping == "day":
        budget = load_day_budget()
        return {name_day(int(id)): budget.to_dict() for id in ids} if budget else {}
    found: Mapping[str, Workflow | Task] = {}
    if grouping == "plan":
        found = PlanStore(tx).find_by_ids([id for id in ids if id.startswith("wf_")])
    elif grouping == "task":
        found = TaskStore(tx).find_by_ids(ids)
    budgets = {id: _find_budget(subject) for id, subject in found.items()}
    return {id: budget for id, budget in budgets.items() if budget}


def _build_line(
    grouping: Grouping, row: Row, names: Mapping[str, str], budgets: Mapping[str, dict[str, float]]
) -> dict[str, Any]:
    key = _format_key(grouping, row["key"])
    line: dict[str, Any] = {grouping: key, "name": names.get(key or ""), "usd": _to_usd(row["usd_micros"])}
    sources = [source for source in SOURCES if row[source]]
    line |= {"tokens": int(row["tokens"]), "reports": row["reports"], "sources": sources}
    line |= {"budget": budgets.get(key or "")}
    return {name: value for name, value in line.items() if value is not None or name == grouping}


def _format_key(grouping: Grouping, key: Any) -> str | None:
    return name_day(int(key)) if grouping == "day" else key


def _find_names(tx: Transaction, grouping: Grouping, rows: Sequence[Row]) -> dict[str, str]:
    ids = [row["key"] for row in rows if row["key"]]
    if grouping == "task":
        return {id: task.name for id, task in TaskStore(tx).find_by_ids(ids).items()}
    if grouping == "plan":
        return {id: name for id, (_, name) in WorkListStore(tx).find_names(ids).items()}
    if grouping == "agent":
        from deepwork.work.agents.store import AgentStore  # noqa: PLC0415 - hardly ever needed

        return dict(AgentStore(tx).get_names(ids))
    return {}


def _sum_lines(rows: Sequence[Row]) -> dict[str, Any]:
    usd = sum(int(row["usd_micros"]) for row in rows)
    return {"usd": _to_usd(usd), "tokens": sum(int(row["tokens"]) for row in rows)}


def _to_usd(micros: int) -> float:
    return int(micros) / MICROS_PER_USD
