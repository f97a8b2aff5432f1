"""Compare random small plans with networkx, where every implied edge is an explicit one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwork.kernel.errors import Code
from deepwork.work.plans.models import Node, Outline, TaskStatus
from deepwork.work.plans.rules.graph import Graph, find_problems
from plans.graph_oracle import OracleGraph
from plans.make import make_node, make_outline

thorough = settings(max_examples=200, deadline=None)

STORED: list[TaskStatus] = [status for status in TaskStatus if status is not TaskStatus.BLOCKED]
GROUPS = [None, "ui", "api"]
LARGEST = 8
DONE = {TaskStatus.COMPLETED, TaskStatus.SKIPPED}


# A generated task: its status, its sequence, and a bit set of the tasks in `depends_on`, if any.
drawn_tasks = st.tuples(
    st.sampled_from(STORED), st.integers(1, 4), st.none() | st.integers(0, 2**LARGEST - 1)
)


def build_plan(drawn: list[tuple[TaskStatus, int, int | None]]) -> list[Node]:
    ids = [f"t{place}" for place in range(len(drawn))]
    return [
        make_node(
            ids[place],
            status,
            sequence=sequence,
            depends_on=None
            if named is None
            else [id for bit, id in enumerate(ids) if named >> bit & 1 and bit != place],
            parallel_group=GROUPS[place % len(GROUPS)],
        )
        for place, (status, sequence, named) in enumerate(drawn)
    ]


def remove_cycles(nodes: list[Node]) -> list[Node]:
    """Keep only dependencies on earlier tasks; drop all if a cycle through a sequence remains."""
    tamed = [restrict_dependencies(nodes[:place], each) for place, each in enumerate(nodes)]
    if nx.is_directed_acyclic_graph(build_oracle(tamed)):
        return tamed
    return [replace(each, depends_on=None) for each in tamed]


def restrict_dependencies(allowed: Sequence[Node], each: Node) -> Node:
    return replace(each, depends_on=each.depends_on and each.depends_on & set(list_ids(allowed)))


any_plans = st.lists(drawn_tasks, min_size=1, max_size=LARGEST).map(build_plan)
"""Tasks with arbitrary dependencies, including cycles."""

plans = any_plans.map(remove_cycles).flatmap(st.permutations)
"""Tasks in any order without cycles."""


def build_oracle(nodes: Sequence[Node]) -> nx.DiGraph:
    """Build a graph with an edge from every task to each of its dependents."""
    made = nx.DiGraph()
    made.add_nodes_from(each.id for each in nodes)
    for each in nodes:
        made.add_edges_from((id, each.id) for id in list_dependency_list_ids(each, nodes))
    return made


def list_dependency_list_ids(each: Node, nodes: Sequence[Node]) -> set[str]:
    if each.depends_on is not None:
        return set(each.depends_on)
    lower = [other.sequence for other in nodes if other.sequence < each.sequence]
    return {other.id for other in nodes if lower and other.sequence == max(lower)}


def list_open_before(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Return the open dependencies of each task according to networkx, in plan order."""
    made = build_oracle(nodes)
    return {
        each.id: [
            other.id for other in nodes if made.has_edge(other.id, each.id) and other.status not in DONE
        ]
        for each in nodes
    }


def list_ids(nodes: Iterable[Node]) -> list[str]:
    return [each.id for each in nodes]


def to_outlines(nodes: Sequence[Node]) -> list[Outline]:
    return [
        make_outline(
            each.name, sequence=each.sequence, depends_on=each.depends_on and sorted(each.depends_on)
        )
        for each in nodes
    ]


def find_cycles(outlines: Sequence[Outline], existing: Sequence[Node] = ()) -> list[list[str]]:
    """Parse the tasks of the reported cycles."""
    found = find_problems(outlines, existing=existing)
    assert {problem.code for problem in found} <= {Code.CIRCULAR_DEPENDENCY}
    return [re.findall(r"t\d+", problem.message.split(".")[0]) for problem in found]


@given(any_plans)
@thorough
def test_open_dependencies_match_the_oracle(nodes: list[Node]):
    plan, expected = OracleGraph(nodes), list_open_before(nodes)

    for each in nodes:
        assert list_ids(plan.list_open_dependencies(each)) == expected[each.id]
        assert list_ids(plan.list_open_dependencies(each, 2)) == expected[each.id][:2]
        assert plan.count_open_dependencies(each) == len(expected[each.id])
        assert plan.is_blocked(each) == bool(expected[each.id])
        assert set(list_ids(plan.list_dependencies(each))) == set(build_oracle(nodes).predecessors(each.id))


@given(any_plans)
@thorough
def test_ready_and_blocked_tasks_match_the_oracle(nodes: list[Node]):
    waiting = list_open_before(nodes)
    by_sequence = sorted(nodes, key=lambda each: each.sequence)
    startable = [each for each in by_sequence if each.status in {TaskStatus.PENDING, TaskStatus.FAILED}]
    free = [each for each in startable if not waiting[each.id]]
    expected = [each for each in free if each.status is TaskStatus.PENDING]
    expected += [each for each in free if each.status is TaskStatus.FAILED]

    assert OracleGraph(nodes).list_ready() == expected
    assert OracleGraph(nodes).list_blocked() == [each for each in startable if waiting[each.id]]


@given(any_plans)
@thorough
def test_progress_matches_a_plain_count(nodes: list[Node]):
    waiting = list_open_before(nodes)
    progress = OracleGraph(nodes).compute_progress()
    unfinished = [each.sequence for each in nodes if each.status not in DONE]
    finished = [each.sequence for each in nodes if each.sequence < min(unfinished, default=100)]

    assert progress.total == sum(progress.by_status.values()) == len(nodes)
    assert list(progress.by_status) == list(TaskStatus)
    for status in STORED:
        having = [each for each in nodes if each.status is status]
        hidden = [each for each in having if status is TaskStatus.PENDING and waiting[each.id]]
        assert progress.by_status[status] == len(having) - len(hidden)
    assert progress.remaining == len(unfinished)
    assert progress.current_sequence == min(unfinished, default=0)
    assert progress.completed_sequence == max(finished, default=0)
    assert progress.all_complete == (not unfinished)
    for group, count, completed in progress.groups:
        members = [each for each in nodes if each.parallel_group == group]
        assert (count, completed) == (len(members), sum(each.status in DONE for each in members))
    assert {group for group, _, _ in progress.groups} == {each.parallel_group for each in nodes} - {None}


@given(plans)
@thorough
def test_rows_match_the_topological_generations_of_the_oracle(nodes: list[Node]):
    expected = [set(row) for row in nx.topological_generations(build_oracle(nodes))]

    rows = Graph(nodes).list_rows()

    assert [set(list_ids(row)) for row in rows] == expected
    assert all(row == [each for each in nodes if each in row] for row in rows)


@given(any_plans)
@thorough
def test_every_cyclic_component_is_reported_by_a_real_cycle(nodes: list[Node]):
    made = build_oracle(nodes)
    knots = [knot for knot in nx.strongly_connected_components(made) if len(knot) > 1]

    reported = find_cycles(to_outlines(nodes))

    assert sorted(min(circle) for circle in reported) == sorted(min(knot) for knot in knots)
    for circle in reported:
        assert circle[0] == circle[-1]
        assert len(set(circle)) == len(circle) - 1
        for waiting, awaited in pairwise(circle):
            assert made.has_edge(awaited, waiting)


@given(any_plans, st.integers(0, LARGEST))
@thorough
def test_cycles_through_existing_tasks_are_found_as_through_new_ones(nodes: list[Node], existing: int):
    kept = [restrict_dependencies(nodes[:existing], each) for each in nodes[:existing]]
    new = nodes[existing:]

    reported = find_cycles(to_outlines(new), [give_stored_list_ids(each) for each in kept])

    assert bool(reported) == (not nx.is_directed_acyclic_graph(build_oracle([*kept, *new])))
    assert reported == find_cycles(to_outlines([*kept, *new]))


def give_stored_list_ids(each: Node) -> Node:
    """Return the task with an id that differs from its name."""
    named = each.depends_on and frozenset(f"tk_{id}" for id in each.depends_on)
    return replace(each, id=f"tk_{each.id}", depends_on=named)
