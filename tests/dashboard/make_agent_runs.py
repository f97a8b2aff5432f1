"""Stores runs of agents and their attempts as the runner does, without starting any agent."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunOptions
from deepwork.delivery.runner.service import AttemptService, RunService, create_run
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.application import Application
from deepwork.gates.budgets.models import CostSource, Entry, Usage
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.values import new_id

HOST = "local"


def start_run(app: Application, plan: str | None, **options: Any) -> Run:
    """Start a run of a plan, with two agents."""
    with app.database.reading() as tx:
        now = options.pop("created_at", tx.now)
    of = {"job": options.pop("job", None), "goal": options.pop("goal", None), "workflow_id": plan}
    created = create_run(
        repository_path="/project", chain=("claude", "codex"), options=RunOptions(**options),
        created_by="human:owner", now=now, **of,
    )  # fmt: skip
    return RunService(app.database).start(created, HOST, 2)


def add_attempt(app: Application, run: Run, task: str, **fields: Any) -> Attempt:
    """Add an attempt of a run; it runs, unless another stage is given."""
    with app.database.transaction() as tx:
        store = AttemptStore(tx)
        given = {
            "id": new_id("at"), "run_id": run.id, "workflow_id": run.workflow_id, "task_id": task,
            "number": 1 + len(store.list_of_task(task)), "profile": "claude", "vendor": "claude", "agent_id": "ag_1",
            "claim_epoch": 1, "stage": AttemptStage.RUNNING, "host": HOST, "created_at": tx.now, "updated_at": tx.now,
            "started_at": tx.now, "starts": 1,
        }  # fmt: skip
        attempt = Attempt(**given | fields)
        store.add(attempt)
        if attempt.tokens or attempt.usd_micros:
            usage = Usage(attempt.tokens, attempt.usd_micros, CostSource.REPORTED)
            spent = Entry(f"attempt:{attempt.id}", 1, usage, run.workflow_id, task, attempt.agent_id, run.id)
            BudgetService(tx).record(spent)
    return attempt


def move(app: Application, attempt: Attempt, stage: AttemptStage, **changes: Any) -> Attempt:
    """Move an attempt to another stage."""
    moved = AttemptService(app.database).move(attempt, stage, **changes)
    assert moved is not None
    return moved
