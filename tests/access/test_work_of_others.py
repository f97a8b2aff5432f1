"""A token of scope work cannot add to a task that another token's agent holds, nor end another token's steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from access.make import call_tool_as
from application import LEASE_MS, Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, DeepworkError, NotAllowed
from jobs.project import make_review, make_step, write_files, write_job
from workspaces.make import create_plan


@pytest.fixture
def held(app: Application) -> tuple[str, str]:
    """A task, and Alice's agent, which holds it."""
    _, [task] = create_plan(app, "a")
    holder: str = call_tool_as(app, "alice", "agent_register", name="Ada", runtime="codex")["id"]
    assert call_tool_as(app, "alice", "task_claim", task_id=task, agent_id=holder)["success"]
    return task, holder


def add_checkpoint(app: Application, token: str, task: str, **more: Any) -> Any:
    return call_tool_as(app, token, "checkpoint_add", task_id=task, type="progress", summary="x", **more)


@pytest.mark.parametrize("given", [{}, {"claim_epoch": 1}, {"claim_epoch": 99}])
@pytest.mark.parametrize("has_agent", [False, True])
def test_another_token_cannot_add_a_checkpoint_to_a_held_task(
    app: Application, held: tuple[str, str], given: dict[str, Any], has_agent: bool
):
    if has_agent:
        call_tool_as(app, "bob", "agent_register", name="Bob", runtime="codex")

    with pytest.raises(NotAllowed) as refused:
        add_checkpoint(app, "bob", held[0], **given)

    assert refused.value.code is Code.NOT_ASSIGNED
    assert call_tool(app, "checkpoint_list", task_id=held[0])["total"] == 0


def test_the_holder_its_token_an_admin_and_a_person_can_add_a_checkpoint(
    app: Application, held: tuple[str, str]
):
    task, holder = held
    call_tool_as(app, "alice", "agent_register", name="Another", runtime="codex")

    add_checkpoint(app, "alice", task, agent_id=holder)
    add_checkpoint(app, "alice", task)
    add_checkpoint(app, "boss", task, scope="admin")
    add_checkpoint(app, "human:anna", task)
    call_tool(app, "checkpoint_add", task_id=task, type="progress", summary="over stdio, as anybody")

    assert call_tool(app, "checkpoint_list", task_id=task)["total"] == 5


def test_a_free_task_takes_checkpoints_of_every_token_and_a_late_holder_keeps_its_own(
    app: Application, held: tuple[str, str], clock: Clock
):
    task, holder = held
    clock.advance(seconds=LEASE_MS / 1000 + 1)
    add_checkpoint(app, "bob", task)
    taker = call_tool_as(app, "bob", "agent_register", name="Bob", runtime="codex")["id"]
    assert call_tool_as(app, "bob", "task_claim", task_id=task, agent_id=taker)["success"]

    late = add_checkpoint(app, "alice", task, agent_id=holder)

    assert late["late"] is True


@pytest.fixture
def session(app: Application, tmp_path: Path) -> str:
    """A job session that Alice's agent started."""
    write_job(tmp_path, "chain", [make_step("one", reviews=[make_review(Clear="Is it?")]), make_step("two")])
    write_files(tmp_path, "one.md", "two.md")
    given = {"goal": "x", "job_name": "chain", "workflow_name": "main"}
    begun = call_tool_as(app, "alice", "start_workflow", **given)
    id: str = begun["begin_step"]["session_id"]
    return id


def finish_with_override(app: Application, token: str, session: str | None, **more: Any) -> Any:
    given: dict[str, Any] = {"outputs": {"one.md": "one.md"}, "quality_review_override_reason": "I say so."}
    given |= {"session_id": session} if session else {}
    return call_tool_as(app, token, "finished_step", **given, **more)


@pytest.mark.parametrize(
    "act",
    [
        finish_with_override,
        lambda app, token, session: call_tool_as(app, token, "go_to_step", step_id="one", session_id=session),
        lambda app, token, session: call_tool_as(
            app, token, "abort_workflow", explanation="x", session_id=session
        ),
    ],
    ids=["finished_step", "go_to_step", "abort_workflow"],
)
def test_another_token_cannot_change_a_job_session(
    app: Application, session: str, act: Callable[[Application, str, str], Any]
):
    with pytest.raises(NotAllowed, match="belongs to another caller") as refused:
        act(app, "bob", session)

    assert refused.value.code is Code.UNAUTHORIZED
    shown = call_tool_as(app, "bob", "get_session", session_id=session)["session"]
    assert (shown["status"], shown["current_step_id"], shown["overrides"]) == ("active", "one", [])
    act(app, "alice", session)


def test_another_token_does_not_take_over_a_session_by_calling_without_its_id(
    app: Application, session: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.work.jobs.sessions.files.has_exited", lambda owner: True)

    with pytest.raises(DeepworkError, match="No active workflow session"):
        finish_with_override(app, "bob", None)

    assert call_tool(app, "get_session", session_id=session)["session"]["current_step_id"] == "one"
    assert finish_with_override(app, "alice", None)["status"] == "next_step"


def test_an_admin_may_take_over_a_session_and_a_person_may_abort_it(app: Application, session: str):
    assert finish_with_override(app, "boss", session, scope="admin")["status"] == "next_step"

    call = Call("human:anna", "abort_workflow", account="anna", scope="work")
    given = {"session_id": session, "explanation": "No time."}
    aborted = invoke(app.database, app.registry["abort_workflow"], given, call)

    assert aborted["aborted_step"] == "two"
