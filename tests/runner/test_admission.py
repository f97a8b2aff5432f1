"""Two processes drive one run on one host: together they start no more agents than it may have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from application import make_app
from deepwork.delivery.runner.attempt_engine import AttemptEngine
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, Run, RunRequest
from deepwork.delivery.runner.rules import is_working
from deepwork.delivery.runner.service import AttemptService, has_room
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.application import Application
from runner.run_project import RunProject

AGENTS = 2


class Drivers:
    """A run of a plan with many tasks, and two processes that look after it; none starts an agent."""

    def __init__(self, project: RunProject, location: str) -> None:
        self.project = project
        project.set_plan([{"name": f"task {number}", "description": ""} for number in range(6)], {})
        self._other = make_app(project.folder, location)
        self.engines = [self._build_engine(app) for app in (self.project.app, self._other)]
        runner = self.project.app.runner
        self.run: Run = runner.start_plan(self.project.plan, RunRequest(agents=("claude",), parallel=AGENTS))

    @staticmethod
    def _build_engine(app: Application) -> AttemptEngine:
        return app.runner._build_engine(app.runner._find_profile)

    def advance(self, number: int) -> bool:
        """Let one of the processes start what it can."""
        return self.engines[number].scheduler.advance(self.run, AGENTS, now=0, is_urgent=True)

    def count_working(self) -> int:
        with self.project.app.database.reading() as tx:
            attempts = AttemptStore(tx).list_of_run(self.run.id, is_open=True)
            host = attempts[0].host
            assert AttemptStore(tx).count_working(self.run.id, host) == sum(map(is_working, attempts))
        return sum(map(is_working, attempts))

    def close(self) -> None:
        for engine in self.engines:
            engine.close()
        self._other.close()
        self.project.close()


@pytest.fixture
def drivers(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drivers]:
    project = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, project.variables[name])
    with closing(Drivers(project, location)) as made:
        yield made


def test_a_driver_that_looked_before_the_other_started_agents_starts_none(
    drivers: Drivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = drivers.engines[0].scheduler
    find_hosts = scheduler._find_hosts

    def start_others_first(run: Run) -> Any:
        assert drivers.advance(1)  # after it counted the agents, before it claims
        return find_hosts(run)

    monkeypatch.setattr(scheduler, "_find_hosts", start_others_first)

    assert not drivers.advance(0)

    assert drivers.count_working() == AGENTS


@pytest.mark.differs
def test_drivers_that_start_agents_at_the_same_time_start_as_many_as_there_may_be(drivers: Drivers) -> None:
    barrier = threading.Barrier(2)

    def advance(number: int) -> None:
        barrier.wait()
        drivers.advance(number)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(advance, range(2)))

    assert drivers.count_working() == AGENTS


def test_an_attempt_that_waits_for_a_person_leaves_its_place_and_takes_one_again_only_if_it_is_free(
    drivers: Drivers,
) -> None:
    drivers.advance(0)
    database = drivers.project.app.database
    with database.reading() as tx:
        first = AttemptStore(tx).list_of_run(drivers.run.id, is_open=True)[0]
    attempts = AttemptService(database)
    prepared = attempts.move(first, AttemptStage.PREPARING, starts=1)
    assert prepared is not None
    running = attempts.move(prepared, AttemptStage.RUNNING)
    assert running is not None
    attempts.move(running, AttemptStage.PARKED, parked_for=ParkedFor.BUDGET, reason="Used up.")

    def look() -> bool:
        with database.transaction() as tx:
            return has_room(tx, drivers.run.id, first.host)

    assert look()
    drivers.advance(1)
    assert drivers.count_working() == AGENTS
    assert not look()
