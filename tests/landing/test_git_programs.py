"""How many git programs a landing starts: on most machines they take more of its time than anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deepwork.kernel.programs import run_bounded
from landing.make import LandingProject
from landing.many_tasks import ManyTasks

MOST = {1: 13, 12: 58}
"""By the number of tasks. Lower these when landing needs fewer programs; they never grow."""


def count_programs(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> int:
    started: list[str] = []

    def count(argv: list[str], **more: Any) -> Any:
        started.append(argv[0])
        return run_bounded(argv, **more)

    monkeypatch.setattr("deepwork.kernel.git.command.run_bounded", count)
    act()
    return len(started)


@pytest.mark.parametrize("tasks", MOST)
def test_landing_starts_few_git_programs(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    project.define_checks("checks: {fits: {run: ['true']}}\n")
    project.git("checkout", "-q", "-b", "desk")
    files = {f"t{number}": {f"t{number}.txt": "text\n"} for number in range(tasks)}
    plan = ManyTasks(project.app, project.folder, files)
    project.require_checks(plan.id, "fits")

    programs = count_programs(monkeypatch, lambda: project.land(workflow_id=plan.id))

    assert len(project.list_landed()) == tasks
    assert 0 < programs <= MOST[tasks]
