"""Carries out rewinds, stage by stage; each stage can be repeated after a crash.

The journal says how far a rewind is. Git and files come first, under a lock and outside of transactions;
the tasks change last, in one transaction. So after a kill -9 the next call goes on where this one was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deepwork.delivery.rewind.landed_work import LandedWork
from deepwork.delivery.rewind.models import (
    Dependents,
    Revert,
    Rewind,
    RewindEvent,
    RewindResults,
    RewindStage,
    RewindTask,
    SetAside,
    Steps,
)
from deepwork.delivery.rewind.responses import build_payload
from deepwork.delivery.rewind.state_changes import StateChanger
from deepwork.delivery.rewind.store import RewindStore
from deepwork.delivery.rewind.tree_plans import TreePlanner
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.git.private_index import open_private_index
from deepwork.kernel.git.refs import resolve_commit
from deepwork.kernel.git.rescue import rescue
from deepwork.kernel.git.snapshot_types import FileChange, Snapshot
from deepwork.kernel.git.tree_restores import TreeRestore, get_working_folder
from deepwork.kernel.git.worktrees import WorktreeMove, move_worktree
from deepwork.kernel.records import dataclass
from deepwork.work.agents.presence import Presence
from deepwork.work.plans.stores.plan_store import PlanStore

_LOCK_NAME = "rewinds.lock"
_MAX_LATE = 20


@dataclass(frozen=True)
class NewRewind:
    """A rewind that a person decided about."""

    id: str
    workflow_id: str
    task_id: str
    target: str
    dependents: Dependents
    digest: str
    steps: Steps
    tasks: Sequence[RewindTask]
    undoes: str | None = None


Confirm = Callable[[Transaction], None]
"""Raises unless the person who calls has proved to be one."""


class RewindService:
    """Records rewinds and carries them out."""

    def __init__(
        self,
        database: Database,
        presence: Presence,
        trees: TreePlanner,
        landed: LandedWork,
        state_folder: Path,
    ) -> None:
        self._database, self._presence, self._trees, self._landed = database, presence, trees, landed
        self._state_folder = state_folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process at a time rewind in this project."""
        self._state_folder.mkdir(parents=True, exist_ok=True)
        with hold_file_lock(self._state_folder / _LOCK_NAME):
            yield

    def begin(self, new: NewRewind, confirm: Confirm) -> Rewind:
        """Record what a person decided; nothing else is changed yet."""
        with self._database.transaction() as tx:
            confirm(tx)
            PlanStore(tx).get_for_update(new.workflow_id)
            store = RewindStore(tx)
            rewind = Rewind(
                **{name: value for name, value in vars(new).items() if name != "tasks"},
                number=store.count_of_task(new.task_id) + 1,
                undone_by=None,
                stage=RewindStage.PLANNED,
                host=self._trees.host,
                results=RewindResults(),
                created_by=tx.caller,
                created_at=tx.now,
                updated_at=tx.now,
            )
            if not store.add(rewind, new.tasks):
                raise _build_busy_error(new.task_id)
            _emit(tx, rewind)
            return rewind

    def carry_out(self, rewind: Rewind) -> Rewind:
        """Do what is left of a rewind; call it while the lock is held."""
        if rewind.host != self._trees.host:
            raise NotAllowed(
                f"The rewind {rewind.id} was begun on {rewind.host}.",
                suggestion=f"Run this on {rewind.host}.",
            )
        stages = {
            RewindStage.PLANNED: self._rescue,
            RewindStage.RESCUED: self._change_files,
            RewindStage.FILES: self._change_state,
            RewindStage.STATE: self._finish,
        }
        while do := stages.get(rewind.stage):
            rewind = do(rewind)
        return rewind

    # Stages

    def _rescue(self, rewind: Rewind) -> Rewind:
        """Save everything that is uncommitted, then the exact content of the files that will change."""
        if changed := self._find_first_change(rewind):
            self._move(rewind, RewindStage.CANCELLED)
            raise _build_changed_error(rewind, changed)
        results = rewind.results
        for restore in rewind.steps.restores:
            restorer = self._trees.open_restorer(Path(restore.tree))
            if rewind.undoes is None:
                name = f"{(restore.branch or 'tree').removeprefix('deepwork/')}-{rewind.id}"
                branch = restorer.rescue_work(name, with_commits=restore.branch is not None)
                results = _add_branch(results, branch)
            saved = restorer.save(restore, rewind.id)
            results = replace(results, saved={**results.saved, restore.tree: saved})
        for aside in rewind.steps.asides:
            if aside.path is not None and rewind.undoes is None and Path(aside.path).is_dir():
                git = self._trees.git_at(Path(aside.path))
                results = _add_branch(results, rescue(git, f"{Path(aside.path).name}-{rewind.id}"))
        return self._move(rewind, RewindStage.RESCUED, results)

    def _change_files(self, rewind: Rewind) -> Rewind:
        results = self._revert(rewind)
        for restore in rewind.steps.restores:
            results = self._restore(rewind, restore, results)
        for aside in rewind.steps.asides:
            move_worktree(self._trees.git_at(Path(aside.repository)), _to_move(aside))
        return self._move(rewind, RewindStage.FILES, results)

    def _revert(self, rewind: Rewind) -> RewindResults:
        """Undo landed work first: later work may conflict, and then nothing was changed yet."""
        reverted: list[Revert] = []
        seen: set[str] = set()
        for revert in rewind.steps.reverts:
            if revert.landing_id in seen:  # earlier versions listed it for each branch that has it
                continue
            seen.add(revert.landing_id)
            try:
                found = self._landed.land(rewind, revert)
            except NotAllowed:
                if not reverted:
                    self._move(rewind, RewindStage.CANCELLED)
                raise
            reverted += [found] if found else []
        return replace(rewind.results, reverted=tuple(reverted))

    def _restore(self, rewind: Rewind, restore: TreeRestore, results: RewindResults) -> RewindResults:
        tree = Path(restore.tree)
        restorer = self._trees.open_restorer(tree)
        strange = restorer.apply(restore, rewind.id, results.saved[restore.tree])
        folder = get_working_folder(tree, rewind.id)
        kept = [f"{to_printable_name(path)} (see {folder / 'kept'})" for path in strange]
        with open_private_index(self._trees.git_at(tree)) as index:
            staged = index.write_tree()
        return replace(
            results,
            after={**results.after, restore.tree: self._trees.take(tree).to_dict()},
            index_after={**results.index_after, restore.tree: staged},
            kept=(*results.kept, *kept),
        )

    def _change_state(self, rewind: Rewind) -> Rewind:
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get_for_update(rewind.workflow_id)
            store, changer = RewindStore(tx), StateChanger(tx, self._presence, rewind)
            tasks = store.list_tasks(rewind.id)
            results = rewind.results
            if rewind.undoes is None:
                results = replace(results, plan=changer.rewind_tasks(workflow, tasks))
            else:
                changer.undo_tasks(workflow, tasks, store.list_tasks(rewind.undoes))
                undone = store.get(rewind.undoes)
                store.save(undone, replace(undone, undone_by=rewind.id, updated_at=tx.now))
                _emit(tx, replace(undone, undone_by=rewind.id, updated_at=tx.now))
            changer.move_workspaces(rewind.steps.asides)
            return _save(tx, rewind, RewindStage.STATE, results)

    def _finish(self, rewind: Rewind) -> Rewind:
        """List what an agent that was at work wrote after the files went back; it stays in its tree."""
        late = [
            f"{to_printable_name(change.path)} (written in {restore.tree} after it went back)"
            for restore in rewind.steps.restores
            if restore.branch is not None
            for change in self._list_late(restore, rewind.results)
        ]
        results = replace(rewind.results, kept=(*rewind.results.kept, *late[:_MAX_LATE]))
        return self._move(rewind, RewindStage.DONE, results)

    def _list_late(self, restore: TreeRestore, results: RewindResults) -> Sequence[FileChange]:
        tree, after = Path(restore.tree), Snapshot.from_dict(results.after[restore.tree])
        return self._trees.open_store(tree).diff(after, self._trees.take(tree)).files

    # Helpers

    def _find_first_change(self, rewind: Rewind) -> str | None:
        """Return what is not as it was when the person decided."""
        for restore in rewind.steps.restores:
            tree = Path(restore.tree)
            now = self._trees.take(tree)
            if restore.branch is not None and (now.branch, now.head) != (restore.branch, restore.head_now):
                return f"the branch {restore.branch}"
            versions = self._read_versions(tree, now)
            for move in restore.moves:
                if versions.get(move.path) != move.now:
                    return to_printable_name(move.path)
        for aside in rewind.steps.asides:
            git = self._trees.git_at(Path(aside.repository))
            if resolve_commit(git, f"refs/heads/{aside.branch}") != aside.commit:
                return f"the branch {aside.branch}"
        return None

    def _read_versions(self, tree: Path, now: Snapshot) -> dict[str, str]:
        files = self._trees.open_store(tree).list_files(now.tree)
        versions = {file.path: f"{file.mode} {file.blob}" for file in files}
        return versions | {each.path: each.version for each in now.listed}

    def _move(self, rewind: Rewind, stage: RewindStage, results: RewindResults | None = None) -> Rewind:
        with self._database.transaction() as tx:
            return _save(tx, rewind, stage, results or rewind.results)


def _save(tx: Transaction, rewind: Rewind, stage: RewindStage, results: RewindResults) -> Rewind:
    is_over = stage in (RewindStage.DONE, RewindStage.CANCELLED)
    moved = replace(
        rewind, stage=stage, results=results, updated_at=tx.now, ended_at=tx.now if is_over else None
    )
    if not RewindStore(tx).save(rewind, moved):
        raise _build_busy_error(rewind.task_id)
    _emit(tx, moved)
    return moved


def _emit(tx: Transaction, rewind: Rewind) -> None:
    tx.emit(RewindEvent.UPDATED, dict(build_payload(rewind)), rewind.workflow_id)


def _add_branch(results: RewindResults, branch: str | None) -> RewindResults:
    if branch is None or branch in results.rescue_branches:
        return results
    return replace(results, rescue_branches=(*results.rescue_branches, branch))


def _to_move(aside: SetAside) -> WorktreeMove:
    path = None if aside.path is None else Path(aside.path)
    new_path = None if aside.new_path is None else Path(aside.new_path)
    return WorktreeMove(aside.branch, aside.new_branch, aside.commit, path, new_path)


def _build_busy_error(task_id: str) -> NotAllowed:
    return NotAllowed(
        f"Another process rewinds task {task_id} now.",
        suggestion="Call again: it goes on where that one stopped.",
        recoverable=True,
    )


def _build_changed_error(rewind: Rewind, what: str) -> NotAllowed:
    return NotAllowed(
        f"Nothing was rewound: {what} changed after you looked.",
        suggestion=f"Look again with `deepwork rewind {rewind.task_id} --dry-run`, then decide again.",
        recoverable=True,
    )
