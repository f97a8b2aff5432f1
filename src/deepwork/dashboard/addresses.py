"""Every address of the REST interface, in the order in which they are told."""

from __future__ import annotations

from typing import Any

from deepwork.dashboard import home, notes, people, run_details, runs, search, task_details, tasks
from deepwork.dashboard.endpoints import Endpoint, ToolEndpoint
from deepwork.dashboard.health import Status
from deepwork.shapes import Answer


class Me(Answer):
    """Who is asking."""

    name: str
    scope: str


ENDPOINTS: tuple[Endpoint, ...] = (
    *home.ENDPOINTS, *runs.ENDPOINTS, *run_details.ENDPOINTS, *tasks.ENDPOINTS, *notes.ENDPOINTS,
    *task_details.ENDPOINTS, *people.ENDPOINTS, *search.ENDPOINTS,
)  # fmt: skip
TOOL_ENDPOINTS: tuple[ToolEndpoint, ...] = (task_details.DIFF, task_details.JOBS)
OWN: dict[str, tuple[str, type[Any]]] = {
    "/api/v1/status": ("How the server is.", Status),
    "/api/v1/me": ("Who you are, and how much you may do.", Me),
}
