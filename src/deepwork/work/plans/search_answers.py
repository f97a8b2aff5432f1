"""Answers of the tools that summarize and search plans."""

from __future__ import annotations

from typing import Any, Literal

from deepwork.kernel.answers import Answer


class Summary(Answer):
    summary: str | dict[str, Any]
    token_estimate: int


class SearchHit(Answer):
    kind: Literal["workflow", "task", "checkpoint"]
    id: str
    workflow_id: str
    task_id: str | None = None
    name: str
    snippet: str


class SearchResults(Answer):
    results: list[SearchHit]
    total: int
