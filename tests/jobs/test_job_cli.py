"""`deepwork jobs`: what a person or a script sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deepwork.edge.cli.jobs import jobs
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed, NotFound
from deepwork.work.jobs.definitions.catalog import find_problems, load_job
from jobs.make import make_job, make_step, make_workflow, write_job, write_project_job


def run(project: Path, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(jobs, [*words, "--path", str(project)])


def run_json(project: Path, *words: str) -> Any:
    return json.loads(run(project, *words, "--json").stdout)


def test_list_shows_every_job_and_the_errors_of_broken_ones(tmp_path: Path):
    write_project_job(tmp_path, make_job())
    folder = write_project_job(tmp_path, "name: [", directory="bad")

    ran = run(tmp_path, "list")

    assert ran.exit_code == 0
    assert all(name in ran.output for name in ("report", "hello_review", "deepwork_jobs"))
    assert f"{folder}/job.yml:1: " in ran.output


def test_list_as_json_has_jobs_and_errors(tmp_path: Path):
    write_project_job(tmp_path, make_job())
    write_project_job(tmp_path, "name: [", directory="bad")

    listed = run_json(tmp_path, "list")

    assert listed["jobs"][0] == {"name": "report", "workflows": ["main"], "summary": "Write a report."}
    assert [error["job_name"] for error in listed["errors"]] == ["bad"]


def test_list_includes_additional_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_job(tmp_path / "more" / "extra", make_job(name="extra"))
    monkeypatch.setenv("DEEPWORK_ADDITIONAL_JOBS_FOLDERS", f" {tmp_path}/more :: {tmp_path}/none ")

    assert run_json(tmp_path, "list")["jobs"][-1]["name"] == "extra"


def test_show_prints_workflows_steps_and_warnings(tmp_path: Path):
    write_project_job(tmp_path, make_job(make_step("a"), make_step("b"), workflows=[make_workflow("a")]))

    ran = run(tmp_path, "show", "report")

    assert "report/main: All of it." in ran.output
    assert "warning: No workflow uses these steps: 'b'." in ran.output
    assert run_json(tmp_path, "show", "report")["steps"][0]["id"] == "a"


def test_validate_accepts_valid_jobs(tmp_path: Path):
    write_project_job(tmp_path, make_job())

    ran = run(tmp_path, "validate")

    assert (ran.exit_code, ran.output) == (0, "3 jobs checked, 0 problems.\n")


def test_validate_prints_problems_with_file_and_line_and_fails(tmp_path: Path):
    folder = write_project_job(tmp_path, make_job(name="Report", version=1.0), directory="report")

    ran = run(tmp_path, "validate")

    first, second, last = ran.output.splitlines()
    assert ran.exit_code == 1
    assert first.startswith(f"{folder}/job.yml:1: name: 'Report' is not allowed; ")
    assert second.startswith(f"{folder}/job.yml:2: version: ")
    assert last == "3 jobs checked, 2 problems."


@pytest.mark.parametrize("target", ["bad", "{}/.deepwork/jobs/bad", "{}/.deepwork/jobs/bad/job.yml"])
def test_validate_takes_a_name_or_a_path(target: str, tmp_path: Path):
    write_project_job(tmp_path, make_job())
    write_project_job(tmp_path, "name: [", directory="bad")

    ran = run(tmp_path, "validate", "report", target.format(tmp_path))

    assert ran.exit_code == 1
    assert "2 jobs checked, 1 problem." in ran.output


def test_validate_finds_a_job_by_the_name_in_its_file(tmp_path: Path):
    write_project_job(tmp_path, make_job(name="report"), directory="other")

    assert run(tmp_path, "validate", "report").exit_code == 0


def test_validate_reports_jobs_that_share_a_name(tmp_path: Path):
    write_project_job(tmp_path, make_job())
    write_project_job(tmp_path, make_job(), directory="copy")

    ran = run(tmp_path, "validate")

    assert ran.exit_code == 1
    assert "Two jobs share a name" in ran.output


def test_validate_with_json_keeps_its_exit_code(tmp_path: Path):
    write_project_job(tmp_path, "name: [", directory="bad")

    ran = run(tmp_path, "validate", "bad", "--json")

    assert ran.exit_code == 1
    assert len(json.loads(ran.stdout)["problems"]) == 1


def test_validate_succeeds_with_warnings(tmp_path: Path):
    write_project_job(tmp_path, make_job(make_step("a"), make_step("b"), workflows=[make_workflow("a")]))

    ran = run(tmp_path, "validate", "report")

    assert ran.exit_code == 0
    assert "warning: " in ran.output


def test_a_new_job_is_valid(tmp_path: Path):
    ran = run(tmp_path, "new", "weekly_report")

    folder = tmp_path / ".deepwork" / "jobs" / "weekly_report"
    assert ran.exit_code == 0
    assert find_problems(folder) == []
    assert load_job(folder).name == "weekly_report"
    assert run(tmp_path, "validate", "weekly_report").output == "1 job checked, 0 problems.\n"


def test_a_new_job_overwrites_nothing(tmp_path: Path):
    folder = write_project_job(tmp_path, make_job())
    before = (folder / "job.yml").read_text()

    assert get_error(tmp_path, "new", "report", kind=NotAllowed).endswith("already exists.")
    assert (folder / "job.yml").read_text() == before


@pytest.mark.parametrize("name", ["Report", "../x", "a-b", "", "1st", "x" * 201])
def test_a_new_job_needs_a_valid_name(name: str, tmp_path: Path):
    get_error(tmp_path, "new", name, kind=InvalidInput)

    assert not (tmp_path / ".deepwork").exists()


def test_graph_draws_all_workflows_or_one(tmp_path: Path):
    write_project_job(
        tmp_path, make_job(workflows=[make_workflow("write"), make_workflow("write", name="again")])
    )

    assert "report/main" in run(tmp_path, "graph", "report").output
    assert "report/main" not in run(tmp_path, "graph", "report", "again").output
    assert run(tmp_path, "graph", "report", "main", "--mermaid").output.startswith("flowchart TD\n")
    assert len(run_json(tmp_path, "graph", "report")["workflows"]) == 2


def test_graph_of_an_unknown_workflow_is_an_error(tmp_path: Path):
    write_project_job(tmp_path, make_job())

    assert "workflow 'none'" in get_error(tmp_path, "graph", "report", "none", kind=NotFound)


def test_a_hostile_job_cannot_control_the_terminal(tmp_path: Path):
    write_project_job(tmp_path, make_job(make_step("a", name="\x1b[2J\x07"), summary="\x1b]0;owned\x07"))

    for words in (["list"], ["show", "report"], ["graph", "report"], ["graph", "report", "--mermaid"]):
        assert "\x1b" not in run(tmp_path, *words).output


def get_error(project: Path, *words: str, kind: type[DeepworkError]) -> str:
    error = run(project, *words).exception
    assert isinstance(error, kind)
    return error.message
