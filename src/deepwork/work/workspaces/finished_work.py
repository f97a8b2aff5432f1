"""The finished work of tasks, and the branches that others build on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.repositories import find_main_tree
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import CommitRecord, find_trees, read_branch_tips
from deepwork.kernel.git.uncommitted import ExpectedFiles, commit_uncommitted, list_uncommitted
from deepwork.kernel.records import dataclass
from deepwork.work.plans.interfaces import CompletedWork, FinishedTree
from deepwork.work.plans.models import Node, Task, TaskStatus, Workflow
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.workspaces.models import CheckoutWork, FinishedTask, Workspace, WorkspaceStatus

_MAX_NAMED_FILES = 20


class Completed(Protocol):
    """A task, or its workspace, with what it was completed with: see `Task.completed_tree`."""

    @property
    def completed_tree(self) -> str | None: ...
    @property
    def completed_head(self) -> str | None: ...


def is_completed_work(task: Completed, found: CommitRecord) -> bool:
    """Return whether a commit has exactly the files and the history that the task was completed with.

    It is the commit that was checked out then, or one commit after it, with what was not committed yet. The
    same files alone do not suffice: with another history, a merge could take back what others did.
    """
    is_next = found.commit == task.completed_head or found.parents == (task.completed_head,)
    return found.tree == task.completed_tree and is_next


def get_expected_files(task: Completed) -> ExpectedFiles:
    """Return what may be committed as the work of a completed task; nothing does if it is not known."""
    return ExpectedFiles(task.completed_tree or "", task.completed_head or "")


def find_completed_work(task: Completed, candidates: Iterable[CommitRecord | None]) -> CommitRecord | None:
    """Return the first of these commits that is the work that the task was completed with."""
    return next((each for each in candidates if each and is_completed_work(task, each)), None)


def explain_changed_work(task: Task, branch: str) -> str:
    """Say why work does not count as completed, and what to do about it."""
    if task.completed_tree is None:
        why = f"It is not known with which files of {branch} it was completed"
    else:
        why = f"{branch} is not as it was when the task was completed"
    return f"{why}. Open it again with `deepwork tasks retry {task.id}`, then complete it as it is now."


@dataclass(frozen=True)
class FinishedWork:
    """The tree of a completed task, and the message to commit its work with; None: it is only listed."""

    workspace: Workspace
    task: Task
    message: str | None
    is_whole: bool = False
    """Whether it was completed with all files that were there, so that its commit may have all of them."""


def build_finished_work(
    workflow: Workflow, task: Task, workspace: Workspace, done: CompletedWork | None = None
) -> FinishedWork:
    """Build the work of a completed task; trees that deepwork did not create are never changed."""
    commits = workspace.is_made and bool((workflow.initial_plan or {}).get("commit"))
    text = f"{task.name}\n\n{task.outcome or ''}".strip()
    message = f"{text}\n\nDeepwork-Task: {task.id}" if commits else None
    return FinishedWork(workspace, task, message, is_whole=done is not None and done.is_whole)


def is_saved(git_at: Callable[[Path], Git], work: FinishedWork) -> bool:
    """Whether the branch has the work that the task was completed with; what is in the tree came later."""
    if not _is_own_tree(work.workspace):
        return True
    try:
        tips = read_branch_tips(git_at(Path(work.workspace.path)), [work.workspace.branch])
    except DeepworkError:
        return False
    return any(is_completed_work(work.task, tip) for tip in tips.values())


def save_finished_work(git_at: Callable[[Path], Git], work: FinishedWork) -> FinishedTree | None:
    """Commit or list the uncommitted work; None if there is none, or no worktree of the repository.

    Only what the task was completed with is committed: it does not answer for what came later.
    """
    path = Path(work.workspace.path)
    if not _is_own_tree(work.workspace):
        return None  # only a label
    git = git_at(path)
    try:
        if work.is_whole and _is_committed(git, work.task):
            return None
        if work.message is None:
            return _list_files(git, work.workspace, "")
        return _commit(git, work, work.message)
    except DeepworkError as error:
        return FinishedTree(remark=f"deepwork could not look for uncommitted work in {path}: {error.message}")


def _is_committed(git: Git, task: Completed) -> bool:
    head = task.completed_head or ""
    return task.completed_tree is not None and find_trees(git, [head]).get(head) == task.completed_tree


def _is_own_tree(workspace: Workspace) -> bool:
    path = Path(workspace.path)
    return path.is_dir() and find_main_tree(path) == Path(workspace.repository_path)


def _commit(git: Git, work: FinishedWork, message: str) -> FinishedTree | None:
    try:
        expected = get_expected_files(work.task)
        commit, has_author = commit_uncommitted(git, work.workspace.branch, message, expected)
    except DeepworkError as error:
        return _list_files(git, work.workspace, f"deepwork could not commit: {error.message} ")
    if commit is None:
        return None
    remark = (
        "Its author is deepwork <deepwork@localhost>, because git's config has no user.name and user.email."
    )
    return FinishedTree(commit=commit, remark=None if has_author else remark)


def _list_files(git: Git, workspace: Workspace, reason: str) -> FinishedTree | None:
    files = list_uncommitted(git)
    if not files:
        return FinishedTree(remark=reason.strip()) if reason else None
    remark = (
        f"{reason}Work in {workspace.path} is not committed: commit it to {workspace.branch}. Tasks that"
        " depend on this one build on that branch and do not get uncommitted files."
    )
    return FinishedTree(tuple(files[:_MAX_NAMED_FILES]), len(files), remark=remark)


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
