"""`deepwork clean` removes what landed and abandoned work left, and nothing that is not merged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from application import call_tool
from runner.endings import finish, write
from runner.person_checkout import take_fingerprint
from runner.run_project import RunProject
from runner.test_run_command import run
from workspaces.make import run_git

MakeProject = Callable[..., RunProject]


def list_branches(project: RunProject) -> set[str]:
    found = run_git(project.folder, "for-each-ref", "--format=%(refname:short)", "refs/heads/deepwork")
    return set(found.split())


def list_trees(project: RunProject) -> list[Path]:
    folder = project.folder / ".deepwork" / "worktrees"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def run_plan(project: RunProject) -> None:
    tasks = [{"name": "alpha"}, {"name": "beta"}]
    project.set_plan(tasks, {"alpha": [finish("alpha")], "beta": [finish("beta")]})
    assert run(project, "run", project.plan, "--agent", "claude", "--agents", "2", "--json").code == 0


def test_what_landed_and_was_merged_is_removed_after_a_dry_run(make_project: MakeProject):
    project = make_project()
    run_plan(project)
    landed = run(project, "land", project.plan, "--json")
    assert (landed.code, {row["state"] for row in landed.json["landings"]}) == (0, {"landed"})
    unmerged = run(project, "clean", "--older-than", "0", "--json").json
    run_git(project.folder, "merge", "-q", f"deepwork/integration/{project.plan}")
    project.fingerprint = take_fingerprint(project.folder)

    shown = run(project, "clean", "--older-than", "0", "--json").json
    young = run(project, "clean", "--json").json
    before = list_branches(project), list_trees(project)
    removed = run(project, "clean", "--older-than", "0", "--yes", "--json").json

    kinds = sorted(each["kind"] for each in shown["removable"])
    assert kinds == ["branch"] * 3 + ["output"] * 2 + ["worktree"] * 2
    assert {each["kind"] for each in unmerged["kept"]} == {"branch"}
    assert young["removable"] == []
    assert (len(before[0]), len(before[1])) == (3, 2)
    assert removed["removable"] == shown["removable"]
    assert (list_branches(project), list_trees(project)) == (set(), [])
    assert run(project, "clean", "--older-than", "0", "--json").json["removable"] == []
    assert (project.folder / "alpha.txt").exists()
    assert run(project, "diff", "alpha", "--json").json["patch"]


def test_what_was_abandoned_keeps_what_is_not_merged_or_not_committed(make_project: MakeProject):
    project = make_project()
    tasks: list[dict[str, Any]] = [{"name": "done"}, {"name": "begun", "sequence": 2, "max_attempts": 1}]
    gives_up = [write("begun"), {"do": "exit", "text": "I give up.", "is_error": True}]
    project.set_plan(tasks, {"done": [finish("done")], "begun": [gives_up]})
    assert run(project, "run", project.plan, "--agent", "claude", "--json").code == 3
    call_tool(project.app, "workflow_update_status", id=project.plan, status="abandoned", reason="Enough.")

    removed = run(project, "clean", "--older-than", "0", "--yes", "--json").json

    kept = {(each["kind"], Path(each["name"]).name.rpartition("-")[0]) for each in removed["kept"]}
    assert kept == {("worktree", "begun"), ("branch", "done")}
    assert [each.name.rpartition("-")[0] for each in list_trees(project)] == ["begun"]
    assert len(list_branches(project)) == 2


def test_workspaces_of_all_plans_are_listed_without_naming_one(make_project: MakeProject):
    project = make_project()
    run_plan(project)

    every = run(project, "workspaces", "list", "--json").json
    of_plan = run(project, "workspaces", "list", project.plan, "--json").json

    assert every["total"] == of_plan["total"] == 2
    assert {each["id"] for each in every["workspaces"]} == {each["id"] for each in of_plan["workspaces"]}
