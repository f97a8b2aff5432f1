"""What an approval is bound to in a tree that tasks share: all that the task did, and nothing that others did."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.make import PERSON, read
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.work.plans.interfaces import CompletedWork
from gated_project import GatedProject, gated, own_trust  # noqa: F401 - fixtures
from plans.test_checks_of_tasks import complete, plan


def start(project: GatedProject, task: str) -> None:
    project.call("task_update_status", id=task, status="in_progress")


def report(project: GatedProject, task: str) -> tuple[str, dict[str, Any]]:
    """Report work that a person has to approve; return the approval, and the work that it is about."""
    id = project.close("task_update_status", id=task, status="completed", outcome="Done.")["approval"]["id"]
    work: dict[str, Any] = read(project.app, id).shown["work"]
    return id, work


@pytest.fixture
def tasks(gated: GatedProject) -> dict[str, str]:  # noqa: F811
    _, made = plan(gated, {"name": "asks", "approval": "after"}, {"name": "other", "depends_on": []})
    return made


def test_it_has_the_files_of_all_attempts_and_of_the_time_between_them(
    gated: GatedProject,  # noqa: F811
    tasks: dict[str, str],
):
    start(gated, tasks["asks"])
    gated.write("first", "1")
    refused, first = report(gated, tasks["asks"])
    refuse = gated.app.operations["refuse_approval"]
    invoke(gated.app.database, refuse, {"approval_id": refused}, Call(PERSON, refuse.name, account=PERSON))
    gated.write("between", "unseen")
    start(gated, tasks["asks"])
    gated.write("second", "2")
    _, second = report(gated, tasks["asks"])

    assert set(first["files"]) == {"first"}
    assert set(second["files"]) == {"first", "between", "second"}
    assert second["base"] == first["base"]


def test_what_another_task_does_after_the_question_does_not_ask_again(
    gated: GatedProject,  # noqa: F811
    tasks: dict[str, str],
):
    start(gated, tasks["asks"])
    gated.write("first", "1")
    _, asked = report(gated, tasks["asks"])
    start(gated, tasks["other"])
    gated.write("of-another-task", "2")
    complete(gated, tasks["other"])

    assert gated.app._diffs.describe(tasks["asks"], CompletedWork()) == asked
