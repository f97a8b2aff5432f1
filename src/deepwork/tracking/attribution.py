"""Who changed what, where several tasks work on the same files at the same time.

Between two looks at a working tree some tasks ran and some files changed. Each of these files is charged to
whom it can be charged, and every charge says how sure it is. Changes of several tasks to the same file
between two looks cannot be told apart: they are shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from deepwork.tracking.areas import Areas


class Attribution(StrEnum):
    """How it is known whose a change is, the surest first."""

    REPORTED = "reported"  # the client said so
    EXCLUSIVE = "exclusive"  # nobody else was at work
    AREA = "area"  # of those at work, only this one had said it would touch such files
    SHARED = "shared"  # it may be of any of those at work
    OUTSIDE = "outside"  # nobody was at work: a person, a formatter


_SURENESS = {kind: number for number, kind in enumerate(Attribution)}


@dataclass(frozen=True)
class Worker:
    """A task as far as it matters here."""

    id: str
    areas: tuple[str, ...] = ()
    parent_id: str | None = None


@dataclass(frozen=True)
class Change:
    """A file that became another; None where there is none. Equal versions are equal files."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Gap:
    """What changed between two looks at a tree, who ran in between, and what clients reported of whom."""

    changes: tuple[Change, ...]
    running: frozenset[str]
    reported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Charge:
    """A file that a task has changed in the end, or that changed while none ran."""

    path: str
    before: str | None
    after: str | None
    attribution: Attribution
    shared_with: tuple[str, ...] = ()


def charges(gaps: Iterable[Gap], workers: Collection[Worker]) -> dict[str | None, list[Charge]]:
    """What each task has changed over all gaps, by path; under None what changed while none ran.

    Only what is left in the end counts: a file that is as it was before a task's first change to it is not
    charged to that task. Where a file's changes were not all equally sure, the least sure one is told.
    """
    known = {worker.id: worker for worker in workers}
    areas = {worker.id: Areas(worker.areas) for worker in workers}
    found: dict[str | None, dict[str, Charge]] = {}
    for gap in gaps:
        candidates = _closest(gap.running, known)
        for change in gap.changes:
            attribution, owners = _owners(change.path, gap.reported, candidates, known, areas)
            for owner in owners:
                others = tuple(other for other in owners if other is not None and other != owner)
                charge = Charge(change.path, change.before, change.after, attribution, others)
                charged = found.setdefault(owner, {})
                charged[change.path] = _joined(charged.get(change.path), charge)
    return {
        owner: [each for _, each in sorted(of.items()) if each.before != each.after]
        for owner, of in found.items()
    }


def _closest(running: Iterable[str], known: Mapping[str, Worker]) -> list[str]:
    """Those who may have done it themselves: whoever has a running task below it leaves the work to that."""
    ids = sorted(running)
    waiting = {above for id in ids for above in _ancestors(id, known)}
    return [id for id in ids if id not in waiting] or ids


def _ancestors(id: str, known: Mapping[str, Worker]) -> set[str]:
    found: set[str] = set()
    parent = known[id].parent_id if id in known else None
    while parent is not None and parent not in found:
        found.add(parent)
        parent = known[parent].parent_id if parent in known else None
    return found


def _owners(
    path: str,
    reported: Mapping[str, str],
    candidates: Sequence[str],
    known: Mapping[str, Worker],
    areas: Mapping[str, Areas],
) -> tuple[Attribution, Sequence[str | None]]:
    if reported.get(path) in known:
        return Attribution.REPORTED, [reported[path]]
    if not candidates:
        return Attribution.OUTSIDE, [None]
    if len(candidates) == 1:
        return Attribution.EXCLUSIVE, candidates
    fitting = [id for id in candidates if id in areas and areas[id].covering(path) is not None]
    if len(fitting) == 1:
        return Attribution.AREA, fitting
    return Attribution.SHARED, candidates


def _joined(earlier: Charge | None, later: Charge) -> Charge:
    if earlier is None:
        return later
    return Charge(
        later.path,
        earlier.before,
        later.after,
        max(earlier.attribution, later.attribution, key=_SURENESS.__getitem__),
        tuple(sorted({*earlier.shared_with, *later.shared_with})),
    )
