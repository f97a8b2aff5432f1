"""Files for `deepwork plans create -f`: a workflow and all its tasks, created together or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from deepwork.work.plans.inputs import Plan

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.answers import Answer
    from deepwork.work.plans.task_proofs import NamedChecks

_PLAN_KEYS = tuple(Plan.model_fields)


class PlanFile(Plan):
    """A workflow and its plan."""

    name: str = Field(default="", max_length=200, description="Its name, unless the command gives one")
    prompt: str = Field(default="", description="The request, unless the command gives one")
    source_type: str | None = None
    source_ref: str | None = None
    repository_path: str | None = None
    repository_paths: list[str] | None = None
    max_parallel_tasks: int | None = Field(default=None, ge=1)
    auto_create_workspaces: bool | None = None


def split_file(written: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a file into the arguments that create the workflow, and its plan."""
    plan = {key: written[key] for key in _PLAN_KEYS if key in written}
    workflow = {key: value for key, value in written.items() if key not in _PLAN_KEYS and value is not None}
    if prompt := workflow.pop("prompt", ""):
        workflow["source_content"] = prompt
    return workflow, plan


def add_plan(app: Application, create: OperationSpec, plan: dict[str, Any]) -> OperationSpec:
    """Return a tool that creates a workflow and, in the same transaction, sets its plan."""
    made = _PlannedCreation(app, create, plan)
    declaration = create.declaration._replace(prepared_by="check_names")
    planned = replace(create, declaration=declaration, find_method=lambda: made.create)
    if create.prepared is None:  # its parameters are read from the method, and this one takes any
        vars(planned)["parameters"] = create.parameters
    return planned


class _PlannedCreation:
    def __init__(self, app: Application, create: OperationSpec, plan: dict[str, Any]) -> None:
        self._app, self._create, self._plan = app, create, plan
        self._set_plan = app.build_toolset("plans")["workflow_set_plan"]

    def create(self, **arguments: Any) -> dict[str, Any]:
        created: Answer = self._create.method(**arguments)
        answer = created.model_dump(mode="json")
        given = self._set_plan.validate_arguments({"id": answer["id"], "plan": self._plan})
        planned: Answer = self._set_plan.method(**given)
        # Keys of both: the id of the workflow, and its status after the plan was set.
        return {**answer, **planned.model_dump(mode="json")}

    def check_names(
        self, repository_path: str | None = None, repository_paths: list[str] | None = None, **_: Any
    ) -> NamedChecks:
        """Check the names of checks at the commit that the workflow will start from."""
        from deepwork.work.plans.task_proofs import list_named_checks

        plan = Plan.model_validate(self._plan)
        names = list_named_checks(plan.to_requirements(), [task.to_outline() for task in plan.tasks])
        located = self._app.repositories.locate(repository_path or next(iter(repository_paths or ()), None))
        head = self._app.repositories.find_head(located)
        return self._app.task_prover.check_names_at(located, head.commit if head else None, names)
