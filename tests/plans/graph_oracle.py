"""What the stores compute from counts, computed from the whole graph to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from deepwork.work.plans.models import Node, TaskStatus
from deepwork.work.plans.rules.graph import Graph


class ParallelGroup(NamedTuple):
    """How many tasks of one parallel group are done."""

    group_id: str
    task_count: int
    completed: int


@dataclass(frozen=True)
class PlanProgress:
    """The progress of a plan; completed and skipped tasks both count as done."""

    total: int
    by_status: Mapping[TaskStatus, int]
    """A count for every status, zeros included; pending tasks that wait for others count as blocked."""
    completed_sequence: int
    """The highest sequence up to which everything is done; 0 if there is none."""
    current_sequence: int
    """The lowest sequence with open tasks; 0 if there is none."""
    groups: tuple[ParallelGroup, ...]
    remaining: int
    all_complete: bool


class OracleGraph(Graph):
    """A plan that also answers the questions for which the program asks its stores."""

    def count_open_dependencies(self, node: Node) -> int:
        """Count the tasks it waits for that are not done."""
        if node.depends_on is None:
            return len(self._get_previous_level(node, self._open))
        return len(node.depends_on & self._open_ids)

    def list_open_dependencies(self, node: Node, limit: int | None = None) -> list[Node]:
        """List the tasks it waits for that are not done, in plan order."""
        if node.depends_on is None:
            return self._get_previous_level(node, self._open)[:limit]
        return self._sort_by_position(node.depends_on & self._open_ids)[:limit]

    def list_blocked(self) -> list[Node]:
        """List the pending and failed tasks that wait for others, by sequence."""
        return [
            node
            for node in chain.from_iterable(self._levels.values())
            if node.status.can_start and self.is_blocked(node)
        ]

    def compute_progress(self) -> PlanProgress:
        """Count what is done and what is left."""
        current = next((sequence for sequence, level in self._open.items() if level), None)
        completed = max(self._levels, default=0) if current is None else self.previous_level[current]
        return PlanProgress(
            total=len(self.nodes),
            by_status=self._count_by_status(),
            completed_sequence=completed or 0,
            current_sequence=current or 0,
            groups=_count_groups(self.nodes),
            remaining=len(self._open_ids),
            all_complete=bool(self.nodes) and not self._open_ids,
        )

    def _count_by_status(self) -> dict[TaskStatus, int]:
        counted = Counter(map(self.get_effective_status, self.nodes))
        return {status: counted[status] for status in TaskStatus}


def _count_groups(nodes: Iterable[Node]) -> tuple[ParallelGroup, ...]:
    members = [(node.parallel_group, node.status.is_done) for node in nodes if node.parallel_group]
    sizes = Counter(group for group, _ in members)
    done = Counter(group for group, is_done in members if is_done)
    return tuple(ParallelGroup(group, size, done[group]) for group, size in sizes.items())
