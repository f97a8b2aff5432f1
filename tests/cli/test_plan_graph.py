"""`deepwork plans show --graph`: agents, ages, colours, folding and watching."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from application import call_tool, make_app
from cli.run import run_deepwork, run_in_terminal
from deepwork.work.plans.diagrams import draw
from deepwork.work.plans.models import Node, TaskStatus

SEVEN = (TaskStatus.COMPLETED,) * 3 + (TaskStatus.IN_PROGRESS,) + (TaskStatus.PENDING,) * 3


def make_chain(statuses: tuple[TaskStatus, ...]) -> list[Node]:
    return [
        Node(f"t{place}", f"Task {place}", place, None, status) for place, status in enumerate(statuses, 1)
    ]


def draw_lines(statuses: tuple[TaskStatus, ...], max_lines: int | None) -> list[str]:
    return [line.text for line in draw(make_chain(statuses), max_lines=max_lines).lines[:-2]]


def test_finished_rows_are_folded_first_then_the_last_waiting_ones():
    assert len(draw_lines(SEVEN, None)) == len(draw_lines(SEVEN, 7)) == 7
    assert draw_lines(SEVEN, 6) == [
        "  1. to 3.  … 3 completed",
        "  4.   ▶ Task 4",
        "  5.   · Task 5",
        "  6.   · Task 6",
        "  7.   · Task 7",
    ]
    assert draw_lines(SEVEN, 4) == [
        "  1. to 3.  … 3 completed",
        "  4.   ▶ Task 4",
        "  5.   · Task 5",
        "  6. to 7.  … 2 waits",
    ]


def test_a_wide_row_that_cannot_be_folded_is_cut():
    nodes = [Node(f"t{place}", f"Task {place}", 1) for place in range(20)]

    lines = [line.text for line in draw(nodes, max_lines=5).lines]

    assert lines[4] == "     … 16 more lines"
    assert not draw(nodes).is_folded


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a plan of 60 tasks in a row, of which Ada does the first."""
    folder = tmp_path_factory.mktemp("project")
    app = make_app(folder, str(folder / ".deepwork" / "deepwork.db"))
    plan = call_tool(app, "workflow_create", name="Long", source_type="prompt", source_content="x")["id"]
    tasks = [{"name": f"Task {place}", "description": "", "sequence": place} for place in range(1, 61)]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    first = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"][0]["id"]
    agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
    call_tool(app, "task_claim", task_id=first, agent_id=agent)
    call_tool(app, "task_update_status", id=first, status="in_progress", agent_id=agent)
    app.close()
    return folder


def test_a_long_drawing_is_folded_and_says_how_to_see_all(project: Path):
    folded = run_deepwork(project, "plans", "show", "Long", "--graph").out.splitlines()
    whole = run_deepwork(project, "plans", "show", "Long", "--graph", "--all").out.splitlines()

    assert len(folded) == 44
    assert " 40. to 60.  … 21 waits" in folded
    assert folded[-1] == "Finished or waiting rows are folded; --all shows every task."
    assert sum("Task" in line for line in whole) == 60
    assert "--all" not in whole[-1]


def test_running_tasks_have_an_agent_an_age_and_a_colour(project: Path):
    in_pipe = run_deepwork(project, "plans", "show", "Long", "--graph").out
    in_terminal = run_in_terminal(project, "plans", "show", "Long", "--graph").out
    without = run_in_terminal(project, "plans", "show", "Long", "--graph", environment={"NO_COLOR": "1"}).out

    assert re.search(r"▶ Task 1 +Ada, \d{4}-\d\d-\d\dT[\d:.]+Z", in_pipe)
    assert re.search(r"\x1b\[36m +1\. +▶ Task 1 +Ada, (just now|\d+ \w+ ago)\x1b\[0m", in_terminal)
    assert "\x1b" not in in_pipe + without


def test_a_watched_plan_is_drawn_again_at_a_change(project: Path):
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", "plans", "show", "Long", "--graph", "--watch"],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    run_deepwork(project, "plans", "update-status", "Long", "paused")

    again = next(line for line in process.stdout if line.startswith("Long:"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)

    assert (first, again) == ("Long: running\n", "Long: needs you\n")
    assert process.returncode == 130


def test_watch_belongs_to_the_drawing(project: Path):
    assert run_deepwork(project, "plans", "show", "Long", "--watch").code == 2
