"""`deepwork run` and `deepwork runs` as a person uses them, with scripted agents."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from cli.live_terminal import LiveTerminal
from cli.run import CommandResult, run_deepwork
from deepwork.edge.cli import main
from quick import PLAIN
from runner.endings import finish, list_living, plan, wait_until, write
from runner.run_project import RunProject
from runner.scripted import Steps

MakeProject = Callable[..., RunProject]


def run(project: RunProject, *words: str) -> CommandResult:
    return run_deepwork(project.folder, *words, environment=project.variables)


def find_run(project: RunProject) -> dict[str, Any]:
    found: list[dict[str, Any]] = run(project, "runs", "list", "--json").json["runs"]
    assert len(found) == 1
    return found[0]


def open_terminal(project: RunProject, *words: str, columns: int = 120) -> LiveTerminal:
    return LiveTerminal([*PLAIN, *words], project.folder, project.variables, columns)


def begins_with(text: str) -> Callable[[list[str]], bool]:
    return lambda screen: any(line.startswith(text) for line in screen)


def shows(*texts: str) -> Callable[[list[str]], bool]:
    """Whether one line contains all of these."""
    return lambda screen: any(all(text in line for text in texts) for line in screen)


def test_a_person_watches_leaves_and_comes_back(make_project: MakeProject, tmp_path: Path):
    project, gate = make_project(), tmp_path / "gate"
    work: Steps = [
        {"do": "usage", "input": 1200, "output": 300, "usd_micros": 250_000},
        {"do": "open_tool", "name": "Bash", "detail": "pytest -q"},
        {"do": "wait_for", "file": str(gate)},
    ]
    plan(project, "Write the form", [*work, *finish("form")])

    with open_terminal(project, "run", "Release", "--agent", "claude", "--max-usd", "9") as terminal:
        row = shows("  Write the form", "claude", "running", "1k", "Bash")
        bar, hint = shows("0 of 1 tasks", "of $9.00"), shows("Ctrl-C leaves")
        terminal.wait_for(lambda screen: row(screen) and bar(screen) and hint(screen))
        terminal.press_ctrl_c()
        code = terminal.wait()
        left = terminal.screen
    running = list_living(project)
    gate.touch()
    back = run(project, "runs", "attach", find_run(project)["id"])

    assert code == 130
    assert shows("Release: unattended")(left)
    assert not shows("Ctrl-C leaves")(left)
    assert len(running) == 1
    assert back.code == 0
    assert len(project.agents.read_ledger()) == 1
    assert "Release: done, 1 of 1 tasks done" in back.out
    assert f"deepwork land {project.plan}" in back.out
    check_reports(project)


def check_reports(project: RunProject) -> None:
    """Check what is told about a run that is done."""
    found = find_run(project)
    shown = run(project, "runs", "show", found["id"], "--json").json
    [attempt] = shown["attempts"]
    readable = run(project, "runs", "logs", attempt["id"]).out.splitlines()
    raw = run(project, "runs", "logs", attempt["id"], "--raw").out.splitlines()
    as_json = [
        json.loads(line)
        for line in run(project, "runs", "logs", attempt["id"], "-f", "--json").out.splitlines()
    ]

    assert (found["status"], attempt["stage"], shown["usd"]) == ("done", "done", 0.25)
    agents = run(project, "agents", "list", "--status", "offline", "--json").json["agents"]
    assert [agent["name"] for agent in agents] == ["claude · Write the form"]
    assert "Write the form" not in run(project, "agents").out, "those that are gone are only counted"
    assert (found["models"], attempt["model"]) == (["scripted-1"], "scripted-1")
    assert found["created_by"].startswith("human:")
    assert "[Bash] pytest -q" in readable
    assert [json.loads(line)["type"] for line in raw][:2] == ["system", "assistant"]
    assert [each["line"] for each in as_json] == raw
    assert {(each["type"], each["id"], each["start"]) for each in as_json} == {("output", attempt["id"], 1)}
    assert "Write the form" in run(project, "runs", "show", found["id"][:8]).out
    assert run(project, "runs", "stop", found["id"]).code == 1


def test_a_limit_is_counted_down_and_ctrl_c_twice_stops_the_agents(make_project: MakeProject):
    project = make_project()
    project.set_plan(
        [{"name": "Wait", "description": ""}, {"name": "Work", "description": ""}],
        {"Wait": [[{"do": "limit", "resets_in": 7200}]], "Work": [[{"do": "sleep", "seconds": 600}]]},
    )
    agents = ["--agents", "2", "--agent", "claude"]

    with open_terminal(project, "run", "Release", *agents, columns=70) as terminal:
        terminal.wait_for(shows("Wait", "parked", "limit"))
        terminal.wait_for(shows("Work", "running"))
        terminal.press_ctrl_c()
        terminal.wait_for(shows("Press Ctrl-C again to stop them"))
        terminal.press_ctrl_c()
        code = terminal.wait()
        screen = terminal.screen

    assert (code, find_run(project)["status"]) == (130, "stopped")
    assert begins_with("Release: stopped, 0 of 2 tasks done")(screen)
    assert not list_living(project)


def test_a_detached_run_goes_on_and_is_stopped_from_elsewhere(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", [{"do": "sleep", "seconds": 600}])

    detached = run(project, "run", "Release", "--agent", "claude", "--detach")
    id = find_run(project)["id"]
    wait_until(lambda: list_living(project), "the agent")
    paused = run(project, "runs", "pause", id)
    resumed = run(project, "runs", "resume", id, "--json").json
    stopped = run(project, "runs", "stop", id, "--now")
    log = project.folder / ".deepwork" / "runs" / f"{id}.log"
    wait_until(lambda: "Release: stopped" in log.read_text(), "the end of the detached process")

    assert detached.code == 0
    assert f"deepwork runs attach {id}" in detached.out
    assert "paused" in paused.out
    assert resumed["status"] == "active"
    assert (stopped.code, stopped.out.split(".")[0]) == (0, f"{id}: stopped")
    assert not list_living(project)
    assert log.stat().st_mode & 0o077 == 0
    assert re.search(r"^\d{4}-.*Z  at_\w{12}  +running +Work, claude$", log.read_text(), re.MULTILINE)


def test_json_is_one_object_per_line_and_3_means_that_a_person_is_needed(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", [{"do": "exit", "code": 1, "is_error": True, "text": "No."}], max_attempts=1)

    ended = run(project, "run", "Release", "--agent", "claude", "--json")
    objects = [json.loads(line) for line in ended.out.splitlines()]

    assert ended.code == 3
    assert {each["type"] for each in objects} == {"run", "attempt", "task"}
    assert [each["status"] for each in objects if each["type"] == "run"][-1] == "needs_person"
    assert [each["stage"] for each in objects if each["type"] == "attempt"][-1] == "failed"
    assert all(each["id"] for each in objects)


def test_a_plan_that_is_done_is_no_error(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", [write("a")])
    (project.agents.bin / "claude").unlink()  # no agent is needed for nothing
    call_tool(project.app, "workflow_update_status", id=project.plan, status="completed", force=True)

    said = run(project, "run", "Release", "--agent", "claude")
    previewed = run(project, "run", "Release", "--agent", "claude", "--dry-run")
    as_json = run(project, "run", "Release", "--agent", "claude", "--json")
    worked = run(project, "work", "--once", "--plan", "Release", "--agent", "claude")

    assert (said.code, previewed.code, as_json.code, worked.code) == (0, 0, 0, 75)
    assert (as_json.json["type"], as_json.json["id"], as_json.json["status"]) == (
        "plan",
        project.plan,
        "completed",
    )
    assert find_no_run(project)


def test_a_run_whose_time_is_over_ends_its_agents_and_can_be_run_again_later(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", [{"do": "sleep", "seconds": 600}])
    soon = (datetime.now().astimezone() + timedelta(seconds=4)).isoformat()

    ended = run(project, "run", "Release", "--agent", "claude", "--until", soon)
    attached = run(project, "runs", "attach", find_run(project)["id"])

    assert (ended.code, attached.code) == (3, 3)
    assert not list_living(project)


@pytest.fixture
def project(make_project: MakeProject) -> Iterator[RunProject]:
    made = make_project()
    plan(made, "Work", [write("a")])
    yield made
    assert find_no_run(made)


def find_no_run(project: RunProject) -> bool:
    return not run(project, "runs", "list", "--json").json["runs"]


def test_a_dry_run_prints_the_exact_command_and_starts_nothing(project: RunProject):
    shown = run(project, "run", "Release", "--agent", "claude", "--dry-run")
    [as_json] = [
        json.loads(line)
        for line in run(
            project, "run", "Release", "--agent", "sh x.sh {prompt_file}", "--dry-run", "--json"
        ).out.splitlines()
    ]

    assert shown.code == 0
    assert re.search(r"^  runs +\S*claude .*--output-format stream-json", shown.out, re.MULTILINE)
    assert (as_json["argv"][:2], as_json["profile"]) == (["sh", "x.sh"], "sh x.sh {prompt_file}")
    assert not list_living(project)


@pytest.mark.parametrize(
    ("words", "problem", "code"),
    [
        ("run wf_000000000000", "There is no workflow 'wf_000000000000'", 1),
        ("run Nothing", "There is no workflow 'Nothing'", 1),
        ("run Release --until 25:00", "'25:00' is not a time of day", 2),
        ("run Release --until 2020-01-01", "has passed", 3),
        ("run Release --goal x", "--goal is for jobs", 2),
        ("run Release --agent claude --chain default", "give one of them", 2),
        ("run Release --agent nobody", "There is no agent 'nobody'", 1),
        ("run Release --chain nowhere", "There is no chain 'nowhere'", 1),
        ("run Release --agents 0", "not in the range", 2),
        ("run Release --detach --dry-run", "nothing to detach", 2),
        ("run nothing/full --goal x", "There is no job 'nothing'", 1),
        ("run deepwork_jobs/nothing --goal x", "There is no workflow", 1),
        ("runs show rn_000000000000", "There is no run 'rn_000000000000'", 1),
        ("runs attach x", "There is no run 'x'", 1),
        ("runs stop x", "There is no run 'x'", 1),
        ("runs logs at_000000000000", "There is no attempt 'at_000000000000'", 1),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(
    shared_project: RunProject,
    words: str,
    problem: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    for name in ("HOME", "XDG_CONFIG_HOME", "PATH"):
        monkeypatch.setenv(name, shared_project.variables[name])
    monkeypatch.setattr(sys, "argv", ["deepwork", *words.split(), "--path", str(shared_project.folder)])

    ended = main._run()

    printed = capsys.readouterr()
    assert problem in printed.err
    assert (ended, printed.out) == (code, "")


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunProject]:
    """A project that no test changes."""
    made = RunProject(tmp_path_factory.mktemp("refused"))
    plan(made, "Work", [write("a")])
    yield made
    made.close()


def test_commands_that_nobody_trusted_do_not_run(make_project: MakeProject):
    project = make_project("workspace:\n  setup: [[make, install]]\n")
    plan(project, "Work", [write("a")])

    refused = run(project, "run", "Release", "--agent", "claude")

    assert refused.code == 1
    assert "deepwork trust" in refused.err
    assert find_no_run(project)


def test_a_name_that_means_a_plan_and_a_job_is_refused(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", [write("a")])
    name = "deepwork_jobs/new_job"
    run(project, "plans", "create", name, "--prompt", "x")

    refused = run(project, "run", name, "--goal", "x")

    assert (refused.code, "may mean the plan wf_" in refused.err) == (1, True)


def test_a_setting_that_nothing_knows_stops_a_run_and_not_only_the_doctor(make_project: MakeProject):
    project = make_project(config="run:\n  max_unreviwed: 3\n")
    plan(project, "Work", finish("work"))

    refused = run(project, "run", "Release", "--agent", "claude")
    shown = run(project, "run", "Release", "--agent", "claude", "--dry-run")

    assert (refused.code, shown.code) == (2, 2)
    assert "run.max_unreviwed" in refused.err
    assert "run.max_unreviewed" in refused.err
    assert project.agents.read_ledger() == []
