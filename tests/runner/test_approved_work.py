"""What a person approves is what they were shown: agents that want more than that to pass do not get it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.make import create_client, read
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import ask
from deepwork.gates.approvals.store import ApprovalStore
from runner.endings import finish, plan, write
from runner.run_project import RunProject
from runner.test_run_command import run
from runner.test_seen_work import find_approval
from workspaces.make import run_git

MakeProject = Callable[..., RunProject]


def find_tree(project: RunProject) -> Path:
    with project.app.database.reading() as tx:
        return Path(tx.fetch_value("SELECT path FROM workspaces"))


def plant(project: RunProject) -> None:
    """Write a file as a process does that an agent left behind."""
    (find_tree(project) / "evil.txt").write_text("unseen\n")


def run_once(project: RunProject) -> str:
    """Let the agents work until the task waits; return the approval that is asked."""
    run(project, "run", "Release", "--agent", "claude", "--json")
    return find_approval(project)


def look(project: RunProject, approval: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = read(create_client(project.app), f"/approvals/{approval}/evidence", **query)
    return found


def get_status(project: RunProject) -> str:
    [task] = project.list_tasks()
    return str(task["status"])


def check_asks_again(project: RunProject, approval: str) -> dict[str, Any]:
    """Approve what does not count any more: nothing passes, and what there is now is asked about."""
    assert run(project, "approvals", "approve", approval).code == 1
    assert get_status(project) != "completed"
    again = find_approval(project)
    assert again != approval
    with project.app.database.reading() as tx:
        work: dict[str, Any] = ApprovalStore(tx).get(again).shown["work"]
    seen = look(project, again, whole=True)
    assert ({each["path"] for each in seen["files"]}, seen.get("warning")) == (set(work["files"]), None)
    return work


@pytest.fixture
def waiting(make_project: MakeProject) -> tuple[RunProject, str]:
    """A task that waits for the approval of its work, and that approval."""
    project = make_project()
    plan(project, "Work", finish("first"), finish("second"), approval=["after"])
    return project, run_once(project)


def test_an_approval_is_about_what_all_attempts_did(make_project: MakeProject):
    project = make_project()
    gives_up = [write("first"), {"do": "exit", "text": "I give up.", "is_error": True}]
    plan(project, "Work", gives_up, finish("second"), max_attempts=2, approval=["after"])
    approval = run_once(project)
    (find_tree(project) / "first.txt").write_text("changed in a file of the first attempt\n")

    assert "first.txt" in look(project, approval)["warning"]
    assert set(check_asks_again(project, approval)["files"]) == {"first.txt", "second.txt"}


def test_a_file_that_came_after_the_question_is_not_approved_with_it(waiting: tuple[RunProject, str]):
    project, approval = waiting
    plant(project)

    assert "evil.txt" in look(project, approval)["warning"]
    assert "evil.txt" in check_asks_again(project, approval)["files"]


def test_what_was_changed_between_a_refusal_and_the_next_attempt_is_shown(waiting: tuple[RunProject, str]):
    project, refused = waiting
    silent = run(project, "approvals", "refuse", refused)
    assert (silent.code, f"approvals refuse {refused} --comment" in silent.err) == (1, True)
    assert run(project, "approvals", "refuse", refused, "--comment", "Not so.").code == 0
    plant(project)
    found = look(project, run_once(project))

    assert found["compared_with"] == refused
    assert [each["path"] for each in found["files"]] == ["evil.txt", "second.txt"]


def test_the_same_files_on_another_base_are_asked_about_again(waiting: tuple[RunProject, str]):
    project, approval = waiting
    later = ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "what the next attempt begins with")
    commit = run_git(project.folder, *later).strip()
    with project.app.database.transaction() as tx:
        tx.execute("UPDATE workspaces SET base_commit = :commit", commit=commit)

    assert "another commit" in look(project, approval)["warning"]
    assert check_asks_again(project, approval)["base"] == commit


def test_what_an_earlier_version_asked_is_asked_again(waiting: tuple[RunProject, str]):
    project, current = waiting
    with project.app.database.reading() as tx:
        shown = dict(ApprovalStore(tx).get(current).shown)
    old = {key: value for key, value in shown["work"].items() if key != "base"}
    request = ApprovalRequest(ApprovalKind.TASK, project.ids["Work"], project.plan, {**shown, "work": old})
    approval = ask(project.app.database, request).id

    assert "earlier version" in look(project, approval)["warning"]
    assert check_asks_again(project, approval) == shown["work"]


def test_approved_work_that_nobody_touched_passes(waiting: tuple[RunProject, str]):
    project, approval = waiting

    assert look(project, approval).get("warning") is None
    assert run(project, "approvals", "approve", approval).code == 0
    assert get_status(project) == "completed"
