"""A claimed task gets a working tree of its own when others may run beside it."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from application import LEASE_MS, Clock, call_tool, list_event_types, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.config import load_settings
from deepwork.work.workspaces.models import build_slug
from workspaces.make import commit, create_plan, create_repository, list_workspaces, run_git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_repository(tmp_path)


def register_agent(app: Application, name: str) -> str:
    id: str = call_tool(app, "agent_register", name=name, runtime="codex", caller=name)["id"]
    return id


def claim(app: Application, task_id: str, agent_id: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = call_tool(app, "task_claim", task_id=task_id, agent_id=agent_id, **more)
    assert answer["success"], answer
    return answer


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Texte für Gäste aus Köln", "texte-fur-gaste-aus-koln"),
        ("Straße & łódź", "strasse-lodz"),
        ("日本語の名前", "日本語の名前"),
        ("../../x.lock \u202e", "x-lock"),
    ],
)
def test_branches_keep_the_letters_of_a_name(name: str, slug: str):
    assert build_slug(name, "tk_abc123def456") == f"{slug}-abc123"
    assert build_slug(unicodedata.normalize("NFD", name), "tk_abc123def456") == f"{slug}-abc123"


@pytest.mark.differs
@pytest.mark.usefixtures("project")
def test_every_concurrent_task_gets_a_worktree_and_a_branch(app: Application, tmp_path: Path):
    id, (one, two) = create_plan(app, "Write the form", "Test it", auto_create_workspaces=True)

    first = claim(app, one, register_agent(app, "Ada"))
    second = claim(app, two, register_agent(app, "Bob"))

    assert Path(first["workspace_path"]).is_dir()
    tree = Path(second["workspace_path"])
    assert tree.parent == tmp_path / ".deepwork/worktrees"
    assert run_git(tree, "branch", "--show-current") == second["branch"]
    assert second["branch"].startswith("deepwork/test-it-")
    assert (second["base"], "builds_on" in second, "warning" in second) == ("main", False, False)
    shown = list_workspaces(app, id)[1]
    assert (shown["id"], shown["task_ids"], shown["is_made"]) == (second["workspace_id"], [two], True)
    assert shown["base_commit"] == run_git(tmp_path, "rev-parse", "main")
    assert call_tool(app, "task_get", id=two)["workspace_id"] == shown["id"]
    assert "workspace:created" in list_event_types(app)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("key", [None, "k"])
def test_claiming_again_returns_the_same_worktree_and_recreates_it_if_missing(
    app: Application, key: str | None
):
    id, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    ada, bob = register_agent(app, "Ada"), register_agent(app, "Bob")
    claim(app, one, ada)
    first = claim(app, two, bob, key=key)
    shutil.rmtree(first["workspace_path"])

    again = claim(app, two, bob)

    assert again["workspace_path"] == first["workspace_path"]
    assert (Path(again["workspace_path"]) / "a.txt").exists()
    assert len(list_workspaces(app, id)) == 2


@pytest.mark.usefixtures("project")
def test_the_next_holder_of_a_task_continues_in_its_worktree(app: Application, clock: Clock):
    _, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    ada = register_agent(app, "Ada")
    claim(app, one, ada)
    first = claim(app, two, register_agent(app, "Bob"))
    commit(Path(first["workspace_path"]), a_txt="half\n")
    clock.advance(seconds=LEASE_MS / 1000 + 1)

    taken_over = claim(app, two, register_agent(app, "Cyd"))

    assert taken_over["workspace_path"] == first["workspace_path"]
    assert (Path(taken_over["workspace_path"]) / "a.txt").read_text() == "half\n"


@pytest.mark.usefixtures("project")
def test_tasks_that_run_one_after_another_are_done_in_the_project_itself(app: Application):
    id, (one, _) = create_plan(app, "one", "two", auto_create_workspaces=True, max_parallel_tasks=1)

    assert "workspace_id" not in claim(app, one, register_agent(app, "Ada"))
    assert list_workspaces(app, id) == []


@pytest.mark.usefixtures("project")
def test_without_auto_create_workspaces_no_worktree_is_created(app: Application):
    id, (one, two) = create_plan(app, "one", "two")

    claim(app, one, register_agent(app, "Ada"))

    assert "workspace_id" not in claim(app, two, register_agent(app, "Bob"))
    assert list_workspaces(app, id) == []


@pytest.mark.usefixtures("project")
def test_claiming_a_task_returns_its_assigned_workspace(app: Application, tmp_path: Path):
    id, (one,) = create_plan(app, "one")
    workspace = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="b", task_ids=[one])[
        "id"
    ]

    claimed = claim(app, one, register_agent(app, "Ada"))

    assert (claimed["workspace_id"], claimed["workspace_path"]) == (workspace, str(tmp_path / "tree"))
    assert claimed["branch"] == "b"


def test_without_git_the_claim_succeeds_with_a_warning(app: Application, tmp_path: Path):
    _, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    claim(app, one, register_agent(app, "Ada"))

    claimed = claim(app, two, register_agent(app, "Bob"))

    assert claimed["warning"] == f"No worktree was created: {tmp_path} is not a git repository here."


@pytest.mark.usefixtures("project")
def test_a_worktree_that_cannot_be_created_is_a_warning_of_the_claim(app: Application, tmp_path: Path):
    id, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    (tmp_path / ".deepwork").mkdir(exist_ok=True)
    (tmp_path / ".deepwork/worktrees").write_text("in the way")
    claim(app, one, register_agent(app, "Ada"))

    claimed = claim(app, two, register_agent(app, "Bob"))

    assert claimed["warning"].startswith("No worktree was created:")
    assert claimed["warning"].endswith("Work in the project itself.")
    assert list_workspaces(app, id) == []
    assert "workspace_id" not in call_tool(app, "task_get", id=two)
    assert claimed.keys().isdisjoint({"workspace_id", "workspace_path", "branch"})


@pytest.mark.usefixtures("project")
def test_a_claim_without_a_worktree_gets_one_when_repeated_under_its_key(app: Application, tmp_path: Path):
    _, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    (tmp_path / ".deepwork").mkdir(exist_ok=True)
    obstacle = tmp_path / ".deepwork/worktrees"
    obstacle.write_text("in the way")
    claim(app, one, register_agent(app, "Ada"))
    bob = register_agent(app, "Bob")
    first = claim(app, two, bob, key="k", caller="Bob")
    obstacle.unlink()

    again = claim(app, two, bob, key="k", caller="Bob")

    assert "workspace_path" not in first
    assert "warning" not in again
    assert (Path(again["workspace_path"]) / "a.txt").exists()
    assert claim(app, two, bob, key="k", caller="Bob") == again


@pytest.mark.usefixtures("project")
def test_after_its_workspace_was_abandoned_a_task_gets_a_new_one(app: Application):
    _, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    bob = register_agent(app, "Bob")
    claim(app, one, register_agent(app, "Ada"))
    first = claim(app, two, bob)
    call_tool(app, "workspace_update", id=first["workspace_id"], status="abandoned")
    call_tool(app, "task_release", task_id=two, agent_id=bob)

    again = claim(app, two, bob)

    assert again["workspace_id"] != first["workspace_id"]
    assert (Path(again["workspace_path"]) / "a.txt").exists()


def test_worktrees_of_a_project_in_a_subfolder_find_its_repository_root(tmp_path: Path, location: str):
    mono = create_repository(tmp_path / "mono")
    (mono / "svc").mkdir()
    (mono / "svc/x.txt").write_text("x\n")
    commit(mono)
    app = make_app(mono / "svc", location)
    _, (one, two) = create_plan(app, "one", "two", auto_create_workspaces=True)
    claim(app, one, register_agent(app, "Ada"))
    tree = Path(claim(app, two, register_agent(app, "Bob"))["workspace_path"])

    assert load_settings(tree / "svc", environment={}).repository_root == mono / "svc"
    assert app._attribution.snapshots.resolve_tree(str(tree), mono / "svc") == tree
    assert run_git(mono, "status", "--porcelain") == ""
    app.close()
