"""What an agent with a shell tries between the claim of a task and its landing. Nothing gets it done.

Every attack goes through the real tools, on a real repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from application import Clock, call_tool
from approvals.make import decide
from checks.make import COUNT, run_git, shell
from deepwork.edge.server.application import Application
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.models import CheckVerdict, ProofRequest, ProofSubject
from deepwork.gates.checks.run_files import open_clean_folder
from deepwork.gates.checks.store import ProofStore
from deepwork.gates.checks.trusting import pin_checks
from deepwork.kernel.environment import get_cache_folder
from deepwork.kernel.errors import DeepworkError, StorageError
from gated_project import GatedProject, make_gated

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


# --- files that are there only while the check runs


MAKE = "[make, -s, test]"
RED_MAKEFILE = "test:\n\t@touch started.log; until test -e go.log; do sleep 0.01; done; $(MAKE) -s real\nreal:\n\t@false\n"
"""Waits for the agent, then fails, unless another file says what `real` is."""
WHILE_IT_RUNS = {
    "removes itself": "printf 'real:\\n\\t@rm GNUmakefile\\n' > GNUmakefile",
    "is moved back": "mv Makefile kept.log; echo 'real: ; @mv kept.log Makefile' > Makefile",
    "folder is moved back": "mv lib ../kept; mkdir lib; echo 'real: ; @rm -r lib; mv ../kept lib' > lib/more.mk",
}


def attack_while_it_runs(agent: Agent, folder: Path, script: str) -> dict[str, Any]:
    """Report done, and run a script in a folder once the check has started there."""
    wait = f"until test -e {folder}/started.log; do sleep 0.01; done; cd {folder}\n{script}\ntouch go.log"
    with subprocess.Popen(["sh", "-c", wait], cwd=agent.tree, stderr=subprocess.DEVNULL):
        return agent.report()


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder for this test alone; it cannot be in the temporary folder, where others can write."""
    get_cache_folder().parent.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="deepwork-test-", dir=get_cache_folder().parent) as folder:
        place = Path(folder) / "deepwork"
        monkeypatch.setattr("deepwork.gates.checks.run_files.get_cache_folder", lambda: place)
        yield place / "clean"


@pytest.fixture
def with_make(gated: GatedProject) -> GatedProject:
    gated.write("Makefile", RED_MAKEFILE.replace("real:\n\t@false", "include lib/more.mk"))
    gated.write("lib/more.mk", "real: ; @false\n")
    gated.define_check(MAKE)
    return gated


@pytest.mark.parametrize("how", WHILE_IT_RUNS)
def test_a_file_that_is_there_only_while_the_check_runs_proves_nothing(with_make: GatedProject, how: str):
    agent = Agent(with_make)

    error = attack_while_it_runs(agent, agent.tree, WHILE_IT_RUNS[how])

    assert error["code"] == "CHECKS_FAILED"
    assert "changed while it ran" in error["checks"][0]["output"]


@pytest.mark.parametrize("script", [WHILE_IT_RUNS["removes itself"], "echo 'real: ; @true' > GNUmakefile"])
def test_what_is_added_to_a_clean_tree_while_the_check_runs_proves_nothing(
    with_make: GatedProject, script: str, own_cache: Path
):
    with_make.define_check(MAKE, ", clean: true")
    agent = Agent(with_make)
    agent.sh("echo GNUmakefile >> .gitignore")  # its own rule does not hide it

    error = attack_while_it_runs(agent, own_cache / "tree-*", script)

    assert error["code"] == "CHECKS_FAILED"
    assert "GNUmakefile" in error["checks"][0]["output"]


@pytest.mark.parametrize("clean", ["", ", clean: true"], ids=["shared", "clean"])
def test_a_check_may_write_caches_and_ignored_files(gated: GatedProject, clean: str):
    """Honest projects do that all the time, also for a moment, and also anew in each run."""
    script = (
        "mkdir -p src/__pycache__ .pytest_cache build guarded/__pycache__; touch src/__pycache__/a.pyc build/out"
        " src/tmp.log guarded/__pycache__/x.pyc ; printf '*' > .pytest_cache/.gitignore; rm -r src/tmp.log build"
    )
    gated.write("guarded/a", "")
    gated.define_check(shell(script), clean, guarded="['guarded/**']")
    agent = Agent(gated)
    agent.sh("echo 1 > src/new.py")

    assert agent.report() == {}


@pytest.mark.parametrize("clean", ["", ", clean: true"], ids=["shared", "clean"])
def test_pytest_may_make_its_cache(gated: GatedProject, clean: str):
    """It fills a folder of another name in the root and then renames it."""
    gated.write("tests/test_a.py", "def test_a(): pass\n")
    gated.define_check(f"[env, PYTEST_DISABLE_PLUGIN_AUTOLOAD=1, '{sys.executable}', -m, pytest, -q]", clean)
    agent = Agent(gated)
    agent.sh("echo 1 > src/new.py")

    while (answer := agent.report()).get("code") == "CHECKS_RUNNING":
        pass

    assert answer == {}


@pytest.mark.parametrize("end", ["rm -r $folder", "mv $folder .ruff_cache", "mv $folder src/.pytest_cache"])
def test_a_folder_with_the_name_of_an_unfinished_cache_may_not_vanish(gated: GatedProject, end: str):
    gated.define_check(shell(f"folder=pytest-cache-files-abcdefgh; mkdir $folder; {end}"), ", clean: true")
    agent = Agent(gated)
    agent.sh("echo 1 > src/new.py")

    assert agent.report()["code"] == "CHECKS_FAILED"


# --- settings and programs of others


def test_a_clean_tree_is_below_folders_that_nobody_else_can_write(with_test: GatedProject, tmp_path: Path):
    place = tmp_path / "place"
    with_test.define_check(shell(f"pwd > {place}; exit 1"), ", clean: true")

    Agent(with_test).report()

    folder = Path(place.read_text().strip())
    assert folder.is_relative_to(get_cache_folder())
    assert not any(parent.stat().st_mode & 0o022 for parent in folder.parents if parent.exists())
    assert not folder.exists()


def test_a_clean_tree_is_not_made_where_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    open_place = tmp_path / "open"
    open_place.mkdir()
    open_place.chmod(0o1777)
    monkeypatch.setattr("deepwork.gates.checks.run_files.get_cache_folder", lambda: open_place / "deepwork")

    with pytest.raises(StorageError, match="another user"), open_clean_folder():
        pass


def test_a_settings_file_beside_clean_trees_is_refused(with_test: GatedProject, own_cache: Path):
    with_test.define_check(shell("test -e ../pytest.ini"), ", clean: true")
    agent = Agent(with_test)

    own_cache.mkdir(parents=True)
    (own_cache / "pytest.ini").touch()

    assert agent.report()["code"] == "STORAGE_ERROR"


def test_the_environment_of_the_report_does_not_choose_programs(
    with_test: GatedProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with_test.define_check("[make, -s, test]")
    agent = Agent(with_test)
    agent.sh("printf 'test:\\n\\t@false\\n' > Makefile; mkdir evil")
    for name in ("make", "sh", "git", "false"):
        agent.sh(f"printf '#!/bin/sh\\nexit 0' > evil/{name}; chmod +x evil/{name}")
    evil = {"PATH": f"{agent.tree}/evil:{os.environ['PATH']}", "MAKEFLAGS": "-n", "MAKEFILES": "/dev/null"}
    evil |= {"BASH_ENV": f"{agent.tree}/evil/sh", "ENV": f"{agent.tree}/evil/sh"}
    evil |= {
        "SHELL": f"{agent.tree}/evil/sh",
        "GIT_DIR": "/nowhere",
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": "x",
    }
    for name, value in evil.items():
        monkeypatch.setenv(name, value)

    assert agent.report()["code"] == "CHECKS_FAILED"


def test_a_program_that_hides_a_trusted_one_does_not_run(
    with_test: GatedProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    own = tmp_path / "bin"
    own.mkdir()
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    with_test.define_check(shell("false"))  # which runs another program, too
    agent = Agent(with_test)

    agent.sh(f"printf '#!/bin/sh\\nexit 0' > {own}/false; chmod +x {own}/false")
    error = agent.report()

    assert error["code"] == "CHECKS_NOT_TRUSTED"
    assert "deepwork trust" in error["suggestion"]
    assert f"false in {own}" in error["message"]
    agent.sh(f"mv {own}/false {own}/new-name")  # hides nothing
    assert agent.report()["code"] == "CHECKS_FAILED"


# --- proofs of something else


def test_a_proof_made_with_an_easier_guarded_file_is_not_used_once_it_is_back(gated: GatedProject):
    gated.write("Makefile", "test:\n\t@test -e good\n")
    gated.define_check(MAKE, NEEDS_SRC, guarded="[Makefile]")
    agent = Agent(gated)

    agent.sh("cp Makefile kept.log; echo 'test: ; @true' > Makefile")
    assert agent.report()["code"] == "CHECKS_GUARDED"
    with gated.app.database.reading() as tx:
        proofs, _ = ProofStore(tx).list_newest(10)
    assert [proof.verdict for proof in proofs] == [CheckVerdict.GUARDED]
    agent.sh("cp kept.log Makefile")

    assert agent.report()["code"] == "CHECKS_FAILED"


def test_a_proof_of_a_command_with_an_easier_guarded_file_counts_for_no_task(gated: GatedProject):
    gated.write("Makefile", "test:\n\t@test -e good\n")
    gated.define_check(MAKE, NEEDS_SRC, guarded="[Makefile]")
    agent = Agent(gated)
    agent.sh("echo 'test: ; @true' > Makefile")
    request = ProofRequest(
        ProofSubject("command", ""), agent.tree, gated.base, ("tests",), (), wait_seconds=None
    )

    assert [proof.verdict for proof in gated.service.prove(request)] == [CheckVerdict.PASSED]

    assert agent.report()["code"] == "CHECKS_GUARDED"


def test_a_proof_of_another_project_in_the_same_store_does_not_count(any_gated: GatedProject, tmp_path: Path):
    any_gated.define_check(shell("test -e ../good-place"), NEEDS_SRC)
    twin = tmp_path / "elsewhere/twin"
    twin.parent.mkdir()
    run_git(tmp_path, "clone", "-q", str(any_gated.folder), str(twin))
    (twin.parent / "good-place").touch()
    text = (twin / ".deepwork/checks.yml").read_bytes()
    pin_checks(twin, parse_checks(text), proof="token", trusted_at="now")
    head = run_git(twin, "rev-parse", "HEAD")
    request = ProofRequest(ProofSubject("task", "other"), twin, head, ("tests",), (), wait_seconds=None)
    any_gated.app.get_checks(twin).prove(request)

    assert Agent(any_gated).report()["code"] == "CHECKS_FAILED"


# --- files that git does not see


HIDING = {
    "info/exclude": "echo /guarded/conftest > .git/info/exclude; touch guarded/conftest",
    "setting": "echo /guarded/conftest > ../rules; git config core.excludesFile $PWD/../rules; touch guarded/conftest",
    "own file": "mkdir -p ~/.config/git; echo /guarded/conftest > ~/.config/git/ignore; touch guarded/conftest",
    "new .gitignore": "printf '*' > guarded/.gitignore; touch guarded/conftest",
    "root .gitignore": "echo /guarded/conftest >> .gitignore; touch guarded/conftest",
    "committed .gitignore": "echo conftest > guarded/.gitignore; git add -f guarded; git commit -qm x; touch guarded/conftest",
    "existing .gitignore": "touch guarded/local-conftest",
}


@pytest.mark.parametrize("how", HIDING)
def test_no_ignore_rule_hides_a_guarded_file(
    gated: GatedProject, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    gated.write("guarded/sub/.gitignore", "")
    if how == "existing .gitignore":
        gated.write("guarded/.gitignore", "local-*\n")
    gated.define_check(
        shell("test -e guarded/conftest || test -e guarded/local-conftest"), NEEDS_SRC, "['guarded/**con*']"
    )
    agent = Agent(gated)

    agent.sh(HIDING[how])
    error = agent.report()

    assert error["code"] == "CHECKS_GUARDED"
    assert "conftest" in error["message"]


@pytest.mark.parametrize("how", ["info/exclude", "setting", "own file"])
def test_no_ignore_rule_outside_the_tree_hides_an_input(
    gated: GatedProject, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    gated.define_check(shell(f"{COUNT}; test -e src/helper"), NEEDS_SRC)
    agent = Agent(gated)
    agent.sh(HIDING[how].replace("guarded/conftest", "src/helper"))
    gated.prove()

    agent.sh("rm src/helper")

    assert agent.report()["code"] == "CHECKS_FAILED"
    assert gated.count_runs() == 2


# --- files of a person


def test_a_file_that_differed_before_the_plan_is_not_the_change_of_its_task(any_gated: GatedProject):
    any_gated.write(".deepwork/config.yml", "version: 1\n")
    any_gated.write("guarded/test", "the person works on it\n")
    agent = Agent(any_gated)
    any_gated.fix()

    assert agent.report() == {}


def test_a_file_of_a_person_that_the_task_changes_is_its_change(gated: GatedProject):
    gated.write(".deepwork/config.yml", "version: 1\n")
    agent = Agent(gated)
    gated.fix()

    agent.sh("echo toolsets: all >> .deepwork/config.yml")
    error = agent.report()

    assert error["code"] == "CHECKS_GUARDED"
    assert f"changed by task {agent.task}" in error["message"]


def test_what_a_task_of_another_plan_changed_is_no_file_of_a_person(gated: GatedProject):
    first = Agent(gated)
    gated.fix()
    first.sh("mkdir guarded; echo easy > guarded/test")
    assert first.report()["code"] == "CHECKS_GUARDED"

    error = Agent(gated).report()
    gated.call("task_update_status", id=first.task, status="failed", error="It gave up.")
    later = Agent(gated).report()

    assert error["code"] == later["code"] == "CHECKS_GUARDED"
    assert f"changed by task {first.task}" in later["message"]


def test_what_a_person_approved_in_another_project_of_the_store_is_asked_here(
    any_gated: GatedProject, tmp_path: Path, location: str, clock: Clock
):
    """The agent changes a guarded file, gives the plan up, and starts another one where it differs already."""
    there = Agent(any_gated)
    any_gated.fix()
    there.sh("mkdir guarded; echo easy > guarded/test")
    asked = there.report()["approval"]["id"]
    decide(any_gated.app, asked)
    assert there.report() == {}
    for here in make_gated(tmp_path / "other", location, clock):
        here.fix()
        first = Agent(here)
        first.sh("mkdir guarded; echo easy > guarded/test")
        assert first.report()["code"] == "CHECKS_GUARDED"
        here.call("task_update_status", id=first.task, status="failed", error="It gave up.")

        assert Agent(here).report()["code"] == "CHECKS_GUARDED"
