"""Rows that are read beside tasks: checkpoints, and what a search finds.

A search folds words identically for every database, and usable for every script. Entries are only ever
added: a task stays searchable by its earlier texts, and entries of deleted tasks are filtered out when
searching.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.values import build_record, decode, index_members, new_id
from deepwork.work.plans.models import Checkpoint, CheckpointType, Task
from deepwork.work.plans.stores.task_store import TaskStore

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


class CheckpointStore:
    """Reads and writes checkpoints; those of a task are numbered from 1 without gaps."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(
        self,
        task: Task,
        type: CheckpointType,
        summary: str,
        *,
        detail: Mapping[str, Any] | None = None,
        files_changed: Sequence[str] = (),
        agent_id: str | None = None,
    ) -> Checkpoint:
        """Add a checkpoint and index its summary for search."""
        checkpoint = Checkpoint(
            id=new_id("cp"),
            task_id=task.id,
            sequence=TaskStore(self._tx).take_checkpoint_number(task.id),
            type=type,
            summary=summary,
            detail=detail,
            files_changed=tuple(files_changed),
            agent_id=agent_id,
            created_at=self._tx.now,
        )
        self._tx.insert("checkpoints", _to_row(checkpoint))
        SearchStore(self._tx).add([SearchEntry(checkpoint.id, task.workflow_id, summary)])
        return checkpoint

    def list_after(
        self, task_id: str, sequence: int, types: Sequence[CheckpointType] | None, limit: int
    ) -> tuple[list[Checkpoint], int]:
        """Return the first checkpoints after a sequence number, and how many match in all."""
        conditions = build_where(
            {"task_id = :task_id": task_id, "sequence > :after": sequence, "type IN :types": types or None}
        )
        values: Row = {"task_id": task_id, "after": sequence, "types": types}
        rows, total = self._tx.list_first(_COLUMNS, f"checkpoints {conditions}", "sequence", limit, **values)
        return [_read_checkpoint(row) for row in rows], total

    def list_newest(self, task_id: str, limit: int) -> list[Checkpoint]:
        """Return the last checkpoints of a task, oldest first."""
        sql = f"SELECT {_COLUMNS} FROM checkpoints WHERE task_id = :id ORDER BY sequence DESC LIMIT :limit"
        rows = self._tx.fetch_all(sql, id=task_id, limit=limit)
        return [_read_checkpoint(row) for row in reversed(rows)]

    def find_by_ids(self, ids: Sequence[str]) -> dict[str, Checkpoint]:
        """Return the checkpoints with these ids, by id; ids that do not exist are left out."""
        rows = self._tx.fetch_all(f"SELECT {_COLUMNS} FROM checkpoints WHERE id IN :ids", ids=list(ids))
        return {row["id"]: _read_checkpoint(row) for row in rows}


_COLUMNS = ", ".join(Checkpoint.__dataclass_fields__)


def _to_row(checkpoint: Checkpoint) -> Row:
    detail = checkpoint.detail
    return vars(checkpoint) | {
        "detail": None if detail is None else json.dumps(detail),
        "files_changed": json.dumps(checkpoint.files_changed),
    }


@row_parser
def _read_checkpoint(row: Row) -> Checkpoint:
    detail = row["detail"]
    row["type"] = _TYPES[row["type"]]
    row["detail"] = None if detail is None else decode(detail)
    row["files_changed"] = tuple(decode(row["files_changed"]))
    return build_record(Checkpoint, row)


_TYPES = index_members(CheckpointType)
