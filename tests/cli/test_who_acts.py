"""Commands for people act as the person at a terminal; in a pipe they say that agents were not notified."""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, make_app
from cli.run import CommandResult, run_deepwork, run_in_terminal
from deepwork.edge.server.application import Application

PERSON = f"human:{getpass.getuser()}"
UNNOTIFIED = "Agents were not notified of this; --as-person does that.\n"


class Project:
    """A project whose agent holds the task of a plan, and works on a job."""

    def __init__(self, app: Application, folder: Path) -> None:
        self.app, self.folder = app, folder
        plan = {"summary": "s", "tasks": [{"name": "Design", "description": ""}]}
        self.plan = call_tool(app, "workflow_create", name="Login", source_type="prompt", source_content="x")[
            "id"
        ]
        call_tool(app, "workflow_set_plan", id=self.plan, plan=plan)
        self.task = call_tool(app, "workflow_get", id=self.plan, include_tasks=True)["tasks"][0]["id"]
        self.agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
        call_tool(app, "task_claim", task_id=self.task, agent_id=self.agent)
        started = call_tool(
            app, "start_workflow", goal="Greet", job_name="hello_review", workflow_name="greet"
        )
        self.session = started["begin_step"]["session_id"]

    def run(self, *words: str) -> CommandResult:
        return run_deepwork(self.folder, *words)

    def type(self, *words: str) -> CommandResult:
        return run_in_terminal(self.folder, *words)

    def list_notices(self) -> list[str]:
        answer = call_tool(self.app, "agent_heartbeat", agent_id=self.agent)
        return [each["type"] for each in answer.get("notices", [])]

    def get_last_change(self) -> Any:
        return call_tool(self.app, "workflow_get", id=self.plan, include_history=True)["history"][0]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("lease_seconds: 86400\n")
    app = make_app(tmp_path, str(tmp_path / ".deepwork" / "deepwork.db"))
    yield Project(app, tmp_path)
    app.close()


def test_a_plan_paused_at_a_terminal_is_paused_by_the_person(project: Project):
    ran = project.type("plans", "update-status", project.plan, "paused", "--reason", "No budget")

    assert (ran.code, "not notified" in ran.out) == (0, False)
    assert project.get_last_change()["by_whom"] == PERSON
    assert project.list_notices() == ["paused"]


def test_a_plan_paused_in_a_pipe_says_that_agents_were_not_notified(project: Project):
    piped = project.run("plans", "update-status", project.plan, "paused", "--reason", "No budget")

    assert (piped.code, piped.err) == (0, UNNOTIFIED)
    assert project.get_last_change()["by_whom"] == "local"
    assert project.list_notices() == []
    assert project.run("plans", "update-status", project.plan, "in_progress", "--json").err == ""
    assert project.run("plans", "update-status", project.plan, "paused", "--as-person").err == ""
    assert project.list_notices() == ["paused"]


def test_changes_of_a_plan_at_a_terminal_are_the_persons(project: Project):
    new = project.folder / "new.yml"
    new.write_text("- {name: Ship, description: ''}\n")
    changes = {
        "parallelism": ("set-parallelism", project.plan, "4"),
        "replanned": ("replan", project.plan, "No PKCE", str(new)),
    }

    for what, words in changes.items():
        assert project.type("plans", *words).code == 0
        change = project.get_last_change()
        assert (change["what"], change["by_whom"]) == (what, PERSON)

    assert project.list_notices() == ["replanned", "replanned"]


def test_a_task_removed_in_a_pipe_is_the_persons_if_asked_for(project: Project):
    added = [
        call_tool(
            project.app, "workflow_add_task", workflow_id=project.plan, task={"name": n, "description": ""}
        )
        for n in ("One", "Two")
    ]
    one, two = (each["task_id"] for each in added)

    assert project.run("plans", "remove-task", project.plan, one).err == UNNOTIFIED
    assert project.list_notices() == []
    assert project.run("plans", "remove-task", project.plan, two, "--as-person").err == ""
    assert project.list_notices() == ["replanned"]
    assert project.get_last_change()["by_whom"] == PERSON


def test_a_claim_released_at_a_terminal_is_released_by_the_person(project: Project):
    assert project.type("tasks", "release", project.task).code == 0

    assert project.list_notices() == ["released"]
    assert "No agent holds task 'Design'" in project.type("tasks", "release", project.task).out


def test_an_agents_report_at_a_terminal_still_names_the_agent(project: Project):
    refused = project.type("tasks", "done", project.task, "--outcome", "Done.")
    named = project.type("tasks", "update-status", project.task, "in_progress", "--agent-id", project.agent)

    assert (refused.code, "--as-person" in refused.out) == (1, True)
    assert named.code == 0
    assert project.list_notices() == []


@pytest.mark.parametrize("flags", [(), ("--as-person",)])
def test_a_session_aborted_in_a_pipe_is_a_persons_if_asked_for(project: Project, flags: tuple[str, ...]):
    ran = project.run("sessions", "abort", project.session, "--explanation", "Wrong job", *flags)

    assert (ran.code, ran.err) == (0, "" if flags else UNNOTIFIED)
    with project.app.database.reading() as tx:
        [caller] = tx.fetch_all("SELECT caller FROM audit WHERE tool = 'abort_workflow'")
    assert caller == {"caller": PERSON if flags else "local"}


def test_a_claim_names_the_command_that_starts_the_task(project: Project):
    project.run("tasks", "release", project.task)

    claimed = project.run("tasks", "claim", "design", "ada")

    assert f"  deepwork tasks start {project.task} --agent-id {project.agent}\n" in claimed.out
