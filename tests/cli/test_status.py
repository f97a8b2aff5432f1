"""`deepwork status`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from application import call_tool, make_app
from budgets.make import report
from cli.run import run_deepwork, run_in_terminal
from cli.test_terminal import COLOUR
from deepwork.edge.cli import status as command
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.cli.framework.tables import measure_width
from deepwork.edge.cli.shell_completion import INDEX
from deepwork.edge.cli.status_page import render_page
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.hooks.failure_log import record_failure
from deepwork.views.hooks.protocol import TOOL_USE
from hooks.make import Project, build_tool_event


@pytest.fixture
def project(tmp_path: Path, location: str) -> Any:
    made = Project(make_app(tmp_path, location))
    yield made
    made.app.close()


def get_status(project: Project) -> dict[str, Any]:
    """Return the status as JSON data."""
    settings = project.app.settings
    answer = command.build_status(settings, open_engine(settings.database_location))
    plain: dict[str, Any] = json.loads(json.dumps(answer))
    return plain


def test_an_empty_project_gets_first_steps_and_nothing_is_created(tmp_path: Path):
    ran = run_deepwork(tmp_path, "status")

    assert ran.code == 0
    assert "There is no store for" in ran.out
    assert "deepwork init" in ran.out
    assert "deepwork setup" in ran.out
    assert list(tmp_path.iterdir()) == []
    assert run_deepwork(tmp_path, "status", "--json").json["store"] is None


def test_after_init_and_setup_the_status_says_what_comes_next(tmp_path: Path):
    home = {"HOME": str(tmp_path / "home")}
    (project := tmp_path / "project").mkdir()
    run_deepwork(project, "init", environment=home)
    after_init = run_deepwork(project, "status", environment=home).out
    run_deepwork(project, "setup", "claude-code", environment=home)

    told = run_deepwork(project, "status", environment=home).out

    assert "deepwork init" not in after_init + told
    assert "deepwork setup CLIENT" in after_init
    assert "deepwork setup" not in told
    assert "Claude Code: Start `claude` here" in told
    assert "deepwork plans create NAME --prompt TEXT" in told


def test_everything_that_needs_a_person_has_the_command_that_answers_it(project: Project):
    app = project.app
    agent, [failed, _], other = (
        project.register_agent(),
        project.create_plan(),
        project.create_plan("Another"),
    )
    call_tool(app, "task_claim", task_id=failed, agent_id=agent)
    call_tool(app, "task_update_status", id=failed, status="in_progress", agent_id=agent)
    call_tool(app, "task_update_status", id=failed, status="failed", error="No.", agent_id=agent)
    paused = call_tool(app, "task_get", id=other[0])["workflow_id"]
    call_tool(app, "workflow_update_status", id=paused, status="in_progress", force=True)
    call_tool(app, "workflow_update_status", id=paused, status="paused", reason="Lunch")
    issue = call_tool(
        app, "log_issue", task_id=other[1], type="other", description="Which VAT?", resolution="-",
        requires_human_review=True,
    )["issue_id"]  # fmt: skip

    commands = {need["kind"]: need["command"] for need in get_status(project)["needs_you"]}

    assert commands["blocker"] == f"deepwork answer {issue} TEXT"
    assert commands["waiting_plan"] == f"deepwork plans update-status {paused} in_progress"
    assert failed in commands["failed_task"]
    for command_line in commands.values():
        about = json.loads(INDEX.read_text(encoding="utf-8"))
        for word in command_line.split()[1:]:
            about = about.get("commands", {}).get(word, about)
        assert about["params"]
        assert not about.get("commands")


def test_the_status_of_a_busy_project_fits_on_one_screen(tmp_path: Path):
    project = Project(make_app(tmp_path, ""))
    for number in range(12):
        agent, _ = project.start_task()
        [task, _] = project.create_plan(f"A plan with a rather long name, which has the number {number}")
        call_tool(
            project.app, "log_issue", task_id=task, type="other", description=f"Question {number} " * 9,
            resolution="-", requires_human_review=True,
        )  # fmt: skip
        call_tool(
            project.app, "message_send", sender_id=agent, recipient_id=agent, message_type="query", body="?"
        )
    project.app.close()

    told = COLOUR.sub("", run_in_terminal(tmp_path, "status", columns=80).out).splitlines()
    whole = run_in_terminal(tmp_path, "status", "--all", columns=80).out

    assert len(told) <= 23
    assert max(map(measure_width, told)) <= 80
    assert sum("deepwork answer" in line for line in told) >= 1
    assert any(re.fullmatch(r"  and \d+ more: deepwork status --all", line) for line in told)
    assert whole.count("deepwork answer") == 12


def test_what_runs_has_its_id_and_its_cost(project: Project):
    _, task = project.start_task()
    report(project.app, task, usd=0.1, tokens=7)
    [plan] = get_status(project)["plans"]

    page = "\n".join(render_page(json.loads(json.dumps(get_status(project))), whole=True))

    assert plan["usd"] == 0.1
    assert re.search(rf"Login by SSO .* \$0\.10 +{plan['id']}$", COLOUR.sub("", page), re.MULTILINE)


def test_all_running_work_is_listed(project: Project):
    agent, task = project.start_task()
    blocked, _ = project.create_plan("Another")
    call_tool(project.app, "task_claim", task_id=blocked, agent_id=agent)
    call_tool(project.app, "task_update_status", id=blocked, status="in_progress", agent_id=agent)
    call_tool(project.app, "task_update_status", id=blocked, status="failed", error="No.", agent_id=agent)
    tracked = call_tool(project.app, "start_workflow", name="Move", objective="All moved.")
    other = project.register_agent("Bob")
    call_tool(
        project.app, "message_send", sender_id=agent, recipient_id=other, message_type="query",
        body="?", priority="urgent",
    )  # fmt: skip

    answer = get_status(project)

    assert {run["name"] for run in answer["plans"]} == {"Login by SSO", "Another"}
    assert [run["id"] for run in answer["tracked"]] == [tracked["workflow_id"]]
    assert [(row["task_id"], row["agent_id"], row["agent"]) for row in answer["held"]] == [
        (task, agent, "Ada")
    ]
    assert answer["unread"] == [{"agent_id": other, "agent": "Bob", "unread": 1, "urgent": 1}]
    assert [need["kind"] for need in answer["needs_you"]] == ["failed_task"]
    assert [event["seq"] for event in answer["events"]] == sorted(event["seq"] for event in answer["events"])
    assert answer["events"][-1]["type"] == "message:created"


def test_items_that_need_a_person_are_counted_as_in_the_dashboard(project: Project):
    [task, _] = project.create_plan()
    agent = project.register_agent()
    call_tool(project.app, "task_claim", task_id=task, agent_id=agent)
    call_tool(project.app, "task_update_status", id=task, status="in_progress", agent_id=agent)
    call_tool(project.app, "task_update_status", id=task, status="failed", error="No.", agent_id=agent)

    answer = get_status(project)

    page = call_operation(project.app, "get_home", {})
    assert answer["needs_you_total"] == page["needs_you_total"] == 1
    assert answer["counts"] == page["counts"]


def test_the_number_of_queries_does_not_grow_with_the_number_of_runs(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    usual = Transaction._execute

    def counted(tx: Transaction, sql: str, values: Any) -> Any:
        asked.append(sql)
        return usual(tx, sql, values)

    monkeypatch.setattr(Transaction, "_execute", counted)
    project.start_task()
    asked.clear()
    get_status(project)
    few = len(asked)
    for number in range(8):
        [task, _] = project.create_plan(f"Plan {number}")
        call_tool(project.app, "task_claim", task_id=task, agent_id=project.register_agent(f"Agent {number}"))
    asked.clear()
    get_status(project)

    assert len(asked) <= few


def test_failures_of_hooks_are_reported(tmp_path: Path):
    project = Project(make_app(tmp_path, ""))
    agent = project.register_agent()
    project.run_hook(TOOL_USE, build_tool_event("agent_heartbeat", {"agent_id": agent}, {"success": True}))
    folder = project.app.settings.store_folder
    assert get_status(project)["hook_failures"] is None

    record_failure(folder, "stop --client codex", ValueError("\x1b[31mred"))
    answer = get_status(project)
    project.app.close()
    text = CliRunner().invoke(command.status, ["--path", str(tmp_path)]).output

    assert answer["hook_failures"]["count"] == 1
    assert str(folder / "hooks" / "failures.log") in text
    assert "ValueError" in text
    assert "\x1b" not in text


def test_text_and_json_have_the_same_content(tmp_path: Path):
    project = Project(make_app(tmp_path, ""))
    agent, task = project.start_task()
    project.app.close()

    for_people, for_programs = run_deepwork(tmp_path, "status"), run_deepwork(tmp_path, "status", "--json")

    assert (for_people.code, for_programs.code) == (0, 0)
    assert for_programs.json["held"][0]["task_id"] == task
    assert all(word in for_people.out for word in (task, "Ada", "Login by SSO", "OPEN", "HELD", "LATEST"))
    assert for_programs.json["held"][0]["agent_id"] == agent
    assert "UNREAD" not in for_people.out
