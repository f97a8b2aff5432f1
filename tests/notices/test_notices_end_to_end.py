"""What a person does reaches agents in real processes: servers over stdio and HTTP, commands and hooks."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import quick
from access.make import make_token
from application import make_app
from cli.run import run_deepwork
from hooks.make import build_event, build_tool_event
from http_tests.http_server import HttpServer
from notices.make import create_plan, list_types
from protocol.stdio_server import StdioServer
from protocol.token_session import TokenSession

OWNER = "the-owners-own-token-for-these-tests"
PERSON = f"human:{getpass.getuser()}"


class Session:
    """A client's session: a server over stdio, and the hooks that the client runs after its calls."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self.project, self.environment = project, environment
        self.server = StdioServer(project, environment=environment)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self.server.process.returncode is None:
            self.server.stop()

    def call(self, tool: str, **given: Any) -> tuple[Any, str]:
        """Call a tool; return its answer, and the text of the hook that the client runs then."""
        answer = self.server.call(tool, given)
        return answer, self.run_hook("tool-use", build_tool_event(tool, given, answer))

    def run_hook(self, name: str, content: bytes) -> str:
        done = subprocess.run(
            [*quick.build_command(), "hook", name, "--client", "claude-code"],
            input=content,
            cwd=self.project,
            env={**os.environ, **self.environment},
            capture_output=True,
            timeout=100,
            check=True,
        )
        printed = (
            json.loads(done.stdout) if done.stdout else {"hookSpecificOutput": {"additionalContext": ""}}
        )
        text: str = printed["hookSpecificOutput"]["additionalContext"]
        return text

    def run_command(self, *words: str) -> Any:
        ran = run_deepwork(self.project, *words, environment=self.environment)
        assert ran.code == 0, ran.err
        return ran.out

    def claim_task(self) -> tuple[str, str, str]:
        """Register an agent that claims a task; return the ids of agent, plan and task."""
        app = make_app(self.project, self.environment.get("DEEPWORK_DATABASE_URL", ""))
        plan, tasks = create_plan(app, "design")
        app.close()
        agent = self.call("agent_register", name="Ada", runtime="custom")[0]["id"]
        assert self.call("task_claim", task_id=tasks["design"], agent_id=agent)[0]["success"]
        return agent, plan, tasks["design"]


@pytest.fixture
def session(tmp_path: Path, location: str) -> Iterator[Session]:
    environment = {"DEEPWORK_DATABASE_URL": location} if "://" in location else {}
    (tmp_path / ".deepwork").mkdir()
    with Session(tmp_path, environment) as opened:
        yield opened


def test_the_answer_of_track_resolve_reaches_the_session_that_asked(session: Session):
    workflow = session.call("start_workflow", name="Taxes", objective="Right taxes.")[0]["workflow_id"]
    phase = session.call("start_phase", workflow_id=workflow, number=1, name="Build")[0]["phase_id"]
    given = {"workflow_id": workflow, "phase_id": phase, "caller_type": "orchestrator", "name": "rate"}
    task = session.call("start_task", **given, goal="The right rate.")[0]["task_id"]
    asked = {"type": "unclear_requirement", "description": "Which rate?", "resolution": "Asked."}
    issue = session.call("log_issue", task_id=task, **asked, requires_human_review=True)[0]["issue_id"]

    session.run_command("track", "resolve", issue, "7 percent")
    shown = session.run_command("track", "show", workflow)
    hook = session.run_hook("tool-use", build_event(tool_name="Bash"))
    context, _ = session.call("get_context", workflow_id=workflow, include=["tasks"])
    uri = f"deepwork://tracking/{workflow}/context"
    resource = session.server.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]

    assert "7 percent" in shown, "a person who looks does not take the answer away"
    assert f'Notice from "{PERSON}", just now, task {task}; act on it:' in hook
    assert r'"Answer to your question \"Which rate?\": 7 percent"' in hook
    assert "notices" not in context
    [answer] = context["answers"]
    assert (answer["answer"], answer["by"], answer["question"]) == ("7 percent", PERSON, "Which rate?")
    assert json.loads(resource)["answers"] == context["answers"]


def test_a_notice_that_a_killed_server_carried_is_shown_when_the_session_starts_again(session: Session):
    agent, plan, _ = session.claim_task()
    session.run_command("plans", "update-status", plan, "paused", "--reason", "No budget", "--as-person")

    answer = session.server.call("agent_heartbeat", {"agent_id": agent})
    session.server.stop(signal.SIGKILL)
    text = session.run_hook("session-start", build_event(source="resume"))

    assert list_types(answer["notices"]) == ["paused"]
    assert r"Plan \"Login\" was paused: No budget. Do not start" in text
    session.server = StdioServer(session.project, environment=session.environment)
    session.server.__enter__()
    again, hook = session.call("agent_heartbeat", agent_id=agent)
    assert "notices" not in again
    assert hook == session.run_hook("tool-use", build_event(tool_name="Bash")) == ""


def test_a_command_that_releases_a_task_stops_its_holder(session: Session):
    agent, _, task = session.claim_task()

    session.run_command("tasks", "release", task, agent, "--reason", "Bob does it", "--as-person")
    hook = session.run_hook("tool-use", build_event(tool_name="Bash"))
    refused, _ = session.call("task_update_status", id=task, status="completed", outcome="Done.")

    assert r"Your claim on task \"design\" was released: Bob does it. Stop work on it" in hook
    assert refused["code"] == "NOT_ASSIGNED"


def test_over_http_a_person_acts_and_writes_to_an_agent(
    tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
):
    if "://" in location:
        monkeypatch.setenv("DEEPWORK_DATABASE_URL", location)
    app = make_app(tmp_path, location if "://" in location else "")
    _, tasks = create_plan(app, "design")
    token = make_token(app, "ada", "work")[0]
    app.close()
    with HttpServer(tmp_path, token=OWNER) as served:
        ada = TokenSession(served, token)
        agent = ada.call("agent_register", {"name": "Ada", "runtime": "custom"})["id"]
        assert ada.call("task_claim", {"task_id": tasks["design"], "agent_id": agent})["success"]
        acts = {
            "message_send": {"recipient_id": agent, "message_type": "notification", "body": "Use staging."},
            "task_release": {"task_id": tasks["design"], "agent_id": agent},
        }
        for tool, given in acts.items():
            headers = {**served.bearer, "Content-Type": "application/json"}
            done = served.request("POST", f"/api/v1/actions/{tool}", headers, json.dumps(given).encode())
            assert done.status == 200, done.body

        message, release = ada.call("agent_heartbeat", {"agent_id": agent})["notices"]
        after = ada.call("message_list", {"agent_id": agent})

    assert (message["type"], message["by"], message["text"][-12:]) == (
        "message",
        "human:owner",
        "Use staging.",
    )
    assert (release["type"], release["task_id"]) == ("released", tasks["design"])
    assert "notices" not in after
    assert [each["body"] for each in after["messages"]] == ["Use staging."]
