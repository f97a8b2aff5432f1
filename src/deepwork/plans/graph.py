"""Who waits for whom in a plan: what can start, how far it is, and whether it can be a plan at all.

A task that names what it depends on, be it nothing, waits for exactly that. One that does not say waits for
all tasks of the next lower sequence. These implied edges are never made, since two levels of 5,000 tasks have
25 million of them: levels are compared instead, and where a walk needs them, a level is a point of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

from deepwork.errors import MAX_ECHOED, Code, InvalidInput
from deepwork.plans import walks
from deepwork.plans.models import Node, Outline, TaskStatus

MAX_TASKS = 20_000
MAX_DEPENDENCIES = 100_000
MAX_PROBLEMS = 50

_LONGEST_CIRCLE_SHOWN = 10
_EXPLAINED = 3
"""How many implied edges of a circle are put into words."""

# Likeness of two names is slow to measure: a plan full of unknown names must not become a burden.
_GUESSES = 3
_NAMES_COMPARED = 500
_LETTERS_COMPARED = 40

_REMEDIES = {
    Code.CIRCULAR_DEPENDENCY: "Take one dependency out of each circle. A task without `depends_on` waits for "
    "the whole next lower sequence; `depends_on: []` makes it wait for nothing.",
    Code.DUPLICATE_TASK_NAME: "Give every task a name of its own: dependencies go by name.",
    Code.TOO_LARGE: "Split the work into several workflows.",
    Code.UNKNOWN_DEPENDENCY: "Name tasks of this plan, written exactly alike.",
}


class Group(NamedTuple):
    """How far the tasks of one parallel group are."""

    group_id: str
    task_count: int
    completed: int


@dataclass(frozen=True)
class Progress:
    """How far a plan is; completed and skipped tasks are both done."""

    total: int
    by_status: Mapping[TaskStatus, int]
    """Every status, those that no task has included; pending tasks that wait for others count as blocked."""
    completed_sequence: int
    """The highest sequence up to which everything is done; 0 if there is none."""
    current_sequence: int
    """The lowest sequence with something left to do; 0 if there is none."""
    groups: tuple[Group, ...]
    remaining: int
    all_complete: bool


@dataclass(frozen=True)
class PlanProblem:
    """Something that keeps outlines from being a plan."""

    code: Code
    message: str
    place: int | None = None
    """Which of the outlines it is about, counted from 0."""


class Graph:
    """A whole plan in the order in which it was written; whatever a task depends on is part of it."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = tuple(nodes)
        self._place = {node.id: place for place, node in enumerate(self.nodes)}
        self._levels = _by_sequence(self.nodes)
        self._open = {
            sequence: [node for node in level if not node.status.is_done]
            for sequence, level in self._levels.items()
        }
        self._open_ids = {node.id for level in self._open.values() for node in level}
        self.previous_level: Mapping[int, int | None] = walks.next_lower(self._levels)

    def __contains__(self, id: str) -> bool:
        return id in self._place

    def __getitem__(self, id: str) -> Node:
        return self.nodes[self._place[id]]

    def is_blocked(self, node: Node) -> bool:
        """Whether something it waits for is not done."""
        if node.depends_on is None:
            return bool(self._level_before(node, self._open))
        return not node.depends_on.isdisjoint(self._open_ids)

    def open_count(self, node: Node) -> int:
        """How many of the tasks it waits for are not done."""
        if node.depends_on is None:
            return len(self._level_before(node, self._open))
        return len(node.depends_on & self._open_ids)

    def open_dependencies(self, node: Node, limit: int | None = None) -> list[Node]:
        """The tasks it waits for that are not done, the first ones of the plan if there is a limit."""
        if node.depends_on is None:
            return self._level_before(node, self._open)[:limit]
        return self._in_plan_order(node.depends_on & self._open_ids)[:limit]

    def dependencies(self, node: Node, limit: int | None = None) -> list[Node]:
        """The tasks it waits for, done or not, the first ones of the plan if there is a limit."""
        if node.depends_on is None:
            return self._level_before(node, self._levels)[:limit]
        return self._in_plan_order(node.depends_on)[:limit]

    def dependents(self, ids: Iterable[str]) -> list[Node]:
        """The tasks that name one of these; those that only follow their sequence are not among them."""
        named = frozenset(ids)
        return [node for node in self.nodes if node.depends_on and not node.depends_on.isdisjoint(named)]

    def ready(self, *, retry_failed: bool = True) -> list[Node]:
        """Tasks that could start now, by sequence; those that failed before come after all others."""
        fresh = self._unblocked(TaskStatus.PENDING)
        return fresh + self._unblocked(TaskStatus.FAILED) if retry_failed else fresh

    def blocked(self) -> list[Node]:
        """Tasks that would start, for the first time or again, if others were done; by sequence."""
        return [node for node in self._by_level() if node.status.can_start and self.is_blocked(node)]

    def progress(self) -> Progress:
        """How far it is, in numbers."""
        current = next((sequence for sequence, level in self._open.items() if level), None)
        completed = max(self._levels, default=0) if current is None else self.previous_level[current]
        return Progress(
            total=len(self.nodes),
            by_status=self._by_status(),
            completed_sequence=completed or 0,
            current_sequence=current or 0,
            groups=_groups(self.nodes),
            remaining=len(self._open_ids),
            all_complete=bool(self.nodes) and not self._open_ids,
        )

    def levels(self) -> list[list[Node]]:
        """The tasks as one would draw them: each in the first row below everything it waits for."""
        ranks = self._ranks()
        rows: list[list[Node]] = [[] for _ in range(max(ranks, default=-1) + 1)]
        for node, rank in zip(self.nodes, ranks, strict=True):
            rows[rank].append(node)
        return rows

    def runs_together(self, one: Node, other: Node) -> bool:
        """Whether neither has to wait for the other, however far around."""
        return other in self.run_together([one, other])[one.id]

    def run_together(self, nodes: Sequence[Node]) -> dict[str, list[Node]]:
        """For each of these tasks, those among them that it may run with; all answered by one walk."""
        bits = {self._place[node.id]: 1 << index for index, node in enumerate(nodes)}
        above = [0] * len(self._waits)  # which of these tasks each point waits for, one bit for each
        for point in self._order:
            above[point] = bits.get(point, 0)
            for earlier in self._waits[point]:
                above[point] |= above[earlier]
        placed = [(node, self._place[node.id]) for node in nodes]
        return {
            one.id: [
                other
                for other, there in placed
                if not (above[here] & bits[there] or above[there] & bits[here])
            ]
            for one, here in placed
        }

    @cached_property
    def _waits(self) -> list[Collection[int]]:
        named = [
            None if node.depends_on is None else [self._place[id] for id in node.depends_on]
            for node in self.nodes
        ]
        return walks.points([node.sequence for node in self.nodes], named)

    @cached_property
    def _order(self) -> list[int]:
        return walks.depth_first(self._waits)

    def _ranks(self) -> list[int]:
        """For each task the longest way to it; a level is as far as the farthest of its tasks."""
        ranks = [0] * len(self._waits)
        for point in self._order:
            step = 1 if point < len(self.nodes) else 0
            ranks[point] = max((ranks[earlier] + step for earlier in self._waits[point]), default=0)
        return ranks[: len(self.nodes)]

    def _level_before(self, node: Node, levels: Mapping[int, list[Node]]) -> list[Node]:
        previous = self.previous_level[node.sequence]
        return [] if previous is None else levels[previous]

    def _in_plan_order(self, ids: Iterable[str]) -> list[Node]:
        return [self.nodes[place] for place in sorted(self._place[id] for id in ids)]

    def _by_level(self) -> Iterator[Node]:
        return chain.from_iterable(self._levels.values())

    def _unblocked(self, status: TaskStatus) -> list[Node]:
        return [node for node in self._by_level() if node.status is status and not self.is_blocked(node)]

    def _by_status(self) -> dict[TaskStatus, int]:
        counted = Counter(map(self._shown_status, self.nodes))
        return {status: counted[status] for status in TaskStatus}

    def _shown_status(self, node: Node) -> TaskStatus:
        waits = node.status is TaskStatus.PENDING and self.is_blocked(node)
        return TaskStatus.BLOCKED if waits else node.status


def recommended_count(available: int, *, max_parallel: int, running: int) -> int:
    """How many of the available tasks to begin now: as many as there is room for beside the running ones."""
    return max(0, min(available, max_parallel - running))


def check(outlines: Sequence[Outline], *, existing: Sequence[Node] = ()) -> None:
    """Refuse outlines that cannot be a plan, and say everything that is wrong with them."""
    found = problems(outlines, existing=existing)
    if not found:
        return
    lines = [problem.message for problem in found]
    if len(found) == MAX_PROBLEMS:
        lines.append(f"These are the first {MAX_PROBLEMS} problems.")
    raise InvalidInput("\n".join(lines), code=found[0].code, suggestion=_REMEDIES.get(found[0].code))


def problems(outlines: Sequence[Outline], *, existing: Sequence[Node] = ()) -> list[PlanProblem]:
    """What keeps the outlines from being a plan together with the tasks that exist; the first 50."""
    if too_much := _too_much(outlines, existing):
        return [PlanProblem(Code.TOO_LARGE, too_much)]
    if not outlines and not existing:
        return [PlanProblem(Code.INVALID_INPUT, "The plan has no tasks.")]
    draft = _Draft(outlines, existing)
    found = chain(_of_names(draft), _of_dependencies(draft), _of_circles(draft))
    return list(islice(found, MAX_PROBLEMS))


class _Draft:
    """Tasks that exist and outlines of new ones, as one plan; names count without the space around them."""

    def __init__(self, outlines: Sequence[Outline], existing: Sequence[Node]) -> None:
        self.first_new = len(existing)
        tasks: list[Node | Outline] = [*existing, *outlines]
        self.names = [task.name.strip() for task in tasks]
        self.sequences = [task.sequence for task in tasks]
        self.wanted = [_trimmed(outline.depends_on) for outline in outlines]
        self.places: dict[str, int] = {}
        for place, name in enumerate(self.names):
            if name:
                self.places.setdefault(name, place)
        self._existing = existing

    @property
    def names_any(self) -> bool:
        """Whether some task names another."""
        return any(self.wanted) or any(node.depends_on for node in self._existing)

    @property
    def new(self) -> Iterator[tuple[str, Collection[str] | None]]:
        """Name and dependencies of what is to be added."""
        return zip(self.names[self.first_new :], self.wanted, strict=True)

    def points(self) -> list[Collection[int]]:
        """Whom each waits for, as far as that is known."""
        place_of = {node.id: place for place, node in enumerate(self._existing)}
        named: list[Collection[int] | None] = [
            None if node.depends_on is None else sorted(place_of[id] for id in node.depends_on)
            for node in self._existing
        ]
        for own, names in self.new:
            known = (name for name in names or () if name in self.places and name != own)
            named.append(None if names is None else [self.places[name] for name in known])
        return walks.points(self.sequences, named)


def _too_much(outlines: Sequence[Outline], existing: Sequence[Node]) -> str | None:
    tasks: list[Node | Outline] = [*existing, *outlines]
    if len(tasks) > MAX_TASKS:
        return f"The plan has {len(tasks):,} tasks; at most {MAX_TASKS:,} are possible."
    dependencies = sum(len(task.depends_on or ()) for task in tasks)
    if dependencies > MAX_DEPENDENCIES:
        return f"The plan names {dependencies:,} dependencies; at most {MAX_DEPENDENCIES:,} are possible."
    return None


def _of_names(draft: _Draft) -> Iterator[PlanProblem]:
    new = draft.names[draft.first_new :]
    for number, name in enumerate(new, start=1):
        if not name:
            said = f"Task {number} of those given has no name."
            yield PlanProblem(Code.INVALID_INPUT, said, number - 1)
    last = {name: place for place, name in enumerate(new)}
    for name, count in Counter(filter(None, new)).items():
        if draft.places[name] < draft.first_new:
            said = f"The plan has a task {_quoted(name)} already."
            yield PlanProblem(Code.DUPLICATE_TASK_NAME, said, last[name])
        elif count > 1:
            said = f"{count} tasks have the name {_quoted(name)}."
            yield PlanProblem(Code.DUPLICATE_TASK_NAME, said, last[name])


def _of_dependencies(draft: _Draft) -> Iterator[PlanProblem]:
    guesses = _GUESSES
    for place, (own, names) in enumerate(draft.new):
        for name in names or ():
            if name == own and own:
                yield PlanProblem(Code.SELF_DEPENDENCY, f"Task {_quoted(own)} depends on itself.", place)
            elif name not in draft.places:
                guess = _guess(name, draft.places) if guesses > 0 else ""
                guesses -= 1
                missing = f"Task {_quoted(own)} depends on {_quoted(name)}, which is not in the plan."
                yield PlanProblem(Code.UNKNOWN_DEPENDENCY, missing + guess, place)


def _guess(name: str, names: Iterable[str]) -> str:
    comparable = {other[:_LETTERS_COMPARED]: other for other in islice(names, _NAMES_COMPARED)}
    near = get_close_matches(name[:_LETTERS_COMPARED], comparable, n=1)
    return f" Did you mean {_quoted(comparable[near[0]])}?" if near else ""


def _of_circles(draft: _Draft) -> Iterator[PlanProblem]:
    """One circle of every knot of tasks that wait for each other."""
    if not draft.names_any:  # whoever only follows the sequence waits for lower ones alone
        return
    waits = draft.points()
    for knot in walks.knots(waits):
        circle = walks.circle(knot, waits)
        new = (point - draft.first_new for point in circle if draft.first_new <= point < len(draft.names))
        yield PlanProblem(Code.CIRCULAR_DEPENDENCY, _told(circle, draft), next(new, None))


def _told(circle: list[int], draft: _Draft) -> str:
    tasks = [_plain(draft.names[point]) for point in circle if point < len(draft.names)]
    shown = " -> ".join(
        [*tasks[:_LONGEST_CIRCLE_SHOWN], *["…"] * (len(tasks) > _LONGEST_CIRCLE_SHOWN), tasks[0]]
    )
    reasons = islice(_implied(circle, draft), _EXPLAINED)
    return " ".join([f"{len(tasks)} tasks wait for each other in a circle: {shown}.", *reasons])


def _implied(circle: list[int], draft: _Draft) -> Iterator[str]:
    """A sentence for each step of the circle that stands in no `depends_on`."""
    around = zip(circle, circle[1:] + circle[:1], circle[2:] + circle[:2], strict=True)
    for waiting, level, member in around:
        if level >= len(draft.names):
            yield (
                f"{_plain(draft.names[waiting])} (sequence {draft.sequences[waiting]}) waits for all of "
                f"sequence {draft.sequences[member]}, {_plain(draft.names[member])} among them."
            )


def _trimmed(names: Iterable[str] | None) -> Collection[str] | None:
    """Each name once, in their order."""
    return None if names is None else dict.fromkeys(name.strip() for name in names)


def _quoted(name: str) -> str:
    return repr(name[:MAX_ECHOED])


def _plain(name: str) -> str:
    """The name on one line, whatever is in it."""
    return _quoted(name)[1:-1]


def _groups(nodes: Iterable[Node]) -> tuple[Group, ...]:
    members = [(node.parallel_group, node.status.is_done) for node in nodes if node.parallel_group]
    sizes = Counter(group for group, _ in members)
    done = Counter(group for group, is_done in members if is_done)
    return tuple(Group(group, size, done[group]) for group, size in sizes.items())


def _by_sequence(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    levels: dict[int, list[Node]] = {sequence: [] for sequence in sorted({node.sequence for node in nodes})}
    for node in nodes:
        levels[node.sequence].append(node)
    return levels
