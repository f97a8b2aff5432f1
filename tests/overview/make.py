"""Makes a plan, runs and landings, and moves them as the processes that drive them do."""

from __future__ import annotations

from typing import Any

from application import call_tool
from deepwork.delivery.landing.models import Landing, LandingKind, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Run, RunOptions
from deepwork.delivery.runner.service import RunService, create_run
from deepwork.edge.server.application import Application


def make_plan(app: Application) -> tuple[str, dict[str, str]]:
    plan = call_tool(app, "workflow_create", name="Login", source_type="prompt", source_content="SSO")["id"]
    tasks = [
        {"name": "design", "description": "", "depends_on": [], "max_attempts": 1},
        {"name": "build", "description": "", "depends_on": ["design"]},
        {"name": "ship", "description": "", "depends_on": ["design", "build"]},
    ]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    found = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]
    return plan, {task["name"]: task["id"] for task in found}


def execute(app: Application, sql: str, **values: Any) -> None:
    with app.database.transaction() as tx:
        tx.execute(sql, **values)


def start_run(app: Application, plan: str | None, **options: Any) -> Run:
    with app.database.reading() as tx:
        now = tx.now
    of_job = {"job": options.pop("job", None), "goal": options.pop("goal", None)}
    new = create_run(
        repository_path="/project", chain=("claude",), options=RunOptions(**options), created_by="human:ada",
        now=now, workflow_id=plan, **of_job,
    )  # fmt: skip
    return RunService(app.database).start(new, app.settings.machine, 2)


def add_landing(app: Application, plan: str, task: str, status: LandingStatus, **more: Any) -> Landing:
    with app.database.transaction() as tx:
        landing = Landing(
            id=f"ld_{status.value}", kind=LandingKind.TASK, subject_id=task, workflow_id=plan, task_id=task,
            title="design", host=app.settings.machine, repository_path="/project", target="main", status=status,
            done_at=tx.now, created_by="human:ada", created_at=tx.now, updated_at=tx.now,
            ended_at=tx.now if status.is_final else None, **more,
        )  # fmt: skip
        LandingStore(tx).add(landing)
    return landing
