"""The tree of a task begins with the branches on which its dependencies were done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from workspaces.make import Plan, list_workspaces, run_git

pytestmark = pytest.mark.usefixtures("project")


def list_files(claimed: dict[str, Any]) -> list[str]:
    return sorted(path.name for path in Path(claimed["workspace_path"]).glob("*.txt"))


def test_a_tree_begins_at_the_branch_of_its_only_dependency(app: Application, tmp_path: Path):
    plan = Plan(app, {"Form": [], "Test": ["Form"]})
    plan.do("Form", b_txt="form\n")

    claimed = plan.claim("Test")

    assert list_files(claimed) == ["a.txt", "b.txt"]
    assert (claimed["base"], claimed["builds_on"]) == ("main", [plan.get_branch("Form")])
    assert "warning" not in claimed
    tip = run_git(tmp_path, "rev-parse", plan.get_branch("Form"))
    assert run_git(Path(claimed["workspace_path"]), "rev-parse", "HEAD") == tip
    assert list_workspaces(app, plan.id)[1]["base_commit"] == tip
    assert run_git(tmp_path, "status", "--porcelain") == ""
    assert run_git(tmp_path, "branch", "--show-current") == "main"


def test_the_branches_of_several_dependencies_are_merged(app: Application):
    plan = Plan(app, {"one": [], "two": [], "three": [], "All": ["one", "two", "three"]})
    for name in ("one", "two", "three"):
        plan.do(name, **{f"{name}_txt": f"{name}\n"})

    claimed = plan.claim("All")

    assert list_files(claimed) == ["a.txt", "one.txt", "three.txt", "two.txt"]
    assert claimed["builds_on"] == [plan.get_branch(name) for name in ("one", "two", "three")]
    tree = Path(claimed["workspace_path"])
    assert run_git(tree, "status", "--porcelain") == ""
    assert len(run_git(tree, "rev-parse", "HEAD^@").split()) == 3


def test_a_branch_contains_the_dependencies_of_its_dependencies(app: Application):
    plan = Plan(app, {"one": [], "two": ["one"], "three": ["two"]})
    plan.do("one", one_txt="1\n")
    plan.do("two", two_txt="2\n")

    claimed = plan.claim("three")

    assert list_files(claimed) == ["a.txt", "one.txt", "two.txt"]
    assert claimed["builds_on"] == [plan.get_branch("two")]


def test_a_claim_reports_a_conflict_and_its_tree_has_the_branches_without_one(app: Application):
    plan = Plan(app, {"one": [], "two": [], "three": [], "All": ["one", "two", "three"]})
    plan.do("one", a_txt="ours\n")
    plan.do("two", a_txt="theirs\n")
    plan.do("three", b_txt="elsewhere\n")

    claimed = plan.claim("All")

    one, two, three = map(plan.get_branch, ("one", "two", "three"))
    path = claimed["workspace_path"]
    assert (claimed["builds_on"], claimed["unmerged"]) == ([one, three], [two])
    assert claimed["warning"] == (
        f"{two} conflicts with {one} in a.txt. The tree is clean and does not contain {two}. Before you start,"
        f" run `git merge {two}` in {path}, resolve the conflicts and commit."
    )
    assert run_git(Path(path), "status", "--porcelain") == ""
    assert (Path(path) / "a.txt").read_text() == "ours\n"
    assert (Path(path) / "b.txt").read_text() == "elsewhere\n"


def test_claiming_again_names_the_same_branches(app: Application):
    plan = Plan(app, {"one": [], "two": [], "All": ["one", "two"]})
    plan.do("one", a_txt="ours\n")
    plan.do("two", a_txt="theirs\n")
    first = plan.claim("All")

    again = call_tool(
        app, "task_claim", task_id=plan.ids["All"], agent_id=plan.claims["All"]["agent_id"], caller="All"
    )

    keys = ("branch", "base", "builds_on", "unmerged")
    assert [again[key] for key in keys] == [first[key] for key in keys]


def test_the_next_agent_that_claims_gets_the_warning_of_a_conflict_too(app: Application):
    plan = Plan(app, {"one": [], "two": [], "All": ["one", "two"]})
    plan.do("one", a_txt="ours\n")
    plan.do("two", a_txt="theirs\n")
    plan.claim("All")
    release(app, plan, "All")

    claimed = plan.claim("All")

    two, path = plan.get_branch("two"), claimed["workspace_path"]
    assert claimed["unmerged"] == [two]
    assert claimed["warning"] == (
        f"{two} conflicts with {claimed['branch']} in a.txt. The tree does not contain {two}. Before you start,"
        f" run `git merge {two}` in {path}, resolve the conflicts and commit."
    )


def test_a_branch_that_was_merged_since_is_no_longer_unmerged(app: Application):
    plan = Plan(app, {"one": [], "two": [], "All": ["one", "two"]})
    plan.do("one", a_txt="ours\n")
    plan.do("two", a_txt="theirs\n")
    tree = Path(plan.claim("All")["workspace_path"])
    run_git(tree, "merge", "-q", "-X", "ours", plan.get_branch("two"))

    context = call_tool(app, "task_load_context", task_id=plan.ids["All"])
    listed = list_workspaces(app, plan.id)[2]
    release(app, plan, "All")
    claimed = plan.claim("All")

    for shown in (context["current_task"]["workspace"], listed, claimed):
        assert shown["builds_on"] == [plan.get_branch("one"), plan.get_branch("two")]
        assert "unmerged" not in shown
    assert "warning" not in claimed


def release(app: Application, plan: Plan, name: str) -> None:
    call_tool(
        app, "task_release", task_id=plan.ids[name], agent_id=plan.claims[name]["agent_id"], caller=name
    )


def test_a_dependency_without_own_commits_needs_nothing(app: Application, tmp_path: Path):
    plan = Plan(app, {"one": [], "two": ["one"]})
    plan.do("one")

    claimed = plan.claim("two")

    assert "builds_on" not in claimed
    tree = Path(claimed["workspace_path"])
    assert run_git(tree, "rev-parse", "HEAD") == run_git(tmp_path, "rev-parse", "main")


def test_behind_a_skipped_task_are_the_branches_that_it_would_have_built_on(app: Application):
    plan = Plan(app, {"one": [], "two": ["one"], "three": ["two"]})
    plan.do("one", one_txt="1\n")
    call_tool(app, "task_update_status", id=plan.ids["two"], status="skipped")

    claimed = plan.claim("three")

    assert list_files(claimed) == ["a.txt", "one.txt"]
    assert claimed["builds_on"] == [plan.get_branch("one")]


def test_work_that_is_merged_into_the_base_is_included_beside_a_branch(app: Application, tmp_path: Path):
    plan = Plan(app, {"one": [], "two": [], "All": ["one", "two"]})
    one = plan.do("one", one_txt="1\n")
    plan.do("two", two_txt="2\n")
    run_git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge", plan.get_branch("one"))
    call_tool(app, "workspace_update", id=one["workspace_id"], status="merged")

    claimed = plan.claim("All")

    assert list_files(claimed) == ["a.txt", "one.txt", "two.txt"]
    assert claimed["builds_on"] == [plan.get_branch("two")]


def test_the_work_of_an_abandoned_workspace_is_not_included_and_named(app: Application):
    plan = Plan(app, {"one": [], "two": ["one"]})
    one = plan.do("one", one_txt="1\n")
    call_tool(app, "workspace_update", id=one["workspace_id"], status="abandoned")

    claimed = plan.claim("two")

    assert list_files(claimed) == ["a.txt"]
    assert "The work of task 'one' is not included" in claimed["warning"]
    assert plan.get_branch("one") in claimed["warning"]


def test_a_dependent_of_parallel_work_gets_a_tree_even_if_tasks_now_run_one_by_one(app: Application):
    plan = Plan(app, {"one": [], "two": ["one"]})
    plan.do("one", one_txt="1\n")
    call_tool(app, "workflow_set_parallelism", id=plan.id, max_parallel_tasks=1)

    assert list_files(plan.claim("two")) == ["a.txt", "one.txt"]


def test_tasks_that_wait_by_sequence_build_on_the_level_before(app: Application):
    plan = Plan(app, {"one": None, "two": None, "All": None}, sequences={"All": 2})
    plan.do("one", one_txt="1\n")
    plan.do("two", two_txt="2\n")

    assert list_files(plan.claim("All")) == ["a.txt", "one.txt", "two.txt"]
