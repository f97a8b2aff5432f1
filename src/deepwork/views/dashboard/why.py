"""REST endpoint that explains why code exists."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deepwork.kernel.errors import InvalidInput
from deepwork.views.dashboard.endpoints import NoParameters, RepositoryEndpoint
from deepwork.views.overview.why import MAX_LINES, WhyService
from deepwork.views.overview.why_answers import Why

_MAX_TEXT = 4096


class WhyQuery(NoParameters):
    path: str | None = Field(
        default=None, max_length=_MAX_TEXT, description="A file, relative to the repository"
    )
    line: int | None = Field(
        default=None, ge=1, le=10**9, description="A line of it; the whole file if not given"
    )
    last_line: int | None = Field(default=None, ge=1, le=10**9, description="The last of several lines")
    commit: str | None = Field(
        default=None,
        max_length=_MAX_TEXT,
        description="A commit or a range A..B; with `path`, the file as it is there",
    )
    task_id: str | None = Field(default=None, max_length=_MAX_TEXT, description="`line` is one of its diff")
    side: Literal["new", "old"] = Field(
        default="new", description="Of a task's diff: the file as the task left it, or as it was before"
    )


def read_why(service: WhyService, query: WhyQuery) -> Why:
    """Explain a line, a file, a commit or a range."""
    if query.path is None and query.commit is None:
        raise InvalidInput(
            "Neither `path` nor `commit` is given.", suggestion="Name a file, or a commit, or both."
        )
    if query.task_id is not None:
        return _read_task_line(service, query)
    if query.path is None:
        return service.explain_commits(query.commit or "")
    if query.line is None:
        return service.explain_lines(query.path, 1, MAX_LINES, query.commit)
    return service.explain_lines(query.path, query.line, query.last_line or query.line, query.commit)


def _read_task_line(service: WhyService, query: WhyQuery) -> Why:
    if query.path is None or query.line is None:
        raise InvalidInput(
            "`task_id` needs `path` and `line`.", suggestion="Name a file and a line of the task's diff."
        )
    is_old = query.side == "old"
    return service.explain_task_line(query.task_id or "", query.path, query.line, is_old=is_old)


ENDPOINTS = (
    RepositoryEndpoint(
        "/api/v1/why",
        "Why code exists: the commits, and the tasks, goals, decisions, checks and agents behind them.",
        WhyQuery,
        Why,
        read_why,
    ),
)
