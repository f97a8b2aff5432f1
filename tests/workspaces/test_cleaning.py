"""What work that is over left, on every database and with real git; a person removes it when it is merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from workspaces.make import commit, create_plan, run_git

pytestmark = pytest.mark.usefixtures("project")


def call(app: Application, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = invoke(
        app.database, app.operations[name], {"older_than_days": 1}, Call("human:ada", name)
    )
    return answer


def make_tree(app: Application, plan: str, branch: str) -> Path:
    path = f".deepwork/worktrees/{branch}"
    made = call_tool(app, "workspace_create", workflow_id=plan, path=path, branch=branch, create=True)
    return Path(made["path"])


def name(found: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(each["kind"], Path(each["name"]).name) for each in found}


def test_what_was_abandoned_is_removed_if_it_is_merged_and_old(
    app: Application, tmp_path: Path, clock: Clock
):
    plan, _ = create_plan(app)
    for branch in ("merged", "unmerged", "dirty"):
        tree = make_tree(app, plan, branch)
        if branch != "dirty":
            commit(tree, **{f"{branch}_txt": "work\n"})
    (tmp_path / ".deepwork/worktrees/dirty/new.txt").write_text("not committed\n")
    run_git(tmp_path, "merge", "-q", "merged")
    open_plan, _ = create_plan(app)
    make_tree(app, open_plan, "open")
    call_tool(app, "workflow_update_status", id=plan, status="abandoned", reason="Enough.")

    young = call(app, "list_leftovers")
    clock.advance(seconds=2 * 24 * 3600)
    shown = call(app, "list_leftovers")
    removed = call(app, "remove_leftovers")
    left = call(app, "list_leftovers")

    assert (young["removable"], young["kept"]) == ([], [])
    assert name(shown["removable"]) == {
        ("worktree", "merged"),
        ("branch", "merged"),
        ("worktree", "unmerged"),
    }
    assert name(shown["kept"]) == {("branch", "unmerged"), ("worktree", "dirty")}
    assert (removed["removable"], removed["is_removed"]) == (shown["removable"], True)
    assert (left["removable"], left["kept"]) == ([], shown["kept"])
    branches = run_git(tmp_path, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    assert branches == ["dirty", "main", "open", "unmerged"]


def test_what_was_rescued_goes_when_it_is_merged(
    app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make_tree(app, create_plan(app)[0], "open")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
    merged = commit(tmp_path, merged_txt="work\n")
    run_git(tmp_path, "checkout", "-q", "-b", "aside")
    only = commit(tmp_path, only_txt="work\n")
    run_git(tmp_path, "checkout", "-q", "main")
    run_git(tmp_path, "branch", "-q", "-D", "aside")
    for place in ("refs/heads/deepwork/rescue", "refs/deepwork/rewinds"):
        run_git(tmp_path, "update-ref", f"{place}/merged", merged)
        run_git(tmp_path, "update-ref", f"{place}/only", only)

    removed = call(app, "remove_leftovers")

    assert name(removed["removable"]) == {("branch", "merged"), ("ref", "merged")}
    assert name(removed["kept"]) == {("branch", "only"), ("ref", "only")}
    left = run_git(tmp_path, "for-each-ref", "--format=%(refname)", "refs/heads/deepwork", "refs/deepwork")
    assert left.split() == ["refs/deepwork/rewinds/only", "refs/heads/deepwork/rescue/only"]


def test_the_workspaces_of_all_plans_are_listed_the_newest_first(app: Application):
    made = []
    for branch in ("one", "two"):
        plan, _ = create_plan(app)
        make_tree(app, plan, branch)
        made.append(plan)

    found = invoke(app.database, app.operations["list_workspaces"], {}, Call("human:ada", "list_workspaces"))

    assert [each["workflow_id"] for each in found["workspaces"]] == made[::-1]
    assert found["total"] == 2
