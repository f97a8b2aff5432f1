"""What people read about all tasks of a run: a table and a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Annotated, Any, ClassVar, Literal

from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, decode_cursor, encode_cursor
from deepwork.kernel.states import Cause, Standing, State
from deepwork.kernel.values import parse_timestamp
from deepwork.views.overview.graph_folding import FOLDED_OVER, Edges, Nodes, fold_levels, fold_similar_tasks
from deepwork.views.overview.run_refs import get_run_row
from deepwork.views.overview.run_store import JOB, PLAN, TRACK, parse_session_row
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.states.work_rules import judge_step
from deepwork.views.overview.task_row_store import TaskRowStore
from deepwork.work.plans.models import Node, TaskStatus
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.staleness import STALE_MS
from deepwork.work.tracking.store import TrackStore

MAX_ROWS = 20_000
MAX_IMPLIED_EDGES = 2_000
_MAX_NAMED_NODES = 2_000
"""A graph of more nodes does not say who works on them."""
COLUMNS = (
    "id",
    "name",
    "status",
    "phase",
    "parent_id",
    "agent_name",
    "started_at",
    "completed_at",
    "milestone",
    "progress",
    "state",
    "because",
    "is_blocked",
    "is_stale",
    "files",
    "decisions",
    "issues",
    "next",
)
_SELECTED_COLUMN_COUNT = COLUMNS.index("state")
"""The number of columns from the task itself; then its state, then counts and flags, mostly empty."""


class _LargeAnswer(Answer):
    """An answer built from JSON values: converting 10,000 of them again takes longer than reading them."""

    def model_dump(self, mode: str = "json") -> dict[str, Any]:  # noqa: ARG002 - there is one mode
        return self.to_fields()

    def to_fields(self) -> dict[str, Any]:
        return vars(self)


class TaskRows(_LargeAnswer):
    """Tasks as a table: the column names once, then only values.

    Times are Unix milliseconds. Zero and false values at the end of a row are omitted.
    """

    columns: list[str]
    rows: list[list[Any]]
    total: int
    cursor: str | None = None


class GraphNode(Answer):
    """A task, a phase, a level, or similar tasks that are folded; only tasks have a page."""

    id: str
    kind: Literal["task", "phase", "level", "fold"] = "task"
    name: str
    status: str
    state: str | None = None
    """None for a phase or a level."""
    level: int
    group: str | None = None
    is_ready: bool
    is_blocked: bool
    members: list[str] | None = None
    """The ids of folded tasks; an edge of the node stands for the edges of all of them."""
    states: dict[str, int] | None = None
    """How many of the folded tasks are in each state."""
    agent: str | None = None
    """Who works or worked on a task of a plan."""
    since: int | None = None
    """When it ended, or else began; Unix milliseconds."""


class GraphView(_LargeAnswer):
    """The dependencies of tasks; if `folded`, a node `level:N` represents all tasks of a level.

    Tracked workflows also have a node `phase:N` for each phase, before its tasks. A graph of more than 300
    nodes opens where work goes on, unless the whole graph is asked for: `done:A-B` stands for finished
    levels, `ahead:A-B` for levels far ahead, `state:LEVEL:STATE` for tasks of a wide level; `open` opens
    them. If it is still as large, one node `fold:ID` stands for ten or more similar tasks.
    """

    nodes: list[GraphNode]
    edges: list[tuple[str, str]]
    folded: bool


Rows = tuple[list[list[Any]], int, str | None]
GraphParts = tuple[Nodes, Edges, bool]


class TaskTableOperations:
    """Reads all tasks of a run."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def list_work_tasks(
        self, id: Id, limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = MAX_ROWS, cursor: Cursor = None
    ) -> TaskRows:
        """All tasks of a run."""
        with self._database.reading() as tx:
            row, view = get_run_row(tx, id), self._view_states(tx)
            rows, total, following = read_rows(view, row, limit, cursor)
        return TaskRows(columns=list(COLUMNS), rows=rows, total=total, cursor=following)

    @operation("read")
    def get_work_graph(
        self,
        id: Id,
        whole: bool = False,
        open: Annotated[str, Field(max_length=2000, description="Ids of folds to open, by commas")] = "",
    ) -> GraphView:
        """The dependencies of a run's tasks; `whole` folds nothing of a large run."""
        with self._database.reading() as tx:
            row, view = get_run_row(tx, id), self._view_states(tx)
            nodes, edges, folded = _GRAPH_READERS[row["kind"]](view, row)
            if not whole and len(nodes) > FOLDED_OVER:
                nodes, edges = fold_levels(nodes, edges, set(open.split(",")))
            if not whole and len(nodes) > FOLDED_OVER:
                nodes, edges = fold_similar_tasks(nodes, edges)
            if row["kind"] == PLAN and len(nodes) <= _MAX_NAMED_NODES:
                nodes = _add_agents(tx, nodes)
        parts: dict[str, Any] = {"nodes": nodes, "edges": edges, "folded": folded}
        return GraphView(**parts)


def read_rows(view: StateView, run: Row, limit: int, cursor: str | None) -> Rows:
    """Read the tasks of a run of any kind, in the order of COLUMNS; also how many, and the next cursor."""
    return _ROW_READERS[run["kind"]](view, run, limit, cursor)


def _add_agents(tx: Transaction, nodes: Nodes) -> Nodes:
    """Add who works or worked on the tasks of a plan, and since when each is as it is."""
    rows = TaskRowStore(tx).find_holders([node["id"] for node in nodes if node["kind"] == "task"])
    return [node | rows.get(node["id"], {}) for node in nodes]


class _TaskCounts:
    """Counts of files, decisions and issues by task."""

    def __init__(self, store: TaskRowStore, run_id: str) -> None:
        self._files, self._decisions = store.count_files(run_id), store.count_decisions(run_id)
        self._issues = store.count_issues(run_id)
        self._blocked = store.find_blocked(run_id) if self._issues else set()
        self._counted = self._files.keys() | self._decisions.keys() | self._issues.keys()
        self._plain_ends: dict[tuple[Standing, bool], list[Any]] = {}

    def build_end(self, id: str, standing: Standing, *, is_stale: bool) -> list[Any]:
        """Build the end of a task's row: its state, counts and flags, without trailing zeros.

        Most tasks of a large plan have no counts and share a few states, so those ends are built once.
        """
        if id in self._counted:
            return self._build_end(id, standing, is_stale)
        key = (standing, is_stale)
        if key not in self._plain_ends:
            self._plain_ends[key] = self._build_end(id, standing, is_stale)
        return self._plain_ends[key]

    def _build_end(self, id: str, standing: Standing, is_stale: bool) -> list[Any]:
        counts = (each.get(id, 0) for each in (self._files, self._decisions, self._issues))
        is_blocked = standing.cause is Cause.TASKS or id in self._blocked
        end = [standing.state, standing.because, is_blocked, is_stale, *counts, standing.next]
        while not end[-1]:
            end.pop()
        return end


def _read_tracked_rows(view: StateView, run: Row, limit: int, cursor: str | None) -> Rows:
    store, id = TaskRowStore(view.tx), run["id"]
    counts, after = _TaskCounts(store, id), decode_cursor(cursor, int, int) if cursor else None
    found = store.list_tracked(id, view.tx.now - STALE_MS, after, limit + 1)
    states = view.judge_tracked_tasks("workflow_id", [id])
    rows = [
        _build_row(row, counts, states[row["id"]], is_stale=bool(row["is_stale"])) for row in found[:limit]
    ]
    return rows, store.count_tracked(id), _encode_next_cursor(found, limit, "started_at", "created_seq")


def _read_planned_rows(view: StateView, run: Row, limit: int, cursor: str | None) -> Rows:
    store, id = TaskRowStore(view.tx), run["id"]
    counts, after = _TaskCounts(store, id), decode_cursor(cursor, int, int) if cursor else None
    found = store.list_planned(id, after, limit + 1)
    shown = found[:limit]
    states = view.judge_tasks_of_plan(id, shown)
    rows = []
    for row in shown:
        standing = states[row["id"]]
        rows.append(_build_row(row, counts, standing, is_stale=standing.state is State.UNATTENDED))
    total = len(rows) if after is None and len(found) == len(shown) else store.count_planned(id)
    return rows, total, _encode_next_cursor(found, limit, "phase", "position")


def _build_row(row: Row, counts: _TaskCounts, standing: Standing, *, is_stale: bool) -> list[Any]:
    """Build a table row; the query selects its columns in the order of COLUMNS."""
    selected = islice(row.values(), _SELECTED_COLUMN_COUNT)
    return [*selected, *counts.build_end(row["id"], standing, is_stale=is_stale)]


def _read_step_rows(view: StateView, run: Row, limit: int, cursor: str | None) -> Rows:
    store, session = TaskRowStore(view.tx), parse_session_row(run)
    counts, facts = _TaskCounts(store, session.id), view.load_sessions([session])[session.id]
    [start] = decode_cursor(cursor, int) if cursor else [0]
    milestones: dict[str, dict[str, Any]] = {}
    for row in store.list_milestones(session.id):
        last = milestones.setdefault(row["task_id"], {"progress": None})
        last |= {"milestone": row["milestone"]} | (
            {"progress": row["progress"]} if row["progress"] is not None else {}
        )
    steps = [(number, step) for number, entry in enumerate(session.entries, start=1) for step in entry]
    rows = []
    for number, step in steps[start : start + limit]:
        id, progress = f"{session.id}/{step}", session.get_progress(step)
        last = milestones.get(id, {})
        values = [
            id,
            step,
            session.get_step_status(step),
            number,
            None,
            None,
            _parse_milliseconds(progress.get("started_at")),
            _parse_milliseconds(progress.get("completed_at")),
            last.get("milestone"),
            last.get("progress"),
        ]
        rows.append([*values, *counts.build_end(id, judge_step(facts, step), is_stale=False)])
    end = start + limit
    return rows, len(steps), encode_cursor([end]) if end < len(steps) else None


def _parse_milliseconds(moment: str | None) -> int | None:
    return None if moment is None else parse_timestamp(moment, "moment")


def _encode_next_cursor(found: Sequence[Row], limit: int, *names: str) -> str | None:
    if len(found) <= limit:
        return None
    last = found[limit - 1]
    return encode_cursor([last[name] for name in names])


def _build_tracked_graph(view: StateView, run: Row) -> GraphParts:
    """Build the graph of a tracked workflow: each phase before its tasks, parents before children."""
    store, run_id = TaskRowStore(view.tx), run["id"]
    phases = TrackStore(view.tx).list_phases(run_id)
    rows = store.list_tracked(run_id, 0, None, MAX_ROWS)
    blocked = store.find_blocked(run_id)
    states = view.judge_tracked_tasks("workflow_id", [run_id])
    parents = {row["id"]: row["parent_id"] for row in rows}
    depths = {id: _count_ancestors(id, parents) for id in parents}
    first = _find_first_levels([phase.number for phase in phases], rows, depths)
    nodes = [
        _build_node(f"phase:{each.number}", each.name, each.status, first[each.number], None, kind="phase")
        for each in phases
    ]
    nodes += [
        _build_node(
            row["id"],
            row["name"],
            row["status"],
            first[row["phase"]] + 1 + depths[row["id"]],
            f"phase {row['phase']}",
            standing=states[row["id"]],
            is_blocked=row["id"] in blocked,
        )
        for row in rows
    ]
    within = [(row["parent_id"] or f"phase:{row['phase']}", row["id"]) for row in rows]
    between = _find_edges_between_phases([phase.number for phase in phases], rows)
    return nodes, [*within, *between], False


def _find_edges_between_phases(phases: Sequence[int], rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the edges to each phase: from the last tasks of the phase before, or from that phase itself."""
    parents = {row["parent_id"] for row in rows}
    last: dict[int, list[str]] = {}
    for row in rows:
        if row["id"] not in parents:
            last.setdefault(row["phase"], []).append(row["id"])
    is_large = len(rows) > MAX_IMPLIED_EDGES
    return [
        (id, f"phase:{following}")
        for phase, following in pairwise(phases)
        for id in ([f"phase:{phase}"] if is_large else last.get(phase) or [f"phase:{phase}"])
    ]


def _count_ancestors(id: str, parents: Mapping[str, str | None]) -> int:
    """Count the ancestors of a task; tasks nest only a few levels deep."""
    depth, above = 0, parents[id]
    while above is not None and above in parents:
        depth, above = depth + 1, parents[above]
    return depth


def _find_first_levels(
    phases: Sequence[int], rows: Sequence[Row], depths: Mapping[str, int]
) -> dict[int, int]:
    """Return the level of each phase: below the deepest task of the phase before."""
    height = dict.fromkeys(phases, 1)
    for row in rows:
        height[row["phase"]] = max(height[row["phase"]], depths[row["id"]] + 2)
    first, at = {}, 0
    for phase in sorted(height):
        first[phase] = at
        at += height[phase]
    return first


def _build_plan_graph(view: StateView, run: Row) -> GraphParts:
    states, tasks = view.judge_tasks_of_plan(run["id"]), TaskStore(view.tx).list_nodes(run["id"])
    plan = Graph(tasks)
    rank = {node.id: level for level, row in enumerate(plan.list_rows()) for node in row}
    nodes = [
        _build_node(
            node.id,
            node.name,
            node.status,
            rank[node.id],
            node.parallel_group,
            standing=states[node.id],
            is_blocked=states[node.id].cause is Cause.TASKS,
        )
        for node in tasks
    ]
    named = [(other, node.id) for node in tasks for other in sorted(node.depends_on or ())]
    implied, joints, is_folded = _find_implied_edges(plan, rank)
    return [*nodes, *joints], [*named, *implied], is_folded


def _find_implied_edges(
    plan: Graph, rank: Mapping[str, int]
) -> tuple[list[tuple[str, str]], list[dict[str, Any]], bool]:
    """Return the edges implied by sequences, extra nodes, and whether the edges were folded.

    A task without `depends_on` waits for every task of the previous level. Two large levels would need n * m
    edges, so above a limit they are connected through one node for the level.
    """
    followers = [node for node in plan.nodes if node.depends_on is None]
    before = {node.sequence: plan.list_dependencies(node) for node in followers}
    if sum(len(before[node.sequence]) for node in followers) <= MAX_IMPLIED_EDGES:
        return [(one.id, node.id) for node in followers for one in before[node.sequence]], [], False
    edges, joints = [], []
    for sequence, earlier in before.items():
        if not earlier:
            continue
        joint = f"level:{plan.previous_level[sequence]}"
        joints.append(_build_level_node(joint, earlier, rank))
        edges += [(one.id, joint) for one in earlier]
        edges += [(joint, node.id) for node in followers if node.sequence == sequence]
    return edges, joints, True


def _build_level_node(id: str, earlier: Iterable[Node], rank: Mapping[str, int]) -> dict[str, Any]:
    done = all(node.status.is_done for node in earlier)
    level = max(rank[node.id] for node in earlier)
    status = TaskStatus.COMPLETED if done else TaskStatus.PENDING
    return _build_node(id, id.replace(":", " "), status, level, "level", kind="level")


def _build_session_graph(view: StateView, run: Row) -> GraphParts:
    session = parse_session_row(run)
    entries, facts = session.entries, view.load_sessions([session])[session.id]
    nodes = [
        _build_node(
            f"{session.id}/{step}",
            step,
            session.get_step_status(step),
            level,
            f"step {level + 1}" if len(entry) > 1 else None,
            standing=judge_step(facts, step),
        )
        for level, entry in enumerate(entries)
        for step in entry
    ]
    edges = [
        (f"{session.id}/{one}", f"{session.id}/{other}")
        for entry, following in pairwise(entries)
        for one in entry
        for other in following
    ]
    return nodes, edges, False


def _build_node(
    id: str,
    name: str,
    status: str,
    level: int,
    group: str | None,
    *,
    kind: str = "task",
    standing: Standing | None = None,
    is_blocked: bool = False,
) -> dict[str, Any]:
    return {
        "id": id,
        "kind": kind,
        "name": name,
        "status": str(status),
        "state": standing and standing.state,
        "level": level,
        "group": group,
        "is_ready": standing is not None and _can_be_claimed(standing),
        "is_blocked": is_blocked,
    }


def _can_be_claimed(standing: Standing) -> bool:
    """Return whether an agent may take a task now; also one that failed, if it may be tried again."""
    return standing.state is State.READY or (standing.state is State.FAILED and standing.cause is None)


_ROW_READERS = {TRACK: _read_tracked_rows, PLAN: _read_planned_rows, JOB: _read_step_rows}
_GRAPH_READERS = {TRACK: _build_tracked_graph, PLAN: _build_plan_graph, JOB: _build_session_graph}
