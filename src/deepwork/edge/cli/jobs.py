"""`deepwork jobs`: list, show, validate, create and draw jobs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click

from deepwork.edge.cli.framework.options import Function, json_option, load_command_settings, project_option
from deepwork.edge.cli.framework.output import print_answer, print_lines
from deepwork.edge.cli.framework.tool_commands import ToolGroup
from deepwork.kernel.errors import NotFound
from deepwork.work.jobs.definitions.catalog import JobCatalog, find_locations, find_problems, load_job
from deepwork.work.jobs.definitions.checks import find_warnings
from deepwork.work.jobs.definitions.graph import render_mermaid, render_text
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, JobWorkflow
from deepwork.work.jobs.definitions.validation import write_skeleton


def options(command: Function) -> Function:
    """Add --path and --json. There is no --db: jobs are files."""
    return project_option(json_option(command))


@click.group(cls=ToolGroup, tools=["deepwork.work.jobs.tools:WorkflowTools"], only={"get_workflows"})
def jobs() -> None:
    """Jobs: list, validate, create and draw them."""
    # Every answer here contains the problems, so keep them out of the log.
    logging.getLogger("deepwork").addHandler(logging.NullHandler())


@jobs.command("list")
@options
def list_jobs(path: str, as_json: bool) -> None:
    """List all valid jobs, and the problems of the others."""
    found, errors = _build_catalog(path).load_all()
    rows = [
        {"name": job.name, "workflows": [workflow.name for workflow in job.workflows], "summary": job.summary}
        for job in found
    ]
    if as_json:
        print_answer({"jobs": rows, "errors": list(map(asdict, errors))}, as_json=True)
        return
    print_answer({"jobs": rows}, as_json=False)
    print_lines(line for error in errors for line in error.error.splitlines())


@jobs.command("show")
@click.argument("name")
@options
def show_job(name: str, path: str, as_json: bool) -> None:
    """Show a job: its workflows, steps, files and reviews."""
    job = _build_catalog(path).get(name)
    if as_json:
        print_answer({**asdict(job), "folder": str(job.folder)}, as_json=True)
        return
    facts = {"job": job.name, "version": job.version, "summary": job.summary, "folder": str(job.folder)}
    print_answer(facts, as_json=False)
    for workflow in job.workflows:
        print_lines(["", *render_text(job, workflow).splitlines()])
    print_lines(f"warning: {warning}" for warning in find_warnings(job))


@jobs.command()
@click.argument("targets", nargs=-1, metavar="[NAME|PATH]...")
@options
def validate(targets: tuple[str, ...], path: str, as_json: bool) -> None:
    """Report problems in these jobs, or in all, by file and line; exit code 1 if there are any."""
    catalog = _build_catalog(path)
    folders = [_find_folder(catalog, target) for target in targets] or _list_folders(catalog)
    found = [line for folder in folders for line in find_problems(folder)]
    found += [] if targets else _find_conflicts(catalog)
    hints = [f"{folder / JOB_FILE}:1: {hint}" for folder in folders for hint in _list_warnings(folder)]
    if as_json:
        print_answer({"checked": list(map(str, folders)), "problems": found, "warnings": hints}, as_json=True)
    else:
        print_lines([*found, *(f"warning: {hint}" for hint in hints)])
        print(f"{_format_count(len(folders), 'job')} checked, {_format_count(len(found), 'problem')}.")
    sys.exit(1 if found else 0)


@jobs.command()
@click.argument("name")
@options
def new(name: str, path: str, as_json: bool) -> None:
    """Create a job: a folder with a small job.yml and instructions to edit."""
    files = write_skeleton(load_command_settings(path).project_root, name)
    if as_json:
        print_answer({"name": name, "files": list(map(str, files))}, as_json=True)
        return
    print_lines(f"wrote {file}" for file in files)
    print(f"Edit them, then run `deepwork jobs validate {name}`.")


@jobs.command()
@click.argument("name")
@click.argument("workflow", required=False)
@click.option("--mermaid", is_flag=True, help="Print a Mermaid diagram.")
@options
def graph(name: str, workflow: str | None, mermaid: bool, path: str, as_json: bool) -> None:
    """Draw a job's workflows, or one of them."""
    job = _build_catalog(path).get(name)
    drawn = [
        {"workflow": chosen.name, "text": render_text(job, chosen), "mermaid": render_mermaid(job, chosen)}
        for chosen in _select_workflows(job, workflow)
    ]
    if as_json:
        print_answer({"job": job.name, "workflows": drawn}, as_json=True)
        return
    for number, drawing in enumerate(drawn):
        print_lines([""] * (number > 0) + drawing["mermaid" if mermaid else "text"].splitlines())


def _build_catalog(path: str) -> JobCatalog:
    settings = load_command_settings(path)
    return JobCatalog(settings.project_root, lambda: [Path(at) for at in settings.additional_jobs_folders])


def _find_folder(catalog: JobCatalog, target: str) -> Path:
    """Find a job's folder by path, by the path of its job.yml, or by name; the job may be invalid."""
    path = Path(target)
    if path.name == JOB_FILE:
        return path.parent
    if os.sep in target or path.is_dir():
        return path
    by_directory = (folder for folder in _list_folders(catalog) if folder.name == target)
    return next(by_directory, None) or catalog.get(target).folder


def _list_folders(catalog: JobCatalog) -> list[Path]:
    return [Path(location.path) for location in find_locations(catalog.list_folders())[0]]


def _find_conflicts(catalog: JobCatalog) -> list[str]:
    """List problems beyond single files: duplicate names, unreadable folders."""
    errors = catalog.load_all()[1]
    return [f"{error.job_dir}: {error.error}" for error in errors if not find_problems(Path(error.job_dir))]


def _list_warnings(folder: Path) -> list[str]:
    return [] if find_problems(folder) else find_warnings(load_job(folder))


def _select_workflows(job: Job, name: str | None) -> Iterable[JobWorkflow]:
    if name is None:
        return job.workflows
    if (found := job.find_workflow(name)) is None:
        names = ", ".join(workflow.name for workflow in job.workflows)
        raise NotFound("workflow", name, suggestion=f"The job {job.name!r} has: {names or 'no workflow'}.")
    return [found]


def _format_count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
