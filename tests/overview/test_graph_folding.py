"""Similar tasks of a large graph become one node, from which each of them can be restored."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deepwork.views.overview.graph_folding import Edges, Nodes, fold_similar_tasks


def make_node(id: str, state: str = "waiting", level: int = 0) -> dict[str, Any]:
    return {
        "id": id, "kind": "task", "name": f"Test {id}", "status": "pending", "state": state, "level": level, "group": None,
        "is_ready": state == "ready", "is_blocked": state == "waiting",
    }  # fmt: skip


def unfold(nodes: Nodes, edges: Edges) -> tuple[set[str], set[tuple[str, str]]]:
    """Restore what was folded, as the page does."""
    members = {node["id"]: node.get("members", [node["id"]]) for node in nodes}
    restored = {(one, other) for begin, end in edges for one in members[begin] for other in members[end]}
    return {id for ids in members.values() for id in ids}, restored


def test_similar_tasks_become_one_node_that_counts_their_states():
    first = [make_node(f"a{n}", "done" if n else "failed") for n in range(12)]
    last = make_node("z", level=1)

    nodes, edges = fold_similar_tasks([*first, last], [(node["id"], "z") for node in first])

    [fold] = [node for node in nodes if node["kind"] == "fold"]
    assert (fold["id"], fold["name"], fold["state"]) == ("fold:a0", "Test a …", "failed")
    assert fold["states"] == {"failed": 1, "done": 11}
    assert fold["members"] == [node["id"] for node in first]
    assert (list(edges), len(nodes)) == ([("fold:a0", "z")], 2)


def test_few_similar_tasks_stay():
    nodes = [make_node(f"a{n}") for n in range(9)]

    assert fold_similar_tasks(nodes, []) == (nodes, [])


@given(
    st.integers(1, 4),
    st.integers(1, 30),
    st.sets(st.tuples(st.integers(0, 119), st.integers(0, 119)), max_size=20),
)
def test_every_node_and_edge_can_be_restored(levels: int, wide: int, others: set[tuple[int, int]]):
    ids = [f"t{n}" for n in range(levels * wide)]
    nodes = [make_node(id, level=n // wide) for n, id in enumerate(ids)]
    between = {
        (ids[n], ids[m]) for n in range(len(ids)) for m in range(len(ids)) if n // wide + 1 == m // wide
    }
    edges = sorted(between | {(ids[n], ids[m]) for n, m in others if n < m < len(ids)})

    assert unfold(*fold_similar_tasks(nodes, edges)) == (set(ids), set(edges))
