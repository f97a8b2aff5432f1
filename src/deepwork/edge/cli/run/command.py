"""`deepwork run`: let agents work on a plan or a job, and watch them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import place_options
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.run.options import (
    build_request,
    engine_options,
    is_over,
    request_options,
    start_in_engine,
    take_engine,
)
from deepwork.kernel.call import Call, use_call
from deepwork.kernel.errors import InvalidInput, NotAllowed, NotFound
from deepwork.kernel.foreign_text import dump_json, quote_line

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import Run, RunRequest
    from deepwork.edge.server.application import Application

_MAX_UNSEEN = 5
_INCLUDE = "git add --all && git commit  # includes them, for trees that are made from now on"
JSON_LINES_HELP = "Print one JSON object per line."
_PLAN_PREFIX = "wf_"


@click.command()
@click.argument("target", metavar="PLAN|JOB/WORKFLOW")
@request_options
@click.option("--goal", type=TextParam(may_be_empty=False), metavar="TEXT|-", help="What a job is run for.")
@click.option("--detach", is_flag=True, help="Go on without this terminal, and print how to come back.")
@click.option("--dry-run", is_flag=True, help="Print what would be started first; starts nothing.")
@engine_options
@place_options
@click.option("--json", "as_json", is_flag=True, help=JSON_LINES_HELP)
def run(target: str, goal: str | None, detach: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Let agents work on a plan, or run a workflow of a job, until everything is done.

    Ctrl-C leaves the agents running; the same command, or `deepwork runs attach`, goes on. Exit code: 0 all
    is done, 3 something needs a person or the time of --until is over, 1 failed or stopped, 130 interrupted.
    """
    from deepwork.edge.cli.run.following import continue_run

    if detach and dry_run:
        raise click.UsageError("--dry-run starts nothing, so there is nothing to detach.")
    request, engine = build_request(given), take_engine(given)
    if is_over(request):
        sys.exit(_refuse_late_run())
    place = {name: given[name] for name in ("database", "global_store")}
    with open_application(given["path"], place, reads=not may_be_job(target), quiet=as_json) as app:
        found = find_target(app, target, goal)
        try:
            if dry_run:
                preview = preview_run(app, found, request)
                warn_of_unseen_files(app, app.settings.repository_root)
                _print_preview(preview, as_json=as_json)
                return
            started = start_run(app, found, request, is_local=engine is None)
        except NotAllowed as refused:
            if not is_plan_done(refused):
                raise
            _print_done(found, refused.message, as_json=as_json)
            return
        warn_of_unseen_files(app, Path(started.repository_path))
        if engine is not None:
            start_in_engine(engine, app, started, request.parallel)
        code = continue_run(app, started.id, place, detach=detach, as_json=as_json)
        if started.options.land and started.workflow_id and not (detach or as_json):
            _print_landed(app, started.id)
    sys.exit(code)


def warn_of_unseen_files(app: Application, project: Path) -> None:
    """Say which files agents do not see, because their trees begin with a commit."""
    if not project.is_dir() or not (found := app.runner.list_unseen_files(project)):
        return
    names = map(quote_line, found[:_MAX_UNSEEN])  # what is in a repository may be anybody's words
    shown = ", ".join([*names, *(["…"] if len(found) > _MAX_UNSEEN else [])])
    count = f"{len(found)} uncommitted file{'s' if len(found) > 1 else ''}"
    said = f"Agents do not see {count} of your checkout: {shown}\n{_INCLUDE}"
    print("\n".join(map(to_printable, said.split("\n"))), file=sys.stderr)


def _refuse_late_run() -> int:
    from deepwork.edge.cli.main import print_error
    from deepwork.edge.cli.run.rendering import NEEDS_PERSON

    said = "The time of --until has passed, so nothing was started."
    print_error(NotAllowed(said, suggestion="Give a later time."))
    return NEEDS_PERSON


def _print_done(plan: PlanTarget | JobTarget, said: str, *, as_json: bool) -> None:
    about = {"type": "plan", "id": plan.id if isinstance(plan, PlanTarget) else None, "status": "completed"}
    print(dump_json({**about, "reason": said}) if as_json else to_printable(said))


def _print_landed(app: Application, run_id: str) -> None:
    """Print how to see what landed, and how to take it in, unless the run was only left."""
    from deepwork.edge.cli.run.following import has_ended
    from deepwork.edge.cli.run.rendering import load_run

    if not has_ended(load_run(app, run_id)):
        return
    report = call_operation(app, "report_run", {"id": run_id})
    print(f"deepwork report {run_id}  # all of it, with the evidence")
    if any("landed" in task for task in report["tasks"]):
        print("\n".join(f"{to_printable(command)}  # takes it in" for command in report["take_in"]))


def _print_preview(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(dump_json({"type": "preview", **row}))
        return
    print("\n".join(render_preview(rows)))


def render_preview(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Render what would be started: the exact commands, and the names of the variables that they get."""
    if not rows:
        yield "No task is ready, so nothing would be started."
    for row in rows:
        yield to_printable(f"{row['task']}, by {row['profile']}")
        yield to_printable(f"  in    {row['folder']}")
        yield to_printable(f"  runs  {shlex.join(row['argv'])}")
        yield to_printable(f"  with  {', '.join(row['env'])}")


def start_run(
    app: Application, target: PlanTarget | JobTarget, request: RunRequest, *, is_local: bool = True
) -> Run:
    """Start a run, or join the one that works on the same plan or job; unless local, another engine works."""
    with use_call(Call(name_person(), "run")):
        if isinstance(target, JobTarget):
            if not is_local:
                raise NotAllowed("Only plans can be run with Temporal.", suggestion="Leave out --engine.")
            return app.runner.start_job(f"{target.job}/{target.workflow}", target.goal, request)
        return app.runner.start_plan(target.id, request, is_local=is_local)


def preview_run(
    app: Application, target: PlanTarget | JobTarget, request: RunRequest
) -> list[dict[str, Any]]:
    """List what would be started first."""
    if isinstance(target, JobTarget):
        return app.runner.preview_job(f"{target.job}/{target.workflow}", target.goal, request)
    return app.runner.preview(target.id, request)


def is_plan_done(refused: NotAllowed) -> bool:
    """Return whether a run was refused because its plan is done."""
    from deepwork.delivery.runner.worker import PlanDone

    return isinstance(refused, PlanDone)


class PlanTarget(NamedTuple):
    """A plan to work on."""

    id: str


class JobTarget(NamedTuple):
    """A workflow of a job to run, and what for."""

    job: str
    workflow: str
    goal: str


def may_be_job(given: str) -> bool:
    """Whether this may name a workflow of a job, which needs no store."""
    return "/" in given and not given.startswith(_PLAN_PREFIX)


def find_target(app: Application, given: str, goal: str | None) -> PlanTarget | JobTarget:
    """Find what a person means; refuses what means nothing, or both."""
    known = resolve_id(app.database, "plan", given)
    is_plan = known.startswith(_PLAN_PREFIX)
    is_job = may_be_job(given) and _has_job_workflow(app, given)
    if is_plan and is_job:
        raise InvalidInput(
            f"{given!r} may mean the plan {known} or a workflow of the job.",
            suggestion=f"Write {known} for the plan; rename the plan to run the job.",
        )
    if is_plan:
        return _to_plan(app, known, goal)
    if may_be_job(given):
        return _to_job(app, given, goal)
    raise NotFound(
        "workflow",
        given,
        suggestion="List the plans with `deepwork plans list`; a job is named as JOB/WORKFLOW, see"
        " `deepwork jobs list`.",
    )


def _to_plan(app: Application, id: str, goal: str | None) -> PlanTarget:
    if goal is not None:
        raise click.UsageError("--goal is for jobs; what a plan is for was said when it was created.")
    return PlanTarget(call_operation(app, "workflow_get", {"id": id})["id"])


def _to_job(app: Application, given: str, goal: str | None) -> JobTarget:
    job, _, workflow = given.partition("/")
    found = app.jobs.catalog.get(job)  # raises NotFound
    if found.find_workflow(workflow) is None:
        names = ", ".join(each.name for each in found.workflows)
        raise NotFound("workflow", given, suggestion=f"The job {job!r} has: {names or 'no workflow'}.")
    if not goal:
        raise click.UsageError("Missing option '--goal': a job has to know what it is run for.")
    return JobTarget(job, workflow, goal)


def _has_job_workflow(app: Application, given: str) -> bool:
    job, _, workflow = given.partition("/")
    try:
        return app.jobs.catalog.get(job).find_workflow(workflow) is not None
    except NotFound:
        return False
