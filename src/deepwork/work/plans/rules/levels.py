"""Progress of a plan computed from counts: the same answers as `graph`, without reading 10,000 tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from deepwork.work.plans.models import StatusCount, Task, TaskStatus


class Levels:
    """The levels (sequences) of a plan, with the number of tasks per status in each."""

    def __init__(self, tallies: Sequence[StatusCount]) -> None:
        self._tallies = tallies

    def with_released(self, expired: Iterable[Task]) -> Levels:
        """Return the levels with these tasks, whose claims have expired, counted as pending."""
        moved = [tally for task in expired if task.status.is_running for tally in _build_release_counts(task)]
        return Levels([*self._tallies, *moved])

    @cached_property
    def sequences(self) -> list[int]:
        return sorted({tally.sequence for tally in self._tallies})

    @cached_property
    def open(self) -> Counter[int]:
        """How many tasks of each sequence are not done."""
        left: Counter[int] = Counter()
        for tally in self._tallies:
            if not tally.status.is_done:
                left[tally.sequence] += tally.count
        return left

    @cached_property
    def free(self) -> list[int]:
        """Sequences with open tasks whose next lower sequence is done."""
        before = zip([None, *self.sequences], self.sequences, strict=False)
        return [
            sequence
            for previous, sequence in before
            if self.open[sequence] and (previous is None or not self.open[previous])
        ]

    @cached_property
    def previous(self) -> dict[int, int | None]:
        """For each sequence the next lower one."""
        return dict(zip(self.sequences, [None, *self.sequences], strict=False))

    def is_blocked(self, task: Task) -> bool:
        """Whether the task waits for another."""
        if task.is_explicit:
            return task.open_dependencies > 0
        previous = self.previous.get(task.sequence)
        return previous is not None and self.open[previous] > 0

    def count_open_dependencies(self, task: Task) -> int:
        """Count the open tasks it waits for."""
        if task.is_explicit:
            return task.open_dependencies
        previous = self.previous.get(task.sequence)
        return 0 if previous is None else self.open[previous]

    @property
    def total(self) -> int:
        return sum(tally.count for tally in self._tallies)

    @property
    def remaining(self) -> int:
        return self.open.total()

    @property
    def any_done(self) -> bool:
        return self.remaining < self.total

    @property
    def all_complete(self) -> bool:
        return bool(self._tallies) and not self.remaining

    @cached_property
    def by_status(self) -> dict[TaskStatus, int]:
        """A count for every status, zeros included; pending tasks that wait count as blocked."""
        counts: Counter[TaskStatus] = Counter()
        free = set(self.free)
        for tally in self._tallies:
            waiting = 0
            if tally.status is TaskStatus.PENDING:
                waiting = tally.waiting + (0 if tally.sequence in free else tally.implied)
            counts[TaskStatus.BLOCKED] += waiting
            counts[tally.status] += tally.count - waiting
        return {status: counts[status] for status in TaskStatus}

    @property
    def current_sequence(self) -> int:
        """The lowest sequence with open tasks; 0 if there is none."""
        return next((sequence for sequence in self.sequences if self.open[sequence]), 0)

    @property
    def completed_sequence(self) -> int:
        """The highest sequence up to which everything is done; 0 if there is none."""
        done = 0
        for sequence in self.sequences:
            if self.open[sequence]:
                break
            done = sequence
        return done


def _build_release_counts(task: Task) -> tuple[StatusCount, StatusCount]:
    """Build the counts that move one task from its status to pending."""
    waiting, implied = int(task.open_dependencies > 0), int(not task.is_explicit)
    return (
        StatusCount(task.sequence, task.status, -1, -waiting, -implied),
        StatusCount(task.sequence, TaskStatus.PENDING, 1, waiting, implied),
    )
