"""Rewinding a task in a tree that others use: only the files that it alone changed go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from rewind.make import act, read_state, rewind
from workspaces.make import create_plan, run_git


class SharedWork:
    """Tasks that agents do in the project itself."""

    def __init__(self, app: Application, *names: str, depends: bool = False) -> None:
        self._app = app
        self.plan, _ = create_plan(app)
        tasks = [
            {"name": name, "depends_on": list(names[:place])[-1:] if depends else []}
            for place, name in enumerate(names)
        ]
        call_tool(app, "workflow_set_plan", id=self.plan, plan={"summary": "s", "tasks": tasks})
        shown = call_tool(app, "workflow_get", id=self.plan, include_tasks=True)["tasks"]
        self.ids = {task["name"]: task["id"] for task in shown}
        self.agents: dict[str, str] = {}

    def claim(self, name: str) -> None:
        agent = call_tool(self._app, "agent_register", name=name, runtime="custom", caller=name)["id"]
        call_tool(self._app, "task_claim", task_id=self.ids[name], agent_id=agent, caller=name)
        self.agents[name] = agent

    def complete(self, name: str) -> None:
        report = {"id": self.ids[name], "status": "completed", "outcome": "Done."}
        call_tool(self._app, "task_update_status", **report, agent_id=self.agents[name], caller=name)


def test_only_the_files_of_the_task_go_back(app: Application, project: Path) -> None:
    (project / "mine.txt").write_text("a person's\n")
    work = SharedWork(app, "api")
    work.claim("api")
    (project / "a.txt").write_text("two\n")
    (project / "new.txt").write_text("new\n")
    run_git(project, "add", "new.txt")
    work.complete("api")
    (project / "later.txt").write_text("a person's, later\n")
    run_git(project, "add", "later.txt")
    before = read_state(project)

    done = rewind(app, work.ids["api"])

    after = read_state(project)
    left = {name: text for name, text in before["files"].items() if name not in ("a.txt", "new.txt")}
    assert after["files"] == left | {"a.txt": "one\n"}
    assert after["head"] == before["head"]
    assert "later.txt" in after["staged"]
    assert "new.txt" not in after["staged"]
    [branch] = done["rescue_branches"]
    assert run_git(project, "show", f"{branch}:later.txt") == "a person's, later"

    act(app, "undo_rewind", rewind_id=done["id"])
    assert read_state(project) == before


def test_commits_of_the_task_stay_in_the_history(app: Application, project: Path) -> None:
    work = SharedWork(app, "api")
    work.claim("api")
    (project / "a.txt").write_text("two\n")
    run_git(project, "commit", "-qam", "agent")
    work.complete("api")
    tip = run_git(project, "rev-parse", "HEAD")

    preview = act(app, "preview_rewind", task_id=work.ids["api"])
    rewind(app, work.ids["api"])

    assert any("stay in its history" in remark for remark in preview["cannot_undo"])
    assert run_git(project, "rev-parse", "HEAD") == tip
    assert (project / "a.txt").read_text() == "one\n"


def test_files_that_others_changed_too_are_refused_with_the_list(app: Application, project: Path) -> None:
    work = SharedWork(app, "api", "ui")
    work.claim("api")
    work.claim("ui")
    (project / "a.txt").write_text("of one of them\n")
    work.complete("api")
    work.complete("ui")
    state = read_state(project)

    preview = act(app, "preview_rewind", task_id=work.ids["api"])
    with pytest.raises(NotAllowed, match=r"a.txt"):
        rewind(app, work.ids["api"])

    assert [each["path"] for each in preview["in_the_way"]] == ["a.txt"]
    assert read_state(project) == state


def test_a_file_that_somebody_changed_since_is_refused(app: Application, project: Path) -> None:
    work = SharedWork(app, "api")
    work.claim("api")
    (project / "a.txt").write_text("two\n")
    work.complete("api")
    (project / "a.txt").write_text("a person's\n")

    with pytest.raises(NotAllowed, match=r"a.txt \(changed since\)"):
        rewind(app, work.ids["api"])

    assert (project / "a.txt").read_text() == "a person's\n"


def test_files_that_reset_dependents_changed_go_back_with_them(app: Application, project: Path) -> None:
    work = SharedWork(app, "api", "ui", depends=True)
    for name in ("api", "ui"):
        work.claim(name)
        (project / "a.txt").write_text(f"{name}\n")
        work.complete(name)

    with pytest.raises(NotAllowed, match=r"a.txt \(changed since\)"):
        rewind(app, work.ids["api"], dependents="keep")
    rewind(app, work.ids["api"], dependents="reset")

    assert (project / "a.txt").read_text() == "one\n"


def test_a_second_rewind_goes_back_to_the_same_start(app: Application, project: Path) -> None:
    work = SharedWork(app, "api")
    for text in ("two\n", "three\n"):
        work.claim("api")
        (project / "a.txt").write_text(text)
        work.complete("api")
        rewind(app, work.ids["api"])
        assert (project / "a.txt").read_text() == "one\n"
