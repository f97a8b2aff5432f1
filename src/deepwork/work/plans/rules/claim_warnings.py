"""What a claim warns of, in words for an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deepwork.work.plans.models import RelatedTask, Task
from deepwork.work.plans.rules.file_overlaps import ActiveTask, list_shared_files

MAX_NAMED = 3
"""How many tasks and files an answer names."""


def list_warnings(task: Task, conflicts: Sequence[ActiveTask]) -> Iterator[str]:
    """List what an agent should know before it works on the task."""
    if conflicts:
        theirs = tuple(name for other in conflicts for name in other.files)
        shared = list_shared_files(task.files, theirs)
        names = format_names(conflicts, len(conflicts))
        yield f"Its files overlap with those of {names}: {_format_first(shared)}."
    if task.status.is_running:
        yield f"It was {task.status} without a claim: someone may be working on it."


def format_names(tasks: Sequence[RelatedTask | ActiveTask], count: int) -> str:
    """Name the first tasks, and count the others."""
    return _format_first([repr(task.name) for task in tasks[:MAX_NAMED]], count)


def _format_first(names: Sequence[str], count: int | None = None) -> str:
    more = (len(names) if count is None else count) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
