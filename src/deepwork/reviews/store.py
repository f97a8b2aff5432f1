"""What is kept of reviews: which have passed, by a hash of all they looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepwork.database.transaction import Transaction


class PassedReviews:
    """Reviews that need not be made again, those of job steps included."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def among(self, marks: Sequence[str]) -> set[str]:
        """Which of these have passed before."""
        rows = self._tx.all("SELECT mark FROM passed_reviews WHERE mark IN :marks", marks=list(marks))
        return {row["mark"] for row in rows}

    def remember(self, marks: Iterable[str]) -> int:
        """Keep reviews that passed; the first time counts. How many are new."""
        return sum(
            self._tx.run(
                "INSERT INTO passed_reviews (mark, passed_at) VALUES (:mark, :now) ON CONFLICT DO NOTHING",
                mark=each, now=self._tx.now,
            )
            for each in sorted(marks)
        )  # fmt: skip

    def passed_at(self, mark: str) -> int | None:
        """When it passed, in Unix milliseconds; None if it has not."""
        when: int | None = self._tx.value(
            "SELECT passed_at FROM passed_reviews WHERE mark = :mark", mark=mark
        )
        return when
