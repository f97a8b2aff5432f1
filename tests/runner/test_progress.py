"""How often progress is stored and announced, and that agents of one account learn of a limit from each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from application import list_event_types
from deepwork.delivery.runner.attempt_progress import Followed, ProgressRecorder
from deepwork.delivery.runner.models import Attempt, AttemptStage, ParkedFor, RunRequest
from deepwork.delivery.runner.service import AttemptService
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.kernel.values import copy_with
from runner.run_project import RunProject


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    with closing(RunProject(tmp_path, location)) as made:
        for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(name, made.variables[name])
        made.set_plan([{"name": f"task {number}", "description": ""} for number in range(4)], {})
        yield made


def start_attempts(project: RunProject) -> list[Attempt]:
    """Start a run of two agents, as far as their attempts are running in the store; no process starts."""
    runner = project.app.runner
    run = runner.start_plan(project.plan, RunRequest(agents=("claude",), parallel=2))
    advance(project, run.id)
    attempts = AttemptService(project.app.database)
    running = []
    for each in list_open(project, run.id):
        prepared = attempts.move(each, AttemptStage.PREPARING, starts=1)
        assert prepared is not None
        moved = attempts.move(prepared, AttemptStage.RUNNING)
        assert moved is not None
        running.append(moved)
    return running


def advance(project: RunProject, run_id: str, agents: int = 2) -> bool:
    """Start what may start, with this many agents."""
    runner = project.app.runner
    with closing(runner._build_engine(runner._find_profile)) as engine:
        with project.app.database.transaction() as tx:
            RunStore(tx).join(run_id, engine._host, agents)
        return engine.scheduler.advance(runner._get_run(run_id), agents, now=0, is_urgent=True)


def list_open(project: RunProject, run_id: str) -> list[Attempt]:
    with project.app.database.reading() as tx:
        return AttemptStore(tx).list_of_run(run_id, is_open=True)


def read_more(followed: Followed) -> Followed:
    """Read a line of output."""
    return replace(followed, offset=followed.offset + 10, is_unsaved=True)


def test_progress_is_stored_once_a_second_at_most_and_less_often_for_many_agents(project: RunProject) -> None:
    recorder = ProgressRecorder(project.app.database)
    followed = Followed.begin(start_attempts(project)[0])

    [first] = recorder.save_due([read_more(followed)], now=10_000)
    assert recorder.save_due([first], now=20_000) == [], "nothing was read since"
    assert recorder.save_due([read_more(first)], now=10_999) == []
    [second] = recorder.save_due([read_more(first)], now=11_000)
    many = [read_more(second), *[replace(second, is_unsaved=False)] * 49]
    assert recorder.save_due(many, now=13_999) == []
    [third] = recorder.save_due(many, now=14_000)

    assert [each.offset for each in (first, second, third)] == [10, 20, 30]
    [stored] = [each for each in list_open(project, third.attempt.run_id) if each.id == third.attempt.id]
    assert stored.stream_offset == 30


def test_progress_is_announced_every_five_seconds_at_most(project: RunProject) -> None:
    recorder = ProgressRecorder(project.app.database)
    followed = Followed.begin(start_attempts(project)[0])

    for second in range(10, 22):
        [followed] = recorder.save_due([read_more(followed)], now=second * 1_000)

    assert list_event_types(project.app).count("attempt:progress") == 3


def test_progress_of_many_agents_is_stored_together_and_only_of_those_that_are_still_ours(
    project: RunProject,
) -> None:
    one, other = map(Followed.begin, start_attempts(project))
    AttemptService(project.app.database).move(
        other.attempt, AttemptStage.STOPPED, reason="A person stopped it."
    )

    saved = ProgressRecorder(project.app.database).save_due([read_more(other), read_more(one)], now=10_000)

    assert [each.attempt.id for each in saved] == [one.attempt.id]


def park_at_limit(project: RunProject, attempt: Attempt) -> Attempt:
    """Let an attempt wait for an hour."""
    with project.app.database.reading() as tx:
        later = tx.now + 3_600_000
    attempts = AttemptService(project.app.database)
    parked = attempts.move(attempt, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=later)
    assert parked is not None
    return parked


def test_beside_an_agent_that_waits_at_a_limit_one_other_tries_and_no_more_until_it_was_answered(
    project: RunProject,
) -> None:
    waiting, other = start_attempts(project)
    attempts = AttemptService(project.app.database)
    attempts.move(other, AttemptStage.STOPPED, reason="A person stopped it.")
    park_at_limit(project, waiting)

    assert advance(project, waiting.run_id, agents=4)
    [probe] = [each for each in list_open(project, waiting.run_id) if each.id != waiting.id]
    assert not advance(project, waiting.run_id, agents=4), "nobody knows yet whether it meets the limit, too"

    assert attempts.update(probe, output_tokens=1) is not None
    assert advance(project, waiting.run_id, agents=4)
    assert len(list_open(project, waiting.run_id)) == 3


def test_no_agent_starts_while_two_of_the_same_account_wait_at_a_limit(project: RunProject) -> None:
    parked, _ = (park_at_limit(project, each) for each in start_attempts(project))

    assert not advance(project, parked.run_id, agents=4)

    with project.app.database.transaction() as tx:
        AttemptStore(tx).save(parked, copy_with(parked, not_before=1))
    assert advance(project, parked.run_id, agents=4)
    assert len(list_open(project, parked.run_id)) == 3
