"""`start_workflow` runs a job or starts a tracked workflow, depending on its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import Clock, list_event_types, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError
from jobs import runs
from jobs.project import make_step, write_job

JOB = {"goal": "g", "job_name": "chain", "workflow_name": "main"}
RECORD = {"name": "n", "objective": "o"}


@pytest.fixture
def app(tmp_path: Path, location: str, clock: Clock) -> Iterator[Application]:
    write_job(tmp_path, "chain", [make_step("a"), make_step("b")])
    made = make_app(tmp_path, location, clock, git_branch="off")
    yield made
    made.close()


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[Callable[[str], Application]]:
    """Houses that offer only some toolsets."""
    opened: list[Application] = []

    def make(toolsets: str) -> Application:
        opened.append(make_app(tmp_path, str(tmp_path / "deepwork.db"), toolsets=toolsets))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def start(app: Application, key: str | None = None, **given: Any) -> Any:
    return runs.call_job_tool(app, "start_workflow", key, **given)


def get_refusal(app: Application, **given: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        start(app, **given)
    return refused.value


def test_start_workflow_starts_a_job_or_a_tracked_workflow(app: Application):
    assert start(app, **JOB)["begin_step"]["step_id"] == "a"
    assert start(app, **RECORD, profile="COMPLEX")["total_phases"] == 4
    assert list_event_types(app) == ["session:started", "workflow:created"]


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
def test_incomplete_or_mixed_arguments_change_nothing(app: Application, given: dict[str, str]):
    error = get_refusal(app, **given)

    assert error.code is Code.INVALID_INPUT
    assert "start_workflow(goal, job_name, workflow_name)" in error.suggestion
    assert "start_workflow(name, objective)" in error.suggestion
    assert list_event_types(app) == []


def test_invalid_values_are_refused_as_in_the_separate_tools(app: Application):
    assert "total_phases" in get_refusal(app, **RECORD, total_phases=0).message
    assert "colour" in get_refusal(app, **RECORD, colour="red").message
    assert get_refusal(app, **(JOB | {"job_name": "nothing"})).code is Code.JOB_NOT_FOUND


def test_null_counts_as_omitted(app: Application):
    nothing = dict.fromkeys(("goal", "job_name", "workflow_name", "instance_id", "profile", "total_phases"))

    assert start(app, **RECORD, **nothing)["profile"] == "standard"


@pytest.mark.differs
def test_concurrent_calls_under_one_key_have_one_effect(app: Application):
    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(lambda _: start(app, "k", **RECORD), range(4)))

    assert all(answer == answers[0] for answer in answers)
    assert list_event_types(app) == ["workflow:created"]


def test_a_key_with_different_arguments_is_rejected(app: Application):
    start(app, "k", **RECORD)

    with pytest.raises(DeepworkError) as refused:
        start(app, "k", **(RECORD | {"name": "m"}))

    assert refused.value.code is Code.KEY_REUSED


def test_a_job_started_twice_under_one_key_starts_once(app: Application):
    first = start(app, "k", **JOB)

    again = start(app, "k", **JOB)

    assert again["begin_step"]["session_id"] == first["begin_step"]["session_id"]
    assert list_event_types(app) == ["session:started"]


@pytest.mark.parametrize("toolsets", ["tracking", "plans,tracking"])
def test_without_jobs_only_tracked_workflows_can_be_started(
    apps: Callable[[str], Application], toolsets: str
):
    spec = apps(toolsets).registry["start_workflow"]

    assert spec.toolset == "tracking"
    assert spec.input_schema["required"] == ["name", "objective"]
    assert "goal" not in spec.input_schema["properties"]


@pytest.mark.parametrize("toolsets", ["jobs", "plans"])
def test_without_tracking_only_jobs_can_be_started(apps: Callable[[str], Application], toolsets: str):
    spec = apps(toolsets).registry["start_workflow"]

    assert spec.toolset == "jobs"
    assert set(spec.input_schema["required"]) == {"goal", "job_name", "workflow_name"}


@pytest.mark.parametrize("toolsets", ["all", "jobs,tracking"])
def test_with_jobs_and_tracking_no_parameter_is_required(apps: Callable[[str], Application], toolsets: str):
    assert "required" not in apps(toolsets).registry["start_workflow"].input_schema
