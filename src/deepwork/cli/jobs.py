"""`deepwork jobs`: list them, look at one, check them, begin a new one, draw one."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepwork.cli.options import Function, json_option, project_option, settings_from
from deepwork.cli.output import printable, show
from deepwork.cli.verbs import Verbs
from deepwork.errors import NotFound
from deepwork.jobs.checks import warnings
from deepwork.jobs.definitions import JobShelf, load_job, problems
from deepwork.jobs.discovery import JOB_FILE, places
from deepwork.jobs.graph import as_mermaid, as_text
from deepwork.jobs.models import Job, Workflow
from deepwork.jobs.skeleton import write_skeleton

if TYPE_CHECKING:
    from deepwork.server.registry import Tools


def _job_tools() -> list[type[Tools]]:
    from deepwork.jobs.tools import WorkflowTools

    return [WorkflowTools]


def options(command: Function) -> Function:
    """Which project, and for whom the answer is; jobs are files and need no database."""
    return project_option(json_option(command))


@click.group(cls=Verbs, tools=_job_tools, only={"get_workflows"})
def jobs() -> None:
    """Jobs: workflows written in files."""
    # What is wrong is part of each answer here; the log would say it a second time.
    logging.getLogger("deepwork").addHandler(logging.NullHandler())


@jobs.command("list")
@options
def list_jobs(path: str, as_json: bool) -> None:
    """Name every job that can be used, and what is wrong with the others."""
    found, errors = _shelf(path).all()
    rows = [
        {"name": job.name, "workflows": [workflow.name for workflow in job.workflows], "summary": job.summary}
        for job in found
    ]
    if as_json:
        show({"jobs": rows, "errors": list(map(asdict, errors))}, as_json=True)
        return
    show({"jobs": rows}, as_json=False)
    _print_lines(line for error in errors for line in error.error.splitlines())


@jobs.command("show")
@click.argument("name")
@options
def show_job(name: str, path: str, as_json: bool) -> None:
    """Show a job: its workflows, steps, files and reviews."""
    job = _shelf(path).find(name)
    if as_json:
        show({**asdict(job), "folder": str(job.folder)}, as_json=True)
        return
    facts = {"job": job.name, "version": job.version, "summary": job.summary, "folder": str(job.folder)}
    show(facts, as_json=False)
    for workflow in job.workflows:
        _print_lines(["", *as_text(job, workflow).splitlines()])
    _print_lines(f"warning: {warning}" for warning in warnings(job))


@jobs.command()
@click.argument("targets", nargs=-1, metavar="[NAME|PATH]...")
@options
def validate(targets: tuple[str, ...], path: str, as_json: bool) -> None:
    """Say what is wrong with jobs, by file and line; without a name, with all of them. Exit code 1 if any."""
    shelf = _shelf(path)
    folders = [_folder(shelf, target) for target in targets] or _every_folder(shelf)
    found = [line for folder in folders for line in problems(folder)]
    found += [] if targets else _between_jobs(shelf)
    hints = [f"{folder / JOB_FILE}:1: {hint}" for folder in folders for hint in _hints(folder)]
    if as_json:
        show({"checked": list(map(str, folders)), "problems": found, "warnings": hints}, as_json=True)
    else:
        _print_lines([*found, *(f"warning: {hint}" for hint in hints)])
        print(f"{_count(len(folders), 'job')} checked, {_count(len(found), 'problem')}.")
    sys.exit(1 if found else 0)


@jobs.command()
@click.argument("name")
@options
def new(name: str, path: str, as_json: bool) -> None:
    """Begin a job: a folder with a small job.yml and instructions to change."""
    files = write_skeleton(settings_from(path).project_root, name)
    if as_json:
        show({"name": name, "files": list(map(str, files))}, as_json=True)
        return
    _print_lines(f"wrote {file}" for file in files)
    print(f"Change them, then run `deepwork jobs validate {name}`.")


@jobs.command()
@click.argument("name")
@click.argument("workflow", required=False)
@click.option("--mermaid", is_flag=True, help="Draw for a page instead of a terminal.")
@options
def graph(name: str, workflow: str | None, mermaid: bool, path: str, as_json: bool) -> None:
    """Draw a job's workflows, or one of them."""
    job = _shelf(path).find(name)
    drawn = [
        {"workflow": chosen.name, "text": as_text(job, chosen), "mermaid": as_mermaid(job, chosen)}
        for chosen in _workflows(job, workflow)
    ]
    if as_json:
        show({"job": job.name, "workflows": drawn}, as_json=True)
        return
    for number, drawing in enumerate(drawn):
        _print_lines([""] * (number > 0) + drawing["mermaid" if mermaid else "text"].splitlines())


def _shelf(path: str) -> JobShelf:
    settings = settings_from(path)
    return JobShelf(settings.project_root, lambda: [Path(at) for at in settings.additional_jobs_folders])


def _folder(shelf: JobShelf, target: str) -> Path:
    """The folder that is meant: by path, by the path of its job.yml, or by name, even of a broken job."""
    path = Path(target)
    if path.name == JOB_FILE:
        return path.parent
    if os.sep in target or path.is_dir():
        return path
    by_directory = (Path(place.folder) for place in places(shelf.folders()).places if place.name == target)
    return next(by_directory, None) or shelf.find(target).folder


def _every_folder(shelf: JobShelf) -> list[Path]:
    return [Path(place.folder) for place in places(shelf.folders()).places]


def _between_jobs(shelf: JobShelf) -> list[str]:
    """What is wrong although every file by itself is right: names that clash, folders that cannot be read."""
    errors = shelf.all()[1]
    return [f"{error.job_dir}: {error.error}" for error in errors if not problems(Path(error.job_dir))]


def _hints(folder: Path) -> list[str]:
    return [] if problems(folder) else warnings(load_job(folder))


def _workflows(job: Job, name: str | None) -> Iterable[Workflow]:
    if name is None:
        return job.workflows
    if (found := job.workflow(name)) is None:
        names = ", ".join(workflow.name for workflow in job.workflows)
        raise NotFound("workflow", name, suggestion=f"The job {job.name!r} has: {names or 'no workflow'}.")
    return [found]


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
