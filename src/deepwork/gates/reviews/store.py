"""Stores which reviews have passed, by a hash of everything they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepwork.kernel.database.transaction import Transaction


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
