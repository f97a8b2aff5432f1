"""All endpoints of the REST API, in the order in which they are documented."""

from __future__ import annotations

from typing import Any

from deepwork.views.dashboard import (
    agent_runs,
    agents,
    attempt_output,
    changed_files,
    home,
    issues_and_decisions,
    run_details,
    run_events,
    runs,
    search,
    task_details,
    tasks,
    why,
)
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    OperationRoute,
    RepositoryEndpoint,
    RestAnswer,
    ToolEndpoint,
)
from deepwork.views.dashboard.health import Status


class Me(RestAnswer):
    """The caller's name and scope, whether it counts as a person, and the actions that it can call here."""

    name: str
    scope: str
    is_person: bool
    actions: list[str]


ROUTES: tuple[OperationRoute, ...] = (
    OperationRoute("/api/v1/approvals", "list_approvals"),
    OperationRoute("/api/v1/approvals/{id}", "get_approval"),
    OperationRoute("/api/v1/person-proof", "get_person_proof"),
    OperationRoute("/api/v1/proofs", "list_proofs"),
    OperationRoute("/api/v1/runs/{id}/spending", "get_spending", {"id": "workflow_id"}),
    OperationRoute("/api/v1/rewinds", "list_rewinds"),
    OperationRoute("/api/v1/rewinds/{id}", "get_rewind"),
    OperationRoute("/api/v1/landings", "list_landings"),
    OperationRoute("/api/v1/landings/{id}", "get_landing"),
)
ENDPOINTS: tuple[Endpoint, ...] = (
    *home.ENDPOINTS,
    *runs.ENDPOINTS,
    *run_details.ENDPOINTS,
    *tasks.ENDPOINTS,
    *changed_files.ENDPOINTS,
    *issues_and_decisions.ENDPOINTS,
    *run_events.ENDPOINTS,
    *task_details.ENDPOINTS,
    *agents.ENDPOINTS,
    *agent_runs.ENDPOINTS,
    *attempt_output.ENDPOINTS,
    *search.ENDPOINTS,
)
TOOL_ENDPOINTS: tuple[ToolEndpoint, ...] = (task_details.DIFF, task_details.JOBS)
REPOSITORY_ENDPOINTS: tuple[RepositoryEndpoint, ...] = why.ENDPOINTS
SERVER_ENDPOINTS: dict[str, tuple[str, type[Any]]] = {
    "/api/v1/status": ("State of the server.", Status),
    "/api/v1/me": ("Your name, scope and actions.", Me),
}
