"""`deepwork show`, `answer` and `tell`, and ids that are shortened or replaced by names."""

from __future__ import annotations

import functools
import getpass
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from application import call_tool, make_app
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.states import State

PERSON = f"human:{getpass.getuser()}"


class Project:
    """A project with a plan, an agent, tracked work and a job session, and commands that run in it."""

    def __init__(self, app: Application, folder: Path, location: str) -> None:
        self.app, self._folder, self._location = app, folder, location
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        self._add_plan()
        self._add_agent()
        self._add_tracked_work()
        started = self._call("start_workflow", goal="Greet", job_name="hello_review", workflow_name="greet")
        self.session = started["begin_step"]["session_id"]

    def _call(self, tool: str, **arguments: Any) -> Any:
        return call_tool(self.app, tool, **arguments)

    def _add_plan(self) -> None:
        made = self._call("workflow_create", name="Login", source_type="prompt", source_content="x")
        self.plan = made["id"]
        tasks = [{"name": "Design", "description": ""}, {"name": "Build", "description": ""}]
        self._call("workflow_set_plan", id=self.plan, plan={"summary": "s", "tasks": tasks})
        self.task = self._call("workflow_get", id=self.plan, include_tasks=True)["tasks"][0]["id"]
        added = self._call("checkpoint_add", task_id=self.task, type="progress", summary="Half")
        self.checkpoint = added["id"]
        tree = str(self._folder / "tree")
        self.workspace = self._call("workspace_create", workflow_id=self.plan, path=tree, branch="b")["id"]
        template = {"tasks": [{"name": "a", "description": "b"}]}
        self.template = self._call("template_create", name="shipping", template=template)["id"]

    def _add_agent(self) -> None:
        self.agent = self._call("agent_register", name="Ada", runtime="codex")["id"]
        ids = {"sender_id": self.agent, "recipient_id": self.agent}
        self.message = self._call("message_send", **ids, message_type="query", body="Up?")["id"]

    def _add_tracked_work(self) -> None:
        self.record = self._call("start_workflow", name="Checkout", objective="Pay")["workflow_id"]
        started = self._call("start_phase", workflow_id=self.record, number=1, name="Forms")
        self.phase = started["phase_id"]
        place = {"workflow_id": self.record, "phase_id": self.phase, "caller_type": "orchestrator"}
        self.tracked_task = self._call("start_task", **place, name="Pay by card", goal="Cards work")[
            "task_id"
        ]
        self.issue = self._call(
            "log_issue", task_id=self.tracked_task, type="other", description="Which VAT?", resolution="-",
            requires_human_review=True,
        )["issue_id"]  # fmt: skip
        self.decision = self._call(
            "log_decision", task_id=self.tracked_task, category="architecture", question="Which?",
            chosen="This", reasoning="Fast",
        )["decision_id"]  # fmt: skip
        reached = self._call("log_milestone", task_id=self.tracked_task, message="Half")
        self.milestone = reached["milestone_id"]

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(deepwork, [*words, "--path", str(self._folder), "--db", self._location])

    def run_json(self, *words: str) -> Any:
        ran = self.run(*words, "--json")
        if ran.exception and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return json.loads(ran.stdout)


@pytest.fixture
def project(tmp_path: Path, location: str) -> Iterator[Project]:
    app = make_app(tmp_path, location)
    yield Project(app, tmp_path, location)
    app.close()


def test_anything_can_be_shown_by_its_id(project: Project):
    expected = {
        "plan": "Login", "task": "Design", "agent": "Ada", "record": "Checkout", "phase": "Forms",
        "tracked_task": "Pay by card", "issue": "Which VAT?", "decision": "Which?", "milestone": "Half",
        "message": "Up?", "workspace": "tree", "checkpoint": "Half", "template": "shipping", "session": "Greet",
    }  # fmt: skip
    for kind, word in expected.items():
        id = getattr(project, kind)
        ran = project.run("show", id)
        assert (ran.exit_code, id in ran.output.splitlines()[0], word in ran.output) == (0, True, True), kind
        assert word in json.dumps(project.run_json("show", id)), kind
    assert "draft" in project.run("show", f"{project.session}/draft").output


def test_json_of_show_is_the_answer_of_the_tool(project: Project):
    shown = project.run_json("show", project.task)

    told = {key: value for key, value in shown.items() if key not in ("state", "because", "next")}
    assert told == call_tool(project.app, "task_get", id=project.task)
    assert shown["state"] in set(State)


def test_showing_a_message_does_not_mark_it_as_read(project: Project):
    project.run("show", project.message)

    assert call_tool(project.app, "message_get", id=project.message, mark_read=False)["status"] == "unread"


def test_what_does_not_exist_is_refused_with_the_next_step(project: Project):
    with pytest.raises(DeepworkError, match="Nothing here has the id or name 'wf_nope'") as refused:
        project.run_json("show", "wf_nope")

    assert "deepwork status" in refused.value.suggestion


def test_beginnings_of_ids_and_names_replace_ids(project: Project):
    assert project.run_json("plans", "show", project.plan[:9])["id"] == project.plan
    assert project.run_json("tasks", "show", "design")["id"] == project.task
    assert project.run_json("agents", "get", "Ada")["id"] == project.agent
    assert project.run_json("sessions", "show", project.session[:5])["session_id"] == project.session
    assert project.run_json("track", "show", "checkout")["workflow_id"] == project.record
    assert project.run_json("show", project.phase[:9])["phase_id"] == project.phase
    assert project.run_json("tasks", "claim", "Design", "ada")["success"] is True


@pytest.mark.parametrize("words", [("show",), ("plans", "show"), ("plans", "progress")])
def test_a_beginning_that_is_too_short_says_how_much_is_needed(project: Project, words: tuple[str, ...]):
    with pytest.raises(DeepworkError, match="is too short") as refused:
        project.run_json(*words, project.plan[:6])

    assert refused.value.suggestion == "Write at least 4 characters after 'wf_'."


def test_an_ambiguous_name_is_refused_with_the_candidates(project: Project):
    other = call_tool(project.app, "agent_register", name="Ada", runtime="gemini")["id"]

    with pytest.raises(DeepworkError, match="'Ada' may mean") as refused:
        project.run_json("agents", "get", "Ada")

    assert project.agent in refused.value.message
    assert other in refused.value.message
    with pytest.raises(DeepworkError, match="'ada' may mean"):
        project.run_json("tell", "ada", "Hi")


def test_an_answer_resolves_an_issue_as_a_person(project: Project):
    answer = project.run_json("answer", project.issue[:10], "7 percent")

    shown = project.run_json("show", project.issue)
    assert answer["issue_id"] == project.issue
    assert (shown["resolution_note"], shown["resolved_by"]) == ("7 percent", PERSON)
    assert "deepwork answer" not in project.run("show", project.issue).output


def test_an_answer_approves_a_task_that_asks_for_a_review(project: Project):
    outcome = {"summary": "Done.", "manual_review_needed": True, "manual_review_reason": "Look."}
    call_tool(project.app, "complete_task", task_id=project.tracked_task, status="success", outcome=outcome)

    project.run_json("answer", "Pay by card", "Looks good.")

    milestone = project.run_json("track", "context", project.record)["milestones"][0]
    assert (milestone["message"], milestone["metadata"]) == (
        "Looks good.",
        {"verdict": "approved", "by": PERSON},
    )
    assert project.run_json("status")["needs_you_total"] == 1  # the issue


def test_a_refusal_is_recorded_as_one_and_reaches_the_agent(project: Project):
    outcome = {"summary": "Done.", "manual_review_needed": True, "manual_review_reason": "Look."}
    call_tool(project.app, "complete_task", task_id=project.tracked_task, status="success", outcome=outcome)
    offered = {each["kind"]: each["command"] for each in project.run_json("status")["needs_you"]}

    said = project.run("answer", "Pay by card", "No: use the sandbox", "--refuse").output

    context = call_tool(project.app, "get_context", workflow_id=project.record, include=["milestones"])
    assert offered["manual_review"] == f"deepwork answer {project.tracked_task} TEXT"
    assert said == f"Recorded your verdict on {project.tracked_task}: refused.\n"
    assert context["milestones"][0]["metadata"] == {"verdict": "refused", "by": PERSON}
    assert [(each["type"], "No: use the sandbox" in each["text"]) for each in context["notices"]] == [
        ("refused", True)
    ]
    assert [each["kind"] for each in project.run_json("status")["needs_you"]] == ["blocker"]


@pytest.mark.parametrize("words", ["answer issue", "tell agent", "sessions send-back session"])
def test_an_empty_text_is_refused_in_words_of_the_shell(project: Project, words: str):
    *command, subject = words.split()

    ran = project.run(*command, getattr(project, subject), "")

    assert ran.exit_code == 2
    assert "Invalid value for 'TEXT|-': it is empty." in ran.output


def test_an_issue_cannot_be_refused(project: Project):
    ran = project.run("answer", project.issue, "No", "--refuse")

    assert (ran.exit_code, "--refuse is for a tracked task" in ran.output) == (2, True)
    assert "resolution_note" not in project.run_json("show", project.issue)


def test_a_person_can_write_to_an_agent_without_registering_first(project: Project):
    first = project.run_json("tell", "ada", "Use port 8080", "--task-id", "Design")
    second = project.run_json("tell", project.agent, "Stop", "--urgent")

    sent = [call_tool(project.app, "message_get", id=each["id"], mark_read=False) for each in (first, second)]
    assert [message["body"] for message in sent] == ["Use port 8080", "Stop"]
    assert [message["priority"] for message in sent] == ["normal", "urgent"]
    assert sent[0]["task_id"] == project.task
    assert sent[0]["sender_id"] == sent[1]["sender_id"]
    assert call_tool(project.app, "agent_get", id=sent[0]["sender_id"])["name"] == getpass.getuser()


def test_what_a_person_writes_and_answers_reaches_the_agent_as_notices(project: Project):
    project.run_json("tell", "ada", "Use port 8080")
    project.run_json("answer", project.issue, "7 percent")

    [told] = call_tool(project.app, "agent_heartbeat", agent_id=project.agent)["notices"]
    shown = project.run("show", told["id"])
    context = call_tool(project.app, "get_context", workflow_id=project.record, include=["blockers"])

    assert "Use port 8080" in told["text"]
    assert "Use port 8080" in shown.output
    assert [each["answer"] for each in context["answers"]] == ["7 percent"]
    assert ["7 percent" in each["text"] for each in context["notices"]] == [True]


def test_a_message_to_an_unknown_agent_registers_nobody(project: Project):
    with pytest.raises(DeepworkError, match="There is no task 'Bob'"):
        project.run_json("tell", "Bob", "Hi")

    assert call_tool(project.app, "agent_list")["total"] == 1


def test_a_tracked_task_is_completed_without_json(project: Project):
    ended = project.run_json("track", "done", "Pay by card", "--summary", "Cards work.")

    assert ended["status"] == "success"
    assert project.run_json("show", project.tracked_task)["summary"] == "Cards work."


def test_a_workflow_and_its_tasks_are_created_from_one_file(project: Project, tmp_path: Path):
    file = tmp_path / "search.yml"
    file.write_text(
        "name: Search\nprompt: Make it fast.\nmax_parallel_tasks: 2\nsummary: Two steps\n"
        "tasks:\n  - name: Index\n  - name: Query\n    depends_on: [Index]\n"
    )

    made = project.run_json("plans", "create", "-f", str(file))

    shown = call_tool(project.app, "workflow_get", id=made["id"], include_tasks=True)
    assert (made["tasks_created"], made["status"], shown["name"]) == (2, "ready", "Search")
    assert (shown["source_content"], shown["max_parallel_tasks"]) == ("Make it fast.", 2)
    assert [task["name"] for task in shown["tasks"]] == ["Index", "Query"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: A\npromt: x\nsummary: s\ntasks: []\n", ":2: The key `promt` is unknown."),
        (
            "name: A\nsummary: s\ntasks:\n  - name: a\n    depends_on: [b]\n",
            "depends on 'b', which is not in the",
        ),
    ],
)
def test_an_invalid_file_creates_nothing_and_names_the_line(
    project: Project, tmp_path: Path, text: str, problem: str
):
    (file := tmp_path / "wrong.yml").write_text(text)

    with pytest.raises(DeepworkError) as refused:
        project.run_json("plans", "create", "-f", str(file))

    assert problem in refused.value.message
    assert call_tool(project.app, "workflow_list")["total"] == 1


def test_a_plan_that_is_refused_leaves_no_workflow(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from deepwork.work.plans.plan_tools import PlanTools

    @functools.wraps(PlanTools.workflow_set_plan)
    def refuse(*_: Any, **__: Any) -> None:
        raise DeepworkError("No.")

    monkeypatch.setattr(PlanTools, "workflow_set_plan", refuse)
    (file := tmp_path / "plan.yml").write_text("name: A\nsummary: s\ntasks:\n  - name: a\n")

    with pytest.raises(DeepworkError, match="No"):
        project.run_json("plans", "create", "-f", str(file))

    assert call_tool(project.app, "workflow_list")["total"] == 1
