"""`deepwork work --once`: its exit codes, and what it says."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from cli.run import CommandResult, run_deepwork
from quick import PLAIN
from runner.endings import finish, list_living, plan, wait_until
from runner.run_project import RunProject

MakeProject = Callable[..., RunProject]


def work(project: RunProject, *words: str) -> CommandResult:
    return run_deepwork(
        project.folder, "work", "--once", "--agent", "claude", *words, environment=project.variables
    )


def test_it_works_until_there_is_nothing_to_do(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", finish("a"))

    worked = work(project, "--json")
    nothing = work(project)

    assert (worked.code, worked.json["status"], worked.json["attempt"]["stage"]) == (0, "worked", "done")
    assert (nothing.code, nothing.out) == (75, "No task is ready.\n")


def test_a_failed_attempt_ends_with_1_and_a_limit_with_76(make_project: MakeProject):
    project = make_project()
    failing = [{"do": "exit", "code": 1, "is_error": True, "text": "I cannot."}]
    plan(project, "Work", failing, [{"do": "limit", "resets_in": 7200}])

    failed, parked = work(project), work(project)

    assert failed.code == 1
    assert "I cannot." in failed.out
    assert (parked.code, ": parked" in parked.out) == (76, True)


def test_labels_choose_the_tasks_by_their_required_capabilities(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", finish("a"), required_capabilities=["gpu", "docker"])

    few, enough = work(project, "--labels", "gpu"), work(project, "--labels", "docker, gpu,", "--json")

    assert (few.code, few.out) == (75, "No task is ready.\n")
    assert (enough.code, enough.json["attempt"]["task_id"]) == (0, project.ids["Work"])


def test_its_agent_goes_on_when_it_is_interrupted(make_project: MakeProject, tmp_path: Path):
    project, gate = make_project(), tmp_path / "gate"
    plan(project, "Work", [{"do": "wait_for", "file": str(gate)}, *finish("a")])
    command = [*PLAIN, "work", "--once", "--agent", "claude"]

    process = subprocess.Popen(
        command, cwd=project.folder, env=project.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until(lambda: list_living(project), "the agent")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    running = list_living(project)
    gate.touch()
    back = work(project)

    assert (process.returncode, said) == (130, b"The agent goes on; the same command comes back to it.\n")
    assert len(running) == 1
    assert (back.code, len(project.agents.read_ledger())) == (0, 1)


def test_it_has_to_be_said_that_it_ends_after_one_attempt(make_project: MakeProject):
    project = make_project()

    refused = run_deepwork(project.folder, "work", environment=project.variables)

    assert (refused.code, "--once" in refused.err) == (2, True)
