"""Full-text index of plans, tasks, outcomes and checkpoints.

Words are folded identically for every database, and usable for every script. Entries are only ever added: a
task stays searchable by its earlier texts, and entries of deleted tasks are filtered out when searching.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from deepwork.kernel.database.transaction import Transaction

_MAX_TEXT_LENGTH = 16 * 1024
_MAX_WORD_LENGTH = 60
_MAX_QUERY_WORDS = 20

# Scripts written without spaces: every character counts as a word.
_UNSPACED_SCRIPT_PATTERN = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[\U00020000-\U0003ffff])"
)
_WORD_PATTERN = re.compile(r"[^\W_]+")
_ASCII_FOLDING = bytes.maketrans(
    bytes(range(128)),
    "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128)).encode(),
)
_ACCENT_PATTERN = re.compile("[\u0300-\u036f]")


def split_words(text: str) -> list[str]:
    """Return the words of the text; of long text, those at its beginning."""
    if text.isascii():  # the common case, where only letter case needs folding
        words = text[:_MAX_TEXT_LENGTH].encode().translate(_ASCII_FOLDING).decode().split()
        return [word[:_MAX_WORD_LENGTH] for word in words]
    return [
        word[:_MAX_WORD_LENGTH]
        for word in _WORD_PATTERN.findall(
            _UNSPACED_SCRIPT_PATTERN.sub(r" \1 ", _remove_case_and_accents(text[:_MAX_TEXT_LENGTH]))
        )
    ]


def parse_query(query: str) -> list[str]:
    """Return the distinct words of a search query, at most 20."""
    return list(dict.fromkeys(split_words(query)))[:_MAX_QUERY_WORDS]


def _remove_case_and_accents(text: str) -> str:
    """Remove case and accents, so that a query without them matches too."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKC", _ACCENT_PATTERN.sub("", unicodedata.normalize("NFKD", apart)))


class SearchEntry(NamedTuple):
    """Text by which a workflow, task or checkpoint can be found."""

    id: str
    workflow_id: str
    text: str


class SearchStore:
    """Adds texts to the index and searches it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, entries: Iterable[SearchEntry]) -> None:
        """Index these texts."""
        rows = [
            {"id": entry.id, "workflow_id": entry.workflow_id, "words": " ".join(found)}
            for entry in entries
            if (found := split_words(entry.text))
        ]
        sql = (
            "INSERT INTO plan_words (id, workflow_id, words)"
            f" VALUES (:id, :workflow_id, {self._tx.full_text.stored})"
        )
        self._tx.execute_many(sql, rows)

    def find(self, query: str, workflow_id: str | None, limit: int) -> tuple[list[str], int]:
        """Return the distinct ids that match the query, best first, and how many match in all."""
        full_text = self._tx.full_text
        if not (wanted := parse_query(query)):
            return [], 0
        within = "AND workflow_id = :workflow_id" if workflow_id else ""
        sql = f"""
            WITH found AS MATERIALIZED (
                SELECT id, {full_text.rank} AS score FROM plan_words WHERE {full_text.matches} {within}
            )
            SELECT id, count(*) OVER () AS total FROM found
             WHERE EXISTS (SELECT 1 FROM plans WHERE plans.id = found.id)
                OR EXISTS (SELECT 1 FROM plan_tasks WHERE plan_tasks.id = found.id)
                OR EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.id = found.id)
             GROUP BY id ORDER BY min(score), id LIMIT :limit
        """
        rows = self._tx.fetch_all(
            sql, query=full_text.build_query(wanted), workflow_id=workflow_id, limit=limit
        )
        return [row["id"] for row in rows], rows[0]["total"] if rows else 0
