"""Which branches the branch of a task starts from: those on which its dependencies were done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deepwork.work.plans.models import Node, TaskStatus
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.workspaces.models import CheckoutWork, FinishedTask, Workspace, WorkspaceStatus


@dataclass(frozen=True)
class WorkElsewhere:
    """The work of a dependency that is on another machine, and not in the repository of this one."""

    task_id: str
    name: str
    branch: str | None
    host: str
    workspace: Workspace | None = None
    """Its worktree there; None if it was done in the checkout itself."""
    checkout: str | None = None
    is_known: bool = True
    """Whether it is known which commit has the work: not of what an older version completed."""

    def __str__(self) -> str:
        branch = f", on the branch {self.branch}" if self.branch else ""
        where = f"in the checkout {self.checkout} on {self.host}" if self.checkout else f"on {self.host}"
        return f"The work of task {self.name!r} is {where}{branch}."

    def describe_remedy(self) -> str:
        """Say how the work comes into this repository."""
        branch, found = self.branch or "HEAD", self.workspace
        if found and found.status is WorkspaceStatus.MERGED and not self.is_known:
            return (
                "It is not known which commit merged it: say so with `deepwork workspaces update"
                f" {found.id} --status merged --merge-commit COMMIT`."
            )
        if not self.is_known:
            return (
                "It is not known which files are its work: open it again with `deepwork tasks retry"
                f" {self.task_id}`, and complete it on {self.host}."
            )
        if found and found.status is WorkspaceStatus.ACTIVE:
            take = f"`git fetch origin {branch}:{branch}`"
        else:
            take = f"`git pull origin {branch}`"
        begin = "commit all of it there, then " if self.checkout else ""
        return f"To bring it here, {begin}`git push origin {branch}` on {self.host}, and {take} here."


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
    elsewhere: tuple[WorkElsewhere, ...] = ()
    """What is not included because this repository does not have it."""
    hosts: frozenset[str] = frozenset()
    """The machines on which its dependencies were done."""
    finished: Mapping[str, FinishedTask] = field(default_factory=dict)
    """By branch, the one task that was done there."""

    @property
    def all(self) -> tuple[str, ...]:
        return self.nearest + self.further


def select_dependency_branches(
    plan: Graph,
    task_id: str,
    finished: Mapping[str, FinishedTask],
    is_here: Callable[[str], bool],
    checkouts: Mapping[str, CheckoutWork] | None = None,
) -> DependencyBranches:
    """Select the branches that the task builds on.

    `finished` are the completed tasks that had a workspace, `checkouts` those that were done in the checkout
    of another machine; `is_here` tells of which of them this repository has the work.
    """
    outside = checkouts or {}

    def find_branch(node: Node) -> str | None:
        found = finished.get(node.id)
        is_usable = found and found.workspace.status is WorkspaceStatus.ACTIVE and is_here(node.id)
        return found.workspace.branch if found and is_usable else None

    def is_elsewhere(node: Node) -> bool:
        found = finished.get(node.id)
        is_lost = found is None or found.workspace.status is WorkspaceStatus.ABANDONED
        return (not is_lost or node.id in outside) and not is_here(node.id)

    def goes_on(node: Node) -> bool:
        return find_branch(node) is None and not is_elsewhere(node)

    seen: set[str] = set()
    found = list(walk_dependencies(plan, [plan[task_id]], seen, goes_on))
    ranks = {node.id: rank for rank, row in enumerate(plan.list_rows()) for node in row}
    near = sorted(found, key=lambda node: -ranks[node.id])
    far = walk_dependencies(plan, [node for node in near if find_branch(node)], seen, lambda _: True)
    nearest = dict.fromkeys(branch for node in near if (branch := find_branch(node)))
    further = dict.fromkeys(branch for node in far if (branch := find_branch(node)))
    done = [node for node in near if node.status is TaskStatus.COMPLETED and not find_branch(node)]
    return DependencyBranches(
        tuple(nearest),
        tuple(branch for branch in further if branch not in nearest),
        needs_base=any(_is_in_base(finished.get(node.id)) for node in done),
        remarks=tuple(remark for node in done if (remark := _explain(node, finished.get(node.id)))),
        elsewhere=tuple(
            locate_work(node.id, node.name, finished.get(node.id) or outside[node.id])
            for node in done
            if is_elsewhere(node)
        ),
        hosts=frozenset(
            finished[node.id].workspace.host if node.id in finished else outside[node.id].host
            for node in near
            if node.id in finished or node.id in outside
        ),
        finished=_index_by_branch(finished.values()),
    )


def describe_elsewhere(missing: Sequence[WorkElsewhere]) -> str:
    """Say what a task waits for, and what a person can do about it."""
    said = " ".join(f"{each} {each.describe_remedy()}" for each in missing)
    return f"{said} Or begin where all of it is; `deepwork run --without-dependencies` begins without it."


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


def _is_in_base(finished: FinishedTask | None) -> bool:
    return finished is None or finished.workspace.status is WorkspaceStatus.MERGED


def _explain(node: Node, finished: FinishedTask | None) -> str | None:
    if finished is None or finished.workspace.status is not WorkspaceStatus.ABANDONED:
        return None
    workspace = finished.workspace
    return (
        f"The work of task {node.name!r} is not included: the workspace {workspace.id} was abandoned; its"
        f" branch is {workspace.branch!r}."
    )


def locate_work(task_id: str, name: str, work: FinishedTask | CheckoutWork) -> WorkElsewhere:
    """Say where the work of a task is that this repository does not have."""
    if isinstance(work, CheckoutWork):
        is_known = work.head is not None
        return WorkElsewhere(task_id, name, work.branch, work.host, None, work.path, is_known)
    found = work.workspace
    is_merged = found.status is WorkspaceStatus.MERGED
    branch, proof = (
        (found.base_branch, found.merge_commit) if is_merged else (found.branch, work.completed_head)
    )
    return WorkElsewhere(task_id, name, branch, found.host, found, is_known=proof is not None)


def _index_by_branch(finished: Iterable[FinishedTask]) -> dict[str, FinishedTask]:
    """Map branches to the task that was done there; those of several tasks are left out."""
    tasks = list(finished)
    users = Counter(each.workspace.branch for each in tasks)
    return {each.workspace.branch: each for each in tasks if users[each.workspace.branch] == 1}
