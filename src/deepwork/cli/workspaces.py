"""`deepwork workspaces` and `deepwork repos`: working trees for parallel tasks, and what they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deepwork.cli.output import printable
from deepwork.cli.verbs import Form, Verbs
from deepwork.workspaces.tools import RepositoryTools, WorkspaceTools


def _forecast(answer: dict[str, Any]) -> list[str]:
    return list(map(printable, _told(answer)))


def _told(answer: dict[str, Any]) -> Iterator[str]:
    if answer["clean"]:
        yield "It would merge without a conflict."
    if answer["conflicts_with_base"]:
        yield "Conflicts with its base:"
        yield from (f"  {path}" for path in answer["conflicts_with_base"])
    for id, paths in answer["conflicts_with"].items():
        yield f"Conflicts with workspace {id}:"
        yield from (f"  {path}" for path in paths)
    if answer.get("uncommitted"):
        yield f"Not counted, because it is not committed: work in {', '.join(answer['uncommitted'])}."
    if answer.get("warning"):
        yield answer["warning"]


workspaces = Verbs(
    "workspaces",
    lambda: [WorkspaceTools],
    "workspace_",
    "Workspaces: git worktrees for tasks that run at the same time.",
    {"check": Form(present=_forecast)},
)
repos = Verbs("repos", lambda: [RepositoryTools], "repository_", "Repositories that plans are about.")
