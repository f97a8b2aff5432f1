"""What was used, and what may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from deepwork.gates.budgets.models import (
    MICROS_PER_USD,
    MS_PER_DAY,
    Cost,
    CostSource,
    Entry,
    SubjectKind,
    Total,
    Usage,
)
from deepwork.gates.budgets.rules import estimate_price, load_price_table, price_tokens
from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.foreign_text import MAX_TOKENS, MAX_USD, read_number, read_whole_number
from deepwork.kernel.values import new_id

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


Grouping = Literal["task", "agent", "vendor", "model", "day", "source", "plan"]


class SpendingStore:
    """Reads and writes what work cost."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # The ledger

    def add(self, entry: Entry) -> bool:
        """Add a line to the ledger; False if its stream has this number already."""
        row = {"id": new_id("sp"), "at": self._tx.now, **vars(entry), **vars(entry.usage)}
        del row["usage"]
        return self._tx.insert_new("spending", row)

    def sum_by(
        self, grouping: Grouping, workflow_id: str | None, limit: int, since: int | None = None
    ) -> list[Row]:
        """Sum the ledger up, the most expensive first; days in order, the newest first.

        `since` is a moment in Unix milliseconds; what was recorded before does not count.
        """
        key = _GROUP_KEYS[grouping]
        order = "key DESC" if grouping == "day" else "usd_micros DESC, tokens DESC, key"
        condition = build_where({"workflow_id = :workflow_id": workflow_id, "at >= :since": since})
        sql = f"""
            SELECT key, sum(tokens) AS tokens, sum(usd_micros) AS usd_micros, count(*) AS reports,
                   sum(CASE WHEN source = 'reported' THEN usd_micros ELSE 0 END) AS reported,
                   sum(CASE WHEN source = 'priced' THEN usd_micros ELSE 0 END) AS priced,
                   sum(CASE WHEN source = 'estimated' THEN usd_micros ELSE 0 END) AS estimated,
                   sum(CASE WHEN source = 'unverified' THEN usd_micros ELSE 0 END) AS unverified
              FROM (SELECT {key} AS key, tokens, usd_micros, source FROM spending {condition}) AS lines
             GROUP BY key ORDER BY {order} LIMIT :limit
        """
        return self._tx.fetch_all(sql, workflow_id=workflow_id, limit=limit, since=since)

    def sum_by_source(self, workflow_id: str, task_id: str | None) -> list[Row]:
        """Sum the money of a plan, or of one of its tasks, by where the figures come from."""
        condition = "AND task_id = :task_id" if task_id else ""
        sql = f"""
            SELECT source, sum(usd_micros) AS usd_micros FROM spending
             WHERE workflow_id = :workflow_id {condition} GROUP BY source ORDER BY source
        """
        return self._tx.fetch_all(sql, workflow_id=workflow_id, task_id=task_id)

    # Totals

    def find_totals(self, kind: SubjectKind, ids: Sequence[str]) -> dict[str, Total]:
        """Return the totals of these subjects by id; one without a total is left out."""
        if not ids:
            return {}
        sql = (
            f"SELECT {_TOTAL_COLUMNS} FROM spending_totals WHERE subject_kind = :kind AND subject_id IN :ids"
        )
        rows = self._tx.fetch_all(sql, kind=kind, ids=list(ids))
        return {row["subject_id"]: _read_total(row) for row in rows}

    def get_total_for_update(self, kind: SubjectKind, id: str) -> Total:
        """Return a total, locked until the transaction ends; adds it if there is none."""
        self.add_to_total(kind, id, Cost())
        sql = (
            f"SELECT {_TOTAL_COLUMNS} FROM spending_totals"
            f" WHERE subject_kind = :kind AND subject_id = :id{self._tx.row_lock}"
        )
        row = self._tx.fetch_one(sql, kind=kind, id=id)
        return _read_total(row) if row else Total()

    def add_to_total(self, kind: SubjectKind, id: str, cost: Cost) -> None:
        """Add a cost to a total."""
        sql = """
            INSERT INTO spending_totals (subject_kind, subject_id, tokens, usd_micros, active_ms)
            VALUES (:kind, :id, :tokens, :usd_micros, :active_ms)
                ON CONFLICT (subject_kind, subject_id) DO UPDATE
               SET tokens = spending_totals.tokens + excluded.tokens,
                   usd_micros = spending_totals.usd_micros + excluded.usd_micros,
                   active_ms = spending_totals.active_ms + excluded.active_ms
        """
        self._tx.execute(sql, kind=kind, id=id, **vars(cost))

    def set_active_time(self, kind: SubjectKind, id: str, ms: int) -> None:
        """Set the time of a total that was not counted while nothing limited it."""
        sql = "UPDATE spending_totals SET active_ms = :ms WHERE subject_kind = :kind AND subject_id = :id"
        self.add_to_total(kind, id, Cost())
        self._tx.execute(sql, kind=kind, id=id, ms=ms)

    def mark_reached(self, kind: SubjectKind, id: str) -> bool:
        """Record that a budget is used up; False if that is recorded already."""
        self.add_to_total(kind, id, Cost())
        sql = """
            UPDATE spending_totals SET reached_at = :now
             WHERE subject_kind = :kind AND subject_id = :id AND reached_at IS NULL
        """
        return self._tx.execute(sql, kind=kind, id=id, now=self._tx.now) == 1

    def clear_reached(self, kind: SubjectKind, id: str) -> None:
        """Forget that a budget was used up, because it was changed."""
        sql = "UPDATE spending_totals SET reached_at = NULL WHERE subject_kind = :kind AND subject_id = :id"
        self._tx.execute(sql, kind=kind, id=id)


_TOTAL_COLUMNS = "subject_id, tokens, usd_micros, active_ms, reached_at"
_GROUP_KEYS: dict[Grouping, str] = {
    "plan": "workflow_id",
    "task": "task_id",
    "agent": "agent_id",
    "vendor": "vendor",
    "model": "model",
    "source": "source",
    "day": f"at - at % {MS_PER_DAY}",
}


@row_parser
def _read_total(row: Row) -> Total:
    cost = Cost(int(row["usd_micros"]), int(row["tokens"]), int(row["active_ms"]))
    return Total(cost, row["reached_at"])
