"""Builds the states of runs that the screen shows."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunOptions, RunStatus
from deepwork.views.overview.run_progress import RunState
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


def make_state(*attempts: Attempt, status: RunStatus = RunStatus.ACTIVE, **changes: Any) -> RunState:
    run = make_run(status, **changes.pop("run", {}))
    known: dict[str, Any] = {"task_names": {"tk_1": "Write the form", "tk_2": "Test it"}}
    facts = [AttemptFacts(attempt) for attempt in attempts]
    states = {attempt.id: judge_attempt(each) for attempt, each in zip(attempts, facts, strict=True)}
    is_driven = changes.pop("is_driven", True)
    states[run.id] = judge_run(RunFacts(run, is_driven=is_driven, attempts=tuple(facts)))
    return RunState(run=run, name="Login", now=NOW, states=states, attempts=attempts, **(known | changes))
