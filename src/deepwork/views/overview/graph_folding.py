"""Folds a large graph, so that it opens where work goes on.

Levels that are finished, and levels far ahead, become one node each, or one for many of them; of a wide level
the tasks that are done or wait. What a reader opens is named in the next request. Similar tasks become one
node, too, from which a reader can restore each of them.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from deepwork.kernel.states import State

FOLDED_OVER = 300
"""Graphs of up to so many nodes are sent as they are."""
_FEWEST_SIMILAR = 10
_MOST_PRESSING = (State.FAILED, State.NEEDS_YOU, State.UNATTENDED, State.RUNNING, State.PARKED, State.READY)

_DONE = frozenset({State.DONE, State.LANDED, State.STOPPED})
_AHEAD = 2
"""How many levels that wait are shown beyond the last one where something goes on."""
_MOST_PARTS = 8
"""Into how many nodes many folded levels are split when they are opened."""
_WIDE = 60
"""A level of more nodes is folded by state; so many of its active tasks are shown."""

Nodes = Sequence[dict[str, Any]]
Edges = Sequence[tuple[str, str]]


def fold_similar_tasks(nodes: Nodes, edges: Edges) -> tuple[Nodes, Edges]:
    """Fold tasks that wait for the same nodes, and for which the same nodes wait.

    An edge of a folded node stands for the edges of all its members.
    """
    before, after = defaultdict(list), defaultdict(list)
    for one, other in edges:
        before[other].append(one)
        after[one].append(other)
    similar: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for node in nodes:
        around = tuple(sorted(before[node["id"]])), tuple(sorted(after[node["id"]]))
        similar[node["kind"], node["level"], node["group"], around].append(node)
    folded: list[dict[str, Any]] = []
    place: dict[str, str] = {}
    for each in similar.values():
        if len(each) < _FEWEST_SIMILAR:
            folded += each
            continue
        fold = _build_fold(each)
        folded.append(fold)
        place |= dict.fromkeys(fold["members"], fold["id"])
    kept = dict.fromkeys((place.get(one, one), place.get(other, other)) for one, other in edges)
    return folded, list(kept)


def fold_levels(nodes: Nodes, edges: Edges, opened: Collection[str]) -> tuple[Nodes, Edges]:
    """Fold finished levels and those far ahead, unless a reader has opened them.

    `opened` are ids of folds. A fold has no list of its members: the next request opens it.
    """
    levels: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for node in nodes:
        levels[node["level"]].append(node)
    kept: list[dict[str, Any]] = []
    place: dict[str, str] = {}
    for kind, members in groupby(_name_levels(levels), key=lambda each: each[1]):
        numbers = [level for level, _ in members]
        for fold_id, part in _choose_folds(kind, numbers, opened):
            inside = [node for level in part for node in levels[level]]
            if fold_id is None:
                kept += _fold_wide(part[0], inside, opened, place)
            else:
                kept.append(_build_level_fold(fold_id, part, inside))
                place |= {node["id"]: fold_id for node in inside}
    moved = ((place.get(one, one), place.get(other, other)) for one, other in edges)
    return kept, list(dict.fromkeys((one, other) for one, other in moved if one != other))


def _name_levels(levels: Mapping[int, Nodes]) -> list[tuple[int, str]]:
    """Say of each level whether it is done, ahead, or to be seen."""
    states = {level: {node["state"] for node in of if node["state"]} for level, of in levels.items()}
    active = [level for level, found in states.items() if found - _DONE - {State.WAITING}]
    front = max(active, default=max((level for level, found in states.items() if found <= _DONE), default=-1))
    named = []
    for level in sorted(levels):
        is_done = bool(states[level]) and states[level] <= _DONE
        is_ahead = states[level] == {State.WAITING} and level > front + _AHEAD
        named.append((level, "done" if is_done else "ahead" if is_ahead else ""))
    return named


def _choose_folds(
    kind: str, levels: Sequence[int], opened: Collection[str]
) -> Iterator[tuple[str | None, Sequence[int]]]:
    """Choose what levels of one kind become: one fold, its parts if it was opened, or themselves."""
    if not kind:
        yield from ((None, [level]) for level in levels)
        return
    fold_id = f"{kind}:{levels[0]}-{levels[-1]}"
    if fold_id not in opened:
        yield fold_id, levels
    elif len(levels) == 1:
        yield None, levels
    else:
        size = -(-len(levels) // _MOST_PARTS)
        for start in range(0, len(levels), size):
            yield from _choose_folds(kind, levels[start : start + size], opened)


def _build_level_fold(id: str, levels: Sequence[int], members: Nodes) -> dict[str, Any]:
    tasks = [node for node in members if node["state"]]
    states = Counter(node["state"] for node in tasks)
    which = f"level {levels[0] + 1}" if len(levels) == 1 else f"levels {levels[0] + 1} to {levels[-1] + 1}"
    return _describe_fold(id, which.capitalize(), levels[0], states)


def _fold_wide(
    level: int, members: list[dict[str, Any]], opened: Collection[str], place: dict[str, str]
) -> list[dict[str, Any]]:
    """Fold the tasks of a wide level by their state, the most pressing ones last."""
    if len(members) <= _WIDE:
        return members
    order = {state: rank for rank, state in enumerate((*_MOST_PRESSING, State.WAITING))}
    by_state: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for node in members:
        by_state["done" if node["state"] in _DONE else node["state"]].append(node)
    kept: list[dict[str, Any]] = []
    room = _WIDE
    for state in sorted(by_state, key=lambda each: order.get(each, len(order))):
        tasks, fold_id = by_state[state], f"state:{level}:{state}"
        is_quiet = state in ("done", State.WAITING)
        shown = tasks if state is None or fold_id in opened else [] if is_quiet else tasks[:room]
        kept += shown
        room = max(0, room - len(shown))
        if rest := tasks[len(shown) :]:
            states = Counter(node["state"] for node in rest)
            kept.append(_describe_fold(fold_id, f"{len(rest)} {str(state).replace('_', ' ')}", level, states))
            place |= {node["id"]: fold_id for node in rest}
    return kept


def _describe_fold(id: str, name: str, level: int, states: Mapping[State, int]) -> dict[str, Any]:
    return {
        "id": id,
        "kind": "fold",
        "name": name,
        "status": "completed" if _are_done(states) else "pending",
        "state": _summarize(states),
        "level": level,
        "group": None,
        "is_ready": State.READY in states,
        "is_blocked": states.keys() == {State.WAITING},
        "states": dict(states),
    }


def _build_fold(members: Nodes) -> dict[str, Any]:
    first = members[0]
    states = Counter(node["state"] for node in members)
    common = os.path.commonprefix([node["name"] for node in members])  # noqa: RUF071 - of letters
    common = common.rstrip(" 0123456789_-:#.")
    return {
        "id": f"fold:{first['id']}",
        "kind": "fold",
        "name": first["group"] or (f"{common} …" if len(common) > 2 else "similar tasks"),
        "status": "completed" if _are_done(states) else "pending",
        "state": _summarize(states),
        "level": first["level"],
        "group": first["group"],
        "is_ready": any(node["is_ready"] for node in members),
        "is_blocked": all(node["is_blocked"] for node in members),
        "members": [node["id"] for node in members],
        "states": dict(states),
    }


def _summarize(states: Mapping[State, int]) -> State:
    pressing = next((state for state in _MOST_PRESSING if state in states), None)
    return pressing or (State.DONE if _are_done(states) else State.WAITING)


def _are_done(states: Mapping[State, int]) -> bool:
    return states.keys() <= _DONE
