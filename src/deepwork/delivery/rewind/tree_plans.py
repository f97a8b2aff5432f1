"""Plans what happens to the files, trees and branches of tasks that go back; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from deepwork.delivery.rewind.facts import RewoundTask
from deepwork.delivery.rewind.models import (
    Revert,
    Segment,
    SetAside,
    Steps,
    TargetMoment,
    is_restorable,
    list_segments_to_undo,
    plan_shared_files,
)
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.files.repositories import find_repository, is_tree_of
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.file_placing import find_obstacles
from deepwork.kernel.git.refs import find_branch_tip, find_pushed_branch, has_branch
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.git.tree_restores import (
    FileMove,
    IndexEntry,
    TreeRestore,
    TreeRestorer,
    read_head_versions,
)
from deepwork.kernel.git.worktrees import find_worktree, require_movable
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.attribution_service import AttributionService
from deepwork.work.workspaces.models import Workspace, WorkspaceStatus

_SUBMODULE, _NESTED = "160000 ", "listed 0 0"
_IGNORED = "ignored by git or not in any snapshot, and in the way"


@dataclass
class TreePlan:
    """What happens to files, trees and branches, and what cannot."""

    restores: list[TreeRestore] = field(default_factory=list)
    asides: list[SetAside] = field(default_factory=list)
    reverts: list[Revert] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Files that are in the way, with the reason; nothing is done if there is one."""
    remarks: list[str] = field(default_factory=list)
    """What cannot be undone."""

    @property
    def steps(self) -> Steps:
        return Steps(tuple(self.restores), tuple(self.asides), tuple(self.reverts))


class TreePlanner:
    """Plans the files of tasks, from snapshots of their trees and from git."""

    def __init__(self, attribution: AttributionService, git_at: Callable[[Path], Git]) -> None:
        self._attribution, self._git_at = attribution, git_at
        self.host = attribution.snapshots.host

    def open_restorer(self, tree: Path) -> TreeRestorer:
        """Return what saves and restores a tree."""
        return TreeRestorer(self._git_at(tree), self._attribution.snapshots.open_store(tree))

    def open_store(self, tree: Path) -> SnapshotStore:
        """Return the snapshots of a tree."""
        return self._attribution.snapshots.open_store(tree)

    def git_at(self, folder: Path) -> Git:
        """Return git in a folder."""
        return self._git_at(folder)

    def plan(
        self, main: RewoundTask, moment: TargetMoment | None, resets: Sequence[RewoundTask], id: str
    ) -> TreePlan:
        """Plan how the main task goes back to the moment, and the others to their start."""
        plan = TreePlan()
        shared: dict[str, list[tuple[RewoundTask, list[Segment]]]] = {}
        self._plan_main(plan, main, moment, shared, id)
        for facts in resets:
            self._plan_reset(plan, facts, shared, id)
        for tree, parts in shared.items():
            self._plan_shared(plan, tree, parts)
        return plan

    # One task

    def _plan_main(
        self,
        plan: TreePlan,
        main: RewoundTask,
        moment: TargetMoment | None,
        shared: dict[str, list[tuple[RewoundTask, list[Segment]]]],
        id: str,
    ) -> None:
        tree = main.tree
        if tree is None or moment is None or moment.snapshot.kind is not SnapshotKind.GIT:
            plan.remarks.append("Its files stay as they are: no snapshot of them was taken.")
            return
        self._require_here(main)
        plan.remarks += _describe_other_trees(main, tree)
        if not self._is_tree(main, tree):
            self._plan_branch(plan, main, id)
            plan.remarks.append(f"Its working tree {tree} is gone, so only its branch goes back.")
        elif main.has_own_tree and main.workspace is not None:
            self._plan_own(plan, main.workspace, moment.snapshot)
        else:
            part = list_segments_to_undo(main.segments, moment, tree)
            shared.setdefault(tree, []).append((main, part))
        self._add_pushed(plan, main)

    def _plan_reset(
        self,
        plan: TreePlan,
        facts: RewoundTask,
        shared: dict[str, list[tuple[RewoundTask, list[Segment]]]],
        id: str,
    ) -> None:
        tree = facts.tree
        if tree is None:
            plan.remarks.append(f"The files of {facts.task.name!r} stay: no snapshot of them was taken.")
            return
        self._require_here(facts)
        if not self._is_tree(facts, tree):
            self._plan_branch(plan, facts, id)
        elif facts.has_own_tree and facts.workspace is not None:
            self._plan_aside(plan, facts.workspace, facts.task.id, id)
        else:
            part = [each for each in facts.segments if each.watch.tree_path == tree]
            shared.setdefault(tree, []).append((facts, part))
        self._add_pushed(plan, facts)

    def _require_here(self, facts: RewoundTask) -> None:
        host = facts.segments[-1].watch.host
        if host != self.host:
            raise NotAllowed(
                f"The working tree of task {facts.task.name!r} is on {host}.",
                suggestion=f"Run this on {host}.",
            )

    def _is_tree(self, facts: RewoundTask, tree: str) -> bool:
        path = Path(tree)
        if not (path / ".git").exists():
            return False
        main = facts.workspace.repository_path if facts.workspace else None
        return main is None or is_tree_of(Path(main), path)

    def _add_pushed(self, plan: TreePlan, facts: RewoundTask) -> None:
        found = facts.workspace
        if found is None or find_repository(Path(found.repository_path)) is None:
            return
        if find_pushed_branch(self._git_at(Path(found.repository_path)), found.branch):
            plan.remarks.append(f"The branch {found.branch} was pushed; what remotes have of it stays there.")
        if found.status is WorkspaceStatus.MERGED and found.merge_commit:
            plan.remarks.append(
                f"The branch {found.branch} was merged by hand in {found.merge_commit[:12]}: that commit"
                f" stays; undo it with `git revert -m 1 {found.merge_commit[:12]}`."
            )

    # A tree of its own

    def _plan_own(self, plan: TreePlan, workspace: Workspace, then: Snapshot) -> None:
        tree = Path(workspace.path)
        store, restorer = self.open_store(tree), self.open_restorer(tree)
        restorer.require_settled()
        now = self.take(tree)
        if now.branch != workspace.branch or then.branch != workspace.branch:
            where = f"the branch {now.branch!r}" if now.branch else "no branch"
            raise NotAllowed(
                f"In {tree}, {where} is checked out, not {workspace.branch!r} alone as in its snapshots.",
                suggestion=f"Check out {workspace.branch} there, then call again.",
            )
        _require_stored(store, then)
        moves, remarks = _plan_moves(store, now, then)
        plan.remarks += remarks
        self._add_obstacles(plan, tree, moves)
        restore = TreeRestore(
            str(tree), tuple(moves), workspace.branch, now.head, then.head, index_then=then.head
        )
        plan.restores.append(restore)

    def _plan_aside(self, plan: TreePlan, workspace: Workspace, task_id: str, id: str) -> None:
        git = self._git_at(Path(workspace.repository_path))
        path = Path(workspace.path)
        require_movable(git, path)
        found = find_worktree(git, path)
        if found is None or found.branch != workspace.branch or found.head is None:
            raise NotAllowed(
                f"In {path}, the branch {workspace.branch!r} is not checked out.",
                suggestion="Check it out there, or keep the dependents as they are.",
            )
        plan.asides.append(
            SetAside(
                task_id,
                workspace.repository_path,
                workspace.id,
                workspace.branch,
                _name_aside(workspace.branch, id),
                found.head,
                workspace.path,
                f"{workspace.path}.{id}",
            )
        )

    def _plan_branch(self, plan: TreePlan, facts: RewoundTask, id: str) -> None:
        """Give the branch of a removed tree another name, so that the task begins with a new one."""
        workspace = facts.workspace
        if workspace is None or not self._is_repository(workspace):
            return
        git = self._git_at(Path(workspace.repository_path))
        tip = find_branch_tip(git, workspace.branch) if has_branch(git, workspace.branch) else None
        if tip is None:
            return
        new_branch, status = _name_aside(workspace.branch, id), workspace.status.value
        aside = SetAside(
            facts.task.id, workspace.repository_path, workspace.id, workspace.branch, new_branch, tip
        )
        plan.asides.append(replace(aside, status=status, new_status=status))

    def _is_repository(self, workspace: Workspace) -> bool:
        return workspace.host == self.host and find_repository(Path(workspace.repository_path)) is not None

    # A tree that others use

    def _plan_shared(
        self, plan: TreePlan, tree: str, parts: Sequence[tuple[RewoundTask, list[Segment]]]
    ) -> None:
        top = Path(tree)
        restorer = self.open_restorer(top)
        restorer.require_settled()
        now, at = self._take(top)
        segments = sorted((each for _, part in parts for each in part), key=lambda each: each.watch.began_at)
        try:
            changes = [
                self._attribution.list_changes_between(each.watch, each.ended_at or at, each.ended or now)
                for each in segments
            ]
        except DeepworkError as error:
            raise _build_pruned_error(tree) from error
        files = self.open_store(top).list_files(now.tree)
        current = {file.path: f"{file.mode} {file.blob}" for file in files}
        current |= {each.path: each.version for each in now.listed}
        found = plan_shared_files(changes, current, {facts.task.id for facts, _ in parts})
        plan.refused |= found.refused
        self._add_obstacles(plan, top, found.moves)
        plan.remarks += self._describe_commits(segments, now, tree)
        if found.moves:
            entries = _plan_entries(restorer, self._git_at(top), found.moves)
            plan.restores.append(TreeRestore(tree, found.moves, entries=entries))

    def _describe_commits(self, segments: Sequence[Segment], now: Snapshot, tree: str) -> list[str]:
        first = Snapshot.from_dict(segments[0].watch.began)
        commits = self.open_store(Path(tree)).get_progress(first, segments[-1].ended or now).commits
        if not commits:
            return []
        named = ", ".join(f"{each.hash[:12]} {each.subject[:60]}" for each in commits[-5:])
        return [f"Commits made meanwhile in {tree} stay in its history ({named}); only files go back."]

    # Both

    def take(self, tree: Path) -> Snapshot:
        """Take a snapshot of a tree; raises if that is not possible."""
        return self._take(tree)[0]

    def _take(self, tree: Path) -> tuple[Snapshot, int]:
        taken = self._attribution.snapshots.take(tree)
        if taken.snapshot is None:
            raise NotAllowed(" ".join(taken.warnings), suggestion="Solve this, then call again.")
        return taken.snapshot, taken.at

    def _add_obstacles(self, plan: TreePlan, tree: Path, moves: Iterable[FileMove]) -> None:
        listed = list(moves)
        removed = [move.path for move in listed if move.now is not None]
        written = [move.path for move in listed if move.then is not None]
        plan.refused |= dict.fromkeys(find_obstacles(tree, removed, written), _IGNORED)


def _plan_moves(store: SnapshotStore, now: Snapshot, then: Snapshot) -> tuple[list[FileMove], list[str]]:
    moves, remarks = [], []
    for change in store.diff(now, then).files:
        name = to_printable_name(change.path)
        if (change.before or "").startswith(_SUBMODULE) or (change.after or "").startswith(_SUBMODULE):
            remarks.append(f"The content of the submodule {name} stays as it is.")
        elif _NESTED in {change.before, change.after}:
            remarks.append(f"The nested repository {name} stays as it is.")
        elif not is_restorable(change.after):
            remarks.append(f"{name} stays as it is: it was too large to be stored.")
        else:
            source = then.tree if change.after is not None else ""
            moves.append(FileMove(change.path, change.before, change.after, source))
    return moves, remarks


def _plan_entries(restorer: TreeRestorer, git: Git, moves: Sequence[FileMove]) -> tuple[IndexEntry, ...]:
    """Take what the tasks staged out of the index; what somebody else staged stays."""
    paths = [move.path for move in moves]
    staged: Mapping[str, str] = restorer.read_entries(paths)
    committed = read_head_versions(git, paths)
    return tuple(
        IndexEntry(move.path, staged.get(move.path), committed.get(move.path))
        for move in moves
        if staged.get(move.path) == move.now and committed.get(move.path) != move.now
    )


def _describe_other_trees(main: RewoundTask, tree: str) -> list[str]:
    others = sorted({each.watch.tree_path for each in main.segments} - {tree})
    return [f"What it changed in {other} stays: only {tree} goes back." for other in others]


def _require_stored(store: SnapshotStore, snapshot: Snapshot) -> None:
    if not store.has_tree(snapshot.tree):
        raise _build_pruned_error("this moment")


def _build_pruned_error(what: str) -> NotAllowed:
    return NotAllowed(
        f"The snapshots of {what} are gone; they are kept for 30 days after a task has ended.",
        suggestion="Go back with git: the commits of the task's branch are still there.",
    )


def _name_aside(branch: str, id: str) -> str:
    return f"deepwork/rescue/{branch.removeprefix('deepwork/')}-{id}"
