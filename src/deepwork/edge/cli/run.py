"""`deepwork run`: let agents work on a plan or a job, and watch them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.options import place_options
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.run_acts import is_plan_done, preview_run, start_run
from deepwork.edge.cli.run_engines import engine_options, start_in_engine, take_engine
from deepwork.edge.cli.run_options import build_request, is_over, request_options
from deepwork.edge.cli.run_target import JobTarget, PlanTarget, find_target, may_be_job
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.foreign_text import dump_json

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import Run
    from deepwork.edge.server.application import Application

JSON_LINES_HELP = "Print one JSON object per line."


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
                _print_preview(preview_run(app, found, request), as_json=as_json)
                return
            started = start_run(app, found, request, is_local=engine is None)
        except NotAllowed as refused:
            if not is_plan_done(refused):
                raise
            _print_done(found, refused.message, as_json=as_json)
            return
        if engine is not None:
            start_in_engine(engine, app, started, request.parallel)
        code = _detach(app, started, place, as_json=as_json) if detach else _follow(app, started, as_json)
    sys.exit(code)


def _follow(app: Application, started: Run, as_json: bool) -> int:
    from deepwork.edge.cli.run_following import follow_run
    from deepwork.edge.cli.run_outputs import choose_output

    return follow_run(app, started.id, choose_output(as_json=as_json))


def _detach(app: Application, started: Run, place: Mapping[str, Any], *, as_json: bool) -> int:
    from deepwork.edge.cli.run_detached import get_log_path, start_detached

    log = get_log_path(app.settings.state_folder, started.id)
    pid = start_detached(app.settings, started, place, log)
    if as_json:
        about = {"type": "run", "id": started.id, "status": started.status.value}
        print(dump_json({**about, "pid": pid, "log": str(log)}))
        return 0
    print(f"Run {started.id} goes on without this terminal; its events are in {to_printable(str(log))}.")
    print(f"deepwork runs attach {started.id}  # watch it")
    print(f"deepwork runs stop {started.id}  # start nothing more; --now ends its agents")
    return 0


def _refuse_late_run() -> int:
    from deepwork.edge.cli.main import print_error
    from deepwork.edge.cli.run_summary import NEEDS_PERSON

    said = "The time of --until has passed, so nothing was started."
    print_error(NotAllowed(said, suggestion="Give a later time."))
    return NEEDS_PERSON


def _print_done(plan: PlanTarget | JobTarget, said: str, *, as_json: bool) -> None:
    about = {"type": "plan", "id": plan.id if isinstance(plan, PlanTarget) else None, "status": "completed"}
    print(dump_json({**about, "reason": said}) if as_json else to_printable(said))


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
        yield to_printable(f"  in    {row['tree']}")
        yield to_printable(f"  runs  {shlex.join(row['argv'])}")
        yield to_printable(f"  with  {', '.join(row['env'])}")
