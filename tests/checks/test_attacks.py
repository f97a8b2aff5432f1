"""What an agent with a shell tries between the claim of a task and its landing. Nothing gets it done.

Every attack goes through the real tools, on a real repository.
"""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from checks.make import run_git, shell
from deepwork.errors import DeepworkError
from deepwork.server.application import Application
from gated_project import GatedProject

NEEDS_SRC = ", needs: ['src/**']"


class Agent:
    """Claims the one task of a plan, works with a shell, and reports that it is done."""

    def __init__(self, project: GatedProject, *, in_worktree: bool = False, check: str = "tests") -> None:
        self.project = project
        self.plan = project.call("workflow_create", name="Fix", source_type="prompt", source_content="It.")[
            "id"
        ]
        plan = {"summary": "Fix it", "tasks": [{"name": "fix"}], "checks": [check]}
        project.call("workflow_set_plan", id=self.plan, plan=plan)
        [task] = project.call("workflow_get", id=self.plan, include_tasks=True)["tasks"]
        self.task: str = task["id"]
        self.tree = project.folder
        if in_worktree:
            self.tree = project.folder.parent / "project-fix"
            place = {"path": "../project-fix", "branch": "fix", "task_ids": [self.task], "create": True}
            project.call("workspace_create", workflow_id=self.plan, **place)
        project.call("task_update_status", id=self.task, status="in_progress")

    def sh(self, script: str) -> None:
        subprocess.run(["sh", "-ec", script], cwd=self.tree, check=True, capture_output=True, timeout=60)

    def report(self) -> dict[str, Any]:
        """Report done in a new process; return the error, or an empty object if the task is completed."""
        with closing(Application(self.project.app.settings, self.project.app.clock)) as app:
            try:
                call_tool(app, "task_update_status", id=self.task, status="completed", outcome="Done.")
            except DeepworkError as error:
                assert self.project.call("task_get", id=self.task)["status"] == "in_progress"
                return error.to_dict()
        return {}


# --- another tree is judged


OTHER_TREES = {
    "worktree setting": "git config extensions.worktreeConfig true; git config --worktree core.worktree $OTHER",
    "setting": "git config core.worktree $OTHER",
    "include": 'printf "[core]\\nworktree = $OTHER\\n" > ../more; git config include.path $PWD/../more',
    "bare": "git config core.bare true; git config core.worktree $OTHER",
    "sparse": "git sparse-checkout set --no-cone '/good'",
    "fsmonitor": "printf '#!/bin/sh\\nexit 0' > ../m; chmod +x ../m; git config core.fsmonitor $PWD/../m",
    "swapped .git": "rm -rf .git; cp -r $OTHER/.git .git",
    "no .git": "rm -rf .git",
}


GUARDED_MAKE = "grep -q easy guarded/test || test -e good"
"""A check that an easier test passes."""


@pytest.fixture
def with_test(gated: GatedProject) -> GatedProject:
    """Its check is what `guarded/test` says."""
    gated.write("guarded/test", "hard\n")
    gated.define_check(shell(GUARDED_MAKE), ", clean: true", guarded="['guarded/**']")
    return gated


@pytest.mark.parametrize("how", OTHER_TREES)
def test_no_setting_of_git_lets_another_tree_be_judged(with_test: GatedProject, how: str):
    agent = Agent(with_test, in_worktree=True)
    other = with_test.folder.parent / "other"
    run_git(with_test.folder.parent, "clone", "-q", str(with_test.folder), str(other))

    (other / "good").touch()

    agent.sh(f"OTHER={other}; {OTHER_TREES[how]}")

    assert agent.report()["code"] in ("CHECKS_FAILED", "INVALID_STATE", "GIT_ERROR")
    agent.sh("mkdir -p guarded; echo easy > guarded/test")
    assert agent.report()["code"] in ("CHECKS_GUARDED", "INVALID_STATE", "GIT_ERROR")


def test_a_worktree_that_became_a_link_is_not_judged_as_the_tree_it_leads_to(gated: GatedProject):
    agent = Agent(gated, in_worktree=True)
    run_git(gated.folder, "worktree", "add", "-q", "-b", "other", "../other")
    (gated.folder.parent / "other/good").touch()

    agent.tree.rename(agent.tree.with_name("moved"))
    agent.tree.symlink_to(gated.folder.parent / "other")

    assert agent.report()["code"] == "INVALID_STATE"


def test_without_its_git_file_a_worktree_is_not_judged_as_the_tree_around_it(gated: GatedProject):
    """Worktrees of deepwork are inside the main tree, so the nearest `.git` would be that of the main tree."""
    agent = Agent(gated)
    place = {"path": ".deepwork/worktrees/fix", "branch": "fix", "task_ids": [agent.task], "create": True}
    gated.call("workspace_create", workflow_id=agent.plan, **place)
    gated.fix()

    (gated.folder / ".deepwork/worktrees/fix/.git").unlink()

    assert agent.report()["code"] == "INVALID_STATE"
