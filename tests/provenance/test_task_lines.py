"""Lines of a task's diff lead to the commit they come from, and to the task if it changed them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import InvalidInput
from provenance.make import Made, edit_lines
from tracking.make import complete_task, create_task, create_workflow_and_phase
from workspaces.make import run_git


def explain(app: Application, task: str, line: int, *, is_old: bool = False) -> dict[str, Any]:
    return app.why.explain_task_line(task, "book.txt", line, is_old=is_old).model_dump()


def list_tasks(answer: dict[str, Any]) -> list[str]:
    return [task["id"] for task in answer["tasks"]]


def test_a_line_that_the_task_committed_leads_to_its_commit(shared_app: Application, work: Made) -> None:
    answer = explain(shared_app, work.task_id, 20)

    assert [origin["commit"] for origin in answer["commits"]] == [work.commits[1]]
    assert (answer["changed_by"], answer["changed_by_certainty"]) == (work.task_id, "certain")
    assert (list_tasks(answer), answer["question"]) == ([work.task_id], "book.txt:20")


def test_a_line_that_the_task_left_alone_leads_to_who_wrote_it(
    shared_app: Application, project: Path, work: Made
) -> None:
    first = run_git(project, "rev-parse", "main")

    answer = explain(shared_app, work.task_id, 6)

    assert [origin["commit"] for origin in answer["commits"]] == [first]
    assert "changed_by" not in answer
    assert list_tasks(answer) == []


def test_a_removed_line_leads_to_who_wrote_it_and_to_the_task_that_removed_it(
    shared_app: Application, project: Path, work: Made
) -> None:
    first = run_git(project, "rev-parse", "main")

    answer = explain(shared_app, work.task_id, 5, is_old=True)

    assert [origin["commit"] for origin in answer["commits"]] == [first]
    assert (answer["changed_by"], list_tasks(answer)) == (work.task_id, [work.task_id])


def test_uncommitted_lines_lead_to_the_task_and_shift_those_below(
    shared_app: Application, project: Path
) -> None:
    task = create_task(shared_app, create_workflow_and_phase(shared_app))
    book = project / "book.txt"
    before = book.read_text()
    book.write_text(f"preface\n{before}")
    complete_task(shared_app, task)
    book.write_text(before)

    written, below = explain(shared_app, task, 1), explain(shared_app, task, 8)

    assert (written["commits"], written["uncommitted"]) == ([], [[1, 1]])
    assert (written["changed_by"], list_tasks(written)) == (task, [task])
    [origin] = below["commits"]
    assert (origin["lines"], "changed_by" in below) == ([[7, 7]], False)


def test_a_file_that_two_tasks_may_have_changed_is_only_likely_the_work_of_one(
    shared_app: Application, project: Path
) -> None:
    where = create_workflow_and_phase(shared_app)
    one, other = create_task(shared_app, where, "one"), create_task(shared_app, where, "other")
    edit_lines(project, l1="both")
    complete_task(shared_app, one)
    complete_task(shared_app, other)
    run_git(project, "checkout", "-q", "book.txt")

    answer = explain(shared_app, one, 1)

    assert (answer["changed_by"], answer["changed_by_certainty"]) == (one, "likely")


def test_a_file_that_the_task_did_not_change_is_refused(shared_app: Application, work: Made) -> None:
    with pytest.raises(InvalidInput, match=r"how task .* changed 'a.txt'"):
        shared_app.why.explain_task_line(work.task_id, "a.txt", 1, is_old=False)

    assert call_tool(shared_app, "get_task_diff", task_id=work.task_id)["files"][0]["path"] == "book.txt"
