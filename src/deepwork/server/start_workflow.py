"""The one tool that two slices share: `start_workflow` runs a job, or begins to record what happens.

The only tool outside a slice, because neither of the two knows the other. Its schema is flat and requires
nothing: some model APIs refuse alternatives in a schema, so which form it is, is found out here.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import anyio
from pydantic import Field

from deepwork.database.idempotency import under_key
from deepwork.database.transaction import Database
from deepwork.errors import InvalidInput
from deepwork.jobs.responses import Started
from deepwork.jobs.tools import WorkflowTools
from deepwork.shapes import Name, Text, Traits
from deepwork.tracking.models import Profile
from deepwork.tracking.responses import WorkflowStarted
from deepwork.tracking.tools import TrackTools

_FORMS = (
    "To run a job: start_workflow(goal, job_name, workflow_name). "
    "To record work as it happens: start_workflow(name, objective)."
)


class StartWorkflow:
    """Runs a job, or begins to record a workflow: told by what it is given."""

    traits: ClassVar = Traits(toolset="jobs")

    def __init__(self, database: Database, jobs: WorkflowTools, tracking: TrackTools) -> None:
        self._database = database
        self._jobs = jobs
        self._tracking = tracking

    async def start_workflow(
        self,
        goal: Annotated[Text | None, Field(description="Job: what the user wants to accomplish")] = None,
        job_name: Annotated[Name | None, Field(description="Job: from get_workflows")] = None,
        workflow_name: Annotated[Name | None, Field(description="Job: which of its workflows")] = None,
        instance_id: Annotated[str | None, Field(description="Job: for the branch name")] = None,
        name: Annotated[Name | None, Field(description="Track: short name")] = None,
        objective: Annotated[Text | None, Field(description="Track: measurable goal")] = None,
        profile: Annotated[Profile | None, Field(description="Track")] = None,
        total_phases: Annotated[int | None, Field(ge=1, le=1000, description="Track: expected")] = None,
        scope: Annotated[str | None, Field(description="Track: included, excluded")] = None,
        constraints: Annotated[str | None, Field(description="Track: technical limits")] = None,
    ) -> Started | WorkflowStarted:
        """Run a job (goal, job_name, workflow_name), or record work as it happens (name, objective)."""
        job = {"goal": goal, "job_name": job_name, "workflow_name": workflow_name, "instance_id": instance_id}
        track = {
            "name": name, "objective": objective, "profile": profile, "total_phases": total_phases,
            "scope": scope, "constraints": constraints,
        }  # fmt: skip
        form = _form(_given(job), _given(track))
        if "job_name" in form:
            return await self._jobs.start_workflow(**form)
        return await anyio.to_thread.run_sync(lambda: self._track(form))

    def _track(self, asked: dict[str, Any]) -> WorkflowStarted:
        answer = under_key(
            self._database, asked, lambda: self._tracking.start_workflow(**asked).model_dump(mode="json")
        )
        return WorkflowStarted.model_validate(answer)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _form(job: dict[str, Any], track: dict[str, Any]) -> dict[str, Any]:
    """The form that was meant; anything but exactly one complete form is refused."""
    if job and track:
        mixed = f"`{next(iter(job))}` is for a job and `{next(iter(track))}` for a record"
        raise InvalidInput(f"Only one form can be meant: {mixed}.", suggestion=_FORMS)
    form, needed = (track, ("name", "objective")) if track else (job, ("goal", "job_name", "workflow_name"))
    if missing := [f"`{field}`" for field in needed if field not in form]:
        what = " and ".join(missing) + (" is" if len(missing) == 1 else " are")
        raise InvalidInput(f"{what} missing." if form else "Nothing was given.", suggestion=_FORMS)
    return form
