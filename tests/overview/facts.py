"""Builds facts for the rules of states."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.landing.models import Landing, LandingKind, LandingStatus
from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunOptions, RunStatus
from deepwork.views.overview.session_rows import SessionRow
from deepwork.views.overview.states.run_rules import (
    AttemptFacts,
    LandingFacts,
    RunFacts,
    judge_attempt,
    judge_landing,
    judge_run,
)
from deepwork.views.overview.states.work_rules import PlanFacts, SessionFacts, TaskFacts
from deepwork.work.plans.models import PlanStatus, TaskStatus

PLAN, TASK, RUN, ATTEMPT, LANDING, APPROVAL = "wf_1", "tk_1", "rn_1", "at_1", "ld_1", "ap_1"
NOON = 1_794_916_800_000
"""2026-11-17T12:00:00Z."""


def make_run(
    status: RunStatus = RunStatus.ACTIVE, *, is_driven: bool | None = True, **changes: Any
) -> RunFacts:
    about = {name: changes.pop(name) for name in list(changes) if name in RunFacts.__slots__}
    known: dict[str, Any] = {
        "id": RUN, "workflow_id": PLAN, "job": None, "goal": None, "session_id": None, "repository_path": "/p",
        "chain": ("claude",), "options": RunOptions(), "reason": None, "created_by": "human:ada",
        "created_at": NOON, "updated_at": NOON,
    }  # fmt: skip
    return RunFacts(Run(status=status, **(known | changes)), is_driven=is_driven, **about)


def make_attempt(
    stage: AttemptStage = AttemptStage.RUNNING, *, is_driven: bool = True, **changes: Any
) -> AttemptFacts:
    approval = changes.pop("approval_id", None)
    known: dict[str, Any] = {
        "id": ATTEMPT, "run_id": RUN, "workflow_id": PLAN, "task_id": TASK, "number": 1, "profile": "claude",
        "vendor": "claude", "agent_id": "ag_1", "claim_epoch": 1, "host": "local", "created_at": NOON,
        "updated_at": NOON,
    }  # fmt: skip
    return AttemptFacts(Attempt(stage=stage, **(known | changes)), is_driven, approval)


def make_landing(status: LandingStatus, **changes: Any) -> LandingFacts:
    about = {name: changes.pop(name) for name in list(changes) if name in LandingFacts.__slots__}
    known: dict[str, Any] = {
        "id": LANDING, "kind": LandingKind.TASK, "subject_id": TASK, "workflow_id": PLAN, "task_id": TASK,
        "title": "Build", "host": "local", "repository_path": "/p", "target": "main", "done_at": NOON,
        "created_by": "human:ada", "created_at": NOON, "updated_at": NOON,
    }  # fmt: skip
    return LandingFacts(Landing(status=status, **(known | changes)), **judge(about))


def judge(changes: dict[str, Any]) -> dict[str, Any]:
    """Judge the runs, attempts and landings that a thing depends on: its facts have how those stand."""
    rules: dict[type, Any] = {RunFacts: judge_run, AttemptFacts: judge_attempt, LandingFacts: judge_landing}
    return {name: rules.get(type(given), lambda it: it)(given) for name, given in changes.items()}


def make_plan(status: PlanStatus = PlanStatus.IN_PROGRESS, **changes: Any) -> PlanFacts:
    return PlanFacts(PLAN, status, **judge(changes))


def make_task(status: TaskStatus = TaskStatus.PENDING, **changes: Any) -> TaskFacts:
    return TaskFacts(TASK, status, changes.pop("plan", make_plan()), **judge(changes))


def make_session(status: str = "active", **changes: Any) -> SessionFacts:
    data = {
        "entries": [{"steps": ["write"]}, {"steps": ["send"]}],
        "current_entry_index": 0,
        "step_progress": {"write": {"started_at": "2026-11-17T12:00:00Z"}},
    }
    return SessionFacts(
        SessionRow("ab12cd34", "letter/main", "", status, "write", data, NOON), **judge(changes)
    )
