"""How a database finds words: the few clauses in which SQLite and PostgreSQL differ.

Both keep words that `deepwork.plans.words` has cut and folded, so that both find the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FullText:
    """The clauses of one database; values are called `:words` and `:query`."""

    stored: str
    """What is put into the column `words`."""
    matches: str
    """The condition on a row of `plan_words`."""
    rank: str
    """How well a row matches; the less, the better."""
    term: str
    joint: str

    def query(self, words: Sequence[str]) -> str:
        """Every one of these words, or a longer one that begins with it."""
        return self.joint.join(self.term.format(word) for word in words)


SQLITE = FullText(
    stored=":words",
    matches="plan_words MATCH :query",
    rank="rank",
    term='"{}"*',
    joint=" ",
)
POSTGRES = FullText(
    stored="to_tsvector('simple', :words)",
    matches="words @@ to_tsquery('simple', :query)",
    rank="-ts_rank(words, to_tsquery('simple', :query))",
    term="'{}':*",
    joint=" & ",
)
