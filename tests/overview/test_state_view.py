"""The view of states: few statements, and what this machine knows about processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import call_tool
from deepwork.delivery.runner.attempt_files import AttemptLocks
from deepwork.edge.server.application import Application
from deepwork.kernel.files.lock import is_file_locked
from deepwork.kernel.states import State
from deepwork.views.overview.states.store import LocalProcesses
from deepwork.views.overview.states.view import StateView
from statement_counter import count_statements


def make_plan(app: Application, tasks: int) -> str:
    id: str = call_tool(app, "workflow_create", name="P", source_type="prompt", source_content="x")["id"]
    by_level = [{"name": f"l{n}", "description": "", "sequence": 1 + n // 3} for n in range(tasks)]
    named = [
        {"name": f"n{n}", "description": "", "sequence": 999, "depends_on": [f"l{n}"]} for n in range(tasks)
    ]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": [*by_level, *named]})
    return id


def test_the_number_of_statements_does_not_depend_on_the_number_of_tasks(app: Application):
    small, large = make_plan(app, 6), make_plan(app, 300)

    def count(id: str) -> int:
        with app.database.reading() as tx, count_statements() as counted:
            assert len(StateView(tx, app.processes).judge_tasks_of_plan(id)) in (12, 600)
        return counted.count

    assert count(small) == count(large) <= 16


def test_the_number_of_statements_does_not_depend_on_the_number_of_plans(app: Application):
    ids = [make_plan(app, 6) for _ in range(12)]

    def count(chosen: list[str]) -> int:
        with app.database.reading() as tx, count_statements() as counted:
            found = StateView(tx, app.processes).judge_plans(chosen)
        assert {plan.standing.state for plan in found.values()} == {State.READY}
        return counted.count

    assert count(ids[:1]) == count(ids) <= 16


def test_a_plan_counts_its_tasks_as_they_are_judged_one_by_one(app: Application):
    id = make_plan(app, 6)
    [first, *_] = call_tool(app, "workflow_get", id=id, include_tasks=True)["tasks"]
    with app.database.transaction() as tx:
        tx.execute(
            "INSERT INTO spending_totals (subject_kind, subject_id, tokens, usd_micros, active_ms, reached_at)"
            " VALUES ('task', :id, 1, 1, 1, 1)",
            id=first["id"],
        )

    with app.database.reading() as tx:
        view = StateView(tx, app.processes)
        counted, judged = view.judge_plans([id])[id].tasks, view.judge_tasks_of_plan(id)

    assert judged[first["id"]].state is State.NEEDS_YOU
    assert counted == Counter(each.state for each in judged.values())


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[AttemptLocks]:
    made = AttemptLocks(tmp_path / ".deepwork")
    yield made
    made.release_all()


def test_a_lock_says_who_drives_a_run_and_asking_does_not_disturb(tmp_path: Path, locks: AttemptLocks):
    here = LocalProcesses(state_folder=tmp_path / ".deepwork")
    elsewhere = LocalProcesses(state_folder=tmp_path / "other")

    assert here.is_driven("rn_1") is None
    assert locks.take("rn_1")
    assert here.is_driven("rn_1") is True
    assert elsewhere.is_driven("rn_1") is None
    assert elsewhere.is_driven("rn_1", str(tmp_path)) is True
    locks.release_all()
    assert here.is_driven("rn_1") is False
    assert AttemptLocks(tmp_path / ".deepwork").take("rn_1")


def test_what_is_not_a_lock_of_this_user_is_not_known(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").touch()

    assert is_file_locked(tmp_path / "link") is None
    assert LocalProcesses(state_folder=tmp_path).has_session_ended("../../etc/passwd") is None
