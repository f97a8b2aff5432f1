"""`Runner.work_once`: one attempt to its end, while others do the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from application import call_tool, make_app
from deepwork.delivery.runner import agent_watcher
from deepwork.delivery.runner.models import (
    AttemptStage,
    ParkedFor,
    RunRequest,
    RunStatus,
    WorkResult,
    WorkStatus,
)
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.store import RunStore
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from runner.endings import LIMIT_LOG, check_nothing_is_left, finish, plan, wait_until
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps

FAIL = [{"do": "exit", "code": 1, "is_error": True, "text": "I cannot."}]


@contextmanager
def open_project(folder: Path, location: str, patch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project whose agents this process finds; after the test nothing of it runs."""
    project = RunProject(folder, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        patch.setenv(name, project.variables[name])
    yield project
    check_nothing_is_left(project)
    project.close()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    with open_project(tmp_path, str(tmp_path / "deepwork.db"), monkeypatch) as opened:
        yield opened


@pytest.fixture
def shared_project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """The same on each kind of database."""
    with open_project(tmp_path, location, monkeypatch) as opened:
        yield opened


def plan_tasks(project: RunProject, *names: str) -> None:
    tasks = [{"name": name, "description": "", "sequence": 1} for name in names]
    project.set_plan(tasks, {name: [finish(name)] for name in names})


def work(project: RunProject, app: Application | None = None) -> WorkResult:
    return (app or project.app).runner.work_once(None, None)


def get_statuses(project: RunProject) -> dict[str, str]:
    return {task["name"]: task["status"] for task in project.list_tasks()}


def get_run_status(project: RunProject, result: WorkResult) -> RunStatus:
    assert result.attempt is not None
    with project.app.database.reading() as tx:
        run = RunStore(tx).find(result.attempt.run_id)
    assert run is not None
    return run.status


def test_each_call_works_on_one_task_until_there_is_none(shared_project: RunProject):
    project = shared_project
    plan_tasks(project, "one", "two")

    first = work(project)
    assert (first.status, get_statuses(project)) == (
        WorkStatus.WORKED,
        {"one": "completed", "two": "pending"},
    )
    assert get_run_status(project, first) is RunStatus.ACTIVE

    second = work(project)
    assert (second.status, get_statuses(project)["two"]) == (WorkStatus.WORKED, "completed")
    assert get_run_status(project, second) is RunStatus.DONE
    assert first.attempt
    assert second.attempt
    assert first.attempt.run_id == second.attempt.run_id

    assert work(project).status is WorkStatus.NOTHING


def test_the_oldest_plan_comes_first_unless_one_is_named(project: RunProject):
    plan_tasks(project, "old")
    old = project.plan
    plan_tasks(project, "new")

    named = project.app.runner.work_once(project.plan, None)
    assert named.attempt
    assert named.attempt.workflow_id == project.plan

    plan_tasks(project, "newest")
    project.agents.write_script({"old": [finish("old")]}, {project_task(project, old): "old"})
    oldest = work(project)
    assert oldest.attempt
    assert oldest.attempt.workflow_id == old


def project_task(project: RunProject, workflow_id: str) -> str:
    [task] = call_tool(project.app, "workflow_get", id=workflow_id, include_tasks=True)["tasks"]
    return str(task["id"])


def test_a_worker_takes_only_tasks_whose_required_capabilities_its_labels_cover(shared_project: RunProject):
    project = shared_project
    needs = {"both": ["gpu", "docker"], "gpu": ["gpu"], "none": []}
    tasks = [
        {"name": name, "description": "", "sequence": 1, "required_capabilities": required}
        for name, required in needs.items()
    ]
    project.set_plan(tasks, {name: [finish(name)] for name in needs})

    def take(*labels: str, plan: str | None = None) -> str | None:
        result = project.app.runner.work_once(plan, None, labels=labels)
        names = {id: name for name, id in project.ids.items()}
        return names[result.attempt.task_id] if result.attempt else None

    assert take() == "none"
    assert take() is None
    assert take(plan=project.plan) is None
    assert take("docker") is None
    assert take("gpu", "other") == "gpu"
    assert take("docker", "gpu") == "both"
    assert take("docker", "gpu") is None


def test_a_worker_goes_on_only_with_attempts_that_its_labels_cover(project: RunProject):
    limited = [{"do": "limit", "resets_in": 7200}]
    plan(project, "gpu", limited, required_capabilities=["gpu"])
    parked = project.app.runner.work_once(None, None, labels=["gpu"])
    assert parked.status is WorkStatus.PARKED

    assert project.app.runner.work_once(None, None).status is WorkStatus.NOTHING
    again = project.app.runner.work_once(None, None, labels=["gpu", "docker"])

    assert again.status is WorkStatus.PARKED
    assert again.attempt
    assert parked.attempt
    assert again.attempt.id == parked.attempt.id


def test_an_agent_that_meets_a_limit_again_and_again_without_output_is_parked(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_watcher, "_CLOSER_LOOK_MS", 200)
    asking: Steps = [{"do": "complain", "text": LIMIT_LOG}, {"do": "sleep", "seconds": 0.3}]
    plan(project, "limited", [*finish("limited")[:1], *asking * 1000])

    parked = project.app.runner.work_once(None, "opencode")

    assert parked.status is WorkStatus.PARKED
    assert parked.attempt
    assert parked.attempt.parked_for is ParkedFor.LIMIT
    assert "Rate limit reached" in (parked.reason or "")


def test_an_agent_that_goes_on_after_a_limit_in_its_log_is_left_alone(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_watcher, "_CLOSER_LOOK_MS", 200)
    asking: Steps = [
        {"do": "complain", "text": LIMIT_LOG},
        {"do": "sleep", "seconds": 0.5},
        {"do": "say", "text": "It goes on."},
    ]
    plan(project, "limited", [*asking * 4, {"do": "complain", "text": LIMIT_LOG}, *finish("limited")])

    assert project.app.runner.work_once(None, "opencode").status is WorkStatus.WORKED
    assert len(list_attempts(project)) == 1


def test_a_failed_attempt_releases_the_task_for_the_next_call(project: RunProject):
    plan(project, "one", FAIL, finish("one"))

    failed = work(project)
    assert (failed.status, get_statuses(project)["one"]) == (WorkStatus.FAILED, "pending")
    assert "exit code 1" in (failed.reason or "")

    assert work(project).status is WorkStatus.WORKED
    assert [each["stage"] for each in list_attempts(project)] == ["failed", "done"]


def test_a_task_that_used_up_its_attempts_is_left_to_a_person(project: RunProject):
    plan(project, "one", FAIL, max_attempts=1)

    failed = work(project)
    assert (failed.status, get_run_status(project, failed)) == (WorkStatus.FAILED, RunStatus.NEEDS_PERSON)
    assert work(project).status is WorkStatus.NOTHING


def test_an_attempt_at_a_limit_is_parked_and_goes_on_after_it(project: RunProject):
    plan(project, "one", [{"do": "limit", "resets_in": 3}, *finish("one")])

    parked = work(project)
    assert parked.status is WorkStatus.PARKED
    assert parked.attempt
    assert parked.attempt.not_before

    still = work(project)  # too early, or just late enough
    assert still.attempt
    assert still.attempt.id == parked.attempt.id

    def goes_on() -> bool:
        return work(project).status is not WorkStatus.PARKED

    if still.status is WorkStatus.PARKED:
        wait_until(goes_on, "the end of the limit")
    [attempt] = list_attempts(project)
    assert (attempt["stage"], attempt["starts"], get_statuses(project)["one"]) == ("done", 2, "completed")


def test_what_a_worker_left_is_continued_and_not_started_again(project: RunProject, tmp_path: Path):
    gate, reached = tmp_path / "gate", tmp_path / "reached"
    waits = [{"do": "touch", "file": str(reached)}, {"do": "wait_for", "file": str(gate)}]
    plan(project, "one", [*waits, *finish("one")])
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(project.app.runner.work_once, None, None, stop)
        wait_until(reached.exists, "the agent")
        stop.set()
        left = leaving.result()
    assert left.status is WorkStatus.PARKED
    gate.touch()

    assert work(project).status is WorkStatus.WORKED
    [attempt] = list_attempts(project)
    assert left.attempt
    assert (attempt["id"], attempt["starts"]) == (left.attempt.id, 1)
    assert len(project.agents.read_ledger()) == 1


@pytest.mark.differs
def test_workers_at_the_same_time_never_take_the_same_task(shared_project: RunProject, location: str):
    project = shared_project
    names = ["one", "two", "three", "four"]
    plan_tasks(project, *names)
    apps = [make_app(project.folder, location) for _ in range(3)]

    def work_until_nothing_is_left(app: Application) -> list[WorkStatus]:
        found: list[WorkStatus] = []
        while not found or found[-1] is not WorkStatus.NOTHING:
            found.append(work(project, app).status)
        return found

    with ThreadPoolExecutor(3) as pool:
        results = [status for each in pool.map(work_until_nothing_is_left, apps) for status in each]
    for app in apps:
        app.close()

    assert results.count(WorkStatus.WORKED) == 4
    assert set(get_statuses(project).values()) == {"completed"}
    assert sorted(each.name for each in project.agents.read_ledger()) == sorted(names)
    assert {each["run_id"] for each in list_attempts(project)} == {list_attempts(project)[0]["run_id"]}


def test_a_worker_joins_the_run_that_a_person_started_and_changes_nothing_of_it(project: RunProject):
    plan_tasks(project, "one", "two")
    run = project.app.runner.start_plan(project.plan, RunRequest(agents=("codex",), parallel=3))

    worked = work(project)

    assert worked.attempt
    assert (worked.attempt.run_id, worked.attempt.profile) == (run.id, "codex")
    with project.app.database.reading() as tx:
        assert list(RunStore(tx).list_hosts(run.id).values()) == [3]


def test_a_person_who_starts_a_run_chooses_the_agents_of_what_workers_began(project: RunProject):
    plan_tasks(project, "one", "two")
    worked = work(project)

    run = project.app.runner.start_plan(project.plan, RunRequest(agents=("codex",)))

    assert worked.attempt
    assert worked.attempt.run_id == run.id
    assert run.chain == ("codex",)


def test_a_paused_run_starts_no_tasks(project: RunProject):
    plan_tasks(project, "one", "two")
    worked = work(project)
    assert worked.attempt
    RunService(project.app.database).set_status(worked.attempt.run_id, RunStatus.PAUSED)

    nothing = work(project)

    assert nothing.status is WorkStatus.NOTHING
    assert worked.attempt.run_id in (nothing.reason or "")


def test_a_named_plan_that_is_done_leaves_nothing_to_do(project: RunProject):
    plan_tasks(project, "one")
    assert work(project).status is WorkStatus.WORKED

    ended = project.app.runner.work_once(project.plan, None)

    assert ended.status is WorkStatus.NOTHING
    assert "is completed" in (ended.reason or "")


def test_a_named_plan_that_cannot_run_is_an_error(project: RunProject):
    plan_tasks(project, "one")
    call_tool(
        project.app, "workflow_update_status", id=project.plan, status="abandoned", reason="Not needed."
    )

    with pytest.raises(NotAllowed, match="is abandoned"):
        project.app.runner.work_once(project.plan, None)


def test_work_that_waits_for_approval_counts_and_ends_with_the_decision(project: RunProject):
    plan(project, "one", finish("one"), approval="after")

    worked = work(project)
    assert worked.status is WorkStatus.WORKED
    assert worked.attempt
    assert worked.attempt.stage is AttemptStage.REVIEWING
    assert work(project).status is WorkStatus.NOTHING
