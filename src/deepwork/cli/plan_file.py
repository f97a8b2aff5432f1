"""Files for `deepwork plans create -f`: a workflow and all its tasks, created together or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from deepwork.plans.inputs import Plan

if TYPE_CHECKING:
    from deepwork.answers import Answer
    from deepwork.server.application import Application
    from deepwork.server.registry import ToolSpec

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


def add_plan(app: Application, create: ToolSpec, plan: dict[str, Any]) -> ToolSpec:
    """Return a tool that creates a workflow and, in the same transaction, sets its plan."""
    set_plan = app.build_toolset("plans")["workflow_set_plan"]

    def create_with_plan(**arguments: Any) -> dict[str, Any]:
        created: Answer = create.method(**arguments)
        answer = created.model_dump(mode="json")
        planned: Answer = set_plan.method(**set_plan.validate_arguments({"id": answer["id"], "plan": plan}))
        # Keys of both: the id of the workflow, and its status after the plan was set.
        return {**answer, **planned.model_dump(mode="json")}

    return replace(create, find_method=lambda: create_with_plan)
