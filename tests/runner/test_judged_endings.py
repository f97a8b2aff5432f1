"""What the end of an agent's process means for its attempt."""

from __future__ import annotations

import pytest

from deepwork.delivery.runner.models import Attempt, AttemptStage, Observation, ProcessState, RunOptions
from deepwork.delivery.runner.rules import Action, judge_ending
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.work.plans.models import TaskStatus

ATTEMPT = Attempt(
    "att_1",
    "run_1",
    "wf_1",
    "task_1",
    1,
    "claude",
    "claude",
    "agent_1",
    1,
    AttemptStage.RUNNING,
    "host",
    0,
    0,
)


@pytest.mark.parametrize(
    ("reason", "action"), [("exited", Action.FINISH), ("stopped", Action.RESUME), ("timeout", Action.FAIL)]
)
def test_only_an_agent_that_exited_by_itself_may_be_done(reason: str, action: Action):
    ending = Observation(ProcessState.EXITED, code=0, reason=reason)

    verdict = judge_ending(ATTEMPT, RunOptions(), TaskStatus.IN_PROGRESS, ending, StreamState(), 0)

    assert verdict.action is action
