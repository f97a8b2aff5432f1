"""`deepwork workspaces` and `deepwork repos`: git worktrees for parallel tasks, and their repositories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.tool_commands import CommandOverrides, ToolGroup

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec


def _render_merge_check(answer: dict[str, Any]) -> list[str]:
    return list(map(to_printable, _render_conflicts(answer)))


def _render_conflicts(answer: dict[str, Any]) -> Iterator[str]:
    if answer["clean"]:
        yield "It would merge without conflicts."
    if answer["conflicts_with_base"]:
        yield "Conflicts with its base:"
        yield from (f"  {path}" for path in answer["conflicts_with_base"])
    for id, paths in answer["conflicts_with"].items():
        yield f"Conflicts with workspace {id}:"
        yield from (f"  {path}" for path in paths)
    if answer.get("uncommitted"):
        yield f"Not included, because it is not committed: work in {', '.join(answer['uncommitted'])}."
    if answer.get("warning"):
        yield answer["warning"]


def _choose_list(app: Application, spec: OperationSpec, given: dict[str, Any]) -> OperationSpec:
    """List those of all plans if none is named."""
    if given.get("workflow_id"):
        return spec
    given.pop("workflow_id", None)
    return app.operations["list_workspaces"]


workspaces = ToolGroup(
    "workspaces",
    ["deepwork.work.workspaces.tools:WorkspaceTools"],
    "workspace_",
    "Workspaces: git worktrees for parallel tasks.",
    {
        "check": CommandOverrides(render=_render_merge_check),
        "list": CommandOverrides(
            {"workflow_id": click.Argument(["workflow_id"], required=False)},
            "Without WORKFLOW_ID those of all plans.",
            extend=_choose_list,
        ),
    },
)
repos = ToolGroup(
    "repos",
    ["deepwork.work.workspaces.tools:RepositoryTools"],
    "repository_",
    "Repositories that plans are about.",
)
