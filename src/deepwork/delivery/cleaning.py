"""Removes what work that is over left: worktrees, branches and refs whose commits are merged, and old output.

What exists nowhere else is kept, whatever its age: a tree with uncommitted files, and a branch or ref with a
commit that is not in the branch that the task began from, nor in the checked-out one. So is what a rewind
needs to go on, or to be undone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

from deepwork.delivery.landing.models import INTEGRATION_PREFIX
from deepwork.delivery.rewind.undoing import map_needed
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import ProcessState
from deepwork.delivery.runner.processes import observe, read_identity
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.answers import Answer, Field
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import IDENTITY, find_branch_tip, is_ancestor, resolve_commit
from deepwork.kernel.git.rescue import RESCUE_PREFIXES, is_dirty
from deepwork.kernel.git.tree_restores import KEPT_REFS
from deepwork.kernel.git.worktrees import find_worktree, list_worktrees, remove_worktree
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.workspaces.models import Workspace
from deepwork.work.workspaces.store import WorkspaceStore

_MS_PER_DAY = 24 * 3600 * 1000
_LANDED = f"refs/heads/{INTEGRATION_PREFIX}"
_REFS = (*(f"refs/heads/{prefix}" for prefix in RESCUE_PREFIXES), KEPT_REFS, _LANDED)
Days = Annotated[float, Field(ge=0, description="Only what is over for so many days")]


class Leftover(Answer):
    """Something that work left behind."""

    kind: str
    """`worktree`, `branch`, `ref` or `output`."""
    name: str
    repository: str | None = None
    bytes: int | None = None
    kept: str | None = None
    """Why it is not removed; None if it can be."""


class Leftovers(Answer):
    """What work that is over left: what can be removed, and what is kept."""

    removable: list[Leftover]
    kept: list[Leftover]
    is_removed: bool
    """Whether it was removed now."""


@dataclass(frozen=True)
class _FoundLeftover:
    """A leftover, and how it is removed; None: it is kept."""

    about: Leftover
    remove: Callable[[], None] | None = None


class CleaningOperations:
    """What people remove when work is over."""

    traits: ClassVar = Traits(toolset="workspaces", people_only=True)

    def __init__(
        self, database: Database, host: str, state_folder: Path | None, open_git: Callable[[Path], Git]
    ) -> None:
        """`state_folder` has the output of agents; None if it is not on this machine."""
        self._database, self._host, self._state_folder = database, host, state_folder
        self._open_git = open_git

    @operation("read")
    def list_leftovers(self, older_than_days: Days = 14) -> Leftovers:
        """What landed, abandoned and old work left on this machine, and what of it can be removed."""
        return _describe(list(self._find(older_than_days)), is_removed=False)

    @operation("admin", destructive=True, long_running=True)
    def remove_leftovers(self, older_than_days: Days = 14) -> Leftovers:
        """Remove what `list_leftovers` says can be removed; nothing that is not merged."""
        # One after the other: a branch is free when its tree is gone.
        return _describe([_carry_out(found) for found in self._find(older_than_days)], is_removed=True)

    def _find(self, days: float) -> Iterator[_FoundLeftover]:
        with self._database.reading() as tx:
            before = round(tx.now - days * _MS_PER_DAY)
            over = WorkspaceStore(tx).list_over(self._host, before)
            attempts = AttemptStore(tx).list_ended(self._host, before)
            places = WorkspaceStore(tx).list_repositories(self._host)
            plans = PlanStore(tx).find_over(before)
            needed = map_needed(tx, self._host)
        for workspace in over:
            is_plan_over = workspace.workflow_id in plans
            for each in self._find_in_workspace(workspace, needed, is_plan_over=is_plan_over):
                yield _keep_needed(each, needed)
        for place in places:
            if find_repository(Path(place)) is not None:
                for each in _find_refs(self._open_git(Path(place)), place, before, plans):
                    yield _keep_needed(each, needed)
        if self._state_folder is not None:
            for id in attempts:
                yield from _find_output(self._state_folder, id)

    def _find_in_workspace(
        self, workspace: Workspace, needed: Mapping[str, str], *, is_plan_over: bool
    ) -> Iterator[_FoundLeftover]:
        """Find the tree and the branch; other tasks of the plan may still begin with the branch."""
        if find_repository(Path(workspace.repository_path)) is None:
            return
        git = self._open_git(Path(workspace.repository_path))
        path = Path(workspace.path)
        tree = find_worktree(git, path)
        has_tree = tree is not None and path.is_dir()
        is_free = True
        if tree is not None and has_tree:
            kept = None
            if tree.branch != workspace.branch:
                kept = f"It is on {tree.branch or 'no branch'}, not on {workspace.branch}."
            elif is_dirty(self._open_git(path)):
                kept = "It has uncommitted files."
            is_free = kept is None and str(path) not in needed
            about = Leftover(kind="worktree", name=str(path), repository=workspace.repository_path, kept=kept)
            yield _FoundLeftover(about, None if kept else partial(_remove_tree, git, path))
        if is_free and is_plan_over:
            yield from _find_branch(git, workspace)


def _find_branch(git: Git, workspace: Workspace) -> Iterator[_FoundLeftover]:
    tip = find_branch_tip(git, workspace.branch)
    if tip is None:
        return
    others = [each for each in list_worktrees(git) if each.path.resolve() != Path(workspace.path).resolve()]
    kept = None
    if any(each.branch == workspace.branch for each in others):
        kept = "It is checked out."
    elif not _is_merged(git, tip, workspace.base_branch):
        kept = f"It has commits that are not in {workspace.base_branch or 'the checked-out branch'}."
    about = Leftover(kind="branch", name=workspace.branch, repository=workspace.repository_path, kept=kept)
    yield _FoundLeftover(
        about, None if kept else partial(_delete_ref, git, f"refs/heads/{workspace.branch}", tip)
    )


def _find_refs(git: Git, repository: str, before: int, plans: Collection[str]) -> Iterator[_FoundLeftover]:
    """Find rescue branches and refs of rewinds with commits that old, and branches where plans landed."""
    form = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)"
    for line in git.run("for-each-ref", form, *(each.rstrip("/") for each in _REFS)).decode().splitlines():
        name, commit, made_at = line.split("\0")
        plan = name.removeprefix(_LANDED) if name.startswith(_LANDED) else None
        if plan not in plans if plan else not made_at or int(made_at) * 1000 > before:
            continue
        kept = None if _is_merged(git, commit, None) else "It has files or commits that are nowhere else."
        kind = "branch" if name.startswith("refs/heads/") else "ref"
        about = Leftover(kind=kind, name=name.removeprefix("refs/heads/"), repository=repository, kept=kept)
        yield _FoundLeftover(about, None if kept else partial(_delete_ref, git, name, commit))


def _keep_needed(found: _FoundLeftover, needed: Mapping[str, str]) -> _FoundLeftover:
    """Keep what a rewind needs, and say which."""
    rewind = needed.get(found.about.name)
    if rewind is None or found.remove is None:
        return found
    why = f"The rewind {rewind} needs it: `deepwork rewind --undo {rewind}` puts back what was before."
    return _FoundLeftover(found.about.model_copy(update={"kept": why}))


def _find_output(state_folder: Path, attempt_id: str) -> Iterator[_FoundLeftover]:
    """Find what an agent wrote, unless something of it runs."""
    folder = state_folder / "runs" / attempt_id
    if folder.is_symlink() or not folder.is_dir():
        return
    starts = [int(each.name) for each in folder.iterdir() if each.name.isascii() and each.name.isdigit()]
    files = [AttemptFiles.locate(state_folder, attempt_id, start) for start in starts]
    runs = any(observe(each, read_identity(each)).state is ProcessState.RUNNING for each in files)
    size = sum(each.lstat().st_size for each in folder.rglob("*"))
    kept = "Its agent still runs." if runs else None
    about = Leftover(kind="output", name=str(folder), bytes=size, kept=kept)
    yield _FoundLeftover(about, None if kept else partial(shutil.rmtree, folder))


def _is_merged(git: Git, commit: str, base_branch: str | None) -> bool:
    """Return whether a branch that is not of deepwork contains the commit."""
    names = ["HEAD", *([f"refs/heads/{base_branch}"] if base_branch else [])]
    tips = [tip for name in names if (tip := resolve_commit(git, name))]
    return any(is_ancestor(git, commit, tip) for tip in tips)


def _remove_tree(git: Git, path: Path) -> None:
    remove_worktree(git, path)


def _delete_ref(git: Git, name: str, commit: str) -> None:
    """Delete a ref if it still points at the commit."""
    git.run("update-ref", "-d", name, commit, env=IDENTITY)


def _carry_out(found: _FoundLeftover) -> _FoundLeftover:
    """Remove something; what cannot be removed is kept, and says why."""
    if found.remove is None:
        return found
    try:
        found.remove()
    except (DeepworkError, OSError) as error:
        return _FoundLeftover(found.about.model_copy({"kept": f"It could not be removed: {error}"}))
    return found


def _describe(found: list[_FoundLeftover], *, is_removed: bool) -> Leftovers:
    every = [each.about for each in found]
    return Leftovers(
        removable=[each for each in every if each.kept is None],
        kept=[each for each in every if each.kept is not None],
        is_removed=is_removed,
    )
