"""What callers with the scope `work` can reach through workspaces: only trees of the workflow's repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from access.make import call_tool_as
from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.files.repositories import is_tree_of
from workspaces.make import commit, create_plan, create_repository, run_git

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another repository of the same user, with a secret."""
    folder = create_repository(tmp_path / "elsewhere" / "private")
    commit(folder, secret_txt="before\n")
    return folder


def refuse_workspace(app: Application, **arguments: Any) -> DeepworkError:
    id, _ = create_plan(app)
    with pytest.raises(DeepworkError) as refused:
        call_tool_as(app, "alice", "workspace_create", scope="work", workflow_id=id, branch="x", **arguments)
    assert call_tool(app, "workspace_list", workflow_id=id)["workspaces"] == []
    return refused.value


@pytest.mark.parametrize("path", ["../.ssh", "../project-x", "/tmp/x"])
def test_the_scope_work_creates_trees_only_in_the_project(app: Application, tmp_path: Path, path: str):
    error = refuse_workspace(app, path=path, create=True)

    assert error.code is Code.PATH_OUTSIDE_PROJECT


def test_the_scope_work_begins_trees_only_with_local_branches(app: Application, tmp_path: Path, other: Path):
    run_git(tmp_path, "fetch", "-q", str(other), "main:refs/remotes/origin/keys")

    error = refuse_workspace(app, path=".deepwork/worktrees/x", base_branch="origin/keys", create=True)

    assert error.code is Code.UNAUTHORIZED
    assert not (tmp_path / ".deepwork/worktrees/x").exists()


def test_the_scope_work_begins_a_tree_with_a_local_branch(app: Application, tmp_path: Path):
    run_git(tmp_path, "branch", "topic")
    id, _ = create_plan(app)

    made = call_tool_as(
        app, "alice", "workspace_create", scope="work", workflow_id=id, branch="x", base_branch="topic",
        path=".deepwork/worktrees/x", create=True,
    )  # fmt: skip

    assert (tmp_path / ".deepwork/worktrees/x/a.txt").exists()
    assert made["path"] == str(tmp_path / ".deepwork/worktrees/x")


def test_the_scope_work_registers_no_tree_of_another_repository(app: Application, other: Path):
    error = refuse_workspace(app, path=str(other))

    assert error.code is Code.UNAUTHORIZED


def test_a_registered_tree_of_another_repository_is_only_a_label(app: Application, other: Path):
    id, (task,) = create_plan(app, "one")
    call_tool(app, "workspace_create", workflow_id=id, path=str(other), branch="x", task_ids=[task])
    agent = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
    call_tool(app, "task_claim", task_id=task, agent_id=agent)
    call_tool(app, "task_update_status", id=task, status="in_progress", agent_id=agent)
    (other / "secret.txt").write_text("after\n")

    call_tool(app, "task_update_status", id=task, status="completed", outcome="Done.", agent_id=agent)

    assert call_tool(app, "get_task_diff", task_id=task)["files"] == []


def test_linked_worktrees_belong_to_their_repository(tmp_path: Path):
    main = create_repository(tmp_path / "main")
    run_git(main, "worktree", "add", "-q", str(tmp_path / "linked"))

    assert is_tree_of(main, tmp_path / "linked")
    assert is_tree_of(tmp_path / "linked", main)
    assert is_tree_of(main, main)


def test_worktrees_of_a_bare_repository_belong_together(tmp_path: Path):
    main = create_repository(tmp_path / "main")
    run_git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    run_git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "one"), "main")
    run_git(tmp_path / "bare.git", "worktree", "add", "-q", "-b", "two", str(tmp_path / "two"))

    assert is_tree_of(tmp_path / "one", tmp_path / "two")
    assert not is_tree_of(main, tmp_path / "two")


def test_a_forged_git_file_makes_no_tree_of_the_repository(tmp_path: Path):
    main = create_repository(tmp_path / "main")
    run_git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_bytes((tmp_path / "linked" / ".git").read_bytes())

    assert not is_tree_of(main, forged)
    assert not is_tree_of(main, tmp_path)
