"""One name, two slices: `start_workflow` runs a job or begins a record, told by what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deepwork.errors import Code, DeepworkError
from deepwork.server.house import House
from house import Clock, house_at, told
from jobs import runs
from jobs.project import job, step

JOB = {"goal": "g", "job_name": "chain", "workflow_name": "main"}
RECORD = {"name": "n", "objective": "o"}


@pytest.fixture
def house(tmp_path: Path, location: str, clock: Clock) -> Iterator[House]:
    job(tmp_path, "chain", [step("a"), step("b")])
    made = house_at(tmp_path, location, clock, git_branch="off")
    yield made
    made.close()


@pytest.fixture
def houses(tmp_path: Path) -> Iterator[Callable[[str], House]]:
    """Houses that offer only some toolsets."""
    opened: list[House] = []

    def make(toolsets: str) -> House:
        opened.append(house_at(tmp_path, str(tmp_path / "deepwork.db"), toolsets=toolsets))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def start(house: House, key: str | None = None, **given: Any) -> Any:
    return runs.ask(house, "start_workflow", key, **given)


def refusal(house: House, **given: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        start(house, **given)
    return refused.value


def test_a_job_is_run_or_a_record_begun(house: House):
    assert start(house, **JOB)["begin_step"]["step_id"] == "a"
    assert start(house, **RECORD, profile="COMPLEX")["total_phases"] == 4
    assert told(house) == ["session:started", "workflow:created"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"goal": "g"},
        {"name": "n"},
        {"objective": "o", "scope": "s"},
        JOB | RECORD,
        JOB | {"scope": "s"},
        RECORD | {"instance_id": "i"},
    ],
)
def test_what_is_not_one_whole_form_changes_nothing(house: House, given: dict[str, str]):
    error = refusal(house, **given)

    assert error.code is Code.INVALID_INPUT
    assert "start_workflow(goal, job_name, workflow_name)" in error.suggestion
    assert "start_workflow(name, objective)" in error.suggestion
    assert told(house) == []


def test_what_a_form_may_not_hold_is_refused_as_ever(house: House):
    assert "total_phases" in refusal(house, **RECORD, total_phases=0).message
    assert "colour" in refusal(house, **RECORD, colour="red").message
    assert refusal(house, **(JOB | {"job_name": "nothing"})).code is Code.JOB_NOT_FOUND


def test_null_is_as_good_as_absent(house: House):
    nothing = dict.fromkeys(("goal", "job_name", "workflow_name", "instance_id", "profile", "total_phases"))

    assert start(house, **RECORD, **nothing)["profile"] == "standard"


def test_under_a_key_many_calls_have_one_effect(house: House):
    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(lambda _: start(house, "k", **RECORD), range(4)))

    assert all(answer == answers[0] for answer in answers)
    assert told(house) == ["workflow:created"]


def test_a_key_is_not_used_for_something_else(house: House):
    start(house, "k", **RECORD)

    with pytest.raises(DeepworkError) as refused:
        start(house, "k", **(RECORD | {"name": "m"}))

    assert refused.value.code is Code.KEY_REUSED


def test_a_job_under_a_key_is_run_once(house: House):
    first = start(house, "k", **JOB)

    again = start(house, "k", **JOB)

    assert again["begin_step"]["session_id"] == first["begin_step"]["session_id"]
    assert told(house) == ["session:started"]


@pytest.mark.parametrize("toolsets", ["tracking", "plans,tracking"])
def test_without_jobs_it_is_the_record_alone(houses: Callable[[str], House], toolsets: str):
    spec = houses(toolsets).registry["start_workflow"]

    assert spec.toolset == "tracking"
    assert spec.input_schema["required"] == ["name", "objective"]
    assert "goal" not in spec.input_schema["properties"]


@pytest.mark.parametrize("toolsets", ["jobs", "plans"])
def test_without_tracking_it_is_the_job_alone(houses: Callable[[str], House], toolsets: str):
    spec = houses(toolsets).registry["start_workflow"]

    assert spec.toolset == "jobs"
    assert set(spec.input_schema["required"]) == {"goal", "job_name", "workflow_name"}


@pytest.mark.parametrize("toolsets", ["all", "jobs,tracking"])
def test_with_both_it_requires_nothing(houses: Callable[[str], House], toolsets: str):
    assert "required" not in houses(toolsets).registry["start_workflow"].input_schema
