"""All endpoints of the REST API, in the order in which they are documented."""

from __future__ import annotations

from typing import Any

from deepwork.views.dashboard.endpoints import Endpoint, OperationRoute, RestAnswer
from deepwork.views.dashboard.health import Status


class Me(RestAnswer):
    """The caller's name and scope, whether it counts as a person, and the actions that it can call here."""

    name: str
    scope: str
    is_person: bool
    actions: list[str]


ROUTES: tuple[OperationRoute, ...] = (
    OperationRoute("/api/v1/home", "get_home"),
    OperationRoute("/api/v1/approvals", "list_approvals"),
    OperationRoute("/api/v1/approvals/{id}", "get_approval"),
    OperationRoute("/api/v1/person-proof", "get_person_proof"),
    OperationRoute("/api/v1/proofs", "list_proofs"),
    OperationRoute("/api/v1/runs/{id}/spending", "get_spending", {"id": "workflow_id"}),
    OperationRoute("/api/v1/runs", "list_work"),
    OperationRoute("/api/v1/runs/{id}", "get_work"),
    OperationRoute("/api/v1/runs/{id}/tasks", "list_work_tasks"),
    OperationRoute("/api/v1/runs/{id}/graph", "get_work_graph"),
    OperationRoute("/api/v1/runs/{id}/events", "list_work_events", follows_events=True),
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
    OperationRoute("/api/v1/landings/{id}", "get_landing"),
    OperationRoute("/api/v1/runner/runs", "list_runs"),
    OperationRoute("/api/v1/runner/runs/{id}", "get_run"),
    OperationRoute("/api/v1/runner/attempts", "list_attempts"),
    OperationRoute("/api/v1/runner/attempts/{id}", "get_attempt"),
    OperationRoute("/api/v1/runner/attempts/{id}/output", "get_attempt_output"),
    OperationRoute("/api/v1/why", "explain_code", reads_files=True),
    OperationRoute("/api/v1/tasks/{id}/diff", "get_task_diff", {"id": "task_id"}, reads_files=True),
    OperationRoute("/api/v1/tasks/{id}", "get_work_task"),
    OperationRoute("/api/v1/search", "search_work", follows_events=True),
    OperationRoute("/api/v1/jobs", "get_workflows", reads_files=True),
)
ENDPOINTS: tuple[Endpoint, ...] = ()
SERVER_ENDPOINTS: dict[str, tuple[str, type[Any]]] = {
    "/api/v1/status": ("State of the server.", Status),
    "/api/v1/me": ("Your name, scope and actions.", Me),
}
