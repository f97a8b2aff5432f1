"""Runs in checkouts of all sorts: without a commit, in a subfolder of a repository, with uncommitted files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.run import CommandResult, run_deepwork
from workspaces.make import run_git

PLAN = "name: Hotel\nsummary: s\ntasks:\n  - {name: Export, description: Write here.txt.}\n"
AGENT = "sh -c 'cat > prompt.txt; pwd > here.txt; echo Wrote it.'"


class Checkout:
    """A person's folder with a plan, in a repository."""

    def __init__(self, folder: Path, project: str = ".") -> None:
        self.top, self.folder = folder / "repository", folder / "repository" / project
        self.folder.mkdir(parents=True)
        self._home = folder / "home"
        self._home.mkdir()
        run_git(self.top, "init", "-q", "-b", "main")
        (self.folder / "plan.yml").write_text(PLAN)

    def commit(self) -> None:
        run_git(self.top, "add", "--all")
        run_git(self.top, "commit", "-qm", "Begin")

    def run(self, *words: str) -> CommandResult:
        variables = {**os.environ, "HOME": str(self._home), "XDG_CONFIG_HOME": str(self._home / ".config")}
        return run_deepwork(self.folder, *words, environment=variables)

    def create_plan(self) -> None:
        assert self.run("plans", "create", "--file", "plan.yml").code == 0


@pytest.mark.parametrize(
    "words",
    [("run", "Hotel", "--agent", AGENT), ("run", "Hotel", "--agent", AGENT, "--dry-run"), ("land", "Hotel")],
)
def test_a_repository_without_a_commit_is_refused_with_the_command_that_helps(
    words: tuple[str, ...], tmp_path: Path
):
    checkout = Checkout(tmp_path)
    checkout.create_plan()

    refused = checkout.run(*words)

    assert refused.code == 1
    assert "no commit yet" in refused.err
    assert "`git add --all && git commit --message Begin`" in refused.err
    assert json.loads(checkout.run("runs", "list", "--json").out)["runs"] == []


def test_a_folder_without_a_repository_is_refused_with_the_command_that_helps(tmp_path: Path):
    checkout = Checkout(tmp_path)
    (checkout.top / ".git").rename(tmp_path / "away")
    checkout.create_plan()

    refused = checkout.run("run", "Hotel", "--agent", AGENT)

    assert (refused.code, "`git init && git add" in refused.err) == (1, True)


def test_agents_of_a_subfolder_work_in_that_folder_of_their_trees(tmp_path: Path):
    checkout = Checkout(tmp_path, "apps/shop")
    checkout.commit()
    checkout.create_plan()

    preview = json.loads(checkout.run("run", "Hotel", "--agent", AGENT, "--dry-run", "--json").out)
    ran = checkout.run("run", "Hotel", "--agent", AGENT)

    assert ran.code == 0, ran
    [branch] = run_git(checkout.top, "for-each-ref", "--format=%(refname)", "refs/heads/deepwork").split()
    here = run_git(checkout.top, "show", f"{branch}:apps/shop/here.txt")
    assert here == preview["folder"] == f"{preview['tree']}/apps/shop"
    assert preview["tree"].startswith(f"{checkout.top}/.deepwork/worktrees/")
    prompt = run_git(checkout.top, "show", f"{branch}:apps/shop/prompt.txt")
    assert "Your current folder is apps/shop in a git worktree" in prompt
    assert run_git(checkout.top, "status", "--porcelain") == ""


def test_a_run_says_which_files_agents_do_not_see(tmp_path: Path):
    checkout = Checkout(tmp_path)
    checkout.commit()
    checkout.create_plan()
    (checkout.folder / "plan.yml").write_text(f"{PLAN}# changed\n")
    for name in ("new.txt", "another.txt"):
        (checkout.folder / name).write_text("x")

    previewed = checkout.run("run", "Hotel", "--agent", AGENT, "--dry-run")
    ran = checkout.run("run", "Hotel", "--agent", AGENT)

    for each in (previewed, ran):
        assert each.code == 0, each
        assert "Agents do not see 3 uncommitted files" in each.err
        assert all(name in each.err for name in ("plan.yml", "new.txt", "another.txt", "git commit"))


def test_a_run_in_a_clean_checkout_warns_of_nothing(tmp_path: Path):
    checkout = Checkout(tmp_path)
    checkout.commit()
    checkout.create_plan()

    ran = checkout.run("run", "Hotel", "--agent", AGENT)

    assert (ran.code, ran.err) == (0, "")
