"""Storage of notes: decisions, issues and milestones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row, build_like_pattern, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.work.tracking.models import Category, Decision, Issue, IssueType, Milestone, RecordSubject

KEPT_MILESTONES = 100
SAME_MS = 2000


class NoteStore:
    """Reads and writes decisions, issues and milestones."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add_decision(self, decision: Decision) -> None:
        """Insert a decision."""
        self._tx.insert("decisions", _to_row(decision, options_considered=list(decision.options_considered)))

    def add_issue(self, issue: Issue) -> None:
        """Insert an issue."""
        self._tx.insert("issues", _to_row(issue))

    def get_issue_for_update(self, id: str) -> Issue:
        """Return the issue and lock its row until the transaction ends."""
        row = self._tx.fetch_one(f"SELECT * FROM issues WHERE id = :id{self._tx.row_lock}", id=id)
        if row is None:
            raise NotFound("issue", id, suggestion="See the blockers in {tool:get_context} for their ids.")
        return _issue_from_row(row)

    def find_decision(self, id: str) -> Decision | None:
        """Return the decision, or None."""
        row = self._tx.fetch_one("SELECT * FROM decisions WHERE id = :id", id=id)
        return _decision_from_row(row) if row else None

    def find_issue(self, id: str) -> Issue | None:
        """Return the issue, or None."""
        row = self._tx.fetch_one("SELECT * FROM issues WHERE id = :id", id=id)
        return _issue_from_row(row) if row else None

    def find_milestone(self, id: str) -> Milestone | None:
        """Return the milestone, or None."""
        row = self._tx.fetch_one("SELECT * FROM milestones WHERE id = :id", id=id)
        return _milestone_from_row(row) if row else None

    def save_resolution(self, issue: Issue) -> None:
        """Save how an issue was resolved."""
        self._tx.update(
            "issues",
            issue.id,
            {
                "resolved_at": issue.resolved_at,
                "resolved_by": issue.resolved_by,
                "resolution_note": issue.resolution_note,
            },
        )

    def find_recent_duplicate(self, milestone: Milestone) -> Milestone | None:
        """Return an equal milestone of the same task from the last two seconds: a call sent twice."""
        sql = (
            "SELECT * FROM milestones WHERE task_id = :task_id AND created_at >= :since"
            " AND message = :message ORDER BY created_at DESC, created_seq DESC LIMIT 1"
        )
        row = self._tx.fetch_one(
            sql,
            task_id=milestone.subject.task_id,
            message=milestone.message,
            since=milestone.created_at - SAME_MS,
        )
        found = _milestone_from_row(row) if row else None
        return found if found and _get_content(found) == _get_content(milestone) else None

    def add_milestone(self, milestone: Milestone) -> None:
        """Insert a milestone and delete older ones of the task beyond the newest 100.

        Milestones by a person are never deleted: they record approvals.
        """
        about = None if milestone.metadata is None else dict(milestone.metadata)
        self._tx.insert("milestones", _to_row(milestone, metadata=about))
        sql = """
            DELETE FROM milestones
             WHERE task_id = :task_id AND logged_by_person IS NULL AND (created_at, created_seq) < (
                SELECT created_at, created_seq FROM milestones WHERE task_id = :task_id
                 ORDER BY created_at DESC, created_seq DESC LIMIT 1 OFFSET :kept
            )
        """
        self._tx.execute(sql, task_id=milestone.subject.task_id, kept=KEPT_MILESTONES - 1)

    def was_reviewed(self, task_id: str, since: int) -> bool:
        """Return whether a person decided about the task, or wrote about it, since this time."""
        sql = (
            "SELECT count(*) FROM approvals WHERE subject_kind = 'tracked_task' AND subject_id = :task_id"
            " AND decided_at >= :since AND status IN ('given', 'refused')"
        )
        found: int = self._tx.fetch_value(sql, task_id=task_id, since=since)
        return found > 0

    def count_open_blockers(self, workflow_id: str, phase_id: str | None = None) -> int:
        """Count the issues that wait for a person."""
        conditions = build_where({"workflow_id = :id": workflow_id, "phase_id = :phase": phase_id})
        sql = f"SELECT count(*) FROM issues {conditions} AND {_OPEN_BLOCKER}"
        found: int = self._tx.fetch_value(sql, id=workflow_id, phase=phase_id)
        return found

    def count_blockers_by_workflow(self, workflow_ids: Sequence[str]) -> dict[str, int]:
        """Count the issues of each workflow that wait for a person; workflows without any are left out."""
        sql = (
            f"SELECT workflow_id, count(*) AS open FROM issues WHERE workflow_id IN :ids AND {_OPEN_BLOCKER}"
            " GROUP BY workflow_id"
        )
        rows = self._tx.fetch_all(sql, ids=list(workflow_ids))
        return {row["workflow_id"]: row["open"] for row in rows}

    def get_created_seq(self, table: str, id: str) -> int:
        """Return the creation sequence of a note."""
        sql = f"SELECT created_seq FROM {table} WHERE id = :id"
        found: int = self._tx.fetch_value(sql, id=id)
        return found

    def count(self, table: str, workflow_id: str) -> int:
        """Count the rows of a workflow in one of the tables decisions, issues and milestones."""
        sql = f"SELECT count(*) FROM {table} WHERE workflow_id = :id"
        found: int = self._tx.fetch_value(sql, id=workflow_id)
        return found

    def list_decisions(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Decision], int]:
        """Return decisions, newest first, and the total number of matches."""
        rows, total = self._list_matching("decisions", matching, limit)
        return [_decision_from_row(row) for row in rows], total

    def list_milestones(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Milestone], int]:
        """Return milestones, newest first, and the total number of matches."""
        rows, total = self._list_matching("milestones", matching, limit)
        return [_milestone_from_row(row) for row in rows], total

    def list_issues(
        self, matching: Mapping[str, Any], limit: int, *, oldest_first: bool = False
    ) -> tuple[list[Issue], int]:
        """Return issues, newest first by default, and the total number of matches."""
        rows, total = self._list_matching("issues", matching, limit, oldest_first=oldest_first)
        return [_issue_from_row(row) for row in rows], total

    def list_answers(self, matching: Mapping[str, Any], limit: int) -> tuple[list[Issue], int]:
        """Return issues that waited for a person and are resolved, the last resolved first, and their number.

        The time filter applies to the answer: it may answer an old question.
        """
        conditions = {**_FILTER_CONDITIONS, "since": "resolved_at >= :since"}
        filters = build_where({condition: matching.get(name) for name, condition in conditions.items()})
        where = f"{filters} AND requires_human_review AND resolved_at IS NOT NULL"
        order = "resolved_at DESC, created_seq DESC"
        rows, total = self._tx.list_first("*", f"issues {where}", order, limit, **matching)
        return [_issue_from_row(row) for row in rows], total

    def _list_matching(
        self, table: str, matching: Mapping[str, Any], limit: int, *, oldest_first: bool = False
    ) -> tuple[list[Row], int]:
        """List a page of what matches every filter and contains every word, and count all that does."""
        words, (at, seq) = matching.get("words", ()), matching.get("beyond") or (None, None)
        values = {name: matching[name] for name in _FILTER_CONDITIONS if name in matching}
        patterns = {f"word_{place}": build_like_pattern(word.lower()) for place, word in enumerate(words)}
        filters = {condition: values.get(name) for name, condition in _FILTER_CONDITIONS.items()}
        filters |= {f"lower({_DECISION_TEXT}) LIKE :{name} ESCAPE '!'": True for name in patterns}
        values |= patterns
        total: int = self._tx.fetch_value(f"SELECT count(*) FROM {table} {build_where(filters)}", **values)
        sign, direction = (">", "ASC") if oldest_first else ("<", "DESC")
        page = build_where({**filters, f"(created_at, created_seq) {sign} (:at, :seq)": at})
        order = f"ORDER BY created_at {direction}, created_seq {direction}"
        sql = f"SELECT * FROM {table} {page} {order} LIMIT :limit"
        return self._tx.fetch_all(sql, at=at, seq=seq, limit=limit, **values), total


_OPEN_BLOCKER = "requires_human_review AND resolved_at IS NULL"
_FILTER_CONDITIONS = {
    "workflow_id": "workflow_id = :workflow_id",
    "phase_id": "phase_id = :phase_id",
    "agent": "agent_name = :agent",
    "since": "created_at >= :since",
    "task_id": "task_id = :task_id",
    "level": "task_id IN (SELECT id FROM plan_tasks WHERE workflow_id = :workflow_id AND sequence = :level)",
    "category": "category = :category",
    "type": "type = :type",
    "blockers": "requires_human_review",
    "open": "resolved_at IS NULL",
    "resolved": "resolved_at IS NOT NULL",
}
_DECISION_TEXT = (
    "question || ' ' || chosen || ' ' || reasoning || ' ' || coalesce(trade_offs, '') || ' ' ||"
    " options_considered || ' ' || task_name"
)


def _get_content(milestone: Milestone) -> tuple[object, ...]:
    return milestone.message, milestone.progress, milestone.metadata, milestone.logged_by_person


def _to_row(note: Decision | Issue | Milestone, **as_json: Any) -> Row:
    texts = {
        name: None if value is None else json.dumps(value, ensure_ascii=False)
        for name, value in as_json.items()
    }
    row = vars(note) | vars(note.subject) | texts
    del row["subject"]
    return row


def _split_subject(row: Row) -> tuple[RecordSubject, Row]:
    """Split a row into the task that the note is about and the other columns."""
    fields = RecordSubject.__dataclass_fields__
    rest = {name: value for name, value in row.items() if name not in fields and name != "created_seq"}
    return RecordSubject(**{name: row[name] for name in fields}), rest


@row_parser
def _decision_from_row(row: Row) -> Decision:
    subject, rest = _split_subject(row)
    read = {
        "category": Category(row["category"]),
        "options_considered": tuple(json.loads(row["options_considered"])),
    }
    return Decision(subject=subject, **(rest | read))


@row_parser
def _issue_from_row(row: Row) -> Issue:
    subject, rest = _split_subject(row)
    read = {"type": IssueType(row["type"]), "requires_human_review": bool(row["requires_human_review"])}
    return Issue(subject=subject, **(rest | read))


@row_parser
def _milestone_from_row(row: Row) -> Milestone:
    subject, rest = _split_subject(row)
    metadata = row["metadata"]
    return Milestone(subject=subject, **(rest | {"metadata": json.loads(metadata) if metadata else None}))
