"""Which branches the branch of a task starts from: those on which its dependencies were done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from deepwork.plans.models import Node, TaskStatus
from deepwork.plans.rules.graph import Graph
from deepwork.workspaces.models import Workspace, WorkspaceStatus


@dataclass(frozen=True)
class DependencyBranches:
    """The branches with the work that a task builds on."""

    nearest: tuple[str, ...] = ()
    """The branches of its dependencies; where a dependency has none, of that one's dependencies.

    Those that build on most come first, so that a conflict leaves out as little as possible."""
    further: tuple[str, ...] = ()
    """The branches behind those, which they normally contain."""
    needs_base: bool = False
    """Whether a dependency has no branch, or one that is merged, so that its work is in the base."""
    remarks: tuple[str, ...] = ()
    """Why the work of a dependency is not included."""

    @property
    def all(self) -> tuple[str, ...]:
        return self.nearest + self.further


def select_dependency_branches(
    plan: Graph, task_id: str, workspaces: Mapping[str, Workspace], host: str
) -> DependencyBranches:
    """Select the branches that the task builds on; `workspaces` are those of completed tasks, by task."""

    def find_branch(node: Node) -> str | None:
        found = workspaces.get(node.id)
        is_usable = found and found.status is WorkspaceStatus.ACTIVE and found.host == host
        return found.branch if found and is_usable else None

    seen: set[str] = set()
    found = list(walk_dependencies(plan, [plan[task_id]], seen, lambda node: find_branch(node) is None))
    ranks = {node.id: rank for rank, row in enumerate(plan.list_rows()) for node in row}
    near = sorted(found, key=lambda node: -ranks[node.id])
    far = walk_dependencies(plan, [node for node in near if find_branch(node)], seen, lambda _: True)
    nearest = dict.fromkeys(branch for node in near if (branch := find_branch(node)))
    further = dict.fromkeys(branch for node in far if (branch := find_branch(node)))
    done = [node for node in near if node.status is TaskStatus.COMPLETED and not find_branch(node)]
    return DependencyBranches(
        tuple(nearest),
        tuple(branch for branch in further if branch not in nearest),
        needs_base=any(_is_in_base(workspaces.get(node.id)) for node in done),
        remarks=tuple(remark for node in done if (remark := _explain(node, workspaces.get(node.id), host))),
    )


def walk_dependencies(
    plan: Graph, starts: Iterable[Node], seen: set[str], goes_on: Callable[[Node], bool]
) -> Iterator[Node]:
    """Yield what these tasks wait for, directly and through each task at which the walk goes on."""
    levels: set[int | None] = set()
    waiting = list(starts)
    for node in waiting:
        if node.depends_on is None:  # all tasks of a level wait for the same one: expand it once
            level = plan.previous_level[node.sequence]
            if level in levels:
                continue
            levels.add(level)
        for other in plan.list_dependencies(node):
            if other.id not in seen:
                seen.add(other.id)
                yield other
                if goes_on(other):
                    waiting.append(other)


def _is_in_base(workspace: Workspace | None) -> bool:
    return workspace is None or workspace.status is WorkspaceStatus.MERGED


def _explain(node: Node, workspace: Workspace | None, host: str) -> str | None:
    if workspace is None or workspace.status is WorkspaceStatus.MERGED:
        return None
    if workspace.status is WorkspaceStatus.ABANDONED:
        why = f"the workspace {workspace.id} was abandoned; its branch is {workspace.branch!r}"
    else:
        why = f"its branch {workspace.branch!r} is on {workspace.host}, not on {host}"
    return f"The work of task {node.name!r} is not included: {why}."
