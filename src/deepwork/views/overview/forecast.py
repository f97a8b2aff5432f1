"""What the rest of a plan will take, from what its finished tasks took; the unknown is said to be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from deepwork.delivery.runner.store import AttemptStore
from deepwork.gates.budgets.models import MICROS_PER_USD, MS_PER_MINUTE
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.task_store import TaskStore

FEWEST = 3
"""How many tasks have to be finished before they say something about the others."""


class Range(Answer):
    """The likely value is computed from the median, the others from the quartiles: half of the tasks."""

    low: float
    likely: float
    high: float


class RestForecast(Answer):
    """What the open tasks of a plan will still take."""

    tasks_left: int
    based_on: int
    """How many finished tasks it is computed from."""
    usd: Range | None = None
    minutes: Range | None = None
    basis: str | None = None
    """What it is computed from, as a sentence."""
    unknown: str | None = None
    """Why there is none, or what of it is missing."""
    tasks_until_limit: int | None = None
    """How many more tasks the dollars of the run are likely enough for, if not for all."""


@dataclass(frozen=True)
class PlanFigures:
    """What is known about a plan."""

    left: int
    steps: int
    """How many of the open tasks have to follow each other at least."""
    costs: Sequence[float]
    """Dollars of each finished task whose cost is known."""
    minutes: Sequence[float]
    unpriced: int
    """How many finished tasks cost something that nobody knows."""
    spent_on_open: float
    """What was spent on tasks that are not finished."""


def load_figures(tx: Transaction, workflow_id: str) -> PlanFigures:
    """Load what is known about a plan."""
    store = AttemptStore(tx)
    rows, graph = store.sum_of_finished(workflow_id), Graph(TaskStore(tx).list_nodes(workflow_id))
    times = [(row["started_at"], row["finished_at"]) for row in rows]
    return PlanFigures(
        left=sum(not node.status.is_done for node in graph.nodes),
        steps=sum(any(not node.status.is_done for node in row) for row in graph.list_rows()),
        costs=[int(row["usd_micros"]) / MICROS_PER_USD for row in rows if not row["unpriced"]],
        minutes=[(end - start) / MS_PER_MINUTE for start, end in times if start and end],
        unpriced=sum(bool(row["unpriced"]) for row in rows),
        spent_on_open=store.sum_of_open(workflow_id) / MICROS_PER_USD,
    )


def forecast(figures: PlanFigures, agents: int, dollars_left: float | None) -> RestForecast | None:
    """Compute what the rest will take with so many agents; None if nothing is left."""
    if not figures.left:
        return None
    finished = max(len(figures.minutes), len(figures.costs) + figures.unpriced)
    if finished < FEWEST:
        words = "No task has" if not finished else "1 task has" if finished == 1 else f"{finished} tasks have"
        unknown = f"{words} finished so far, and it takes {FEWEST} to tell."
        return RestForecast(tasks_left=figures.left, based_on=finished, unknown=unknown)
    usd = _measure(figures.costs) if len(figures.costs) >= FEWEST else None
    time = _measure(figures.minutes) if len(figures.minutes) >= FEWEST else None
    rounds = max(-(-figures.left // max(1, agents)), figures.steps)
    return RestForecast(
        tasks_left=figures.left,
        based_on=finished,
        usd=usd and _scale(usd, figures.left, figures.spent_on_open),
        minutes=time and _scale(time, rounds, 0),
        basis=_describe(figures, usd, time, agents, rounds),
        unknown=_describe_unknown(figures, has_costs=usd is not None),
        tasks_until_limit=_count_until(usd, dollars_left, figures),
    )


def _measure(values: Sequence[float]) -> Range:
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Range(low=low, likely=middle, high=high)


def _scale(each: Range, times: int, less: float) -> Range:
    low, likely, high = (max(0.0, value * times - less) for value in (each.low, each.likely, each.high))
    return Range(low=round(low, 6), likely=round(likely, 6), high=round(high, 6))


def _describe(figures: PlanFigures, usd: Range | None, time: Range | None, agents: int, rounds: int) -> str:
    of = [format_dollars(usd.likely)] if usd else []
    of += [f"{time.likely:.1f} minutes"] if time else []
    workers = "1 agent" if agents == 1 else f"{agents} agents"
    median = f"the median of {max(len(figures.costs), len(figures.minutes))} finished tasks"
    return f"From {median}: {' and '.join(of)} each; {figures.left} are left, {rounds} rounds with {workers}."


def _describe_unknown(figures: PlanFigures, *, has_costs: bool) -> str | None:
    if not has_costs:
        return "The cost is not known: too few finished tasks have a known price."
    if figures.unpriced:
        return f"{figures.unpriced} finished tasks cost an unknown amount, and are left out."
    return None


def _count_until(usd: Range | None, dollars_left: float | None, figures: PlanFigures) -> int | None:
    if usd is None or dollars_left is None or usd.likely <= 0:
        return None
    enough = int(max(0.0, dollars_left + figures.spent_on_open) / usd.likely)
    return enough if enough < figures.left else None
