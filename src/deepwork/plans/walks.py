"""Walks over points that wait for each other: numbers, whose edges lead to what they wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence


def points(sequences: Sequence[int], named: Sequence[Collection[int] | None]) -> list[Collection[int]]:
    """Whom each point waits for: first come the tasks, then the levels, each waiting for its own tasks.

    So a task that follows its sequence has one edge to a level instead of one to each task of it.
    """
    ascending = sorted(set(sequences))
    level_of = {sequence: number for number, sequence in enumerate(ascending, start=len(sequences))}
    before = next_lower(ascending)
    members: dict[int, list[int]] = {sequence: [] for sequence in ascending}
    points: list[Collection[int]] = []
    for place, (sequence, wanted) in enumerate(zip(sequences, named, strict=True)):
        members[sequence].append(place)
        previous = before[sequence]
        implied = () if previous is None else (level_of[previous],)
        points.append(implied if wanted is None else wanted)
    return points + list(members.values())


def next_lower(ascending: Iterable[int]) -> dict[int, int | None]:
    """For each sequence the next lower one."""
    sequences = list(ascending)
    return dict(zip(sequences, [None, *sequences], strict=False))


def depth_first(edges: Sequence[Collection[int]]) -> list[int]:
    """Every point after all it leads to, unless they lead back to it."""
    unseen = set(range(len(edges)))
    return [point for start in range(len(edges)) for point in _flood(start, edges, unseen)]


def knots(waits: Sequence[Collection[int]]) -> Iterator[set[int]]:
    """Points each of which waits for every other, if only around some corners (Kosaraju's two walks)."""
    order = depth_first(waits)
    followers = _reversed(waits)
    unseen = set(order)
    for start in reversed(order):
        knot = _flood(start, followers, unseen)
        if len(knot) > 1:
            yield set(knot)


def circle(knot: set[int], waits: Sequence[Collection[int]]) -> list[int]:
    """The shortest way from the first task of a knot back to it."""
    start = min(knot)  # tasks have lower numbers than levels
    came_from = {start: start}
    reached = [start]
    for point in reached:
        fresh = [target for target in waits[point] if target in knot and target not in came_from]
        came_from.update(dict.fromkeys(fresh, point))
        reached.extend(fresh)
    way = [next(point for point in reached if start in waits[point])]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _reversed(edges: Sequence[Collection[int]]) -> list[list[int]]:
    back: list[list[int]] = [[] for _ in edges]
    for point, targets in enumerate(edges):
        for target in targets:
            back[target].append(point)
    return back


def _flood(start: int, edges: Sequence[Collection[int]], unseen: set[int]) -> list[int]:
    """What the start leads to and nobody has seen, each after all it leads to.

    By a stack of its own: a plan may be deeper than Python calls may nest.
    """
    if start not in unseen:
        return []
    unseen.discard(start)
    finished = []
    path = [(start, iter(edges[start]))]
    while path:
        point, targets = path[-1]
        for target in targets:
            if target in unseen:
                unseen.discard(target)
                path.append((target, iter(edges[target])))
                break
        else:
            finished.append(point)
            path.pop()
    return finished
