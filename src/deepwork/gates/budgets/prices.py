"""Prices of models, from a table with a date; an unknown model has none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib import resources

_DATE_PATTERN = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
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
