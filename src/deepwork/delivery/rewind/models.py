"""Rewinds, and what may be undone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.git.tree_restores import FileMove, TreeRestore
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.work.plans.models import Node, Task, TaskStatus
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.tracking.models import AttributedChange, Attribution, CheckpointTree, Watch


class RewindStage(CaseInsensitiveEnum):
    """The last step of a rewind that is complete."""

    PLANNED = "planned"
    RESCUED = "rescued"  # everything uncommitted is on a rescue branch
    FILES = "files"  # files, branches and trees are as they shall be
    STATE = "state"  # and so are the tasks
    DONE = "done"
    CANCELLED = "cancelled"  # before anything was changed


class Dependents(CaseInsensitiveEnum):
    """What happens to tasks that build on the rewound one and have begun."""

    ASK = "ask"
    RESET = "reset"  # they go back to their start too
    KEEP = "keep"  # they stay, marked `stale_input`


class RewindRole(CaseInsensitiveEnum):
    """What a rewind did to a task."""

    REWOUND = "rewound"
    RESET = "reset"
    STALE = "stale"


class RewindEvent(CaseInsensitiveEnum):
    """The event of rewinds; the payload is the rewind as REST shows it."""

    UPDATED = "rewind:updated"


class TargetKind(CaseInsensitiveEnum):
    """A moment of a task that it can go back to."""

    START = "start"
    ATTEMPT = "attempt"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a task goes back to: its start, the start of an attempt, or a checkpoint."""

    kind: TargetKind
    number: int = 0

    def __str__(self) -> str:
        return self.kind.value if self.kind is TargetKind.START else f"{self.kind.value}:{self.number}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an attempt that still counts: an earlier rewind may have undone its end."""

    watch: Watch
    """With the snapshot at the beginning of the segment."""
    ended_at: int | None = None
    """When the segment ended, on the clock of its host; None if the task is at work."""
    ended: Snapshot | None = None

    @property
    def attempt(self) -> int:
        return self.watch.attempt


@dataclass(frozen=True, slots=True)
class TargetMoment:
    """The moment that a task goes back to."""

    attempt: int
    """The attempts from this one on go back."""
    snapshot: Snapshot
    taken_at: int
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A tree or branch of a task that makes room for a new one, and stays as it is under another name."""

    task_id: str
    repository: str
    workspace_id: str
    branch: str
    new_branch: str
    commit: str
    path: str | None = None
    new_path: str | None = None
    status: str = "active"
    """Of the workspace, before and then."""
    new_status: str = "abandoned"


@dataclass(frozen=True, slots=True)
class Revert:
    """A commit that a new commit undoes: landed work, or the undoing of it."""

    landing_id: str
    task_id: str
    repository: str
    branch: str
    """The branch that the work is meant for. While it is checked out, the plan's integration branch moves."""
    commit: str
    title: str
    merge: str | None = None
    """The branch that a person merges into `branch`, which has the work and is checked out."""
    place: str | None = None
    """The branch that gets the new commit; None if that was not stored."""


@dataclass(frozen=True)
class Steps:
    """What a rewind does to files, trees and branches."""

    restores: tuple[TreeRestore, ...] = ()
    asides: tuple[SetAside, ...] = ()
    reverts: tuple[Revert, ...] = ()


@dataclass(frozen=True)
class RewindResults:
    """What the stages of a rewind led to."""

    rescue_branches: tuple[str, ...] = ()
    saved: Mapping[str, str] = field(default_factory=dict)
    """By tree, the commit with the files as they were."""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By tree, the snapshot after its files went back."""
    index_after: Mapping[str, str] = field(default_factory=dict)
    """By tree, the tree of its index after that."""
    reverted: tuple[Revert, ...] = ()
    """The commits that undo landed work, as what could be undone again."""
    kept: tuple[str, ...] = ()
    """Files that somebody changed meanwhile, and where their content is."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The plan's status and totals before."""


@dataclass(frozen=True)
class RewindTask:
    """A task that a rewind changed, as it was before and after."""

    task_id: str
    role: RewindRole
    first_attempt: int = 1
    last_attempt: int = 0
    checkpoint: int | None = None
    state_before: Mapping[str, Any] | None = None
    state_after: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rewind:
    """The journal of a rewind, or of its undoing; times are Unix milliseconds."""

    id: str
    workflow_id: str
    task_id: str
    number: int
    undoes: str | None
    undone_by: str | None
    target: str
    dependents: Dependents
    stage: RewindStage
    host: str
    digest: str
    """Of what the person saw when they decided."""
    steps: Steps
    results: RewindResults
    created_by: str
    created_at: int
    updated_at: int
    ended_at: int | None = None

    @property
    def is_effective(self) -> bool:
        """Whether tasks and files are rewound by it now."""
        return self.stage is RewindStage.DONE and self.undoes is None and self.undone_by is None


_TARGET_PATTERN = re.compile(r"(attempt|checkpoint):([1-9][0-9]{0,8})")
_SUBMODULE_MODE, _LISTED = "160000 ", "listed "


def parse_target(text: str) -> Target:
    """Parse `start`, `attempt:N` or `checkpoint:N`."""
    given = text.strip().lower()
    if given == TargetKind.START:
        return Target(TargetKind.START)
    if found := _TARGET_PATTERN.fullmatch(given):
        return Target(TargetKind(found[1]), int(found[2]))
    raise InvalidInput(
        f"{text[:60]!r} is not a moment of a task.",
        suggestion="Use start, attempt:N (as it was when attempt N began) or checkpoint:N.",
    )


def list_segments(
    watches: Iterable[Watch], checkpoints: Iterable[CheckpointTree], rewound: Iterable[RewindTask]
) -> list[Segment]:
    """List what still counts of a task's attempts, in order; `rewound` are its rewinds, the oldest first."""
    trees = {each.sequence: each for each in checkpoints}
    segments = [_to_segment(watch) for watch in watches]
    for rewind in rewound:
        kept = [each for each in segments if each.attempt < rewind.first_attempt]
        later = [each for each in segments if each.attempt > rewind.last_attempt]
        cut = [
            _cut(each, trees[rewind.checkpoint])
            for each in segments
            if each.attempt == rewind.first_attempt and rewind.checkpoint in trees
        ]
        segments = [*kept, *cut, *later]
    return segments


def find_target(
    target: Target, segments: Sequence[Segment], checkpoints: Iterable[CheckpointTree], tree: str
) -> TargetMoment:
    """Return the moment that is meant; raises if it is unknown, was undone, or was in another tree."""
    here = [each for each in segments if each.watch.tree_path == tree]
    if target.kind is TargetKind.CHECKPOINT:
        return _find_checkpoint(target, here, checkpoints)
    found = (
        here[:1]
        if target.kind is TargetKind.START
        else [each for each in here if each.attempt == target.number]
    )
    if not found:
        raise _build_unknown_error(target, here)
    watch = found[0].watch
    return TargetMoment(watch.attempt, Snapshot.from_dict(watch.began), watch.began_at)


def _find_checkpoint(
    target: Target, here: Sequence[Segment], checkpoints: Iterable[CheckpointTree]
) -> TargetMoment:
    by_attempt = {each.attempt: each for each in here}
    for each in checkpoints:
        segment = by_attempt.get(each.attempt)
        if each.sequence == target.number and segment is not None and _is_within(each, segment):
            return TargetMoment(
                each.attempt, Snapshot.from_dict(each.snapshot), each.taken_at, checkpoint=each.sequence
            )
    raise _build_unknown_error(target, here)


def _is_within(checkpoint: CheckpointTree, segment: Segment) -> bool:
    return segment.ended_at is None or checkpoint.taken_at <= segment.ended_at


def list_segments_to_undo(segments: Sequence[Segment], moment: TargetMoment, tree: str) -> list[Segment]:
    """List the segments in a tree from the moment on; the first begins at the moment."""
    later = [each for each in segments if each.watch.tree_path == tree and each.attempt >= moment.attempt]
    return [_begin_at(each, moment) if each.attempt == moment.attempt else each for each in later]


def _begin_at(segment: Segment, moment: TargetMoment) -> Segment:
    watch = replace(segment.watch, began_at=moment.taken_at, began=moment.snapshot.to_dict())
    return replace(segment, watch=watch)


def _to_segment(watch: Watch) -> Segment:
    ended = None if watch.ended is None else Snapshot.from_dict(watch.ended)
    return Segment(watch, watch.ended_at, ended)


def _cut(segment: Segment, checkpoint: CheckpointTree) -> Segment:
    snapshot = Snapshot.from_dict(checkpoint.snapshot)
    return replace(segment, ended_at=checkpoint.taken_at, ended=snapshot)


def _build_unknown_error(target: Target, here: Sequence[Segment]) -> NotAllowed:
    attempts = ", ".join(f"attempt:{each.attempt}" for each in here[-5:])
    return NotAllowed(
        f"The task cannot go back to {target}: no snapshot of its tree was taken then, or it was undone.",
        suggestion=f"Use start{f', or one of {attempts}' if attempts else ''}; "
        "`deepwork rewind TASK --dry-run` lists what is possible.",
    )


# Files in a tree that others use


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Which files of a tree that others use can go back, and which cannot, with the reason."""

    moves: tuple[FileMove, ...]
    refused: Mapping[str, str]


def plan_shared_files(
    changes: Sequence[Sequence[AttributedChange]], current: Mapping[str, str], tasks: Collection[str]
) -> SharedFiles:
    """Plan which files go back: those that only these tasks changed, and nobody since.

    `changes` are the net changes of each segment of these tasks, in order of time; `current` are the
    versions that the files of the tree have now.
    """
    chains: dict[str, list[AttributedChange]] = {}
    for part in changes:
        for change in part:
            chains.setdefault(change.path, []).append(change)
    moves, refused = [], {}
    for path, chain in sorted(chains.items()):
        first, last = chain[0], chain[-1]
        now = current.get(path)
        if now == first.before:
            continue
        if reason := _find_reason(chain, now, last, tasks):
            refused[path] = reason
        else:
            moves.append(FileMove(path, now, first.before, first.before_tree))
    return SharedFiles(tuple(moves), refused)


def _find_reason(
    chain: Sequence[AttributedChange], now: str | None, last: AttributedChange, tasks: Collection[str]
) -> str | None:
    """Return why a file cannot go back."""
    others = sorted({other for each in chain for other in each.shared_with} - set(tasks))
    if others:
        return f"changed while {', '.join(others)} worked, too"
    if any(each.attribution is Attribution.SHARED and not each.shared_with for each in chain):
        return "changed while others worked, too"
    if now != last.after:
        return "changed since"
    if any(one.after != two.before for one, two in pairwise(_drop_repeated(chain))):
        return "changed by others in between"
    if first_listed := next((each for each in chain[:1] if (each.before or "").startswith(_LISTED)), None):
        return f"its earlier content was too large to be stored ({first_listed.before})"
    return None


def _drop_repeated(chain: Sequence[AttributedChange]) -> list[AttributedChange]:
    """Drop a change that is charged to several of the tasks, which worked at the same time."""
    first = chain[:1]
    others = [two for one, two in pairwise(chain) if (one.before, one.after) != (two.before, two.after)]
    return [*first, *others]


def is_restorable(version: str | None) -> bool:
    """Return whether a version of a file can be written: not a submodule, nor one too large to be stored."""
    return version is None or not version.startswith((_SUBMODULE_MODE, _LISTED))


# Dependents


def list_dependents(plan: Graph, task_id: str) -> list[Node]:
    """List the tasks that wait for this one, directly or through others, in plan order."""
    found = {task_id}
    levels = {plan[task_id].sequence}
    is_growing = True
    while is_growing:
        more = {
            node.id for node in plan.nodes if node.id not in found and _waits_for(plan, node, found, levels)
        }
        is_growing = bool(more)
        found |= more
        levels |= {plan[id].sequence for id in more}
    return [node for node in plan.nodes if node.id in found and node.id != task_id]


def _waits_for(plan: Graph, node: Node, found: set[str], levels: set[int]) -> bool:
    if node.depends_on is None:
        return plan.previous_level[node.sequence] in levels
    return not node.depends_on.isdisjoint(found)


def has_begun(task: Task) -> bool:
    """Return whether work on the task has begun, so that something can go back."""
    return task.status is not TaskStatus.PENDING or task.claimed_by is not None or task.attempts > 0
