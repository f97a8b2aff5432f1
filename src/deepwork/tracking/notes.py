"""What is kept of decisions, issues and milestones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import NotFound
from deepwork.tracking.models import Category, Decision, Issue, IssueType, Milestone, Subject

KEPT_MILESTONES = 100
SAME_MS = 2000


class NoteStore:
    """Decisions, issues and milestones, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add_decision(self, decision: Decision) -> None:
        """Keep a decision."""
        self._tx.insert("decisions", _row(decision, options_considered=list(decision.options_considered)))

    def add_issue(self, issue: Issue) -> None:
        """Keep an issue."""
        self._tx.insert("issues", _row(issue))

    def issue(self, id: str) -> Issue:
        """The issue with this id; nobody else changes it until we are done."""
        row = self._tx.one(f"SELECT * FROM issues WHERE id = :id{self._tx.row_lock}", id=id)  # noqa: S608
        if row is None:
            raise NotFound("issue", id, suggestion="See the blockers in get_context for their ids.")
        return _issue(row)

    def keep_resolution(self, issue: Issue) -> None:
        """Keep how an issue was resolved."""
        self._tx.update(
            "issues", issue.id,
            {
                "resolved_at": issue.resolved_at, "resolved_by": issue.resolved_by,
                "resolution_note": issue.resolution_note,
            },
        )  # fmt: skip

    def same_milestone(self, milestone: Milestone) -> Milestone | None:
        """The same words on the same task a moment ago: sent twice, meant once."""
        row = self._tx.one(
            "SELECT * FROM milestones WHERE task_id = :task_id AND created_at >= :since"
            " AND message = :message ORDER BY created_at DESC, created_seq DESC LIMIT 1",
            task_id=milestone.subject.task_id, message=milestone.message,
            since=milestone.created_at - SAME_MS,
        )  # fmt: skip
        found = _milestone(row) if row else None
        is_same = found and (found.progress, found.metadata) == (milestone.progress, milestone.metadata)
        return found if is_same else None

    def add_milestone(self, milestone: Milestone) -> None:
        """Keep a milestone; of each task the newest are kept, and what a person said of it."""
        about = None if milestone.metadata is None else dict(milestone.metadata)
        self._tx.insert("milestones", _row(milestone, metadata=about))
        self._tx.run(
            """
            DELETE FROM milestones WHERE task_id = :task_id
               AND (metadata IS NULL OR metadata NOT LIKE '%"by": "human:%') AND (created_at, created_seq) < (
                SELECT created_at, created_seq FROM milestones WHERE task_id = :task_id
                 ORDER BY created_at DESC, created_seq DESC LIMIT 1 OFFSET :kept
            )
            """,
            task_id=milestone.subject.task_id, kept=KEPT_MILESTONES - 1,
        )  # fmt: skip

    def open_blockers(self, workflow_id: str, phase_id: str | None = None) -> int:
        """How many issues wait for a person."""
        conditions = where({"workflow_id = :id": workflow_id, "phase_id = :phase": phase_id})
        found: int = self._tx.value(
            f"SELECT count(*) FROM issues {conditions} AND {_OPEN}",  # noqa: S608
            id=workflow_id, phase=phase_id,
        )  # fmt: skip
        return found

    def blocked(self, workflow_ids: Sequence[str]) -> dict[str, int]:
        """How many issues of each of these workflows wait for a person; only those that have any."""
        rows = self._tx.all(
            f"SELECT workflow_id, count(*) AS open FROM issues WHERE workflow_id IN :ids AND {_OPEN}"  # noqa: S608
            " GROUP BY workflow_id",
            ids=list(workflow_ids),
        )  # fmt: skip
        return {row["workflow_id"]: row["open"] for row in rows}

    def created_seq(self, table: str, id: str) -> int:
        """The place of a note in the order of creation."""
        sql = f"SELECT created_seq FROM {table} WHERE id = :id"  # noqa: S608 - a table of ours
        found: int = self._tx.value(sql, id=id)
        return found

    def count(self, table: str, workflow_id: str) -> int:
        """How many decisions, issues or milestones a workflow has."""
        sql = f"SELECT count(*) FROM {table} WHERE workflow_id = :id"  # noqa: S608 - a table of ours
        found: int = self._tx.value(sql, id=workflow_id)
        return found

    def decisions(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Decision], int]:
        """Decisions, newest first, and how many match in all."""
        rows, total = self._matching("decisions", matching, limit)
        return [_decision(row) for row in rows], total

    def milestones(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Milestone], int]:
        """Milestones, newest first, and how many match in all."""
        rows, total = self._matching("milestones", matching, limit)
        return [_milestone(row) for row in rows], total

    def blockers(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Issue], int]:
        """Issues that wait for a person, newest first, and how many match in all."""
        rows, total = self._matching("issues", matching, limit, _OPEN)
        return [_issue(row) for row in rows], total

    def issues(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Issue], int]:
        """All issues, newest first, and how many match in all."""
        rows, total = self._matching("issues", matching, limit)
        return [_issue(row) for row in rows], total

    def _matching(
        self, table: str, matching: Mapping[str, Any], limit: int, also: str = ""
    ) -> tuple[list[Row], int]:
        filters = where({condition: matching.get(name) for name, condition in _FILTERS.items()})
        filters += (" AND " if filters else "WHERE ") + also if also else ""
        total: int = self._tx.value(f"SELECT count(*) FROM {table} {filters}", **matching)  # noqa: S608
        before = matching.get("before")
        if before is not None:
            filters += " AND (created_at, created_seq) < (:at, :seq)"
            matching = {**matching, "at": before[0], "seq": before[1]}
        rows = self._tx.all(
            f"SELECT * FROM {table} {filters} ORDER BY created_at DESC, created_seq DESC LIMIT :limit",  # noqa: S608
            limit=limit, **matching,
        )  # fmt: skip
        return rows, total


_OPEN = "requires_human_review AND resolved_at IS NULL"
_FILTERS = {
    "workflow_id": "workflow_id = :workflow_id",
    "phase_id": "phase_id = :phase_id",
    "agent": "agent_name = :agent",
    "since": "created_at >= :since",
    "task_id": "task_id = :task_id",
    "level": "task_id IN (SELECT id FROM plan_tasks WHERE workflow_id = :workflow_id AND sequence = :level)",
}


def _row(note: Decision | Issue | Milestone, **as_json: Any) -> Row:
    texts = {
        name: None if value is None else json.dumps(value, ensure_ascii=False)
        for name, value in as_json.items()
    }
    row = vars(note) | vars(note.subject) | texts
    del row["subject"]
    return row


def _about(row: Row) -> tuple[Subject, Row]:
    """The task that a note is about, and the rest of the row."""
    fields = Subject.__dataclass_fields__
    rest = {name: value for name, value in row.items() if name not in fields and name != "created_seq"}
    return Subject(**{name: row[name] for name in fields}), rest


@stored
def _decision(row: Row) -> Decision:
    subject, rest = _about(row)
    read = {
        "category": Category(row["category"]),
        "options_considered": tuple(json.loads(row["options_considered"])),
    }
    return Decision(subject=subject, **(rest | read))


@stored
def _issue(row: Row) -> Issue:
    subject, rest = _about(row)
    read = {
        "type": IssueType(row["type"]),
        "requires_human_review": bool(row["requires_human_review"]),
    }
    return Issue(subject=subject, **(rest | read))


@stored
def _milestone(row: Row) -> Milestone:
    subject, rest = _about(row)
    metadata = row["metadata"]
    return Milestone(subject=subject, **(rest | {"metadata": json.loads(metadata) if metadata else None}))
