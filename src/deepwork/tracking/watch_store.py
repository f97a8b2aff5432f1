"""What is kept of working trees while tasks run, and of the files that each task changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.transaction import Transaction


@dataclass(frozen=True)
class Watch:
    """A task's time in a working tree; `began` and `ended` are what the tree was like at both ends."""

    task_id: str
    attempt: int
    workflow_id: str
    parent_task_id: str | None
    areas: tuple[str, ...]
    host: str
    tree_path: str
    began_at: int
    """Nanoseconds on the clock of that host: what follows another there has a later moment."""
    began: Mapping[str, Any]
    ended_at: int | None = None
    ended: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChangedFile:
    """A file that a task changed."""

    task_id: str
    workflow_id: str
    path: str
    status: str
    attribution: str
    details: Mapping[str, Any]


class WatchStore:
    """Watches and changed files, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, watch: Watch) -> None:
        """A task begins in a tree."""
        self._tx.insert("watches", _watch_row(watch))

    def last(self, task_id: str) -> Watch | None:
        """The newest time of a task in a tree."""
        row = self._tx.one(
            f"SELECT {_WATCH} FROM watches WHERE task_id = :id ORDER BY attempt DESC LIMIT 1", id=task_id
        )
        return _watch(row) if row else None

    def end(self, watch: Watch) -> None:
        """A task has ended; the tree is known at that moment."""
        self._tx.run(
            "UPDATE watches SET ended_at = :ended_at, ended = :ended"
            " WHERE task_id = :task_id AND attempt = :attempt",
            ended_at=watch.ended_at, ended=_watch_row(watch)["ended"],
            task_id=watch.task_id, attempt=watch.attempt,
        )  # fmt: skip

    def beside(self, watch: Watch, until: int) -> list[Watch]:
        """The others that were in the same tree at some moment of this one's time."""
        rows = self._tx.all(
            f"""
            SELECT {_WATCH} FROM watches
             WHERE host = :host AND tree_path = :tree AND began_at <= :until
               AND (ended_at IS NULL OR ended_at >= :since)
               AND NOT (task_id = :task_id AND attempt = :attempt)
             ORDER BY began_at, task_id, attempt
            """,
            host=watch.host, tree=watch.tree_path, until=until, since=watch.began_at,
            task_id=watch.task_id, attempt=watch.attempt,
        )  # fmt: skip
        return [_watch(row) for row in rows]

    def trees_since(self, host: str, tree_path: str, moment: int) -> set[str]:
        """What was seen of a working tree for tasks that ended since then, or have not ended."""
        rows = self._tx.all(
            "SELECT began, ended FROM watches WHERE host = :host AND tree_path = :tree"
            " AND (ended_at IS NULL OR ended_at >= :moment)",
            host=host, tree=tree_path, moment=moment,
        )  # fmt: skip
        looks = [json.loads(look) for row in rows for look in (row["began"], row["ended"]) if look]
        return {look["tree"] for look in looks}

    def keep_files(self, task_id: str, files: Sequence[ChangedFile]) -> None:
        """These are the files that the task changed."""
        self._tx.run("DELETE FROM changed_files WHERE task_id = :id", id=task_id)
        rows = [vars(file) | {"details": json.dumps(file.details, ensure_ascii=False)} for file in files]
        self._tx.insert_all("changed_files", rows)

    def files_of(self, task_id: str, path: str | None, limit: int) -> tuple[list[ChangedFile], int]:
        """Files that a task changed, by path, and how many there are in all."""
        only = " AND path = :path" if path is not None else ""
        total: int = self._tx.value(
            f"SELECT count(*) FROM changed_files WHERE task_id = :id{only}", id=task_id, path=path
        )
        rows = self._tx.all(
            f"SELECT {_FILE} FROM changed_files WHERE task_id = :id{only} ORDER BY path LIMIT :limit",
            id=task_id, path=path, limit=limit,
        )  # fmt: skip
        return [_file(row) for row in rows], total

    def paths_of(self, workflow_id: str) -> int:
        """How many different files the tasks of a workflow changed."""
        found: int = self._tx.value(
            "SELECT count(DISTINCT path) FROM changed_files WHERE workflow_id = :id", id=workflow_id
        )
        return found


_WATCH = ", ".join(Watch.__dataclass_fields__)
_FILE = ", ".join(ChangedFile.__dataclass_fields__)


def _watch_row(watch: Watch) -> Row:
    ended = None if watch.ended is None else json.dumps(watch.ended)
    return vars(watch) | {"areas": json.dumps(watch.areas), "began": json.dumps(watch.began), "ended": ended}


@stored
def _watch(row: Row) -> Watch:
    read = {
        "areas": tuple(json.loads(row["areas"])),
        "began": json.loads(row["began"]),
        "ended": None if row["ended"] is None else json.loads(row["ended"]),
    }
    return Watch(**(row | read))


@stored
def _file(row: Row) -> ChangedFile:
    return ChangedFile(**(row | {"details": json.loads(row["details"])}))
