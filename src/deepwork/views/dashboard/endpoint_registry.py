"""All endpoints of the REST API, in the order in which they are documented, and what answers each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor

from deepwork.kernel.answers import Answer
from deepwork.kernel.operations import OperationDeclaration
from deepwork.kernel.records import dataclass
from deepwork.views.dashboard.health import Status


class Operation(Protocol):
    """What REST needs to know about an operation; the registry of the server has it."""

    @property
    def description(self) -> str: ...
    @property
    def declaration(self) -> OperationDeclaration: ...
    @property
    def parameters(self) -> type[BaseModel]: ...
    @property
    def answer_type(self) -> Any: ...


Operations = Callable[[], Mapping[str, Operation]]
"""Returns everything that anybody can call, by name."""


@dataclass(frozen=True)
class OperationRoute:
    """A GET endpoint that an operation answers.

    The parameters in path and query are its arguments. Its declaration says the rest: what a token must
    cover, which parameters there are, and what the answer has.
    """

    path: str
    operation: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """By the name of a parameter in the path, that of the argument, if it is another one."""
    follows_events: bool = False
    """True if the answer changes only with a new event: not with time, nor with writes that emit no event."""
    reads_files: bool = False
    """True if the answer depends on files: no transaction is open around it, and its ETag never matches."""

    @property
    def path_arguments(self) -> frozenset[str]:
        """The arguments that the path has; all others are in the query."""
        return frozenset(self.renamed.get(name, name) for name in re.findall(r"{(\w+)}", self.path))

    @property
    def pattern(self) -> str:
        """The path for the router: the id of a job step contains a slash."""
        is_last = self.path.endswith("tasks/{id}")
        return self.path.replace("tasks/{id}", "tasks/{id:path}" if is_last else "tasks/{id:task}")


class Me(Answer):
    """The caller's name and scope, whether it counts as a person, and the actions that it can call here."""

    name: str
    scope: str
    is_person: bool
    actions: list[str]


ROUTES: tuple[OperationRoute, ...] = (
    OperationRoute("/api/v1/home", "get_home"),
    OperationRoute("/api/v1/inbox", "get_inbox"),
    OperationRoute("/api/v1/inbox/people", "list_inbox_people"),
    OperationRoute("/api/v1/inbox/evidence", "get_inbox_evidence", reads_files=True),
    OperationRoute("/api/v1/approvals", "list_approvals"),
    OperationRoute("/api/v1/approvals/{id}", "get_approval"),
    OperationRoute("/api/v1/approvals/{id}/evidence", "get_approval_evidence", reads_files=True),
    OperationRoute("/api/v1/person-proof", "get_person_proof"),
    OperationRoute("/api/v1/proofs", "list_proofs"),
    OperationRoute("/api/v1/spending", "get_spending"),
    OperationRoute("/api/v1/runs/{id}/spending", "get_spending", {"id": "workflow_id"}),
    OperationRoute("/api/v1/runs", "list_work"),
    OperationRoute("/api/v1/runs/{id}", "get_work"),
    OperationRoute("/api/v1/runs/{id}/now", "get_work_now"),
    OperationRoute("/api/v1/runs/{id}/tasks", "list_work_tasks"),
    OperationRoute("/api/v1/runs/{id}/graph", "get_work_graph"),
    OperationRoute("/api/v1/runs/{id}/events", "list_work_events", follows_events=True),
    OperationRoute("/api/v1/log", "list_all_events", follows_events=True),
    OperationRoute("/api/v1/agents", "list_agents"),
    OperationRoute("/api/v1/agents/{id}", "get_agent"),
    OperationRoute("/api/v1/runs/{id}/files", "list_changed_files"),
    OperationRoute("/api/v1/runs/{id}/decisions", "list_work_decisions", follows_events=True),
    OperationRoute("/api/v1/runs/{id}/issues", "list_work_issues", follows_events=True),
    OperationRoute("/api/v1/blockers", "list_blockers", follows_events=True),
    OperationRoute("/api/v1/decisions", "list_decisions", follows_events=True),
    OperationRoute("/api/v1/agents/{id}/messages", "list_inbox"),
    OperationRoute("/api/v1/messages", "list_messages"),
    OperationRoute("/api/v1/messages/{id}", "read_message"),
    OperationRoute("/api/v1/rewinds", "list_rewinds"),
    OperationRoute("/api/v1/rewinds/{id}", "get_rewind"),
    OperationRoute("/api/v1/landings", "list_landings"),
    OperationRoute("/api/v1/landings/queue", "get_landing_queue", reads_files=True),
    OperationRoute("/api/v1/landings/{id}", "get_landing"),
    OperationRoute("/api/v1/runner/runs", "list_runs"),
    OperationRoute("/api/v1/runner/runs/{id}", "get_run"),
    OperationRoute("/api/v1/runner/runs/{id}/report", "report_run", reads_files=True),
    OperationRoute("/api/v1/runner/limits", "list_limits"),
    OperationRoute("/api/v1/runner/attempts", "list_attempts"),
    OperationRoute("/api/v1/runner/attempts/{id}", "get_attempt"),
    OperationRoute("/api/v1/runner/attempts/{id}/output", "get_attempt_output"),
    OperationRoute("/api/v1/review", "list_review_queue", reads_files=True),
    OperationRoute("/api/v1/review/{id}", "get_task_review", reads_files=True),
    OperationRoute("/api/v1/review/{id}/patch", "get_review_patch", reads_files=True),
    OperationRoute("/api/v1/wishes", "list_wishes"),
    OperationRoute("/api/v1/wishes/{id}", "get_wish"),
    OperationRoute("/api/v1/wishes/{id}/plan", "get_wish_plan"),
    OperationRoute("/api/v1/runner/attempts/{id}/transcript", "get_attempt_transcript"),
    OperationRoute("/api/v1/runner/attempts/{id}/takeover", "get_takeover"),
    OperationRoute("/api/v1/runner/lanes", "list_lanes"),
    OperationRoute("/api/v1/runner/lanes/{id}", "get_lane"),
    OperationRoute("/api/v1/why", "explain_code", reads_files=True),
    OperationRoute("/api/v1/tasks/{id}/patch", "get_task_patch", {"id": "task_id"}, reads_files=True),
    OperationRoute("/api/v1/tasks/{id}/diff", "get_task_diff", {"id": "task_id"}, reads_files=True),
    OperationRoute("/api/v1/tasks/{id}/words", "list_words", {"id": "to"}),
    OperationRoute("/api/v1/tasks/{id}/comments", "list_comments", {"id": "task_id"}),
    OperationRoute("/api/v1/tasks/{id}", "get_work_task"),
    OperationRoute("/api/v1/search", "search_work", follows_events=True),
    OperationRoute("/api/v1/since", "get_since"),
    OperationRoute("/api/v1/notifications", "get_notifications", reads_files=True),
    OperationRoute("/api/v1/jobs", "get_workflows", reads_files=True),
)
SERVER_ENDPOINTS: dict[str, tuple[str, type[Answer]]] = {
    "/api/v1/status": ("State of the server.", Status),
    "/api/v1/me": ("Your name, scope and actions.", Me),
}


class _TaskIdConvertor(Convertor[str]):
    """Matches a task id that is followed by more path.

    A session id alone does not match: in `tasks/<session>/diff`, `diff` is then the name of a step.
    """

    regex = "t[kt]_[^/]+|[^/]+/[^/]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("task", _TaskIdConvertor())
