"""Plans the undoing of a rewind: exactly what was before, unless something has changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deepwork.delivery.rewind.landed_work import LandedWork
from deepwork.delivery.rewind.models import Rewind, RewindRole, RewindStage, RewindTask, SetAside, Steps
from deepwork.delivery.rewind.state_changes import find_state_changes
from deepwork.delivery.rewind.store import RewindStore
from deepwork.delivery.rewind.tree_plans import TreePlanner
from deepwork.gates.approvals.models import compute_digest
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.git.private_index import open_private_index
from deepwork.kernel.git.refs import resolve_commit
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.git.tree_restores import FileMove, IndexEntry, TreeRestore, get_kept_ref
from deepwork.kernel.records import dataclass
from deepwork.work.agents.store import LeaseStore
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_NAMED = 10


@dataclass(frozen=True)
class UndoPlan:
    """A rewind that can be undone, and how."""

    rewind: Rewind
    steps: Steps
    tasks: tuple[RewindTask, ...]
    digest: str


class UndoPlanner:
    """Plans the undoing of rewinds."""

    def __init__(self, database: Database, trees: TreePlanner, landed: LandedWork) -> None:
        self._database, self._trees, self._landed = database, trees, landed

    def plan(self, id: str) -> UndoPlan:
        """Plan the undoing; raises NotAllowed if it was undone, or if something has changed since."""
        with self._database.reading() as tx:
            rewind, tasks = RewindStore(tx).get(id), RewindStore(tx).list_tasks(id)
            _require_undoable(tx, rewind, tasks)
            changed = list(_find_changed_tasks(tx, tasks))
        changed += [each for restore in rewind.steps.restores for each in self._find_in_tree(rewind, restore)]
        changed += [each for aside in rewind.steps.asides for each in self._find_in_aside(aside)]
        again = list(reversed(rewind.results.reverted))
        _, problems = self._landed.place(again, rewind.workflow_id)
        changed += [f"{reason} ({path})" for path, reason in problems.items()]
        if changed:
            raise _build_changed_error(rewind, changed)
        steps = self._reverse(rewind)
        own = tuple(RewindTask(task.task_id, task.role, task.first_attempt, 0) for task in tasks)
        digest = compute_digest({"undo": rewind.id, "digest": rewind.digest})
        return UndoPlan(rewind, steps, own, digest)

    def _find_in_tree(self, rewind: Rewind, restore: TreeRestore) -> Iterator[str]:
        """Find what is not as the rewind left it: all of a task's own tree, else only the files it moved."""
        tree = Path(restore.tree)
        if not (tree / ".git").exists():
            yield f"{tree} is gone"
            return
        now, after = self._trees.take(tree), Snapshot.from_dict(rewind.results.after[restore.tree])
        moved = {move.path for move in restore.moves}
        for change in self._trees.open_store(tree).diff(after, now).files:
            if restore.branch is not None or change.path in moved:
                yield f"{to_printable_name(change.path)} has changed"
        if restore.branch is not None:
            if (now.branch, now.head) != (restore.branch, restore.head_then):
                yield f"the branch {restore.branch} has moved"
            with open_private_index(self._trees.git_at(tree)) as index:
                if index.has_conflicts() or index.write_tree() != rewind.results.index_after[restore.tree]:
                    yield f"what is staged in {tree} has changed"

    def _reverse(self, rewind: Rewind) -> Steps:
        return Steps(
            tuple(
                self._reverse_restore(each, rewind.results.saved[each.tree]) for each in rewind.steps.restores
            ),
            tuple(_reverse_aside(each) for each in rewind.steps.asides),
            tuple(reversed(rewind.results.reverted)),
        )

    def _reverse_restore(self, restore: TreeRestore, saved: str) -> TreeRestore:
        staged = resolve_commit(self._trees.git_at(Path(restore.tree)), f"{saved}^")
        return replace(
            restore,
            moves=tuple(FileMove(move.path, move.then, move.now) for move in restore.moves),
            entries=tuple(IndexEntry(each.path, each.then, each.now) for each in restore.entries),
            head_now=restore.head_then,
            head_then=restore.head_now,
            index_then=staged if restore.branch is not None else None,
            exact=saved,
        )

    def _find_in_aside(self, aside: SetAside) -> Iterator[str]:
        git = self._trees.git_at(Path(aside.repository))
        if resolve_commit(git, f"refs/heads/{aside.new_branch}") != aside.commit:
            yield f"the branch {aside.new_branch} has moved"
        if resolve_commit(git, f"refs/heads/{aside.branch}") is not None:
            yield f"there is another branch {aside.branch}"
        if aside.path is not None and Path(aside.path).exists():
            yield f"there is another tree in {aside.path}"
        if aside.new_path is not None and not Path(aside.new_path).is_dir():
            yield f"{aside.new_path} is gone"


def map_needed(tx: Transaction, host: str) -> dict[str, str]:
    """Map branches, trees and kept refs to the rewind that needs them: it goes on, or can be undone.

    What agents have begun again since then is not undone any more, and needs nothing.
    """
    store = RewindStore(tx)
    found: dict[str, str] = {}
    for rewind in store.list_needed(host):
        if rewind.stage is RewindStage.DONE and any(_find_changed_tasks(tx, store.list_tasks(rewind.id))):
            continue
        found |= dict.fromkeys(_list_needed_names(rewind), rewind.id)
    return found


def _list_needed_names(rewind: Rewind) -> Iterator[str]:
    yield from rewind.results.rescue_branches
    for restore in rewind.steps.restores:
        yield restore.tree
        yield get_kept_ref(rewind.id, restore.tree)
        if restore.branch is not None:
            yield restore.branch
    for aside in rewind.steps.asides:
        yield from filter(None, (aside.branch, aside.new_branch, aside.path, aside.new_path))


def _require_undoable(tx: Transaction, rewind: Rewind, tasks: Sequence[RewindTask]) -> None:
    problem = None
    if rewind.undoes is not None:
        problem = f"{rewind.id} is itself the undoing of {rewind.undoes}"
    elif rewind.undone_by is not None:
        problem = f"{rewind.id} was undone by {rewind.undone_by}"
    elif rewind.stage is not RewindStage.DONE:
        problem = f"{rewind.id} is {rewind.stage}"
    elif later := RewindStore(tx).find_later_of_tasks(rewind, [task.task_id for task in tasks]):
        problem = f"{later} came later, and must be undone first"
    if problem:
        raise NotAllowed(
            f"This cannot be undone: {problem}.", suggestion="`deepwork rewinds list` shows all of them."
        )


def _find_changed_tasks(tx: Transaction, tasks: Sequence[RewindTask]) -> Iterator[str]:
    changed = [task for task in tasks if task.role is not RewindRole.STALE]
    found = TaskStore(tx).find_by_ids([task.task_id for task in changed])
    for each in changed:
        task = found.get(each.task_id)
        if task is None:
            yield f"task {each.task_id} was removed"
            continue
        lease = LeaseStore(tx, lease_ms=0).find(task.id)
        if what := find_state_changes(task, lease.epoch if lease else None, each.state_after or {}):
            yield f"task {task.name!r} has changed ({', '.join(what)})"


def _build_changed_error(rewind: Rewind, changed: Sequence[str]) -> NotAllowed:
    more = f" and {len(changed) - _MAX_NAMED} more" if len(changed) > _MAX_NAMED else ""
    branches = ", ".join(rewind.results.rescue_branches)
    saved = f" What was there before is on {branches}." if branches else ""
    return NotAllowed(
        f"{rewind.id} cannot be undone, because since then {'; '.join(changed[:_MAX_NAMED])}{more}.",
        suggestion=f"Put that back, then call again.{saved}",
        recoverable=True,
    )


def _reverse_aside(aside: SetAside) -> SetAside:
    return replace(
        aside,
        branch=aside.new_branch,
        new_branch=aside.branch,
        path=aside.new_path,
        new_path=aside.path,
        status=aside.new_status,
        new_status=aside.status,
    )
