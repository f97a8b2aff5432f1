"""Full-text search: the few SQL clauses in which SQLite and PostgreSQL differ.

Both store words that `plans.stores.search_store` has split and folded, so that both find the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.kernel.records import dataclass


@dataclass(frozen=True)
class FullText:
    """The clauses of one database; values are called `:words` and `:query`."""

    stored: str
    """The expression stored in the column `words`."""
    matches: str
    """The condition on a row of `plan_words`."""
    rank: str
    """The rank of a row; lower is better."""
    term: str
    joint: str

    def build_query(self, words: Sequence[str]) -> str:
        """Build a query for rows that contain all words, as whole words or prefixes."""
        return self.joint.join(self.term.format(word) for word in words)


SQLITE = FullText(stored=":words", matches="plan_words MATCH :query", rank="rank", term='"{}"*', joint=" ")
POSTGRES = FullText(
    stored="to_tsvector('simple', :words)",
    matches="words @@ to_tsquery('simple', :query)",
    rank="-ts_rank(words, to_tsquery('simple', :query))",
    term="'{}':*",
    joint=" & ",
)
