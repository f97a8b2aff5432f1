"""A tracked task is a success only if the checks of its workflow pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

from checks.make import run_git
from deepwork.edge.cli.main import deepwork
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.store import ProofStore
from gated_project import GatedProject, any_gated, gated, own_trust

__all__ = ["any_gated", "gated", "own_trust"]


def start(project: GatedProject, checks: list[str] | None = None, cwd: str | None = None) -> str:
    """Start a workflow with a phase and a task, and return the task's id."""
    named = {} if checks is None else {"checks": checks}
    workflow = project.call("start_workflow", name="w", objective="o", **named)["workflow_id"]
    phase = project.call("start_phase", workflow_id=workflow, number=1, name="p")["phase_id"]
    place = {} if cwd is None else {"cwd": cwd}
    started = project.call(
        "start_task",
        workflow_id=workflow,
        phase_id=phase,
        caller_type="orchestrator",
        name="t",
        goal="g",
        **place,
    )
    id: str = started["task_id"]
    return id


def end(task: str, status: str = "success") -> dict[str, Any]:
    return {"task_id": task, "status": status, "outcome": {"summary": "Done."}}


def test_a_success_needs_proofs_and_stores_them(any_gated: GatedProject):
    task = start(any_gated, ["tests"])

    error = any_gated.close("complete_task", **end(task))
    any_gated.fix()
    answer = any_gated.call("complete_task", **end(task))

    assert error["code"] == "CHECKS_FAILED"
    assert "there is no good" in error["checks"][0]["output"]
    assert answer["checks"] == {"tests": "passed"}
    assert any_gated.call("complete_task", **end(task))["checks"] == {"tests": "passed"}
    with any_gated.app.database.reading() as tx:
        [proof] = ProofStore(tx).list_used_by(ProofSubject("tracked_task", task))
    assert proof.check_name == "tests"


def test_partial_success_and_failure_are_what_they_say(gated: GatedProject):
    for status in ("partial_success", "failed"):
        answer = gated.call("complete_task", **end(start(gated, ["tests"]), status))
        assert (answer["status"], "checks" in answer) == (status, False)

    assert gated.count_runs() == 0


def test_a_workflow_without_checks_is_completed_as_before(gated: GatedProject):
    answer = gated.call("complete_task", **end(start(gated)))

    assert "checks" not in answer
    assert gated.count_runs() == 0


def test_an_unknown_name_is_refused_at_the_start(gated: GatedProject):
    error = gated.refuse("start_workflow", name="w", objective="o", checks=["typo"])

    assert error["code"] == "INVALID_INPUT"


def test_deepwork_check_proves_what_a_tracked_task_has_to(gated: GatedProject, tmp_path: Path):
    task = start(gated, ["tests"])
    place = ["--path", str(gated.folder), "--db", str(tmp_path / "deepwork.db")]

    red = CliRunner().invoke(deepwork, ["check", task, *place])
    gated.fix()
    green = CliRunner().invoke(deepwork, ["check", task, *place])

    assert (red.exit_code, green.exit_code) == (1, 0)
    assert gated.call("complete_task", **end(task))["checks"] == {"tests": "passed"}
    assert gated.count_runs() == 2


def test_a_guarded_change_of_the_task_waits_for_a_person(gated: GatedProject):
    task = start(gated, ["tests"])
    gated.fix()
    gated.write("guarded/a.py", "")

    assert gated.close("complete_task", **end(task))["code"] == "CHECKS_GUARDED"


def test_a_file_that_differed_before_the_workflow_is_not_the_change_of_its_task(any_gated: GatedProject):
    any_gated.write(".deepwork/config.yml", "version: 1\n")
    any_gated.write("guarded/test", "the person works on it\n")
    task = start(any_gated, ["tests"])
    any_gated.fix()

    assert any_gated.call("complete_task", **end(task))["checks"] == {"tests": "passed"}


def test_a_file_of_a_person_that_the_task_changes_is_its_change(gated: GatedProject):
    gated.write("guarded/test", "the person works on it\n")
    task = start(gated, ["tests"])
    gated.fix()

    gated.write("guarded/test", "easy\n")
    error = gated.close("complete_task", **end(task))

    assert error["code"] == "CHECKS_GUARDED"
    assert f"changed by task {task}" in error["message"]


def test_what_a_task_without_checks_changed_is_no_file_of_a_person(gated: GatedProject):
    first = start(gated)
    gated.write("guarded/test", "easy\n")
    gated.call("complete_task", **end(first))
    task = start(gated, ["tests"])
    gated.fix()

    error = gated.close("complete_task", **end(task))

    assert error["code"] == "CHECKS_GUARDED"
    assert f"changed by task {first}" in error["message"]


def test_a_task_in_another_worktree_is_checked_there(gated: GatedProject):
    tree = gated.folder.parent / "tree"
    run_git(gated.folder, "worktree", "add", "-q", "-b", "side", str(tree))
    task = start(gated, ["tests"], cwd=str(tree))
    gated.fix()

    error = gated.close("complete_task", **end(task))
    (tree / "good").write_text("")

    assert error["code"] == "CHECKS_FAILED"
    assert gated.call("complete_task", **end(task))["checks"] == {"tests": "passed"}


def test_the_checks_of_a_job_are_not_named_in_the_call(gated: GatedProject):
    error = gated.refuse("start_workflow", goal="g", job_name="j", workflow_name="w", checks=["tests"])

    assert error["code"] == "INVALID_INPUT"
