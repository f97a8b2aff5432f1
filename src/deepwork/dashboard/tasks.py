"""All tasks of a run at once: as a table, and as a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import Field

from deepwork.dashboard.endpoints import Endpoint, Listing, Nothing, Page, Sight, marked, place_of
from deepwork.dashboard.moments import milliseconds
from deepwork.dashboard.run_details import run_row
from deepwork.dashboard.run_store import PLAN, TRACK
from deepwork.dashboard.sessions import SessionRow, session_row
from deepwork.dashboard.task_row_store import TaskRowStore
from deepwork.database.engine import Row
from deepwork.plans.graph import Graph
from deepwork.plans.levels import Levels
from deepwork.plans.models import Node, TaskStatus
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import Answer
from deepwork.tracking.context import STALE_MS

MAX_ROWS = 20_000
MAX_IMPLIED_EDGES = 2_000
COLUMNS = (
    "id", "name", "status", "phase", "parent_id", "agent_name", "started_at", "completed_at", "milestone",
    "progress", "files", "decisions", "issues", "is_stale", "is_blocked",
)  # fmt: skip
_OWN = COLUMNS.index("files")
"""How many columns a task itself fills; the others tell what hangs on it, which is mostly nothing."""


class RowsQuery(Page):
    limit: int = Field(default=MAX_ROWS, ge=1, le=MAX_ROWS)


class TaskRows(Listing):
    """Tasks as a table: the names of the columns once, then only values.

    Times are Unix milliseconds; zeros and falses at the end of a row are left out.
    """

    columns: list[str]
    rows: list[list[Any]]


class GraphNode(Answer):
    id: str
    name: str
    status: str
    level: int
    group: str | None = None
    is_ready: bool
    is_blocked: bool


class GraphView(Answer):
    """Who waits for whom; `folded` says that a node `level:N` stands for all tasks of a level."""

    nodes: list[GraphNode]
    edges: list[tuple[str, str]]
    folded: bool


Rows = tuple[list[list[Any]], int, str | None]


def task_rows(sight: Sight, query: RowsQuery) -> Mapping[str, Any]:
    """Every task of a run."""
    row = run_row(sight.tx, sight.id)
    if row["kind"] == TRACK:
        rows, total, cursor = _tracked(sight, query)
    elif row["kind"] == PLAN:
        rows, total, cursor = _planned(sight, query)
    else:
        rows, total, cursor = _steps(sight, session_row(row), query)
    return {"columns": list(COLUMNS), "rows": rows, "total": total, "cursor": cursor}


class _Hanging:
    """What hangs on the tasks of a run."""

    def __init__(self, store: TaskRowStore, run_id: str) -> None:
        self._files, self._decisions = store.files(run_id), store.decisions(run_id)
        self._issues = store.issues(run_id)
        self.blocked = store.blocked(run_id) if self._issues else set()

    def after(self, values: list[Any], id: str, is_stale: bool, is_blocked: bool) -> list[Any]:
        """The row with what hangs on the task at its end; most have nothing there, and send nothing."""
        files, decisions, issues = self._files.get(id, 0), self._decisions.get(id, 0), self._issues.get(id, 0)
        if files or decisions or issues or is_stale or is_blocked:
            values += (files, decisions, issues, is_stale, is_blocked)
            while not values[-1]:
                values.pop()
        return values


def _tracked(sight: Sight, query: RowsQuery) -> Rows:
    store, hanging = TaskRowStore(sight.tx), _Hanging(TaskRowStore(sight.tx), sight.id)
    after = place_of(query.cursor, int, int) if query.cursor else None
    found = store.tracked(sight.id, sight.now - STALE_MS, after, query.limit + 1)
    rows = [
        _row(row, hanging, bool(row["is_stale"]), row["id"] in hanging.blocked)
        for row in found[: query.limit]
    ]
    return rows, store.tracked_count(sight.id), _next(found, query, "started_at", "created_seq")


def _planned(sight: Sight, query: RowsQuery) -> Rows:
    store, hanging = TaskRowStore(sight.tx), _Hanging(TaskRowStore(sight.tx), sight.id)
    after = place_of(query.cursor, int, int) if query.cursor else None
    found = store.planned(sight.id, after, query.limit + 1)
    levels = Levels(TaskStore(sight.tx).tallies(sight.id))
    behind = {
        sequence
        for sequence, previous in levels.previous.items()
        if previous is not None and levels.open[previous]
    }
    lapsed = store.lapsed(sight.id)
    rows = []
    for row in found[: query.limit]:
        waits = row["open_dependencies"] > 0 if row["is_explicit"] else row["phase"] in behind
        is_blocked = (waits and row["status"] in _CAN_START) or row["id"] in hanging.blocked
        rows.append(_row(row, hanging, row["id"] in lapsed, is_blocked))
    return rows, levels.total, _next(found, query, "phase", "position")


_CAN_START = ("pending", "failed")


def _row(row: Row, hanging: _Hanging, is_stale: bool, is_blocked: bool) -> list[Any]:
    """The values of a row that was read in the order of the columns, as far as it has them."""
    return hanging.after(list(row.values())[:_OWN], row["id"], is_stale, is_blocked)


def _steps(sight: Sight, session: SessionRow, query: RowsQuery) -> Rows:
    store, hanging = TaskRowStore(sight.tx), _Hanging(TaskRowStore(sight.tx), sight.id)
    [start] = place_of(query.cursor, int) if query.cursor else [0]
    said: dict[str, dict[str, Any]] = {}
    for row in store.said(sight.id):
        last = said.setdefault(row["task_id"], {"progress": None})
        last |= {"milestone": row["milestone"]} | (
            {"progress": row["progress"]} if row["progress"] is not None else {}
        )
    steps = [(number, step) for number, entry in enumerate(session.entries, start=1) for step in entry]
    rows = []
    for number, step in steps[start : start + query.limit]:
        id, progress = f"{session.id}/{step}", session.progress(step)
        last = said.get(id, {})
        rows.append(
            hanging.after(
                [
                    id, step, session.status_of(step), number, None, None, _ms(progress.get("started_at")),
                    _ms(progress.get("completed_at")), last.get("milestone"), last.get("progress"),
                ],
                id, is_stale=False, is_blocked=id in hanging.blocked,
            )
        )  # fmt: skip
    end = start + query.limit
    return rows, len(steps), marked([end]) if end < len(steps) else None


def _ms(moment: str | None) -> int | None:
    return None if moment is None else milliseconds(moment, "moment")


def _next(found: Sequence[Row], query: RowsQuery, *names: str) -> str | None:
    if len(found) <= query.limit:
        return None
    last = found[query.limit - 1]
    return marked([last[name] for name in names])


def graph(sight: Sight, _: Nothing) -> Mapping[str, Any]:
    """Who waits for whom in a run."""
    row = run_row(sight.tx, sight.id)
    if row["kind"] == TRACK:
        return _of_tracked(sight)
    if row["kind"] == PLAN:
        return _of_plan(TaskStore(sight.tx).nodes(sight.id))
    return _of_session(session_row(row))


def _of_tracked(sight: Sight) -> Mapping[str, Any]:
    """Tasks below the tasks that began them, phase after phase."""
    store = TaskRowStore(sight.tx)
    rows = store.tracked(sight.id, 0, None, MAX_ROWS)
    blocked = store.blocked(sight.id)
    parents = {row["id"]: row["parent_id"] for row in rows}
    depths = {id: _depth(id, parents) for id in parents}
    first = _first_levels(rows, depths)
    nodes = [
        _node(
            row["id"], row["name"], row["status"], first[row["phase"]] + depths[row["id"]],
            f"phase {row['phase']}", is_blocked=row["id"] in blocked,
        )
        for row in rows
    ]  # fmt: skip
    edges = [(row["parent_id"], row["id"]) for row in rows if row["parent_id"]]
    return {"nodes": nodes, "edges": edges, "folded": False}


def _depth(id: str, parents: Mapping[str, str | None]) -> int:
    """How many tasks a task stands below; never many, as they are nested a few levels at most."""
    depth, above = 0, parents[id]
    while above is not None and above in parents:
        depth, above = depth + 1, parents[above]
    return depth


def _first_levels(rows: Sequence[Row], depths: Mapping[str, int]) -> dict[int, int]:
    """The level at which each phase begins: below the deepest task of the one before."""
    height: dict[int, int] = {}
    for row in rows:
        height[row["phase"]] = max(height.get(row["phase"], 0), depths[row["id"]] + 1)
    first, at = {}, 0
    for phase in sorted(height):
        first[phase] = at
        at += height[phase]
    return first


def _of_plan(tasks: Sequence[Node]) -> Mapping[str, Any]:
    plan = Graph(tasks)
    rank = {node.id: level for level, row in enumerate(plan.levels()) for node in row}
    ready = {node.id for node in plan.ready()}
    nodes = [
        _node(
            node.id, node.name, node.status, rank[node.id], node.parallel_group, is_ready=node.id in ready,
            is_blocked=node.status.can_start and plan.is_blocked(node),
        )
        for node in tasks
    ]  # fmt: skip
    named = [(other, node.id) for node in tasks for other in sorted(node.depends_on or ())]
    implied, joints, is_folded = _implied(plan, rank)
    return {"nodes": [*nodes, *joints], "edges": [*named, *implied], "folded": is_folded}


def _implied(
    plan: Graph, rank: Mapping[str, int]
) -> tuple[list[tuple[str, str]], list[dict[str, Any]], bool]:
    """The edges that no task names; where they would be too many, a level is a point of its own."""
    followers = [node for node in plan.nodes if node.depends_on is None]
    before = {node.sequence: plan.dependencies(node) for node in followers}
    if sum(len(before[node.sequence]) for node in followers) <= MAX_IMPLIED_EDGES:
        return [(one.id, node.id) for node in followers for one in before[node.sequence]], [], False
    edges, joints = [], []
    for sequence, earlier in before.items():
        if not earlier:
            continue
        joint = f"level:{plan.previous_level[sequence]}"
        joints.append(_joint(joint, earlier, rank))
        edges += [(one.id, joint) for one in earlier]
        edges += [(joint, node.id) for node in followers if node.sequence == sequence]
    return edges, joints, True


def _joint(id: str, earlier: Iterable[Node], rank: Mapping[str, int]) -> dict[str, Any]:
    done = all(node.status.is_done for node in earlier)
    level = max(rank[node.id] for node in earlier)
    return _node(
        id, id.replace(":", " "), TaskStatus.COMPLETED if done else TaskStatus.PENDING, level, "level"
    )


def _of_session(session: SessionRow) -> Mapping[str, Any]:
    entries = session.entries
    nodes = [
        _node(
            f"{session.id}/{step}", step, session.status_of(step), level,
            f"place {level + 1}" if len(entry) > 1 else None,
        )
        for level, entry in enumerate(entries)
        for step in entry
    ]  # fmt: skip
    edges = [
        (f"{session.id}/{one}", f"{session.id}/{other}")
        for entry, following in pairwise(entries)
        for one in entry
        for other in following
    ]
    return {"nodes": nodes, "edges": edges, "folded": False}


def _node(
    id: str, name: str, status: str, level: int, group: str | None, *, is_ready: bool = False,
    is_blocked: bool = False,
) -> dict[str, Any]:  # fmt: skip
    return {
        "id": id, "name": name, "status": str(status), "level": level, "group": group,
        "is_ready": is_ready, "is_blocked": is_blocked,
    }  # fmt: skip


ENDPOINTS = (
    Endpoint("/api/v1/runs/{id}/tasks", "Every task of a run.", RowsQuery, TaskRows, task_rows),
    Endpoint(
        "/api/v1/runs/{id}/graph", "Who waits for whom.", Nothing, GraphView, graph, follows_events=True
    ),
)
