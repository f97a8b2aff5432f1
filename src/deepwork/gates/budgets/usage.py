"""Reads what agents report as used: `usage: {tokens, usd, model}` in a checkpoint or with a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deepwork.gates.budgets.models import MICROS_PER_USD, CostSource, Usage
from deepwork.gates.budgets.prices import estimate_price, load_price_table, price_tokens
from deepwork.kernel.foreign_text import MAX_TOKENS, MAX_USD, read_number, read_whole_number

KEY = "usage"
_MAX_NAME = 100
_KEYS = frozenset({"tokens", "input_tokens", "cached_tokens", "output_tokens", "usd", "model", "vendor"})


class ReadUsage(NamedTuple):
    """What was read; a problem is a warning, because a call must not fail for its accounting."""

    usage: Usage | None = None
    problem: str | None = None


def read_usage(detail: Mapping[str, Any] | None) -> ReadUsage:
    """Read the usage in a checkpoint's or result's detail, if there is one."""
    if not detail or KEY not in detail:
        return ReadUsage()
    try:
        return ReadUsage(_parse(detail[KEY]))
    except ValueError as error:
        return ReadUsage(problem=f"`usage` was not counted: {error}")


def build_usage(
    *,
    tokens: int = 0,
    input: int = 0,
    cached: int = 0,
    output: int = 0,
    usd_micros: int | None = None,
    model: str | None = None,
    vendor: str | None = None,
) -> Usage:
    """Build what an agent reports: the money it says, else the price of its tokens if the model has one."""
    total = max(tokens, input + cached + output)
    price = load_price_table().find(model) if usd_micros is None else None
    source = CostSource.UNVERIFIED
    if price and input + cached + output >= total > 0:
        usd_micros = price_tokens(price, input=input, cached=cached, output=output)
        source = CostSource.PRICED
    elif price and total:
        usd_micros, source = estimate_price(price, total), CostSource.ESTIMATED
    return Usage(total, usd_micros or 0, source, model, vendor or (price.vendor if price else None))


def _parse(given: object) -> Usage:
    if not isinstance(given, Mapping):
        raise ValueError("it must be an object such as {tokens: 1200, usd: 0.03}.")  # noqa: TRY004 - as below
    if unknown := sorted(str(key) for key in given.keys() - _KEYS):
        raise ValueError(f"{unknown[0][:40]!r} is not one of {', '.join(sorted(_KEYS))}.")
    usd = given.get("usd")
    usage = build_usage(
        tokens=_parse_tokens(given, "tokens"),
        input=_parse_tokens(given, "input_tokens"),
        cached=_parse_tokens(given, "cached_tokens"),
        output=_parse_tokens(given, "output_tokens"),
        usd_micros=None if usd is None else _parse_usd(usd),
        model=_parse_name(given, "model"),
        vendor=_parse_name(given, "vendor"),
    )
    if not usage.tokens and usd is None:
        raise ValueError("it has neither tokens nor usd.")
    return usage


def _parse_tokens(given: Mapping[str, Any], name: str) -> int:
    count = given.get(name)
    if count is None:
        return 0
    if not isinstance(count, int) or (number := read_whole_number(count, MAX_TOKENS)) is None:
        raise ValueError(f"`{name}` is a whole number from 0 to {MAX_TOKENS:,}.")
    return number


def _parse_usd(usd: object) -> int:
    if (number := read_number(usd, MAX_USD)) is None:
        raise ValueError(f"`usd` is a number from 0 to {MAX_USD:,}.")
    return round(number * MICROS_PER_USD)


def _parse_name(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME or not value.isprintable():
        raise ValueError(f"`{name}` is a text of at most {_MAX_NAME} characters.")
    return value
