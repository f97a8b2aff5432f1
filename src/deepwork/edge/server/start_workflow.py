"""The `start_workflow` tool that jobs and tracking share: it runs a job or starts a tracked workflow.

The only tool outside a slice, because neither slice knows the other. Its schema is flat and requires nothing,
because some model APIs reject alternatives in a schema; the arguments decide which form is meant.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from deepwork.kernel.answers import Field, Name, Text
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.work.jobs.responses import Started
from deepwork.work.jobs.tools import WorkflowTools
from deepwork.work.tracking.models import TrackSize
from deepwork.work.tracking.responses import WorkflowStarted
from deepwork.work.tracking.tools import TrackTools

_SIGNATURES_SUGGESTION = (
    "To run a job: start_workflow(goal, job_name, workflow_name). "
    "To record work as it happens: start_workflow(name, objective)."
)


class StartWorkflow:
    """Runs a job or starts a tracked workflow, depending on the arguments."""

    traits: ClassVar = Traits(toolset="jobs")

    def __init__(self, jobs: WorkflowTools, tracking: TrackTools) -> None:
        self._jobs = jobs
        self._tracking = tracking

    @operation("work", long_running=True)
    def start_workflow(
        self,
        goal: Annotated[Text | None, Field(description="Job: what the user wants to accomplish")] = None,
        job_name: Annotated[Name | None, Field(description="Job: from get_workflows")] = None,
        workflow_name: Annotated[Name | None, Field(description="Job: which of its workflows")] = None,
        instance_id: Annotated[str | None, Field(description="Job: for the branch name")] = None,
        name: Annotated[Name | None, Field(description="Track: short name")] = None,
        objective: Annotated[Text | None, Field(description="Track: measurable goal")] = None,
        profile: TrackSize | None = None,
        total_phases: Annotated[int | None, Field(ge=1, le=1000, description="Track: expected")] = None,
        scope: Annotated[str | None, Field(description="Track: included, excluded")] = None,
        constraints: Annotated[str | None, Field(description="Track: technical limits")] = None,
        checks: list[Name] | None = None,
    ) -> Started | InTransaction[WorkflowStarted]:
        """Job: run it (goal, job_name, workflow_name). Track: record work as it happens (name, objective)."""
        job = {"goal": goal, "job_name": job_name, "workflow_name": workflow_name, "instance_id": instance_id}
        track = {
            "name": name,
            "objective": objective,
            "profile": profile,
            "total_phases": total_phases,
            "scope": scope,
            "constraints": constraints,
            "checks": checks,
        }
        form = _resolve_form(_drop_missing(job), _drop_missing(track))
        if "job_name" in form:
            return self._jobs.start_workflow(**form)
        return self._tracking.start_workflow(**form)


def _drop_missing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _resolve_form(job: dict[str, Any], track: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the one complete form; raise for a mixed or incomplete call."""
    if job and track:
        mixed = f"`{next(iter(job))}` belongs to a job and `{next(iter(track))}` to a tracked workflow"
        raise InvalidInput(f"Use one form, not both: {mixed}.", suggestion=_SIGNATURES_SUGGESTION)
    form, needed = (track, ("name", "objective")) if track else (job, ("goal", "job_name", "workflow_name"))
    if missing := [f"`{field}`" for field in needed if field not in form]:
        what = " and ".join(missing) + (" is" if len(missing) == 1 else " are")
        raise InvalidInput(
            f"{what} missing." if form else "No arguments were given.", suggestion=_SIGNATURES_SUGGESTION
        )
    return form
