"""Budgets and prices: whether something may still be spent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib import resources

from deepwork.gates.budgets.models import (
    MICROS_PER_USD,
    MS_PER_MINUTE,
    UNITS,
    ActiveWork,
    Budget,
    Cost,
    Refusal,
    SubjectKind,
    Unit,
)
from deepwork.kernel.records import dataclass

_DATE_PATTERN = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
_MICROS_PER_CENT = MICROS_PER_USD // 100
_INPUT_SHARE = Decimal("0.9")
"""Of a sum of tokens whose parts are not known: agents read far more than they write."""


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens, which is the same as millionths of a dollar per token."""

    vendor: str
    input: Decimal
    cached: Decimal
    output: Decimal


@dataclass(frozen=True)
class PriceTable:
    """The prices of a day."""

    date: str
    source: str
    models: dict[str, Price]

    def find(self, model: str | None) -> Price | None:
        """Return the price of a model; its name may have a vendor before it and a date after it."""
        name = (model or "").strip().lower().rpartition("/")[2]
        return self.models.get(name) or self.models.get(_DATE_PATTERN.sub("", name))


@cache
def load_price_table() -> PriceTable:
    """Load the table of this package."""
    text = resources.files(__package__).joinpath("prices.json").read_text(encoding="utf-8")
    data = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return PriceTable(
        data["date"], data["source"], {name: Price(**price) for name, price in data["models"].items()}
    )


def price_tokens(price: Price, *, input: int, cached: int, output: int) -> int:
    """Return what tokens cost, in millionths of a dollar; `input` is without those from the cache."""
    return _round(price.input * input + price.cached * cached + price.output * output)


def estimate_price(price: Price, tokens: int) -> int:
    """Return about what a sum of tokens costs, in millionths of a dollar."""
    return _round(tokens * (price.input * _INPUT_SHARE + price.output * (1 - _INPUT_SHARE)))


def _round(micros: Decimal) -> int:
    return int(micros.to_integral_value(ROUND_HALF_UP))


@dataclass(frozen=True)
class Limit:
    """A budget that several tasks share, and what is left of it."""

    subject: SubjectKind
    budget: Budget
    spent: Cost
    """What was spent, by active work too."""
    active: Sequence[ActiveWork] = ()
    """The work that goes on."""
    raise_hint: str = ""
    """What a person can do about it; `{option}` stands for the option that sets the limit."""


def find_own_refusal(budget: Budget, spent: Cost, raise_hint: str, subject_name: str = "") -> Refusal | None:
    """Return why a task that used up its own budget is not handed out again.

    `subject_name` is what the message calls it, if it is not a task.
    """
    for unit in budget.units:
        allowed = budget.limits.get(unit)
        if spent.get(unit) >= allowed:
            return _refuse_used_up(SubjectKind.TASK, unit, allowed, spent.get(unit), raise_hint, subject_name)
    return None


def find_shared_refusal(limit: Limit, task: ActiveWork) -> Refusal | None:
    """Return why a task does not fit into a budget that it shares with others.

    What was spent, what the active work may still spend, and what this task may spend must fit. What active
    work has already spent is not reserved a second time.
    """
    own = compute_reserve(task)
    reserved = sum_costs(compute_reserve(other) for other in limit.active)
    for unit in limit.budget.units:
        if refusal := _find_refusal_in(unit, limit, reserved.get(unit), own.get(unit)):
            return refusal
    return None


def compute_reserve(work: ActiveWork) -> Cost:
    """Return what the work may still spend: its own budget without what it has spent, else nothing."""
    if work.budget is None:
        return Cost()
    limits = work.budget.limits
    return Cost(**{unit: max(0, limits.get(unit) - work.spent.get(unit)) for unit in UNITS})


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """Add up."""
    return sum(costs, Cost())


def is_raised(before: Budget | None, after: Budget | None) -> bool:
    """Whether the new budget allows more than the one before, in any unit."""
    if before is None:
        return False
    for unit in before.units:
        if after is None or unit not in after.units or after.limits.get(unit) > before.limits.get(unit):
            return True
    return False


def describe_budget(budget: Budget) -> str:
    """Describe a budget, such as "$10.00, 500,000 tokens"."""
    return ", ".join(format_amount(unit, budget.limits.get(unit)) for unit in budget.units)


def format_amount(unit: Unit, amount: int) -> str:
    """Format an amount for people and agents."""
    return _FORMATS[unit](amount)


def format_usd(micros: int) -> str:
    """Format money with cents; amounts below a cent keep their digits. People read it in no other form."""
    if 0 < abs(micros) < _MICROS_PER_CENT:
        return f"${micros / MICROS_PER_USD:.6f}".rstrip("0")
    return f"${micros / MICROS_PER_USD:,.2f}"


def format_dollars(amount: float) -> str:
    """Format money that an answer has as a number."""
    return format_usd(round(amount * MICROS_PER_USD))


def format_minutes(ms: int) -> str:
    """Format a time as minutes with at most two decimals."""
    minutes = f"{ms / MS_PER_MINUTE:,.2f}".rstrip("0").rstrip(".")
    return f"{minutes} {'minute' if minutes == '1' else 'minutes'}"


_OPTIONS: dict[Unit, str] = {"usd_micros": "--usd", "tokens": "--tokens", "active_ms": "--minutes"}
"""The options of `deepwork budget set`."""
_FORMATS: dict[Unit, Callable[[int], str]] = {
    "usd_micros": format_usd,
    "tokens": lambda amount: f"{amount:,} {'token' if amount == 1 else 'tokens'}",
    "active_ms": format_minutes,
}


def _find_refusal_in(unit: Unit, limit: Limit, reserved: int, own: int) -> Refusal | None:
    allowed, spent = limit.budget.limits.get(unit), limit.spent.get(unit)
    if spent >= allowed:
        return _refuse_used_up(limit.subject, unit, allowed, spent, limit.raise_hint)
    if spent + reserved + own <= allowed:
        return None
    parts = [f"{format_amount(unit, spent)} spent"]
    if reserved:
        parts.append(f"{format_amount(unit, reserved)} reserved by running tasks")
    if own:
        parts.append(f"{format_amount(unit, own)} for this task")
    is_final = spent + own > allowed
    wait = "" if is_final else "A running task that ends frees what it did not spend. "
    budget = f"The {limit.subject}'s budget of {format_amount(unit, allowed)}"
    message = (
        f"{budget} does not allow it: {', '.join(parts)}. {wait}{_complete_hint(limit.raise_hint, unit)}"
    )
    return Refusal("budget", message.rstrip(), is_final=is_final, subject=limit.subject)


def _refuse_used_up(
    subject: SubjectKind, unit: Unit, allowed: int, spent: int, hint: str, name: str = ""
) -> Refusal:
    used_up = f"The {name or subject}'s budget of {format_amount(unit, allowed)} is used up"
    message = f"{used_up}: {format_amount(unit, spent)} spent. {_complete_hint(hint, unit)}"
    return Refusal("budget", message.rstrip(), is_final=True, subject=subject)


def _complete_hint(hint: str, unit: Unit) -> str:
    return hint.replace("{option}", _OPTIONS[unit])
