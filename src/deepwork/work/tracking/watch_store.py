"""Which trees are watched for whom, with their snapshots.

A watch is the time that one attempt of a task spent in one working tree.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, DeepworkError, InvalidInput
from deepwork.kernel.files.repositories import find_repository, find_tree_root
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import ChangeStatus, Snapshot
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.models import AttributedChange, Attribution, CheckpointTree, Watch
from deepwork.work.workspaces.repositories import resolve_path


class WatchStore:
    """Reads and writes watches and changed files."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, *, areas: Sequence[str], began: Mapping[str, Any], **values: Any) -> None:
        """Insert the watch of a task that starts; the values have the names of the fields of `Watch`."""
        self._tx.insert("watches", {**values, "areas": json.dumps(areas), "began": json.dumps(began)})

    def find_latest(self, task_id: str) -> Watch | None:
        """Return the watch of the task's latest attempt."""
        sql = f"SELECT {_WATCH_COLUMNS} FROM watches WHERE task_id = :id ORDER BY attempt DESC LIMIT 1"
        row = self._tx.fetch_one(sql, id=task_id)
        return _watch_from_row(row) if row else None

    def list_of_task(self, task_id: str) -> list[Watch]:
        """Return all watches of a task, by attempt."""
        sql = f"SELECT {_WATCH_COLUMNS} FROM watches WHERE task_id = :id ORDER BY attempt"
        return [_watch_from_row(row) for row in self._tx.fetch_all(sql, id=task_id)]

    def save_checkpoint_tree(self, checkpoint: CheckpointTree) -> None:
        """Store the snapshot that was taken at a checkpoint."""
        row = vars(checkpoint) | {"snapshot": json.dumps(checkpoint.snapshot)}
        self._tx.insert("checkpoint_trees", row)

    def list_checkpoint_trees(self, task_id: str) -> list[CheckpointTree]:
        """Return the snapshots that were taken at the checkpoints of a task, in their order."""
        sql = f"SELECT {_CHECKPOINT_COLUMNS} FROM checkpoint_trees WHERE task_id = :id ORDER BY sequence"
        return [_checkpoint_from_row(row) for row in self._tx.fetch_all(sql, id=task_id)]

    def list_start_heads(self, task_id: str, host: str, tree_path: str) -> list[str]:
        """Return the commits at which the watches of a task in a tree began, oldest first."""
        sql = (
            "SELECT began FROM watches WHERE task_id = :id AND host = :host AND tree_path = :tree"
            " ORDER BY attempt LIMIT 100"
        )
        rows = self._tx.fetch_all(sql, id=task_id, host=host, tree=tree_path)
        heads = (json.loads(row["began"]).get("head") for row in rows)
        return list(dict.fromkeys(head for head in heads if head))

    def save_end(self, watch: Watch) -> None:
        """Save the end of a watch and its snapshot."""
        sql = (
            "UPDATE watches SET ended_at = :ended_at, ended = :ended"
            " WHERE task_id = :task_id AND attempt = :attempt"
        )
        self._tx.execute(
            sql,
            ended_at=watch.ended_at,
            ended=None if watch.ended is None else json.dumps(watch.ended),
            task_id=watch.task_id,
            attempt=watch.attempt,
        )

    def list_overlapping(self, watch: Watch, until: int) -> list[Watch]:
        """Return other watches of the same tree that overlap this one in time."""
        sql = f"""
            SELECT {_WATCH_COLUMNS} FROM watches
             WHERE host = :host AND tree_path = :tree AND began_at <= :until
               AND (ended_at IS NULL OR ended_at >= :since)
               AND NOT (task_id = :task_id AND attempt = :attempt)
             ORDER BY began_at, task_id, attempt
        """
        rows = self._tx.fetch_all(
            sql,
            host=watch.host,
            tree=watch.tree_path,
            until=until,
            since=watch.began_at,
            task_id=watch.task_id,
            attempt=watch.attempt,
        )
        return [_watch_from_row(row) for row in rows]

    def list_tree_hashes_since(self, host: str, tree_path: str, moment: int) -> set[str]:
        """Return the tree hashes in snapshots of tasks that ended since then or are still running."""
        sql = (
            "SELECT began, ended FROM watches WHERE host = :host AND tree_path = :tree"
            " AND (ended_at IS NULL OR ended_at >= :moment)"
        )
        rows = self._tx.fetch_all(sql, host=host, tree=tree_path, moment=moment)
        looks = [json.loads(look) for row in rows for look in (row["began"], row["ended"]) if look]
        return {look["tree"] for look in looks} | self._list_checkpoint_hashes(host, tree_path, moment)

    def _list_checkpoint_hashes(self, host: str, tree_path: str, moment: int) -> set[str]:
        sql = (
            "SELECT snapshot FROM checkpoint_trees"
            " WHERE host = :host AND tree_path = :tree AND taken_at >= :moment"
        )
        rows = self._tx.fetch_all(sql, host=host, tree=tree_path, moment=moment)
        return {json.loads(row["snapshot"])["tree"] for row in rows}

    def save_files(self, task_id: str, workflow_id: str, files: Sequence[AttributedChange]) -> None:
        """Replace the list of files that the task changed."""
        self._tx.execute("DELETE FROM changed_files WHERE task_id = :id", id=task_id)
        of = {"task_id": task_id, "workflow_id": workflow_id}
        self._tx.insert_many("changed_files", [of | _file_to_row(file) for file in files])

    def list_files(self, task_id: str, path: str | None, limit: int) -> tuple[list[AttributedChange], int]:
        """Return the files that a task changed, sorted by path, and their total number."""
        only = " AND path = :path" if path is not None else ""
        sql = f"SELECT count(*) FROM changed_files WHERE task_id = :id{only}"
        total: int = self._tx.fetch_value(sql, id=task_id, path=path)
        sql = (
            f"SELECT path, status, attribution, details FROM changed_files WHERE task_id = :id{only}"
            " ORDER BY path LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, id=task_id, path=path, limit=limit)
        return [_file_from_row(row) for row in rows], total

    def list_changers(self, host: str, tree_path: str, paths: Sequence[str]) -> dict[str, str]:
        """Map those of these files that tasks changed in a tree to the last of these tasks."""
        sql = """
            SELECT path, changed_files.task_id FROM changed_files
              JOIN watches ON watches.task_id = changed_files.task_id
             WHERE host = :host AND tree_path = :tree AND path IN :paths ORDER BY began_at
        """
        rows = self._tx.fetch_all(sql, host=host, tree=tree_path, paths=list(paths)) if paths else []
        return {row["path"]: row["task_id"] for row in rows}

    def list_running(self, host: str, tree_path: str) -> list[str]:
        """Return the tasks that are being watched in a tree."""
        sql = """
            SELECT task_id FROM watches WHERE host = :host AND tree_path = :tree AND ended_at IS NULL
             ORDER BY began_at
        """
        return [row["task_id"] for row in self._tx.fetch_all(sql, host=host, tree=tree_path)]

    def count_changed_paths(self, workflow_id: str) -> int:
        """Count the different files that the tasks of a workflow changed."""
        sql = "SELECT count(DISTINCT path) FROM changed_files WHERE workflow_id = :id"
        found: int = self._tx.fetch_value(sql, id=workflow_id)
        return found

    def map_paths(self, task_ids: Sequence[str]) -> dict[str, set[str]]:
        """Map these tasks to the files that they changed; those that changed none are left out."""
        found: dict[str, set[str]] = {}
        sql = "SELECT task_id, path FROM changed_files WHERE task_id IN :ids"
        for row in self._tx.fetch_all(sql, ids=list(task_ids)) if task_ids else ():
            found.setdefault(row["task_id"], set()).add(row["path"])
        return found

    def count_changed_files(self, task_id: str) -> int:
        """Count the files that a task changed."""
        sql = "SELECT count(*) FROM changed_files WHERE task_id = :id"
        found: int = self._tx.fetch_value(sql, id=task_id)
        return found

    def list_changed_paths(self, run_id: str, after: str | None, limit: int) -> list[str]:
        """List the next changed paths after a path."""
        conditions = build_where({"workflow_id = :id": run_id, "path > :after": after})
        sql = f"SELECT DISTINCT path FROM changed_files {conditions} ORDER BY path LIMIT :limit"
        rows = self._tx.fetch_all(sql, id=run_id, after=after, limit=limit)
        return [row["path"] for row in rows]

    def list_changes(self, run_id: str, paths: Sequence[str]) -> list[Row]:
        """List the changes to these files with the task that made each."""
        sql = """
            SELECT file.path, file.task_id, file.status, file.attribution, file.details,
                   coalesce(tracked.name, planned.name, file.task_id) AS task_name,
                   coalesce(tracked.started_at, planned.started_at, 0) AS started_at
              FROM changed_files AS file
              LEFT JOIN tracked_tasks AS tracked ON tracked.id = file.task_id
              LEFT JOIN plan_tasks AS planned ON planned.id = file.task_id
             WHERE file.workflow_id = :id AND file.path IN :paths
             ORDER BY file.path, started_at, coalesce(tracked.created_seq, planned.position), file.task_id
        """
        return self._tx.fetch_all(sql, id=run_id, paths=list(paths))

    def find_last_snapshot(self) -> str | None:
        """Return the stored JSON of the snapshot that the last started task took."""
        sql = "SELECT began FROM watches ORDER BY began_at DESC, task_id, attempt DESC LIMIT 1"
        found: str | None = self._tx.fetch_value(sql)
        return found


_WATCH_COLUMNS = ", ".join(Watch.__dataclass_fields__)
_CHECKPOINT_COLUMNS = ", ".join(CheckpointTree.__dataclass_fields__)


@row_parser
def _watch_from_row(row: Row) -> Watch:
    read = {
        "areas": tuple(json.loads(row["areas"])),
        "began": json.loads(row["began"]),
        "ended": None if row["ended"] is None else json.loads(row["ended"]),
    }
    return Watch(**(row | read))


@row_parser
def _checkpoint_from_row(row: Row) -> CheckpointTree:
    return CheckpointTree(**(row | {"snapshot": json.loads(row["snapshot"])}))


def _file_to_row(file: AttributedChange) -> Row:
    details = {
        "added": file.added,
        "removed": file.removed,
        "is_binary": file.is_binary or None,
        "shared_with": list(file.shared_with) or None,
        "before_tree": file.before_tree,
        "after_tree": file.after_tree,
    }
    kept = {name: value for name, value in details.items() if value is not None}
    return {
        "path": file.path,
        "status": file.status.value,
        "attribution": file.attribution.value,
        "details": json.dumps(kept, ensure_ascii=False),
    }


@row_parser
def _file_from_row(row: Row) -> AttributedChange:
    status, details = ChangeStatus(row["status"]), json.loads(row["details"])
    before, after = details.get("before_tree", ""), details.get("after_tree", "")
    return AttributedChange(
        row["path"],
        # The tree of a snapshot identifies the file's version in it, too.
        None if status is ChangeStatus.ADDED else before,
        None if status is ChangeStatus.DELETED else after,
        details.get("added"),
        details.get("removed"),
        details.get("is_binary", False),
        attribution=Attribution(row["attribution"]),
        shared_with=tuple(details.get("shared_with", ())),
        before_tree=before,
        after_tree=after,
    )


log = logging.getLogger("deepwork")

_RETENTION_DAYS = 30
_DAY_NS = 24 * 3600 * 10**9
NO_START = "No snapshot was taken when it started, so its changes are unknown"


@dataclass(frozen=True)
class SnapshotResult:
    """A snapshot of a working tree with its time; if `snapshot` is None, `warnings` say why."""

    tree: Path
    at: int
    snapshot: Snapshot | None
    warnings: tuple[str, ...] = ()
    took_ms: int = 0
    store: SnapshotStore | None = field(default=None, compare=False, repr=False)
    """The open store that has it."""

    @property
    def kind(self) -> str:
        return "none" if self.snapshot is None else self.snapshot.kind.value

    @property
    def id(self) -> str | None:
        """The commit that HEAD points to; without commits or without git, an id made from the snapshot."""
        if self.snapshot is None:
            return None
        return self.snapshot.head or f"{self.snapshot.kind}-{self.snapshot.tree[:16]}"


class SnapshotService:
    """Takes and prunes snapshots; `open_store` returns the store of a working tree's snapshots."""

    def __init__(
        self, database: Database, host: str, repository: Path, open_store: Callable[[Path], SnapshotStore]
    ) -> None:
        self._database = database
        self.host = host
        self._repository = repository
        self.open_store = open_store
        self._pruned_at: dict[Path, int] = {}

    def resolve_tree(self, cwd: str | None, default: Path) -> Path:
        """Return the working tree of a task: `default`, or `cwd` within this repository or its worktrees."""
        if cwd is None:
            return default
        here = Path(resolve_path("cwd", cwd, relative_to=default))
        ours = find_repository(self._repository)
        is_ours = here.is_relative_to(self._repository) or (
            ours is not None and find_repository(here) == ours
        )
        if not is_ours or not here.is_dir():
            raise InvalidInput(
                f"`cwd` {cwd[:200]!r} is not a folder of this repository or of one of its worktrees.",
                code=Code.PATH_OUTSIDE_PROJECT,
                suggestion="Omit it to work in the project itself, or see {tool:workspace_list}.",
            )
        return here if find_tree_root(here) else default

    def take(self, tree: Path, *, is_new: bool = False) -> SnapshotResult:
        """Take a snapshot of the working tree. A failure becomes a warning: it must not stop the work.

        For a subfolder, this is its whole working tree, so that tasks in different subfolders are compared.
        `is_new`: git has just made the tree.
        """
        tree = find_tree_root(tree) or tree
        began = time.monotonic()
        try:
            store = self.open_store(tree)
            snapshot = store.take_new() if is_new else store.take()
        except (DeepworkError, OSError) as error:
            return SnapshotResult(tree, time.time_ns(), None, (f"Its changes cannot be tracked: {error}",))
        unreadable = [f"{len(snapshot.unreadable)} file(s) could not be read"] if snapshot.unreadable else []
        took_ms = round(1000 * (time.monotonic() - began))
        return SnapshotResult(tree, time.time_ns(), snapshot, tuple(unreadable), took_ms, store)

    def record_start(
        self,
        tx: Transaction,
        task_id: str,
        workflow_id: str,
        start: SnapshotResult,
        parent_task_id: str | None = None,
        areas: Sequence[str] = (),
        attempt: int = 1,
        agent_id: str | None = None,
    ) -> None:
        """Record that a task starts in the tree of this snapshot."""
        if start.snapshot is None:
            return
        WatchStore(tx).add(
            task_id=task_id,
            attempt=attempt,
            workflow_id=workflow_id,
            parent_task_id=parent_task_id,
            areas=areas,
            host=self.host,
            tree_path=str(start.tree),
            began_at=start.at,
            began=start.snapshot.to_dict() | {"ms": start.took_ms},
            agent_id=agent_id,
        )

    def prune(self, tree: Path, store: SnapshotStore | None = None) -> None:
        """Delete snapshots that only tasks ended over 30 days ago need; runs at most once a day.

        `store`: that of the tree, if it is open.
        """
        tree = find_tree_root(tree) or tree
        now = time.time_ns()
        if now - self._pruned_at.get(tree, 0) < _DAY_NS:
            return
        self._pruned_at[tree] = now
        with self._database.reading() as tx:
            kept = WatchStore(tx).list_tree_hashes_since(
                self.host, str(tree), now - _RETENTION_DAYS * _DAY_NS
            )
        try:
            store = store or self.open_store(tree)
            if store.began_at() < now - _RETENTION_DAYS * _DAY_NS:  # otherwise nothing in it is that old
                store.prune(kept)
        except (DeepworkError, OSError) as error:
            log.warning("Cannot prune the snapshots of %s: %s", tree, error)
