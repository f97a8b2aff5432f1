"""What a person sees of the work of agents: its patch, while it runs and before they approve it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.make import create_client, read
from quick import PLAIN
from runner.endings import finish, list_living, plan, wait_until, write
from runner.run_project import RunProject
from runner.test_run_command import run

MakeProject = Callable[..., RunProject]
CHECKS = "checks:\n  tests: {run: [sh, -c, 'echo 7 tests']}\n"


def test_a_diff_is_against_the_base_of_the_task_and_has_what_every_attempt_did(make_project: MakeProject):
    project = make_project()
    gives_up = [write("first"), {"do": "exit", "text": "I give up.", "is_error": True}]
    plan(project, "Work", gives_up, finish("second"), max_attempts=2)
    assert run(project, "run", "Release", "--agent", "claude", "--json").code == 0

    patch = run(project, "diff", "Work").out
    stat = run(project, "diff", "Work", "--stat").out.splitlines()
    of_one = run(project, "diff", "Work", "second.txt").out
    answer = run(project, "diff", "Work", "--json").json
    shown = read(create_client(project.app), f"/tasks/{project.ids['Work']}/patch")

    assert {line for line in patch.splitlines() if line.startswith("+++")} == {
        "+++ b/first.txt",
        "+++ b/second.txt",
    }
    assert [line.split()[-1] for line in stat[:2]] == ["first.txt", "second.txt"]
    assert stat[2].startswith("2 files changed")
    assert "first.txt" not in of_one
    assert answer["patch"] == shown["patch"] == patch
    assert [each["path"] for each in shown["files"]] == ["first.txt", "second.txt"]
    assert shown["base"] == answer["base"]


def test_a_diff_shows_what_a_running_task_has_done_so_far(make_project: MakeProject, tmp_path: Path):
    project, gate = make_project(), tmp_path / "gate"
    plan(project, "Work", [write("begun"), {"do": "wait_for", "file": str(gate)}, *finish("done")])
    words = [*PLAIN, "run", "Release", "--agent", "claude", "--json"]
    runner = subprocess.Popen(
        words, cwd=project.folder, env=project.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: list_living(project), "the agent")
        wait_until(lambda: "begun.txt" in run(project, "diff", "Work").out, "its work")
        shown = read(create_client(project.app), f"/tasks/{project.ids['Work']}/patch")
    finally:
        gate.touch()
        runner.wait(timeout=120)

    assert (shown["is_running"], [each["path"] for each in shown["files"]]) == (True, ["begun.txt"])


@pytest.fixture
def waiting(make_project: MakeProject) -> tuple[RunProject, str]:
    """A task with checks whose work was refused once, done again, and waits; and its approval."""
    project = make_project(checks=CHECKS)
    assert run(project, "trust", "--yes").code == 0
    plan(project, "Work", finish("first"), finish("second"), approval=["after"], checks=["tests"])
    run(project, "run", "Release", "--agent", "claude", "--json")
    refused = find_approval(project)
    assert run(project, "approvals", "refuse", refused, "--comment", "Write the second, too.").code == 0
    run(project, "run", "Release", "--agent", "claude", "--json")
    return project, find_approval(project)


def find_approval(project: RunProject) -> str:
    [found] = run(project, "approvals", "list", "--json").json["approvals"]
    return str(found["id"])


def test_an_approval_shows_the_patch_the_checks_the_cost_and_the_commands(waiting: tuple[RunProject, str]):
    project, approval = waiting
    said = run(project, "approvals", "show", approval, "--whole").out
    whole = read(create_client(project.app), f"/approvals/{approval}/evidence", whole=True)

    assert sorted(each["path"] for each in whole["files"]) == ["first.txt", "second.txt"]
    assert {"+++ b/first.txt", "+++ b/second.txt"} <= set(said.splitlines())
    assert [(each["check"], each["verdict"]) for each in whole["checks"]] == [("tests", "passed")]
    assert whole["approve"] == f"deepwork approvals approve {approval}"
    assert said.splitlines()[-2:] == [whole["approve"], whole["refuse"]]
    assert "7 tests" in said
    assert "blob" not in said


def test_after_a_refusal_an_approval_shows_what_differs_from_what_was_refused(
    waiting: tuple[RunProject, str],
):
    project, approval = waiting
    found = read(create_client(project.app), f"/approvals/{approval}/evidence")

    assert [each["path"] for each in found["files"]] == ["second.txt"]
    assert found["compared_with"].startswith("ap_")
    assert "first.txt" not in found["patch"]


def test_a_used_approval_says_who_gave_it_and_when_it_was_used(waiting: tuple[RunProject, str]):
    project, approval = waiting
    assert run(project, "approvals", "approve", approval).code == 0

    listed = {
        each["id"]: each for each in read(create_client(project.app), "/approvals", all=True)["approvals"]
    }
    rows = run(project, "approvals", "list", "--all").out

    assert listed[approval]["status"] == "used"
    assert f"approved by {listed[approval]['decided_by'].removeprefix('human:')}, used at" in rows
