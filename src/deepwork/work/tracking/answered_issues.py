"""Answered issues: what people answered, in the context of a workflow."""

from __future__ import annotations

from typing import Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.kernel.timestamps import format_optional_timestamp
from deepwork.work.tracking.models import Issue

MAX_ANSWERS = 20
"""Answers in one context; an answer stays as long as the workflow, but only the newest are shown."""
_MAX_QUESTION = 300


class AnswerView(Answer):
    """An issue that waited for a person, and how it was resolved."""

    issue_id: str
    task_id: str
    question: str
    answer: str
    by: str
    at: str

    @classmethod
    def from_issue(cls, issue: Issue) -> Self:
        return cls(
            issue_id=issue.id,
            task_id=issue.subject.task_id,
            question=truncate_to_line(issue.description, _MAX_QUESTION) or "",
            answer=issue.resolution_note or "",
            by=issue.resolved_by or "",
            at=format_optional_timestamp(issue.resolved_at) or "",
        )
