"""Builds the states of runs that the screen shows."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunOptions, RunStatus
from deepwork.delivery.runner.responses import AttemptLine, WorkRef, describe_run
from deepwork.edge.cli.run.rendering import Row
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.run_progress import RunProgress
from deepwork.views.overview.states.run_rules import AttemptFacts, RunFacts, judge_attempt, judge_run

NOW = 1_800_000_000_000
MINUTE = 60_000


def make_run(status: RunStatus = RunStatus.ACTIVE, **changes: Any) -> Run:
    options = RunOptions(**changes.pop("options", {}))
    known: dict[str, Any] = {
        "id": "run_1", "workflow_id": "wf_1", "job": None, "goal": None, "session_id": None, "repository_path": "/p",
        "chain": ("claude",), "reason": None, "created_by": "human:ada", "created_at": NOW - 90 * MINUTE,
        "updated_at": NOW, "ended_at": NOW if status.is_final else None,
    }  # fmt: skip
    return Run(status=status, options=options, **(known | changes))


def make_attempt(stage: AttemptStage = AttemptStage.RUNNING, **changes: Any) -> Attempt:
    known: dict[str, Any] = {
        "id": "at_1", "run_id": "run_1", "workflow_id": "wf_1", "task_id": "tk_1", "number": 1, "profile": "claude",
        "vendor": "claude", "agent_id": "ag_1", "claim_epoch": 1, "host": "local", "created_at": NOW - 12 * MINUTE,
        "updated_at": NOW,
    }  # fmt: skip
    return Attempt(stage=stage, **(known | changes))


def describe(*attempts: Attempt, run: Run, **changes: Any) -> Row:
    """Describe a run as `get_run_progress` does; tasks are named by `task_names`, steps by their ids."""
    names = {"tk_1": "Write the form", "tk_2": "Test it"} | changes.pop("task_names", {})
    facts = [AttemptFacts(attempt) for attempt in attempts]
    standing = judge_run(RunFacts(run, is_driven=changes.pop("is_driven", True), attempts=tuple(facts)))
    lines = [
        AttemptLine.of(
            each.attempt,
            **judge_attempt(each).to_answer(),
            usd=each.attempt.usd_micros / MICROS_PER_USD,
            task_name=names.get(each.attempt.task_id) or each.attempt.task_id.rpartition("/")[2],
        )
        for each in facts
    ]
    known: dict[str, Any] = {
        **vars(describe_run(run, usd_micros=0)), **standing.to_answer(), "attempts": lines, "tokens": 0,
        "models": [], "actions": [], "workflow": WorkRef(id="wf_1", kind="plan", name="Login"), "progress": {},
        "now": format_timestamp(NOW), "last_seq": 0,
    }  # fmt: skip
    return {"because": None, "next": None} | RunProgress(**known | changes).model_dump()


def make_state(*attempts: Attempt, status: RunStatus = RunStatus.ACTIVE, **changes: Any) -> Row:
    return describe(*attempts, run=make_run(status, **changes.pop("run", {})), **changes)
