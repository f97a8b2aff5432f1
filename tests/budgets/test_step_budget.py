"""The budget of a step in job.yml, which a runner reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.gates.budgets.models import Budget
from deepwork.work.jobs.definitions.catalog import find_problems, load_job
from jobs.project import make_step, write_job


def test_a_step_has_the_budget_of_its_file(tmp_path: Path):
    steps = [make_step("write", budget={"usd": 1.5, "minutes": 20}), make_step("send")]

    job = load_job(write_job(tmp_path, "report", steps))

    assert [step.budget for step in job.steps] == [Budget(1.5, None, 20), None]


@pytest.mark.parametrize("budget", [{"usd": 0}, {"tokens": 1.5}, {"dollars": 3}, 5, {"minutes": -1}])
def test_a_budget_that_is_none_is_a_problem(tmp_path: Path, budget: Any):
    folder = write_job(tmp_path, "report", [make_step("write", budget=budget)])

    assert find_problems(folder)
