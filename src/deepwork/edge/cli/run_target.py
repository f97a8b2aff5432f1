"""What `deepwork run` is asked to work on: a plan, or a workflow of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.kernel.errors import InvalidInput, NotFound
from deepwork.work.plans.stores.plan_store import PlanStore

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_PLAN_PREFIX = "wf_"


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
    with app.database.reading() as tx:
        return PlanTarget(PlanStore(tx).get(id).id)


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
