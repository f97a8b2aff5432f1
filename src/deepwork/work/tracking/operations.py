"""What people read in the records of all runs: issues, decisions and changed files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from deepwork.kernel.answers import Act, Field, Id, offer
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, decode_cursor, encode_cursor
from deepwork.work.tracking.attribution import RunDirectory
from deepwork.work.tracking.diffs import DiffService, TaskPatch
from deepwork.work.tracking.list_responses import (
    Blockers,
    ChangedFilePage,
    DecisionLine,
    Decisions,
    FileLine,
    FileTask,
    IssueLine,
    Issues,
    RunRef,
)
from deepwork.work.tracking.models import Category, Decision, Issue, IssueType
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import DecisionView, IssueView
from deepwork.work.tracking.watch_store import WatchStore

MAX_SEARCH_WORDS = 10
RunId = Annotated[str | None, Field(description="The id of a run")]

MAX_TASKS_PER_FILE = 50

Details = Mapping[str, Any]
"""The lines that a task changed in a file, and the tasks that it shares them with."""


class TrackOperations:
    """Reads the records of all runs."""

    traits: ClassVar = Traits(toolset="tracking", people_only=True)

    def __init__(self, database: Database, runs: RunDirectory, diffs: DiffService) -> None:
        self._database, self._runs, self._diffs = database, runs, diffs

    @operation("read")
    def get_task_patch(
        self,
        task_id: Annotated[Id, Field(description="Tracked or planned")],
        path: Annotated[str | None, Field(description="Only this file")] = None,
        max_bytes: Annotated[int, Field(ge=1, le=1_000_000)] = 200_000,
    ) -> TaskPatch:
        """What a task changed in all its attempts, committed or not, finished or not, as a patch."""
        return self._diffs.get_patch(task_id, path, max_bytes)

    @operation("read")
    def list_work_issues(self, id: Id, limit: PageLimit = 50, cursor: Cursor = None) -> Issues:
        """Issues of a run, newest first."""
        with self._database.reading() as tx:
            self._runs.require(tx, id)
            found, total, following = self._list_issues(tx, {"workflow_id": id}, limit, cursor)
            return Issues(issues=found, total=total, cursor=following)

    @operation("read")
    def list_blockers(
        self,
        run: RunId = None,
        state: Literal["open", "resolved", "all"] = "open",
        type: IssueType | None = None,
        agent: str | None = None,
        order: Literal["asc", "desc"] = "desc",
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Blockers:
        """Issues of all runs that need a person."""
        filters = {
            "workflow_id": run,
            "blockers": True,
            "type": type,
            "agent": agent,
            "open": True if state == "open" else None,
            "resolved": True if state == "resolved" else None,
        }
        with self._database.reading() as tx:
            found, total, following = self._list_issues(
                tx, filters, limit, cursor, oldest_first=order == "asc"
            )
            return Blockers(blockers=found, total=total, cursor=following)

    @operation("read")
    def list_work_decisions(self, id: Id, limit: PageLimit = 50, cursor: Cursor = None) -> Decisions:
        """Decisions of a run, newest first."""
        with self._database.reading() as tx:
            self._runs.require(tx, id)
            return self._list_decisions(tx, {"workflow_id": id}, limit, cursor)

    @operation("read")
    def list_decisions(
        self,
        run: RunId = None,
        q: Annotated[str | None, Field(max_length=200, description="Search words; all must occur")] = None,
        category: Category | None = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> Decisions:
        """Decisions of all runs, newest first."""
        words = (q or "").split()[:MAX_SEARCH_WORDS]
        with self._database.reading() as tx:
            filters = {"workflow_id": run, "category": category, "words": words}
            return self._list_decisions(tx, filters, limit, cursor)

    @operation("read")
    def list_changed_files(self, id: Id, limit: PageLimit = 50, cursor: Cursor = None) -> ChangedFilePage:
        """Files that a run changed."""
        with self._database.reading() as tx:
            self._runs.require(tx, id)
            store = WatchStore(tx)
            [after] = decode_cursor(cursor, str) if cursor else [None]
            paths = store.list_changed_paths(id, after, limit + 1)
            page = paths[:limit]
            changes: dict[str, list[Mapping[str, Any]]] = {path: [] for path in page}
            for row in store.list_changes(id, page) if page else ():
                changes[row["path"]].append(row)
            return ChangedFilePage(
                files=[build_file_line(path, rows) for path, rows in changes.items()],
                total=store.count_changed_paths(id),
                cursor=encode_cursor([page[-1]]) if len(paths) > limit else None,
            )

    def _list_issues(
        self,
        tx: Transaction,
        filters: Mapping[str, Any],
        limit: int,
        cursor: str | None,
        *,
        oldest_first: bool = False,
    ) -> tuple[list[IssueLine], int, str | None]:
        store, matching = NoteStore(tx), {**filters, "beyond": _parse_cursor(cursor)}
        found, total = store.list_issues(matching, limit + 1, oldest_first=oldest_first)
        lines = build_issue_lines(tx, self._runs, found[:limit])
        return lines, total, _encode_next_cursor(store, "issues", found, limit)

    def _list_decisions(
        self, tx: Transaction, filters: Mapping[str, Any], limit: int, cursor: str | None
    ) -> Decisions:
        store = NoteStore(tx)
        found, total = store.list_decisions({**filters, "beyond": _parse_cursor(cursor)}, limit + 1)
        lines = build_decision_lines(tx, self._runs, found[:limit])
        following = _encode_next_cursor(store, "decisions", found, limit)
        return Decisions(decisions=lines, total=total, cursor=following)


def build_issue_lines(tx: Transaction, runs: RunDirectory, issues: Sequence[Issue]) -> list[IssueLine]:
    """Build issues with their runs and the actions on them."""
    named = _find_runs(tx, runs, issues)
    return [
        IssueLine(
            **vars(IssueView.from_note(each)),
            run=named[each.subject.workflow_id],
            actions=[] if each.resolved_at else [offer_resolve(each.id)],
        )
        for each in issues
    ]


def build_decision_lines(
    tx: Transaction, runs: RunDirectory, decisions: Sequence[Decision]
) -> list[DecisionLine]:
    """Build decisions with their runs."""
    named = _find_runs(tx, runs, decisions)
    return [
        DecisionLine(**vars(DecisionView.from_note(each)), run=named[each.subject.workflow_id])
        for each in decisions
    ]


def offer_resolve(issue_id: str) -> Act:
    """Offer to resolve an issue."""
    return offer("Resolve", "resolve_issue", {"note": "How was it resolved?"}, issue_id=issue_id)


def _find_runs(tx: Transaction, runs: RunDirectory, notes: Sequence[Decision | Issue]) -> dict[str, RunRef]:
    ids = [each.subject.workflow_id for each in notes]
    return {id: RunRef(id=id, kind="job", name=id) for id in ids} | runs.find_refs(tx, ids)


def _parse_cursor(cursor: str | None) -> Sequence[Any] | None:
    return decode_cursor(cursor, int, int) if cursor else None


def _encode_next_cursor(
    store: NoteStore, table: str, found: Sequence[Decision | Issue], limit: int
) -> str | None:
    if len(found) <= limit:
        return None
    last = found[limit - 1]
    return encode_cursor([last.created_at, store.get_created_seq(table, last.id)])


def build_file_line(path: str, rows: Sequence[Mapping[str, Any]]) -> FileLine:
    """Build a changed file with the tasks that changed it, from the change of each."""
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


def _group_shared_changes(rows: Sequence[Mapping[str, Any]]) -> list[list[Details]]:
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
