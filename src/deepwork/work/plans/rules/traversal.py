"""Graph traversal over integer vertices whose edges lead to the vertices they wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence


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
