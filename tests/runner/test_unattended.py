"""A run that nobody drives says so at once, everywhere; coming back to it lets it continue."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from dashboard.make import create_client, read
from quick import PLAIN
from runner.endings import finish, list_living, plan, wait_until
from runner.run_project import RunProject
from runner.test_run_command import find_run, open_terminal, run, shows

MakeProject = Callable[..., RunProject]


def test_a_run_whose_runner_was_killed_is_unattended_at_once(make_project: MakeProject, tmp_path: Any):
    project, gate = make_project(), tmp_path / "gate"
    plan(project, "Work", [{"do": "wait_for", "file": str(gate)}, *finish("done")])
    words = [*PLAIN, "run", "Release", "--agent", "claude", "--json"]
    runner = subprocess.Popen(
        words, cwd=project.folder, env=project.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: list_living(project), "the agent")
        driven = find_run(project)
    finally:
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()

    left = find_run(project)
    page = create_client(project.app)
    [shown] = read(page, "/runner/runs")["runs"]
    [task] = run(project, "plans", "show", "Release", "--json").json["tasks"]
    status = run(project, "status", "--json").json
    attach = f"deepwork runs attach {left['id']}"

    assert (driven["state"], driven["next"]) == ("running", None)
    assert (left["status"], left["state"], left["because"], left["next"]) == (
        "active", "unattended", "runner_gone", attach,
    )  # fmt: skip
    assert (shown["state"], shown["next"]) == ("unattended", attach)
    assert (task["status"], task["state"], task["next"]) == ("in_progress", "unattended", attach)
    assert [(each["state"], each["next"]) for each in status["plans"]] == [("unattended", attach)]
    assert f"    {attach}" in run(project, "status").out.splitlines()
    assert any(attach in each for each in find_problems(project))
    gate.touch()
    assert run(project, *attach.split()[1:], "--json").code == 0
    assert not any(attach in each for each in find_problems(project))
    assert find_run(project)["state"] == "done"


def find_problems(project: RunProject) -> list[str]:
    problems: list[str] = run(project, "doctor", "--json").json["problems"]
    return problems


def test_leaving_a_run_says_that_nobody_drives_it_any_more(make_project: MakeProject, tmp_path: Any):
    project, gate = make_project(), tmp_path / "gate"
    plan(project, "Work", [{"do": "wait_for", "file": str(gate)}, *finish("done")])
    words = [*PLAIN, "run", "Release", "--agent", "claude"]
    runner = subprocess.Popen(
        words, cwd=project.folder, env=project.variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip
    wait_until(lambda: list_living(project), "the agent")
    runner.send_signal(signal.SIGINT)
    said, _ = runner.communicate(timeout=120)
    found = find_run(project)

    assert runner.returncode == 130
    assert "Release: unattended" in said
    assert found["next"] in said
    assert (found["state"], found["because"]) == ("unattended", "runner_gone")
    gate.touch()
    assert run(project, *found["next"].split()[1:], "--json").code == 0


def test_leaving_a_run_names_who_still_works_and_what_does_not_happen(
    make_project: MakeProject, tmp_path: Any
):
    project, gate = make_project(), tmp_path / "gate"
    waits = [{"do": "wait_for", "file": str(gate)}, *finish("done")]
    project.set_plan(
        [{"name": "Work"}, {"name": "Later", "sequence": 2}], {"Work": [waits], "Later": [finish("later")]}
    )

    with open_terminal(project, "run", "Release", "--agent", "claude", "--max-usd", "9") as terminal:
        terminal.wait_for(shows("Work", "claude", "running"))
        terminal.press_ctrl_c()
        hint = terminal.wait_for(shows("Leaving", "claude · Work"))
        terminal.wait()
        left = terminal.screen

    assert shows("twice stops")(hint) is False
    assert shows("claude · Work still works")(left)
    assert shows("1 open task does not start", "no budget is kept")(left)
    assert shows(find_run(project)["next"])(left)
    gate.touch()
    assert run(project, *find_run(project)["next"].split()[1:], "--json").code == 0


def test_a_runner_drives_its_own_run_and_names_those_that_nobody_drives(
    make_project: MakeProject, tmp_path: Any
):
    project, gate = make_project(), tmp_path / "gate"
    plan(project, "Work", [{"do": "wait_for", "file": str(gate)}, *finish("done")])
    left, words = project.plan, [*PLAIN, "run", project.plan, "--agent", "claude", "--json"]
    runner = subprocess.Popen(
        words, cwd=project.folder, env=project.variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: list_living(project), "the agent")
    finally:
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
    gate.touch()
    wait_until(lambda: not list_living(project), "the end of the agent")
    plan(project, "Other", finish("other"))

    other = run(project, "run", project.plan, "--agent", "claude", "--json")
    [orphan] = read(create_client(project.app), "/runner/runs", workflow_id=left)["runs"]

    assert other.code == 0
    assert f"deepwork runs attach {orphan['id']}" in other.err
    assert (orphan["state"], [each["stage"] for each in orphan["attempts"]]) == ("unattended", ["running"])
    assert run(project, *orphan["next"].split()[1:], "--json").code == 0
