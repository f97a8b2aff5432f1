"""The payloads of events are built by hand for speed: they show what the response models show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.make import build_agent
from application import LEASE_MS, NOW
from deepwork.work.agents.models import Agent
from deepwork.work.agents.presence import AgentView, build_agent_payload
from deepwork.work.messages.models import Message, MessageStatus, MessageType, Priority
from deepwork.work.messages.responses import MessageView, build_message_payload
from deepwork.work.plans import recorder
from deepwork.work.plans.models import Checkpoint, CheckpointType, Task, Workflow
from deepwork.work.plans.responses import CheckpointView, PlanTaskView, PlanView
from plans.make import make_task, make_workflow

MESSAGE = Message(
    id="msg_1",
    sender_id="ag_1",
    recipient_id="ag_2",
    position=1,
    message_type=MessageType.QUERY,
    subject=None,
    body="Ready?",
    priority=Priority.HIGH,
    status=MessageStatus.UNREAD,
    workflow_id=None,
    task_id=None,
    reply_to_id=None,
    thread_id="thr_1",
    created_at=NOW,
    read_at=None,
    expires_at=None,
)
CHECKPOINT = Checkpoint("cp_1", "tk_1", 1, CheckpointType.PROGRESS, "Half.", None, (), None, NOW)
FULL_TASK = make_task(
    "full",
    "failed",
    parallel_group="g",
    plan={"approach": None},
    context={"files_likely_affected": ["a"], "none": None},
    outcome="o",
    outcome_detail={"n": 1},
    error="e",
    attempts=2,
    checkpoints=3,
    workspace_id="ws_1",
    started_at=NOW,
    finished_at=NOW,
    claimed_by="ag_1",
)


@pytest.mark.parametrize("task", [make_task(), FULL_TASK, replace(FULL_TASK, failures=3)])
def test_a_task_event_shows_what_the_view_shows(task: Task):
    shown = PlanTaskView.from_task(task).model_dump(mode="json")

    assert_same(recorder._build_task_payload(task), shown)


@pytest.mark.parametrize(
    "workflow", [make_workflow(), make_workflow(plan_summary="s", initial_plan={"a": [None]}, source_ref="r")]
)
def test_a_workflow_event_shows_what_the_view_shows(workflow: Workflow):
    shown = PlanView.from_workflow(workflow).model_dump(mode="json")

    assert_same(recorder._build_payload(recorder._WORKFLOW_FIELDS, workflow), shown)


@pytest.mark.parametrize(
    "checkpoint", [CHECKPOINT, replace(CHECKPOINT, detail={"a": None}, files_changed=("a",), agent_id="ag_1")]
)
def test_a_checkpoint_event_shows_what_the_view_shows(checkpoint: Checkpoint):
    shown = CheckpointView.from_checkpoint(checkpoint).model_dump(mode="json")

    assert_same(recorder._build_payload(recorder._CHECKPOINT_FIELDS, checkpoint), shown)


@pytest.mark.parametrize(
    "message", [MESSAGE, replace(MESSAGE, sender_id=None, body={"a": None}, subject="s", task_id="tk_1")]
)
def test_a_message_event_shows_what_the_view_shows(message: Message):
    assert_same(build_message_payload(message), MessageView.from_message(message).model_dump(mode="json"))


@pytest.mark.parametrize("now", [NOW, NOW + LEASE_MS + 1])
@pytest.mark.parametrize("agent", [build_agent(), build_agent(capabilities=("a",), workspace_path="/w")])
def test_an_agent_event_shows_what_the_view_shows(agent: Agent, now: int):
    shown = AgentView.from_agent(agent, now, LEASE_MS).model_dump(mode="json")

    assert_same(build_agent_payload(agent, now, LEASE_MS), shown)


def assert_same(payload: dict[str, Any], shown: dict[str, Any]) -> None:
    """Compare as JSON would: in the same order, and with a tuple as a list."""
    as_lists = {key: list(value) if isinstance(value, tuple) else value for key, value in payload.items()}
    assert as_lists == shown
    assert list(payload) == list(shown)
