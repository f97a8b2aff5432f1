"""Folds a large graph: similar tasks become one node, from which a reader can restore each of them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.states import State

FOLDED_OVER = 300
"""Graphs of up to so many nodes are sent as they are."""
_FEWEST_SIMILAR = 10
_MOST_PRESSING = (State.FAILED, State.NEEDS_YOU, State.UNATTENDED, State.RUNNING, State.PARKED, State.READY)

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
    return states.keys() <= {State.DONE, State.LANDED}
