"""The dependency graph of a plan: what can start, how to draw it, and whether it is valid.

A task with `depends_on`, even an empty one, waits for exactly those tasks. A task without it waits for all
tasks of the next lower sequence. These implied edges are never created, since two levels of 5,000 tasks have
25 million of them: levels are compared instead, and traversals treat each level as one vertex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice

from deepwork.kernel.errors import MAX_ECHOED, Code, InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import Node, Outline, TaskStatus, Workflow

MAX_TASKS = 20_000
MAX_DEPENDENCIES = 100_000
MAX_PROBLEMS = 50

_MAX_CYCLE_SHOWN = 10
_MAX_EXPLAINED_EDGES = 3
"""How many implied edges of a cycle are explained."""

# Comparing names is slow, so the work is limited for a plan full of unknown names.
_MAX_SUGGESTIONS = 3
_MAX_NAMES_COMPARED = 500
_MAX_LETTERS_COMPARED = 40

_SUGGESTION_BY_CODE = {
    Code.CIRCULAR_DEPENDENCY: "Remove one dependency from each cycle. A task without `depends_on` waits for "
    "the whole next lower sequence; `depends_on: []` makes it wait for nothing.",
    Code.DUPLICATE_TASK_NAME: "Give every task a unique name: dependencies refer to tasks by name.",
    Code.TOO_LARGE: "Split the work into several workflows.",
    Code.UNKNOWN_DEPENDENCY: "Use the exact names of tasks in this plan.",
}


@dataclass(frozen=True)
class PlanProblem:
    """A reason why outlines are not a valid plan."""

    code: Code
    message: str
    place: int | None = None
    """The index of the outline concerned."""


class Graph:
    """A complete plan in its written order; every dependency of a task is part of it."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self._place = {node.id: place for place, node in enumerate(self.nodes)}
        self._levels = _group_by_sequence(self.nodes)
        self._open = {
            sequence: [node for node in level if not node.status.is_done]
            for sequence, level in self._levels.items()
        }
        self._open_ids = {node.id for level in self._open.values() for node in level}
        self.previous_level: Mapping[int, int | None] = map_previous_levels(self._levels)

    def __contains__(self, id: str) -> bool:
        return id in self._place

    def __getitem__(self, id: str) -> Node:
        return self.nodes[self._place[id]]

    def is_blocked(self, node: Node) -> bool:
        """Whether a task it waits for is not done."""
        if node.depends_on is None:
            return bool(self._get_previous_level(node, self._open))
        return not node.depends_on.isdisjoint(self._open_ids)

    def list_dependencies(self, node: Node, limit: int | None = None) -> list[Node]:
        """List the tasks it waits for, done or not, in plan order."""
        if node.depends_on is None:
            return self._get_previous_level(node, self._levels)[:limit]
        return self._sort_by_position(node.depends_on)[:limit]

    def list_dependents(self, ids: Iterable[str]) -> list[Node]:
        """List the tasks that name one of these in `depends_on`; those that wait by sequence are left out."""
        named = frozenset(ids)
        return [node for node in self.nodes if node.depends_on and not node.depends_on.isdisjoint(named)]

    def list_ready(self) -> list[Node]:
        """List the tasks that could start now, by sequence; failed ones come last."""
        return self._list_unblocked(TaskStatus.PENDING) + self._list_unblocked(TaskStatus.FAILED)

    def list_rows(self) -> list[list[Node]]:
        """Arrange the tasks in rows for drawing: each in the first row below everything it waits for."""
        ranks = self._compute_ranks()
        rows: list[list[Node]] = [[] for _ in range(max(ranks, default=-1) + 1)]
        for node, rank in zip(self.nodes, ranks, strict=True):
            rows[rank].append(node)
        return rows

    def map_waits(self, names: Collection[str]) -> dict[str, frozenset[str]]:
        """Map each task to those with one of these names that it waits for, directly or not, all by name."""
        waits: list[frozenset[str]] = [frozenset()] * len(self._dependency_edges)
        for point in self._topological_order:
            for earlier in self._dependency_edges[point]:
                own = self.nodes[earlier].name if earlier < len(self.nodes) else ""
                waits[point] |= waits[earlier] | ({own} if own in names else set())
        return {node.name: waits[place] for place, node in enumerate(self.nodes)}

    @cached_property
    def _dependency_edges(self) -> list[Collection[int]]:
        named = [
            None if node.depends_on is None else [self._place[id] for id in node.depends_on]
            for node in self.nodes
        ]
        return build_edges([node.sequence for node in self.nodes], named)

    @cached_property
    def _topological_order(self) -> list[int]:
        return sort_depth_first(self._dependency_edges)

    def _compute_ranks(self) -> list[int]:
        """Compute the longest path to each task; the rank of a level is the highest among its tasks."""
        ranks = [0] * len(self._dependency_edges)
        for point in self._topological_order:
            step = 1 if point < len(self.nodes) else 0
            ranks[point] = max(
                (ranks[earlier] + step for earlier in self._dependency_edges[point]), default=0
            )
        return ranks[: len(self.nodes)]

    def _get_previous_level(self, node: Node, levels: Mapping[int, list[Node]]) -> list[Node]:
        previous = self.previous_level[node.sequence]
        return [] if previous is None else levels[previous]

    def _sort_by_position(self, ids: Iterable[str]) -> list[Node]:
        return [self.nodes[place] for place in sorted(self._place[id] for id in ids)]

    def _list_unblocked(self, status: TaskStatus) -> list[Node]:
        by_level = chain.from_iterable(self._levels.values())
        return [node for node in by_level if node.status is status and not self.is_blocked(node)]

    def get_effective_status(self, node: Node) -> TaskStatus:
        """Return the status; that of a pending task that waits for others is `blocked`."""
        waits = node.status is TaskStatus.PENDING and self.is_blocked(node)
        return TaskStatus.BLOCKED if waits else node.status


def recommend_count(available: int, *, max_parallel: int, running: int) -> int:
    """Return how many of the available tasks to start now: as many as the parallelism limit still allows."""
    return max(0, min(available, max_parallel - running))


def warn_of_sequential_plan(outlines: Sequence[Outline], max_parallel: int) -> str | None:
    """Return that tasks will wait for a limit of 1 only, which is the default and easily overlooked."""
    if max_parallel > 1 or not _can_run_in_parallel(outlines):
        return None
    return "max_parallel_tasks is 1: tasks that could run in parallel wait for it; raise it to let them."


def warn_of_missing_commits(workflow: Workflow) -> str | None:
    """Return that nothing will be committed, though the plan says so, because tasks get no worktrees."""
    if not (workflow.initial_plan or {}).get("commit"):
        return None
    if workflow.auto_create_workspaces and workflow.max_parallel_tasks > 1:
        return None
    return (
        "commit has no effect: deepwork commits only in worktrees that it creates, and tasks get one with"
        " auto_create_workspaces and max_parallel_tasks above 1; set both to let it."
    )


def warn_of_waiting_tasks(waiting: int, max_parallel: int) -> str | None:
    """Return how many tasks could start now if the limit was not 1."""
    if max_parallel > 1 or waiting < 1:
        return None
    tasks = "1 task waits" if waiting == 1 else f"{waiting} tasks wait"
    return f"max_parallel_tasks is 1: {tasks} only for it; raise it to run them in parallel."


def _can_run_in_parallel(outlines: Sequence[Outline]) -> bool:
    """Return whether some tasks wait for the same tasks, and so not for each other."""
    waits_for: list[object] = [
        each.sequence if each.depends_on is None else frozenset(each.depends_on) for each in outlines
    ]
    return len(set(waits_for)) < len(waits_for)


def validate_outlines(outlines: Sequence[Outline], *, existing: Sequence[Node] = ()) -> None:
    """Raise an error that lists every problem if the outlines are not a valid plan."""
    found = find_problems(outlines, existing=existing)
    if not found:
        return
    lines = [problem.message for problem in found]
    if len(found) == MAX_PROBLEMS:
        lines.append(f"These are the first {MAX_PROBLEMS} problems.")
    raise InvalidInput(
        "\n".join(lines), code=found[0].code, suggestion=_SUGGESTION_BY_CODE.get(found[0].code)
    )


def find_problems(outlines: Sequence[Outline], *, existing: Sequence[Node] = ()) -> list[PlanProblem]:
    """Find what makes the outlines, added to the existing tasks, an invalid plan; at most 50 problems."""
    if too_much := _find_size_problem(outlines, existing):
        return [PlanProblem(Code.TOO_LARGE, too_much)]
    if not outlines and not existing:
        return [PlanProblem(Code.INVALID_INPUT, "The plan has no tasks.")]
    draft = _Draft(outlines, existing)
    found = chain(_find_name_problems(draft), _find_dependency_problems(draft), _find_cycles(draft))
    return list(islice(found, MAX_PROBLEMS))


class _Draft:
    """Existing tasks and outlines of new ones as one plan; surrounding spaces of names are ignored."""

    def __init__(self, outlines: Sequence[Outline], existing: Sequence[Node]) -> None:
        self.first_new = len(existing)
        tasks: list[Node | Outline] = [*existing, *outlines]
        self.names = [task.name.strip() for task in tasks]
        self.sequences = [task.sequence for task in tasks]
        self.wanted = [_strip_names(outline.depends_on) for outline in outlines]
        self.places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            if name:
                self.places.setdefault(name, place)
        self._existing = existing

    def is_in_order(self) -> bool:
        """Whether every task comes after those it names, by sequence and then by position.

        Tasks that wait by sequence do too, so such a plan has no cycle; most plans are written like this.
        """
        place_of = {node.id: place for place, node in enumerate(self._existing)}
        stored = [[place_of[id] for id in node.depends_on or ()] for node in self._existing]
        named = [[self.places[name] for name in names or () if name in self.places] for names in self.wanted]
        return all(
            (self.sequences[other], other) < (self.sequences[place], place)
            for place, others in enumerate(chain(stored, named))
            for other in others
        )

    @property
    def new(self) -> Iterator[tuple[str, Collection[str] | None]]:
        """The name and dependencies of each outline."""
        return zip(self.names[self.first_new :], self.wanted, strict=True)

    def build_edges(self) -> list[Collection[int]]:
        """Build the edges of the plan, leaving out unknown names."""
        place_of = {node.id: place for place, node in enumerate(self._existing)}
        named: list[Collection[int] | None] = [
            None if node.depends_on is None else sorted(place_of[id] for id in node.depends_on)
            for node in self._existing
        ]
        for own, names in self.new:
            known = (name for name in names or () if name in self.places and name != own)
            named.append(None if names is None else [self.places[name] for name in known])
        return build_edges(self.sequences, named)


def _find_size_problem(outlines: Sequence[Outline], existing: Sequence[Node]) -> str | None:
    tasks: list[Node | Outline] = [*existing, *outlines]
    if len(tasks) > MAX_TASKS:
        return f"The plan has {len(tasks):,} tasks; the limit is {MAX_TASKS:,}."
    dependencies = sum(len(task.depends_on or ()) for task in tasks)
    if dependencies > MAX_DEPENDENCIES:
        return f"The plan names {dependencies:,} dependencies; the limit is {MAX_DEPENDENCIES:,}."
    return None


def _find_name_problems(draft: _Draft) -> Iterator[PlanProblem]:
    new = draft.names[draft.first_new :]
    for number, name in enumerate(new, start=1):
        if not name:
            message = f"Task {number} in the list has no name."
            yield PlanProblem(Code.INVALID_INPUT, message, number - 1)
    last = {name: place for place, name in enumerate(new)}
    for name, count in Counter(filter(None, new)).items():
        if draft.places[name] < draft.first_new:
            message = f"The plan already has a task {_quote(name)}."
            yield PlanProblem(Code.DUPLICATE_TASK_NAME, message, last[name])
        elif count > 1:
            message = f"{count} tasks are named {_quote(name)}."
            yield PlanProblem(Code.DUPLICATE_TASK_NAME, message, last[name])


def _find_dependency_problems(draft: _Draft) -> Iterator[PlanProblem]:
    guesses = _MAX_SUGGESTIONS
    for place, (own, names) in enumerate(draft.new):
        for name in names or ():
            if name == own and own:
                yield PlanProblem(Code.SELF_DEPENDENCY, f"Task {_quote(own)} depends on itself.", place)
            elif name not in draft.places:
                guess = _suggest_name(name, draft.places) if guesses > 0 else ""
                guesses -= 1
                missing = f"Task {_quote(own)} depends on {_quote(name)}, which is not in the plan."
                yield PlanProblem(Code.UNKNOWN_DEPENDENCY, missing + guess, place)


def _suggest_name(name: str, names: Iterable[str]) -> str:
    comparable = {other[:_MAX_LETTERS_COMPARED]: other for other in islice(names, _MAX_NAMES_COMPARED)}
    near = get_close_matches(name[:_MAX_LETTERS_COMPARED], comparable, n=1)
    return f" Did you mean {_quote(comparable[near[0]])}?" if near else ""


def _find_cycles(draft: _Draft) -> Iterator[PlanProblem]:
    """Yield one problem with the shortest cycle of each group of tasks that wait for each other."""
    if draft.is_in_order():
        return
    waits = draft.build_edges()
    for component in find_cyclic_components(waits):
        cycle = find_shortest_cycle(component, waits)
        new = (point - draft.first_new for point in cycle if draft.first_new <= point < len(draft.names))
        yield PlanProblem(Code.CIRCULAR_DEPENDENCY, _describe_cycle(cycle, draft), next(new, None))


def _describe_cycle(cycle: list[int], draft: _Draft) -> str:
    tasks = [_escape(draft.names[point]) for point in cycle if point < len(draft.names)]
    shown = " -> ".join([*tasks[:_MAX_CYCLE_SHOWN], *["…"] * (len(tasks) > _MAX_CYCLE_SHOWN), tasks[0]])
    reasons = islice(_explain_implied_edges(cycle, draft), _MAX_EXPLAINED_EDGES)
    return " ".join([f"{len(tasks)} tasks wait for each other in a cycle: {shown}.", *reasons])


def _explain_implied_edges(cycle: list[int], draft: _Draft) -> Iterator[str]:
    """Yield a sentence for each edge of the cycle that comes from the sequence, not from `depends_on`."""
    around = zip(cycle, cycle[1:] + cycle[:1], cycle[2:] + cycle[:2], strict=True)
    for waiting, level, member in around:
        if level >= len(draft.names):
            yield (
                f"{_escape(draft.names[waiting])} (sequence {draft.sequences[waiting]}) waits for all of "
                f"sequence {draft.sequences[member]}, including {_escape(draft.names[member])}."
            )


def _strip_names(names: Iterable[str] | None) -> Collection[str] | None:
    """Strip the names and drop duplicates, keeping the order."""
    return None if names is None else dict.fromkeys(name.strip() for name in names)


def _quote(name: str) -> str:
    return repr(name[:MAX_ECHOED])


def _escape(name: str) -> str:
    """Escape line breaks and control characters in a name."""
    return _quote(name)[1:-1]


def _group_by_sequence(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    levels: dict[int, list[Node]] = {sequence: [] for sequence in sorted({node.sequence for node in nodes})}
    for node in nodes:
        levels[node.sequence].append(node)
    return levels


def build_edges(sequences: Sequence[int], named: Sequence[Collection[int] | None]) -> list[Collection[int]]:
    """Build the edges of every vertex: first the tasks, then one vertex per level that waits for its tasks.

    A task that waits by sequence thus has one edge to a level instead of one to each task of it.
    """
    ascending = sorted(set(sequences))
    level_of = {sequence: number for number, sequence in enumerate(ascending, start=len(sequences))}
    before = map_previous_levels(ascending)
    members: dict[int, list[int]] = {sequence: [] for sequence in ascending}
    edges: list[Collection[int]] = []
    for place, (sequence, wanted) in enumerate(zip(sequences, named, strict=True)):
        members[sequence].append(place)
        previous = before[sequence]
        implied = () if previous is None else (level_of[previous],)
        edges.append(implied if wanted is None else wanted)
    return edges + list(members.values())


def map_previous_levels(ascending: Iterable[int]) -> dict[int, int | None]:
    """Map each sequence to the next lower one."""
    sequences = list(ascending)
    return dict(zip(sequences, [None, *sequences], strict=False))


def sort_depth_first(edges: Sequence[Collection[int]]) -> list[int]:
    """Return all vertices in postorder: each after everything it leads to, except where they form a cycle."""
    unvisited = set(range(len(edges)))
    return [point for start in range(len(edges)) for point in _visit(start, edges, unvisited)]


def find_cyclic_components(waits: Sequence[Collection[int]]) -> Iterator[set[int]]:
    """Yield the strongly connected components with more than one vertex (Kosaraju's algorithm)."""
    order = sort_depth_first(waits)
    followers = _reverse_edges(waits)
    unvisited = set(order)
    for start in reversed(order):
        component = _visit(start, followers, unvisited)
        if len(component) > 1:
            yield set(component)


def find_shortest_cycle(component: set[int], waits: Sequence[Collection[int]]) -> list[int]:
    """Return the shortest cycle through the first task of a component (breadth-first search)."""
    start = min(component)  # tasks have lower numbers than levels
    came_from = {start: start}
    reached = [start]
    for point in reached:
        found = [target for target in waits[point] if target in component and target not in came_from]
        came_from.update(dict.fromkeys(found, point))
        reached.extend(found)
    cycle = [next(point for point in reached if start in waits[point])]
    while cycle[-1] != start:
        cycle.append(came_from[cycle[-1]])
    return cycle[::-1]


def _reverse_edges(edges: Sequence[Collection[int]]) -> list[list[int]]:
    back: list[list[int]] = [[] for _ in edges]
    for point, targets in enumerate(edges):
        for target in targets:
            back[target].append(point)
    return back


def _visit(start: int, edges: Sequence[Collection[int]], unvisited: set[int]) -> list[int]:
    """Return the unvisited vertices reachable from the start, in postorder.

    Uses an explicit stack, because a plan may be deeper than Python's recursion limit.
    """
    if start not in unvisited:
        return []
    unvisited.discard(start)
    finished = []
    path = [(start, iter(edges[start]))]
    while path:
        point, targets = path[-1]
        for target in targets:
            if target in unvisited:
                unvisited.discard(target)
                path.append((target, iter(edges[target])))
                break
        else:
            finished.append(point)
            path.pop()
    return finished
