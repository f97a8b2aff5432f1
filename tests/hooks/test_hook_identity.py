"""Which agents a session acts as, learned from answers of our tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import make_app
from deepwork.views.hooks.identity import _ACTS_AS, MAX_AGENTS, SessionRecord, learn_from_call

NOBODY = SessionRecord("claude-code", "s1")
ADA = SessionRecord("claude-code", "s1", agents=("ag_1",), jobs=("abcdefgh",), workflow="tw_1")

SENT_BACK = {"status": "needs_work", "begin_step": None}
COMPLETE = {"status": "workflow_complete", "begin_step": None}


def build_step_answer(session: str) -> dict[str, Any]:
    """An answer that says which step to do."""
    return {"begin_step": {"session_id": session}}


@pytest.mark.parametrize(
    ("tool", "given", "answer"),
    [
        ("agent_register", {"name": "Ada"}, {"id": "ag_1"}),
        ("agent_heartbeat", {"agent_id": "ag_1"}, {"success": True}),
        ("task_claim", {"task_id": "tk_1", "agent_id": "ag_1"}, {"success": True, "claim_epoch": 1}),
        ("checkpoint_add", {"agent_id": "ag_1"}, {"id": "cp_1"}),
        ("message_send", {"sender_id": "ag_1", "recipient_id": "ag_2"}, {"id": "msg_1"}),
    ],
)
def test_a_session_that_acts_as_an_agent_is_that_agent(
    tool: str, given: dict[str, Any], answer: dict[str, Any]
):
    assert learn_from_call(NOBODY, tool, given, answer).agents == ("ag_1",)


@pytest.mark.parametrize(
    ("tool", "given", "answer"),
    [
        ("task_claim", {"agent_id": "ag_1"}, {"success": False, "reason": "claimed"}),
        ("agent_heartbeat", {"agent_id": "ag_1"}, {"code": "AGENT_NOT_FOUND", "recoverable": False}),
        ("agent_register", {}, {"id": 7}),
        ("agent_get", {"id": "ag_1"}, {"id": "ag_1"}),
        ("", {"agent_id": "ag_1"}, {}),
        ("start_workflow", {}, {"begin_step": None}),
        ("get_context", {"workflow_id": "wf_1"}, {}),
        # Whoever only reads may be looking at a colleague's work.
        ("message_list", {"agent_id": "ag_1"}, {"messages": []}),
        ("get_context", {"workflow_id": "tw_1"}, {}),
        ("get_session", {"session_id": "abcdefgh"}, {"begin_step": {"session_id": "abcdefgh"}}),
    ],
)
def test_refused_and_unrelated_calls_do_not_change_the_record(
    tool: str, given: dict[str, Any], answer: dict[str, Any]
):
    assert learn_from_call(NOBODY, tool, given, answer) == NOBODY


def test_a_job_session_is_remembered_until_it_ends():
    begun = learn_from_call(NOBODY, "start_workflow", {"goal": "g"}, build_step_answer("abcdefgh"))

    assert begun.jobs == ("abcdefgh",)
    assert learn_from_call(begun, "finished_step", {}, SENT_BACK).jobs == ("abcdefgh",)
    assert learn_from_call(begun, "finished_step", {}, COMPLETE).jobs == ()
    assert learn_from_call(begun, "abort_workflow", {}, {"aborted_workflow": "x"}).jobs == ()


def test_a_step_that_was_sent_back_identifies_its_session():
    assert learn_from_call(NOBODY, "finished_step", {"session_id": "abcdefgh"}, SENT_BACK).jobs == (
        "abcdefgh",
    )


def test_when_a_nested_job_ends_the_outer_job_is_current_again():
    outer = learn_from_call(NOBODY, "start_workflow", {}, build_step_answer("outer"))
    inner = learn_from_call(outer, "start_workflow", {}, build_step_answer("inner"))

    assert inner.jobs == ("inner", "outer")
    assert learn_from_call(inner, "finished_step", {}, COMPLETE).jobs == ("outer",)
    assert learn_from_call(inner, "abort_workflow", {}, {"aborted_workflow": "x"}).jobs == ("outer",)
    assert learn_from_call(
        inner, "finished_step", {"session_id": "outer"}, build_step_answer("outer")
    ).jobs == ("outer", "inner")


def test_ending_the_job_of_another_session_keeps_ones_own():
    for tool, answer in (("abort_workflow", {"aborted_workflow": "x"}), ("finished_step", COMPLETE)):
        assert learn_from_call(ADA, tool, {"session_id": "zzzzzzzz"}, answer) == ADA


def test_a_tracked_workflow_is_remembered_until_it_is_completed():
    begun = learn_from_call(NOBODY, "start_workflow", {"name": "n"}, {"workflow_id": "tw_1"})

    assert begun.workflow == "tw_1"
    assert (
        learn_from_call(begun, "start_task", {"workflow_id": "tw_2"}, {"task_id": "tt_1"}).workflow == "tw_2"
    )
    assert learn_from_call(begun, "complete_workflow", {"workflow_id": "tw_9"}, {}).workflow == "tw_1"
    assert learn_from_call(begun, "complete_workflow", {"workflow_id": "tw_1"}, {}).workflow is None


def test_an_unregistered_agent_is_forgotten_and_everything_else_is_kept():
    after = learn_from_call(ADA, "agent_unregister", {"id": "ag_1"}, {"success": True})

    assert (after.agents, after.jobs, after.workflow) == ((), ("abcdefgh",), "tw_1")


def test_a_session_remembers_a_limited_number_of_agents_newest_first():
    record = NOBODY
    for number in range(MAX_AGENTS + 5):
        record = learn_from_call(record, "agent_register", {}, {"id": f"ag_{number}"})

    assert len(record.agents) == MAX_AGENTS
    assert record.agents[0] == f"ag_{MAX_AGENTS + 4}"


def test_the_table_of_acting_agents_matches_the_tool_declarations(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"))

    declared = {
        name: spec.declaration.acts_as for name, spec in app.registry.items() if spec.declaration.acts_as
    }

    del declared["agent_unregister"]  # ends an identity
    assert declared == _ACTS_AS
