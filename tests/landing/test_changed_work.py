"""What lands is what was completed: work that changed afterwards has to be completed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.errors import DeepworkError
from landing.make import PERSON, LandingProject
from workspaces.make import commit, run_git

Act = Callable[[LandingProject, Path, str], object]


def _edit(_: LandingProject, tree: Path, __: str) -> None:
    (tree / "b.txt").write_text("later\n")


def _add(_: LandingProject, tree: Path, __: str) -> None:
    (tree / "later.txt").write_text("later\n")


def _commit(_: LandingProject, tree: Path, __: str) -> None:
    commit(tree, "later", b_txt="later\n")


def _amend(_: LandingProject, tree: Path, __: str) -> None:
    _edit(_, tree, __)
    run_git(tree, "commit", "-qa", "--amend", "-m", "parse")


def _reword(_: LandingProject, tree: Path, __: str) -> None:
    run_git(tree, "commit", "-q", "--amend", "-m", "another message")


def _move_branch(project: LandingProject, _: Path, branch: str) -> None:
    other = project.commit_on("desk", later_txt="later\n")
    project.git("update-ref", f"refs/heads/{branch}", other)


def _reset(_: LandingProject, tree: Path, __: str) -> None:
    run_git(tree, "reset", "-q", "--hard", "HEAD~1")
    commit(tree, "parse", b_txt="later\n")


def _merge_without_the_other_side(project: LandingProject, tree: Path, _: str) -> None:
    """Keep the files, but let the history say that what others landed was taken back."""
    project.commit_on("main", others_txt="by others\n")
    run_git(tree, "merge", "-q", "-s", "ours", "-m", "parse", "main")


ACTS: dict[str, Act] = {
    "edit": _edit,
    "add": _add,
    "commit": _commit,
    "amend": _amend,
    "reword": _reword,
    "move the branch": _move_branch,
    "reset": _reset,
    "merge without the other side": _merge_without_the_other_side,
}


def test_work_that_changed_after_its_completion_does_not_land(project: LandingProject) -> None:
    plan = project.plan_done({act: {"b_txt": "b\n"} for act in ACTS})
    for name, act in ACTS.items():
        act(project, Path(plan.claims[name]["workspace_path"]), plan.get_branch(name))
    main = project.git("rev-parse", "main")

    answers = [project.land(workflow_id=plan.id), project.land(workflow_id=plan.id, commit=True)]

    assert [answer["exit_code"] for answer in answers] == [1, 1]
    assert [answer["landings"] for answer in answers] == [[], []]
    refused = [{each["name"] for each in answer["skipped"] if each["refused"]} for answer in answers]
    assert refused == [set(ACTS), set(ACTS)]
    assert all(f"deepwork tasks retry {each['task_id']}" in each["reason"] for each in answers[1]["skipped"])
    assert project.git("rev-parse", "main") == main
    assert "Deepwork-Task" not in project.git(
        "log", "--branches", "--format=%(trailers:only)", "--not", "main"
    )


def test_changed_work_lands_after_it_was_completed_again(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    _commit(project, Path(plan.claims["parse"]["workspace_path"]), "")
    with pytest.raises(DeepworkError, match="deepwork tasks retry"):
        project.land(task_id=plan.ids["parse"])

    project.call("task_update_status", caller=PERSON, id=plan.ids["parse"], status="pending")
    plan.claim("parse")
    plan.complete("parse")
    answer = project.land(task_id=plan.ids["parse"])

    assert (answer["exit_code"], project.read("b.txt")) == (0, "later")


def test_what_was_uncommitted_may_be_committed_later_by_anybody(project: LandingProject) -> None:
    plan = project.plan({"parse": None})
    tree = Path(plan.claim("parse")["workspace_path"])
    (tree / "b.txt").write_text("b\n")
    plan.complete("parse")
    commit(tree, "by a person")

    answer = project.land(task_id=plan.ids["parse"])

    assert (answer["exit_code"], project.read("b.txt")) == (0, "b")


def test_work_whose_completion_is_not_known_has_to_be_completed_again(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    with project.app.database.transaction() as tx:  # as an older version left it
        tx.update("plan_tasks", plan.ids["parse"], {"completed_tree": None, "completed_head": None})

    with pytest.raises(DeepworkError, match="deepwork tasks retry"):
        project.land(task_id=plan.ids["parse"])
