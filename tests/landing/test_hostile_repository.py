"""Nothing of a repository runs while its work lands: hooks, filters, merge drivers, signing, submodules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from landing.make import LandingProject
from landing.many_tasks import ManyTasks, import_branches
from workspaces.make import run_git

HOOKS = (
    *("reference-transaction", "pre-commit", "commit-msg", "prepare-commit-msg", "post-commit"),
    *("pre-merge-commit", "post-merge", "post-checkout", "post-index-change", "update", "pre-auto-gc"),
)
ATTRIBUTES = "*.txt merge=evil filter=evil diff=evil\n"


def plant(folder: Path) -> Path:
    """Plant programs wherever git looks for some; each leaves a line in the file that is returned."""
    traces = folder.parent / f"{folder.name}-traces"
    program = folder.parent / f"{folder.name}-evil"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {traces}\ncat 2>/dev/null\nexit 0\n')
    program.chmod(0o755)
    for name in HOOKS:
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(program.read_text())
        hook.chmod(0o755)
    settings = {
        "merge.evil.driver": f"{program} %O %A %B",
        "merge.default": "evil",
        "filter.evil.clean": str(program),
        "filter.evil.smudge": str(program),
        "filter.evil.process": str(program),
        "filter.evil.required": "true",
        "diff.evil.textconv": str(program),
        "diff.external": str(program),
        "commit.gpgSign": "true",
        "gpg.program": str(program),
        "gpg.format": "openpgp",
        "core.fsmonitor": str(program),
        "core.hooksPath": str(folder / ".git" / "hooks"),
        "submodule.recurse": "true",
        "submodule.evil.update": f"!{program}",
        "hook.evil.command": str(program),
        "hook.evil.event": "reference-transaction",
        "merge.renormalize": "true",
    }
    for name, value in settings.items():
        run_git(folder, "config", name, value)
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text(ATTRIBUTES)
    return traces


@pytest.fixture
def hostile(project: LandingProject) -> tuple[LandingProject, ManyTasks, Path]:
    """Two tasks that change different lines of one file, so that git has to merge its contents."""
    lines = [f"{number}\n" for number in range(9)]
    link = f"160000,{project.git('rev-parse', 'HEAD')},evil"
    project.write(
        str(project.folder), ".gitmodules", '[submodule "evil"]\n\tpath = evil\n\turl = ./nowhere\n'
    )
    project.git("add", ".gitmodules")
    project.git("update-index", "--add", "--cacheinfo", link)
    project.define_checks("checks: {fine: {run: [test, -e, long.txt]}}\n")
    project.git("checkout", "-q", "-b", "desk")
    import_branches(project.folder, {"main": {"long.txt": "".join(lines), ".gitattributes": ATTRIBUTES}})
    first, last = ["first\n", *lines[1:]], [*lines[:-1], "last\n"]
    tasks = {"first": {"long.txt": "".join(first)}, "last": {"long.txt": "".join(last)}}
    plan = ManyTasks(project.app, project.folder, tasks)
    project.require_checks(plan.id, "fine")
    return project, plan, plant(project.folder)


def test_no_program_of_the_repository_runs(hostile: tuple[LandingProject, ManyTasks, Path]) -> None:
    project, plan, traces = hostile

    answer = project.land(workflow_id=plan.id)

    assert [each["status"] for each in answer["landings"]] == ["landed", "landed"], answer
    assert not traces.exists() or traces.read_text() == ""
    merged = run_git(project.folder, "-c", "core.hooksPath=/dev/null", "cat-file", "-p", "main:long.txt")
    assert merged.split() == ["first", *"1234567", "last"]
    assert "gpgsig" not in project.git("cat-file", "-p", "main")


def test_the_same_programs_run_when_a_person_merges(hostile: tuple[LandingProject, ManyTasks, Path]) -> None:
    project, _, traces = hostile

    for words in (
        ["merge-tree", "--write-tree", "deepwork/first", "deepwork/last"],
        ["update-ref", "refs/heads/other", "main"],
    ):
        subprocess.run(["git", *words], cwd=project.folder, check=False, capture_output=True)

    ran = traces.read_text()
    assert ("-evil" in ran, "reference-transaction" in ran) == (True, True)
