"""REST endpoint for the files that a run changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    PagedAnswer,
    PageQuery,
    ReadContext,
    RestAnswer,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.dashboard.run_details import get_run_row
from deepwork.work.tracking.watch_store import WatchStore

MAX_TASKS_PER_FILE = 50

Details = Mapping[str, Any]
"""The lines that a task changed in a file, and the tasks that it shares them with."""


class FileTask(RestAnswer):
    id: str
    name: str
    attribution: str


class FileLine(RestAnswer):
    path: str
    status: str
    added: int | None = None
    removed: int | None = None
    tasks: list[FileTask]
    tasks_total: int


class Files(PagedAnswer):
    files: list[FileLine]


def read_changed_files(context: ReadContext, query: PageQuery) -> Files:
    """Read the files that a run changed, with the tasks that changed each."""
    get_run_row(context.tx, context.id)
    store = WatchStore(context.tx)
    [after] = decode_cursor(query.cursor, str) if query.cursor else [None]
    paths = store.list_changed_paths(context.id, after, query.limit + 1)
    page = paths[: query.limit]
    changes: dict[str, list[Row]] = {path: [] for path in page}
    for row in store.list_changes(context.id, page) if page else ():
        changes[row["path"]].append(row)
    return Files(
        files=[_build_file_line(path, rows) for path, rows in changes.items()],
        total=store.count_changed_paths(context.id),
        cursor=encode_cursor([page[-1]]) if len(paths) > query.limit else None,
    )


def _build_file_line(path: str, rows: Sequence[Row]) -> FileLine:
    changes = _group_shared_changes(rows)
    return FileLine(
        path=path,
        status=rows[-1]["status"],
        added=_sum_lines(changes, "added"),
        removed=_sum_lines(changes, "removed"),
        tasks=[
            FileTask(id=row["task_id"], name=row["task_name"], attribution=row["attribution"])
            for row in rows[-MAX_TASKS_PER_FILE:]
        ],
        tasks_total=len(rows),
    )


def _group_shared_changes(rows: Sequence[Row]) -> list[list[Details]]:
    """Group the changes to a file: those that tasks share are one change, recorded for each of them."""
    groups: list[tuple[set[str], list[Details]]] = []
    for row in rows:
        details = json.loads(row["details"])
        tasks = {row["task_id"], *details.get("shared_with", ())}
        known = next((group for group in groups if details.get("shared_with") and group[0] & tasks), None)
        if known is None:
            groups.append((tasks, [details]))
        else:
            known[0].update(tasks)
            known[1].append(details)
    return [group for _, group in groups]


def _sum_lines(changes: Sequence[Sequence[Details]], name: str) -> int | None:
    """Sum the lines of all changes; of a shared one, count the task that saw most of it."""
    counted = [
        max(lines)
        for group in changes
        if (lines := [each[name] for each in group if each.get(name) is not None])
    ]
    return sum(counted) if counted else None


ENDPOINTS = (
    Endpoint("/api/v1/runs/{id}/files", "Files that a run changed.", PageQuery, Files, read_changed_files),
)
