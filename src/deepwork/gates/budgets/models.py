"""What work may cost, what it has cost, and where the figures come from."""

from __future__ import annotations

from typing import Literal

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

MICROS_PER_USD = 1_000_000
MS_PER_MINUTE = 60_000
MS_PER_DAY = 24 * 60 * MS_PER_MINUTE


@dataclass(frozen=True)
class Budget:
    """What work may cost; None is no limit."""

    usd: float | None = None
    tokens: int | None = None
    minutes: float | None = None
    """Minutes under claims; of a step, minutes in which its agent works on it."""

    @property
    def limits(self) -> Cost:
        """The limits as integers; one that is missing is 0."""
        return Cost(
            round((self.usd or 0) * MICROS_PER_USD),
            self.tokens or 0,
            round((self.minutes or 0) * MS_PER_MINUTE),
        )

    def to_dict(self) -> dict[str, float]:
        """Return the limits that it has, as files, tools and answers write them."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def units(self) -> tuple[Unit, ...]:
        """What is limited."""
        given = {"usd_micros": self.usd, "tokens": self.tokens, "active_ms": self.minutes}
        return tuple(unit for unit in UNITS if given[unit] is not None)


Unit = Literal["usd_micros", "tokens", "active_ms"]
UNITS: tuple[Unit, ...] = ("usd_micros", "tokens", "active_ms")


@dataclass(frozen=True)
class Cost:
    """What work has cost or may cost, in integers: sums of them are exact."""

    usd_micros: int = 0
    tokens: int = 0
    active_ms: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.usd_micros + other.usd_micros, self.tokens + other.tokens, self.active_ms + other.active_ms
        )

    def get(self, unit: Unit) -> int:
        """Return the amount in one unit."""
        amount: int = getattr(self, unit)
        return amount


class CostSource(CaseInsensitiveEnum):
    """Where an amount of money comes from."""

    REPORTED = "reported"  # the vendor's own figure, from its stream
    PRICED = "priced"  # input and output tokens at the prices of the table
    ESTIMATED = "estimated"  # a sum of tokens, so that the price is a guess
    UNVERIFIED = "unverified"  # what an agent said


@dataclass(frozen=True)
class Usage:
    """What an agent or a stream reports as used since its report before."""

    tokens: int = 0
    usd_micros: int = 0
    source: CostSource = CostSource.UNVERIFIED
    model: str | None = None
    vendor: str | None = None


@dataclass(frozen=True)
class Entry:
    """A line of the ledger. The stream and the number identify it: a repeated one counts once."""

    stream: str
    number: int
    usage: Usage
    workflow_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    """The run of agents that it was spent in."""


class SubjectKind(CaseInsensitiveEnum):
    """What a total is kept for."""

    PLAN = "plan"
    TASK = "task"
    DAY = "day"


@dataclass(frozen=True)
class Total:
    """What was spent on a plan or a task, or on a day."""

    cost: Cost = Cost()
    reached_at: int | None = None
    """When work was first refused for its budget; None after the budget was raised."""


@dataclass(frozen=True)
class ActiveWork:
    """Work that is going on: what it may cost, and what it has cost so far."""

    budget: Budget | None
    spent: Cost


@dataclass(frozen=True)
class Refusal:
    """Why work is not handed out, and what would change that."""

    reason: Literal["budget", "review_backlog"]
    message: str
    is_final: bool = False
    """Whether only a person can change it: no other task frees anything when it ends."""
    subject: SubjectKind = SubjectKind.PLAN
    """Whose budget it is."""


class BudgetEvent(CaseInsensitiveEnum):
    """Event types of budgets."""

    RECORDED = "spending:recorded"
    REACHED = "budget:reached"
    CHANGED = "budget:changed"
