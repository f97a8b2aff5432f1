"""What a person changes in a plan while its agents work: each change takes effect in the running run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.run import run_deepwork
from deepwork.delivery.runner.models import RunStatus
from deepwork.kernel.errors import Code, DeepworkError
from runner.endings import finish, wait_until, write
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps
from runner.test_run_gates import read_prompt
from runner.test_told_words import Driven, act, meet, project

__all__ = ["project"]
NEVER: Steps = [{"do": "wait_for", "file": "/nonexistent/never"}]


def set_plan(project: RunProject, script: dict[str, list[Steps]], **after: list[str]) -> None:
    tasks = [
        {"name": name, "description": "As it was.", "depends_on": after.get(name, [])} for name in script
    ]
    project.set_plan(tasks, script)


def get_task(project: RunProject, name: str) -> dict[str, Any]:
    found: dict[str, Any] = act(project, "task_get", id=project.ids[name])
    return found


def refuse(project: RunProject, action: str, **arguments: Any) -> Code:
    with pytest.raises(DeepworkError) as refused:
        act(project, action, **arguments)
    return refused.value.code


def test_a_task_that_a_person_adds_is_done_by_the_run(project: RunProject, tmp_path: Path):
    set_plan(project, {"alpha": [[*meet(tmp_path), *finish("alpha")]]})
    project.agents.write_script(
        {"alpha": [[*meet(tmp_path), *finish("alpha")]], "beta": [finish("beta")]},
        {project.ids["alpha"]: "alpha"},
    )

    with Driven(project, tmp_path, "command") as driven:
        after = {"name": "beta", "description": "Work on beta.", "depends_on": ["alpha"]}
        added = act(project, "workflow_add_task", workflow_id=project.plan, task=after)["task_id"]
        names = {project.ids["alpha"]: "alpha", added: "beta"}
        project.agents.write_script({"alpha": [[]], "beta": [finish("beta")]}, names)

    assert driven.run.status is RunStatus.DONE
    assert [each["task_id"] for each in list_attempts(project)] == [project.ids["alpha"], added]


@pytest.mark.parametrize("agent", ["codex", "command"])
def test_new_words_of_a_task_reach_the_agent_at_work(project: RunProject, tmp_path: Path, agent: str):
    set_plan(project, {"alpha": [[*meet(tmp_path), *finish("alpha")], [write("more"), *finish("alpha")]]})

    with Driven(project, tmp_path, agent) as driven:
        changed = act(project, "reword_task", task_id=project.ids["alpha"], description="With 7 percent.")

    [attempt] = list_attempts(project)
    assert (changed["changed"], changed["told"]["reaches"]) == (True, "next_start")
    assert "With 7 percent." in read_prompt(project, attempt, 2).partition("# Task")[0]
    assert (driven.run.status, get_task(project, "alpha")["description"]) == (
        RunStatus.DONE,
        "With 7 percent.",
    )


def test_new_words_of_a_task_not_begun_are_in_its_prompt(project: RunProject, tmp_path: Path):
    set_plan(project, {"alpha": [finish("alpha")], "beta": [finish("beta")]}, beta=["alpha"])

    changed = act(project, "reword_task", task_id=project.ids["beta"], name="gamma", description="Do it so.")
    again = act(project, "reword_task", task_id=project.ids["beta"], name="gamma")
    (tmp_path / "ready").touch()
    with Driven(project, tmp_path, "command"):
        pass

    prompt = read_prompt(project, list_attempts(project)[1])
    assert ("told" in changed, again["changed"]) == (False, False)
    assert ("# Task: gamma" in prompt, "Do it so." in prompt, "As it was." in prompt) == (True, True, False)


def test_what_a_done_task_says_stays(project: RunProject):
    set_plan(project, {"alpha": [finish("alpha")], "beta": [finish("beta")]})
    act(project, "task_update_status", id=project.ids["alpha"], status="completed", outcome="Done.")

    assert refuse(project, "reword_task", task_id=project.ids["alpha"], name="x") is Code.INVALID_STATE
    assert refuse(project, "drop_task", task_id=project.ids["alpha"]) is Code.INVALID_STATE
    assert (
        refuse(project, "reword_task", task_id=project.ids["beta"], name="alpha") is Code.DUPLICATE_TASK_NAME
    )
    assert refuse(project, "reword_task", task_id=project.ids["beta"], name=" ") is Code.INVALID_INPUT
    assert get_task(project, "alpha")["name"] == "alpha"


def test_dropping_a_task_ends_its_agent_and_what_waited_goes_on(project: RunProject, tmp_path: Path):
    ready: Steps = [{"do": "touch", "file": str(tmp_path / "ready")}]
    set_plan(project, {"alpha": [[write("begun"), *ready, *NEVER]], "beta": [finish("beta")]}, beta=["alpha"])
    task = project.ids["alpha"]

    with Driven(project, tmp_path, "command") as driven:
        busy = refuse(project, "drop_task", task_id=task)
        before = get_task(project, "alpha")["status"]
        dropped = act(project, "drop_task", task_id=task, reason="Not needed.", end_agent=True)

    [first, second] = list_attempts(project)
    assert (busy, before) == (Code.INVALID_STATE, "in_progress")
    assert (dropped["removed"], dropped["ended"], dropped["waiting"]) == (False, first["id"], ["beta"])
    assert (first["stage"], second["stage"], driven.run.status) == ("stopped", "done", RunStatus.DONE)
    assert first["reason"] == "ada dropped its task."
    assert (Path(first["tree"]) / "begun.txt").exists()  # what it did stays
    assert get_task(project, "alpha")["status"] == "skipped"


def test_a_dropped_task_that_had_not_begun_is_gone(project: RunProject, tmp_path: Path):
    set_plan(
        project, {name: [finish(name)] for name in ("alpha", "beta", "gamma")}, beta=["alpha"], gamma=["beta"]
    )

    dropped = act(project, "drop_task", task_id=project.ids["beta"])
    (tmp_path / "ready").touch()
    with Driven(project, tmp_path, "command") as driven:
        pass

    assert (dropped["removed"], dropped["waiting"], "ended" in dropped) == (True, ["gamma"], False)
    assert [each["task_id"] for each in list_attempts(project)] == [
        project.ids["alpha"],
        project.ids["gamma"],
    ]
    assert driven.run.status is RunStatus.DONE


def test_more_agents_start_at_once_in_a_running_run(project: RunProject, tmp_path: Path):
    both: Steps = [
        {"do": "touch", "file": str(tmp_path / "ready")},
        {"do": "touch", "file": str(tmp_path / "two")},
    ]
    set_plan(
        project,
        {
            "alpha": [[both[0], {"do": "wait_for", "file": str(tmp_path / "two")}, *finish("alpha")]],
            "beta": [[both[1], *finish("beta")]],
        },
    )
    act(project, "workflow_set_parallelism", id=project.plan, max_parallel_tasks=1)

    with Driven(project, tmp_path, "command", agents=1) as driven:  # alpha waits for beta to begin
        [run] = act(project, "list_runs")["runs"]
        act(project, "set_run", run_id=run["id"], agents=2)
        wait_until((tmp_path / "two").exists, "the second agent")

    assert list(act(project, "get_run", id=run["id"])["hosts"].values()) == [2]
    assert act(project, "workflow_get", id=project.plan)["max_parallel_tasks"] == 2
    assert driven.run.status is RunStatus.DONE
    assert refuse(project, "set_run", run_id=run["id"], agents=3) is Code.INVALID_STATE  # it has ended
    assert refuse(project, "set_run", run_id=run["id"]) is Code.INVALID_INPUT


def test_the_commands_say_what_follows(project: RunProject):
    set_plan(project, {"alpha": [finish("alpha")], "beta": [finish("beta")]}, beta=["alpha"])

    def run(*words: str) -> Any:
        return run_deepwork(project.folder, *words, environment=project.variables)

    reworded = run("tasks", "reword", "beta", "--name", "gamma")
    nothing = run("tasks", "reword", "gamma")
    dropped = run("tasks", "drop", "alpha")

    assert (reworded.code, nothing.code, dropped.code) == (0, 2, 0)
    assert "gamma" in reworded.out
    assert "gamma" in dropped.out  # what waited for it
    assert [task["name"] for task in project.list_tasks()] == ["gamma"]
