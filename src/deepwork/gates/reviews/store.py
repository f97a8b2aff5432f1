"""Stores which reviews have passed, the rounds of `.deepreview` rules, and what people decided about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from deepwork.gates.reviews.rounds import Round, parse_round
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum


class PassedReviews:
    """Reviews that passed and need not be repeated, including those of job steps."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_passed(self, marks: Sequence[str]) -> set[str]:
        """Return those of these marks whose review has passed."""
        rows = self._tx.fetch_all("SELECT mark FROM passed_reviews WHERE mark IN :marks", marks=list(marks))
        return {row["mark"] for row in rows}

    def save(self, marks: Iterable[str]) -> int:
        """Save passed reviews, keeping the time of the first pass; return how many are new."""
        return sum(
            self._tx.execute(
                "INSERT INTO passed_reviews (mark, passed_at) VALUES (:mark, :now) ON CONFLICT DO NOTHING",
                mark=each,
                now=self._tx.now,
            )
            for each in sorted(marks)
        )

    def find_passed_at(self, mark: str) -> int | None:
        """Return when the review passed, in Unix milliseconds, or None."""
        sql = "SELECT passed_at FROM passed_reviews WHERE mark = :mark"
        when: int | None = self._tx.fetch_value(sql, mark=mark)
        return when


_KIND = "rule"


class RuleDecision(CaseInsensitiveEnum):
    """What a person decided about a review whose rounds were used up."""

    PASSED = "passed"
    SENT_BACK = "sent_back"
    ROUND_GRANTED = "round_granted"


@dataclass(frozen=True)
class RuleEntry:
    """A round of a rule, or a person's decision about it."""

    rule: str
    number: int
    round: Round | None = None
    decision: RuleDecision | None = None
    by: str | None = None
    at: int = 0

    @property
    def ends_series(self) -> bool:
        """Whether the next round is the first again."""
        if self.decision:
            return self.decision is not RuleDecision.ROUND_GRANTED
        return self.round is not None and self.round.passed


@dataclass(frozen=True)
class Series:
    """The rounds of a rule since it last passed, and how many more a person granted."""

    rounds: tuple[Round, ...] = ()
    granted: int = 0
    last_number: int = 0
    has_unused_grant: bool = False
    """Whether a person granted a round that has not been used."""


class RoundStore:
    """The rounds of the rules of one project."""

    def __init__(self, tx: Transaction, project: str) -> None:
        self._tx, self._project = tx, project

    def list_entries(self) -> list[RuleEntry]:
        """Return all rounds and decisions, by rule and in order."""
        rows = self._tx.fetch_all(
            "SELECT rule, number, passed, findings, created_at FROM review_rounds"
            " WHERE subject_kind = :kind AND subject_id = :project ORDER BY rule, number",
            kind=_KIND,
            project=self._project,
        )
        return [_from_row(row) for row in rows]

    def list_series(self) -> dict[str, Series]:
        """Return, by rule, the rounds that count now."""
        series: dict[str, Series] = {}
        for entry in self.list_entries():
            series[entry.rule] = _extend(series.get(entry.rule, Series()), entry)
        return series

    def add_round(
        self, rule: str, number: int, round: Round, waiting: Mapping[str, str] | None = None
    ) -> None:
        """Record a round; `waiting` is what a person reads who must decide about it now."""
        data = {"round": asdict(round), **({"waiting": waiting} if waiting else {})}
        self._add(rule, number, round.passed, data, round.tree, round.reviewer)

    def add_decision(self, rule: str, number: int, decision: RuleDecision) -> None:
        """Record what the person who calls decided."""
        passed = decision is RuleDecision.PASSED
        self._add(rule, number, passed, {"decision": decision.value}, None, self._tx.caller)

    def _add(
        self, rule: str, number: int, passed: bool, data: object, tree: str | None, reviewer: str | None
    ) -> None:
        self._tx.insert(
            "review_rounds",
            {
                "subject_kind": _KIND,
                "subject_id": self._project,
                "rule": rule,
                "number": number,
                "tree": tree,
                "reviewer": reviewer,
                "passed": passed,
                "findings": json.dumps({"by": reviewer, **data} if isinstance(data, dict) else data),
                "created_at": self._tx.now,
            },
        )


def _extend(series: Series, entry: RuleEntry) -> Series:
    if entry.ends_series:
        return Series(last_number=entry.number)
    rounds: Sequence[Round] = (*series.rounds, entry.round) if entry.round else series.rounds
    is_grant = entry.decision is not None
    return Series(tuple(rounds), series.granted + is_grant, entry.number, is_grant)


@row_parser
def _from_row(row: Row) -> RuleEntry:
    data = json.loads(row["findings"])
    decision = data.get("decision")
    return RuleEntry(
        row["rule"],
        row["number"],
        parse_round(data["round"]) if "round" in data else None,
        RuleDecision(decision) if decision else None,
        data.get("by"),
        row["created_at"],
    )
