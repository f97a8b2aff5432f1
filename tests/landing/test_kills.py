"""A process that is killed while it lands leaves the branch old or new; the next one goes on."""

from __future__ import annotations

from deepwork.gates.access.store import AuditStore
from deepwork.gates.access.verification import find_forged_row
from landing.kills import start_kills
from landing.make import LandingProject
from landing.many_tasks import ManyTasks

STEPS = {"sqlite": "2:5", "postgresql": "4:13"}
"""At which steps a process is killed: every fifth from the second on. `make chaos` draws 300."""


def test_a_landing_can_be_killed_at_any_step(project: LandingProject, location: str) -> None:
    project.git("checkout", "-q", "-b", "desk")
    steps = STEPS["postgresql" if "://" in location else "sqlite"]
    names = [f"t{number}" for number in range(6)]
    plan = ManyTasks(project.app, project.folder, {name: {f"{name}.txt": name} for name in names})

    found = start_kills(project.folder, location, plan.id, 1, steps)

    assert found["faults"] == []
    assert found["kills"] >= 4
    assert sorted(project.list_landed()) == names
    files = set(project.git("ls-tree", "--name-only", "main").split())
    assert {f"{name}.txt" for name in names} <= files
    answer = project.land(workflow_id=plan.id)
    assert {each["status"] for each in answer["landings"]} == {"landed"}


def test_a_decision_whose_process_is_killed_takes_effect_once(project: LandingProject, location: str) -> None:
    """Killed while it asks, between the decision and its effect, and while the branch moves."""
    project.git("checkout", "-q", "-b", "desk")
    plan = ManyTasks(project.app, project.folder, {"one": {"one.txt": "one"}})
    project.require_checks(plan.id, approval=("landing",))

    found = start_kills(project.folder, location, plan.id, 1, STEPS["postgresql"])

    assert (found["faults"], project.list_landed()) == ([], ["one"])
    assert found["kills"] >= 3
    with project.app.database.reading() as tx:
        entries = [each.entry for each in AuditStore(tx).iterate_chain()]
        forged = find_forged_row(tx)
    assert [each.tool for each in entries].count("use_approval") == 1
    assert forged is None
