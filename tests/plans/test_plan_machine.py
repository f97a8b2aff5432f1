"""In any order of operations a task has at most one holder, dependencies hold, and counts are right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from application import empty_database
from plans.machine import PlanMachine

ORDINARY = settings(
    deadline=None, suppress_health_check=list(HealthCheck), stateful_step_count=25, print_blob=True
)


class OnSQLite(PlanMachine):
    def new_location(self, folder: Path) -> str:
        return str(folder / "deepwork.db")


@pytest.mark.timeout(600)
def test_a_plan_stays_consistent_under_random_operations_on_sqlite():
    run_state_machine_as_test(OnSQLite, settings=settings(ORDINARY, max_examples=25))


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_plan_stays_consistent_under_random_operations_on_postgres(postgres_url: str):
    class OnPostgres(PlanMachine):
        def new_location(self, folder: Path) -> str:
            empty_database(postgres_url)
            return postgres_url

    run_state_machine_as_test(OnPostgres, settings=settings(ORDINARY, max_examples=10))
