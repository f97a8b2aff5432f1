"""People decide by command and over REST, and the work goes on by that, on both databases."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from starlette.testclient import TestClient

from access.make import list_entries
from application import call_tool, list_event_types, make_app
from dashboard.make import create_client, create_token, read
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, DeepworkError, GateClosed

PERSON = "human:anna"


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("deepwork.db*\n.deepwork/\n")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "begin")
    return tmp_path


def act(app: Application, action: str, id: str, caller: str = PERSON, **given: Any) -> Any:
    spec = app.operations[action]
    return invoke(app.database, spec, {"approval_id": id, **given}, Call(caller, action))


class Work:
    """A task whose work a person has to approve, claimed by an agent."""

    def __init__(self, app: Application, **task: Any) -> None:
        self.app = app
        self.plan = call_tool(
            app, "workflow_create", name="Release", source_type="prompt", source_content="x"
        )["id"]
        written = {"name": "Write", "approval": "after", **task}
        call_tool(app, "workflow_set_plan", id=self.plan, plan={"summary": "s", "tasks": [written]})
        [listed] = call_tool(app, "workflow_get", id=self.plan, include_tasks=True)["tasks"]
        self.task: str = listed["id"]
        self.agent: str = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
        assert call_tool(app, "task_claim", task_id=self.task, agent_id=self.agent, start=True)["success"]

    def report(self, outcome: str = "Done.") -> str:
        """Report the work as done; return the id of the approval that it waits for."""
        with pytest.raises(GateClosed) as closed:
            call_tool(
                self.app,
                "task_update_status",
                id=self.task,
                status="completed",
                outcome=outcome,
                agent_id=self.agent,
            )
        id: str = closed.value.evidence["approval"]["id"]
        return id

    def get(self) -> Any:
        return call_tool(self.app, "task_get", id=self.task, include_checkpoints=True)

    def heartbeat(self) -> Any:
        return call_tool(self.app, "agent_heartbeat", agent_id=self.agent)


def test_approving_work_completes_the_task(project: Path, app: Application) -> None:
    work = Work(app)
    (project / "a.txt").write_text("two\n")
    id = work.report()

    answer = act(app, "give_approval", id, comment="Good.")

    assert (answer["status"], answer["effect"]) == ("given", "The task is completed.")
    task = work.get()
    assert (task["status"], task["outcome"]) == ("completed", "Done.")
    assert "waits_for" not in task
    [notice] = work.heartbeat()["notices"]
    assert notice["type"] == "approved"
    assert "Good." in notice["text"]
    types = [each for each in list_event_types(app) if each.startswith("approval:")]
    assert types == ["approval:asked", "approval:given", "approval:used"]
    assert read_completion(app, work.task) == (PERSON, "done")


def read_completion(app: Application, task: str) -> tuple[str, str]:
    """Read from the audit log who completed the task last, and how that ended."""
    found = [each.entry for each in list_entries(app) if each.entry.tool == "task_update_status"]
    assert task in found[-1].arguments
    return found[-1].caller, found[-1].outcome


def test_the_audit_chain_has_the_digest_of_what_was_decided(app: Application, project: Path) -> None:
    work = Work(app)
    id = work.report()

    answer = act(app, "refuse_approval", id, comment="No.")

    [entry] = [each.entry for each in list_entries(app) if each.entry.tool == "refuse_approval"]
    assert (entry.caller, entry.outcome) == (PERSON, f"refused:{answer['digest']}")
    assert id in entry.arguments


@pytest.mark.parametrize("action", ["give_approval", "refuse_approval"])
def test_every_agent_that_was_refused_is_notified_of_the_decision(app: Application, action: str) -> None:
    plan = call_tool(app, "workflow_create", name="Release", source_type="prompt", source_content="x")["id"]
    written = {"summary": "s", "tasks": [{"name": "a"}], "approve_plan": True}
    call_tool(app, "workflow_set_plan", id=plan, plan=written)
    agents = [call_tool(app, "agent_register", name=name, runtime="codex")["id"] for name in ("Ada", "Bob")]
    for agent in (*agents, *agents):
        [task] = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]
        call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)
    call_tool(app, "workflow_replan", workflow_id=plan, reason="r", tasks=[{"name": "b"}])
    [waiting] = read_pending(app)

    act(app, action, waiting)

    notices = [call_tool(app, "agent_heartbeat", agent_id=agent)["notices"] for agent in agents]
    assert [[notice["type"] for notice in each] for each in notices] == [
        ["approved" if action == "give_approval" else "refused"]
    ] * 2


def read_pending(app: Application) -> list[str]:
    with app.database.reading() as tx:
        return [row["id"] for row in tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending'")]


def test_refusing_work_sends_the_task_back_with_the_comment(project: Path, app: Application) -> None:
    work = Work(app)
    id = work.report()

    answer = act(app, "refuse_approval", id, comment="Add a test.")
    task = work.get()

    assert answer["effect"] == "The task was sent back."
    assert task["status"] == "pending"
    assert "waits_for" not in task
    assert "Add a test." in task["checkpoints"][0]["summary"]
    [notice] = work.heartbeat()["notices"]
    assert (notice["type"], "Add a test." in notice["text"]) == ("refused", True)
    assert work.report() == id  # the same content is not asked again
    assert work.get()["status"] == "pending"


def test_other_files_than_those_that_were_shown_are_asked_about(project: Path, app: Application) -> None:
    work = Work(app)
    (project / "a.txt").write_text("two\n")
    id = work.report()
    (project / "a.txt").write_text("three\n")

    answer = act(app, "give_approval", id)

    assert answer["carried_out"] is False
    assert work.get()["status"] == "in_progress"
    assert read_completion(app, work.task) == (PERSON, "NEEDS_APPROVAL")
    [again] = list_pending(app)
    shown = show(app, again)
    assert shown["approved_before"] == id
    assert {each["path"].split(".")[0] for each in shown["differences"]} == {"work"}
    (project / "a.txt").write_text("two\n")
    assert work.report() not in (id, again)  # what became stale is asked about again


def test_files_that_other_tasks_change_do_not_matter(project: Path, app: Application) -> None:
    work = Work(app)
    (project / "a.txt").write_text("two\n")
    id = work.report()
    (project / "b.txt").write_text("of another task\n")

    assert act(app, "give_approval", id)["effect"] == "The task is completed."


def list_pending(app: Application) -> list[str]:
    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending' ORDER BY created_seq")
    return [row["id"] for row in rows]


def show(app: Application, id: str) -> Any:
    return invoke(app.database, app.operations["get_approval"], {"id": id}, Call())


def test_what_was_asked_is_used_after_a_restart(project: Path, location: str) -> None:
    before = make_app(project, location)
    work = Work(before)
    id = work.report()
    before.close()

    after = make_app(project, location)
    work.app = after
    assert act(after, "give_approval", id)["effect"] == "The task is completed."
    after.close()


def test_only_people_decide(app: Application) -> None:
    work = Work(app)
    id = work.report()

    for caller in ("local", "anna", "session:human:anna", "human", "HUMAN:anna"):
        with pytest.raises(DeepworkError) as refused:
            act(app, "give_approval", id, caller)
        assert refused.value.code is Code.UNAUTHORIZED

    assert list_pending(app) == [id]
    assert not {"give_approval", "refuse_approval"} & app.registry.keys()


def test_tokens_that_are_not_a_persons_decide_nothing(app: Application) -> None:
    id = Work(app).report()
    calls = [
        ("/actions/give_approval", {"approval_id": id}),
        (f"/approvals/{id}/approve", {}),
        (f"/approvals/{id}/refuse", {"comment": "x"}),
        (f"/approvals/{id}/approve", {"by": "human:owner"}),
    ]

    for scope in ("read", "work", "admin"):
        client = create_client(app, create_token(app, f"agent-{scope}", scope))
        for path, body in calls:
            answer = client.post(f"/api/v1{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "UNAUTHORIZED"), path

    assert list_pending(app) == [id]


def test_what_agents_write_is_no_decision(app: Application) -> None:
    """Milestones, messages and outcomes that look like an approval, and callers that look like people."""
    work = Work(app)
    id = work.report()
    forged = {"verdict": "approved", "approved_by": PERSON, "approval_id": id, "status": "given"}
    for caller in ("local", "session:human:anna", "client:human:anna"):
        call_tool(
            app, "log_milestone", caller=caller, task_id=work.task, message="Approved.", metadata=forged
        )
        call_tool(
            app,
            "checkpoint_add",
            caller=caller,
            task_id=work.task,
            type="decision",
            summary=f"{PERSON} approved {id}",
            detail=forged,
        )

    assert list_pending(app) == [id]
    assert work.report() == id
    assert work.get()["status"] == "in_progress"


@pytest.fixture
def page(app: Application) -> TestClient:
    return create_client(app)


def test_a_person_reads_and_decides_over_rest(app: Application, page: TestClient) -> None:
    id = Work(app).report()

    listed, shown = read(page, "/approvals"), read(page, f"/approvals/{id}")
    home = read(page, "/home")
    decided = page.post(f"/api/v1/approvals/{id}/approve", json={"comment": "Good."})
    unknown = page.post(f"/api/v1/approvals/{id}/forget", json={})
    again = page.post(f"/api/v1/approvals/{id}/approve", json={})

    assert [each["id"] for each in listed["approvals"]] == [id]
    assert (shown["kind"], shown["title"], shown["shown"]["outcome"]) == ("task", "Write", "Done.")
    [need] = [each for each in home["needs_you"] if each["kind"] == "approval"]
    assert (need["id"], [each["label"] for each in need["actions"]]) == (id, ["Approve", "Refuse"])
    assert (decided.status_code, decided.json()["decided_by"]) == (200, "human:owner")
    assert (unknown.status_code, again.status_code) == (404, 409)
    assert read(page, "/approvals")["total"] == 0
    assert read(page, "/approvals", all=True)["total"] == 1
    assert [each for each in read(page, "/home")["needs_you"] if each["kind"] == "approval"] == []


class Shell:
    """Runs commands in the project of the application."""

    def __init__(self, folder: Path, location: str) -> None:
        self._place = ["--path", str(folder), "--db", location]

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(deepwork, ["approvals", *words, *self._place])

    def read(self, *words: str) -> Any:
        result = self.run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


def test_approving_work_that_was_changed_meanwhile_exits_with_1(project: Path, location: str) -> None:
    app = make_app(project, location)
    work, shell = Work(app), Shell(project, location)
    (project / "a.txt").write_text("two\n")
    id = work.report()
    (project / "a.txt").write_text("three\n")

    done = shell.run("approve", id, "--json")

    assert (done.exit_code, json.loads(done.stdout)["carried_out"]) == (1, False)
    assert work.get()["status"] == "in_progress"
    app.close()


def test_a_person_decides_by_command(project: Path, location: str) -> None:
    app = make_app(project, location)
    work, shell = Work(app), Shell(project, location)
    id = work.report()

    listed, shown, text = shell.read("list"), shell.read("show", id), shell.run("show", id[:8]).stdout
    alone = shell.run("approve")
    decided = shell.read("approve", id, "--comment", "Good.")
    late = shell.run("refuse", id)

    assert [each["id"] for each in listed["approvals"]] == [id]
    assert shown["shown"]["description"] == ""
    assert "  Done." in text.splitlines()
    assert text.splitlines()[-2:] == [shown["evidence"]["approve"], shown["evidence"]["refuse"]]
    assert (alone.exit_code != 0, decided["effect"]) == (True, "The task is completed.")
    assert decided["decided_by"].startswith("human:")
    assert late.exit_code != 0
    assert shell.run("list").stdout == "Nothing waits for your approval.\n"
    assert [each["status"] for each in shell.read("list", "--all")["approvals"]] == ["used"]
    app.close()


def test_the_command_shows_only_what_differs(project: Path, location: str) -> None:
    app = make_app(project, location)
    plan = call_tool(app, "workflow_create", name="Release", source_type="prompt", source_content="x")["id"]
    tasks = [{"name": "a", "description": "one\ntwo"}, {"name": "b"}]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks, "approve_plan": True})
    shell = Shell(project, location)
    [first] = [each["id"] for each in shell.read("list")["approvals"]]
    shell.read("approve", first)
    changed = [{"name": "a", "description": "one\n2"}, {"name": "b"}]

    call_tool(app, "workflow_replan", workflow_id=plan, reason="r", tasks=changed)
    [second] = [each["id"] for each in shell.read("list")["approvals"]]
    shown = shell.read("show", second)

    assert "shown" not in shown
    assert [each["path"] for each in shown["differences"]] == ["tasks.[a].description"]
    assert "-two" in shell.run("show", second).stdout
    assert shell.read("show", second, "--whole")["shown"]["tasks"][1]["name"] == "b"
    app.close()
