"""A step of a job is done only if its checks pass; the reviews come after them."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from checks.make import Project, replace_object, run_git, shell
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.store import ProofStore
from gated_project import GatedProject, any_gated, gated, own_trust
from jobs.project import make_review, make_step, write_job

__all__ = ["any_gated", "gated", "own_trust"]


def commit_job(project: Project, *steps: dict[str, Any]) -> None:
    write_job(project.folder, "report", list(steps) or [make_step("write", checks=["tests"])])
    run_git(project.folder, "add", "-A", "-f", ".deepwork/jobs")
    run_git(project.folder, "commit", "-q", "-m", "job")


def start(project: GatedProject) -> str:
    given = {"goal": "g", "job_name": "report", "workflow_name": "main"}
    id: str = project.call("start_workflow", **given)["begin_step"]["session_id"]
    return id


def finish(project: GatedProject, step: str = "write", **more: Any) -> Any:
    project.write(f"{step}.md", "text\n")
    return project.call("finished_step", outputs={f"{step}.md": f"{step}.md"}, **more)


def get_progress(project: GatedProject, step: str = "write") -> dict[str, Any]:
    session: dict[str, Any] = project.call("get_session")["session"]
    progress: dict[str, Any] = session["step_progress"][step]
    return progress


def test_a_red_check_sends_the_step_back_and_costs_an_attempt(any_gated: GatedProject):
    commit_job(any_gated)
    id = start(any_gated)

    red = finish(any_gated)
    attempts = get_progress(any_gated)["quality_attempts"]
    any_gated.fix()
    green = finish(any_gated)

    assert (red["status"], red["waiting_for"]) == ("needs_work", "checks")
    assert "there is no good" in red["feedback"]
    assert "attempt 1 of 3" in red["feedback"]
    assert attempts == 1
    assert (green["status"], green["checks"]) == ("workflow_complete", {"tests": "passed"})
    with any_gated.app.database.reading() as tx:
        [proof] = ProofStore(tx).list_used_by(ProofSubject("step", f"{id}/write"))
    assert proof.check_name == "tests"


def test_a_step_without_checks_answers_as_before(gated: GatedProject):
    commit_job(gated, make_step("write"))
    start(gated)

    answer = finish(gated)

    assert answer["status"] == "workflow_complete"
    assert not {"checks", "waiting_for"} & answer.keys()
    assert gated.count_runs() == 0


def test_an_override_passes_reviews_and_no_check(gated: GatedProject):
    commit_job(gated, make_step("write", checks=["tests"], reviews=[make_review()]))
    start(gated)

    red = finish(gated, quality_review_override_reason="I am sure.")
    gated.fix()
    reviewed = finish(gated)
    overridden = finish(gated, quality_review_override_reason="I am sure.")

    assert red["waiting_for"] == "checks"
    assert reviewed["status"] == "needs_work"
    assert "waiting_for" not in reviewed
    assert overridden["status"] == "workflow_complete"


def test_after_the_last_attempt_a_person_is_asked(gated: GatedProject):
    commit_job(gated)
    start(gated)

    finish(gated)
    finish(gated)
    error = gated.refuse("finished_step", outputs={"write.md": "write.md"})
    gated.fix()

    assert (error["code"], error["waiting_for"]) == ("CHECKS_FAILED", "person")
    assert "there is no good" in error["message"]
    assert finish(gated)["status"] == "workflow_complete"


def test_a_check_that_nobody_trusts_costs_no_attempt(gated: GatedProject):
    gated.define_check(shell("touch ran"), trust=False)
    commit_job(gated)
    start(gated)

    answer = finish(gated)

    assert answer["waiting_for"] == "checks"
    assert "deepwork trust" in answer["feedback"]
    assert get_progress(gated)["quality_attempts"] == 0
    assert not (gated.folder / "ran").exists()


def test_a_guarded_change_waits_for_an_approval(gated: GatedProject):
    commit_job(gated)
    start(gated)
    gated.fix()
    gated.write("guarded/a.py", "")

    answer = finish(gated)

    assert (answer["status"], answer["waiting_for"]) == ("needs_work", "approval")
    assert get_progress(gated)["quality_attempts"] == 0


def test_a_file_that_differed_before_the_session_is_not_the_change_of_its_step(any_gated: GatedProject):
    commit_job(any_gated)
    any_gated.write(".deepwork/config.yml", "version: 1\n")
    any_gated.write("guarded/test", "the person works on it\n")
    start(any_gated)
    any_gated.fix()

    assert finish(any_gated)["status"] == "workflow_complete"


def test_a_file_of_a_person_that_changes_in_the_session_is_its_change(gated: GatedProject):
    commit_job(gated, make_step("plan"), make_step("write", checks=["tests"]))
    gated.write("guarded/test", "the person works on it\n")
    start(gated)
    gated.fix()

    gated.write("guarded/test", "easy\n")
    finish(gated, "plan")  # a step without checks

    assert finish(gated)["waiting_for"] == "approval"


def test_a_guarded_change_that_nobody_approved_passes_in_no_other_session_either(any_gated: GatedProject):
    commit_job(any_gated)
    start(any_gated)
    any_gated.fix()
    any_gated.write("guarded/a.py", "")
    finish(any_gated)
    any_gated.call("abort_workflow", explanation="It waits.")

    start(any_gated)

    assert finish(any_gated)["waiting_for"] == "approval"


def test_editing_job_yml_does_not_drop_the_checks_of_a_step(gated: GatedProject):
    commit_job(gated, make_step("write", checks=["tests"]), make_step("send"))
    write_job(gated.folder, "report", [make_step("write"), make_step("send")])
    start(gated)

    assert finish(gated)["waiting_for"] == "checks"


def test_editing_job_yml_after_the_start_does_not_drop_them_either(gated: GatedProject):
    commit_job(gated)
    start(gated)
    write_job(gated.folder, "report", [make_step("write")])
    run_git(gated.folder, "add", "-A", "-f", ".deepwork/jobs")
    run_git(gated.folder, "commit", "-q", "-m", "weaker")

    assert finish(gated)["waiting_for"] == "checks"


def test_a_workflow_without_its_checked_step_does_not_start(gated: GatedProject):
    commit_job(gated, make_step("write"), make_step("test", checks=["tests"]))
    write_job(gated.folder, "report", [make_step("write"), make_step("test_2")])

    error = gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "INVALID_INPUT"
    assert "'test'" in error["message"]


@pytest.mark.parametrize("gate", [{"checks": ["tests"]}, {"approval": {}}, {"budget": {"minutes": 1}}])
@pytest.mark.parametrize(
    "workflows",
    [{"main": ["send"]}, {"main": ["send", "write"]}, {"main": [["write", "send"]]}, {"easy": ["send"]}],
)
def test_an_edited_workflow_neither_leaves_out_nor_overtakes_a_gate(
    gated: GatedProject, gate: dict[str, Any], workflows: dict[str, Any]
):
    steps = [make_step("write", **gate), make_step("send")]
    commit_job(gated, *steps)
    write_job(gated.folder, "report", steps, **workflows)

    error = gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "INVALID_INPUT"


def test_an_edited_workflow_may_do_more_after_its_gates(gated: GatedProject):
    commit_job(gated)
    write_job(gated.folder, "report", [make_step("write"), make_step("send")])
    start(gated)

    assert finish(gated)["waiting_for"] == "checks"


@pytest.mark.parametrize("committed", ["report", "folder"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_job_keeps_its_checks_wherever_its_folder_is_now(
    gated: GatedProject, committed: str, is_link: bool
):
    jobs = gated.folder / ".deepwork" / "jobs"
    write_job(gated.folder, "report", [make_step("write", checks=["tests"])]).rename(jobs / committed)
    run_git(gated.folder, "add", "-A", "-f", ".deepwork/jobs")
    run_git(gated.folder, "commit", "-q", "-m", "job")
    shutil.rmtree(jobs / committed)
    moved = write_job(gated.folder, "report", [make_step("write")])
    if is_link:
        moved.rename(gated.folder / "elsewhere")
        moved.symlink_to(gated.folder / "elsewhere")
    else:
        moved.rename(jobs / "other")
    start(gated)

    assert finish(gated)["waiting_for"] == "checks"


@pytest.mark.parametrize("place", ["/report/job.yml", "/report", ""])
def test_a_repository_that_stores_an_easier_job_under_the_hash_of_the_committed_one_is_not_believed(
    gated: GatedProject, place: str
):
    commit_job(gated, make_step("write"))
    easy = run_git(gated.folder, "rev-parse", f"HEAD:.deepwork/jobs{place}")
    commit_job(gated)
    strict = run_git(gated.folder, "rev-parse", f"HEAD:.deepwork/jobs{place}")
    write_job(gated.folder, "report", [make_step("write")])
    replace_object(gated.folder, strict, easy)

    error = gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "GIT_ERROR"


NO_COMMIT = {
    "orphan branch": "git checkout -q --orphan easy",
    "no .git": "mv .git ../moved",
    "new repository": "mv .git ../moved; git init -q",
    "branches renamed": "git update-ref refs/kept/main HEAD; git update-ref -d HEAD; git pack-refs --all",
}


@pytest.mark.parametrize("how", NO_COMMIT)
@pytest.mark.parametrize("gate", [{"checks": ["tests"]}, {"approval": {}}])
def test_a_job_whose_gates_were_seen_does_not_start_where_head_names_no_commit(
    any_gated: GatedProject, gate: dict[str, Any], how: str
):
    commit_job(any_gated, make_step("write", **gate))
    start(any_gated)
    any_gated.call("abort_workflow", explanation="Too hard.")

    subprocess.run(["sh", "-ec", NO_COMMIT[how]], cwd=any_gated.folder, check=True)
    write_job(any_gated.folder, "report", [make_step("write")])
    error = any_gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "INVALID_STATE"


def test_a_job_that_a_branch_may_have_with_gates_does_not_start_beside_it(gated: GatedProject):
    commit_job(gated)
    run_git(gated.folder, "checkout", "-q", "--orphan", "easy")
    write_job(gated.folder, "report", [make_step("write")])

    error = gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "INVALID_STATE"


@pytest.mark.parametrize("how", ["no .git", "new repository"])
def test_a_job_without_gates_starts_also_where_head_names_no_commit(gated: GatedProject, how: str):
    commit_job(gated, make_step("write"))
    start(gated)
    gated.call("abort_workflow", explanation="Again.")

    subprocess.run(["sh", "-ec", NO_COMMIT[how]], cwd=gated.folder, check=True)
    start(gated)

    assert finish(gated)["status"] == "workflow_complete"


def test_a_name_that_is_not_defined_is_refused_at_the_start(gated: GatedProject):
    commit_job(gated, make_step("write", checks=["typo"]))

    error = gated.refuse("start_workflow", goal="g", job_name="report", workflow_name="main")

    assert error["code"] == "INVALID_INPUT"
    assert "Commit .deepwork/checks.yml" in error["suggestion"]


def test_a_repeated_key_returns_the_first_answer(gated: GatedProject):
    commit_job(gated)
    start(gated)
    red = finish(gated, key="k")
    gated.fix()

    assert finish(gated, key="k") == red
    assert gated.count_runs() == 1
    assert json.loads(json.dumps(red)) == red


@pytest.mark.parametrize("checks", ["tests", [1], {"a": 1}])
def test_a_malformed_list_of_checks_is_reported(gated: GatedProject, checks: Any):
    write_job(gated.folder, "report", [make_step("write", checks=checks)])

    [error] = gated.call("get_workflows")["errors"]

    assert "checks" in error["error"]
