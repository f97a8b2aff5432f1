"""`Levels`, computed from counts, agrees with `graph`, computed from tasks."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from deepwork.kernel.errors import NotAllowed
from deepwork.work.plans.models import StatusCount, TaskStatus
from deepwork.work.plans.rules.levels import Levels
from deepwork.work.plans.stores.queue_store import QueueStore
from deepwork.work.plans.stores.task_store import TaskStore
from plans.graph_oracle import OracleGraph
from plans.make import make_random_plan, make_task
from plans.world import World

MOVES = ["in_progress", "completed", "failed", "skipped", "pending", "planning", "paused"]


@pytest.mark.parametrize("seed", range(15))
def test_level_counts_match_the_graph_in_every_state_of_a_plan(world: World, seed: int):
    dice = random.Random(seed)
    plan = world.create_plan(*make_random_plan(dice))
    names = [each["name"] for each in plan.list_tasks()]

    for _ in range(12):
        with suppress(NotAllowed):  # random statuses ignore the transition rules
            plan.set_status(dice.choice(names), dice.choice(MOVES))
        compare_levels_with_graph(world, plan.id)


def compare_levels_with_graph(world: World, id: str) -> None:
    with world.app.database.reading() as tx:
        store, queue = TaskStore(tx), QueueStore(tx)
        graph, levels = OracleGraph(store.list_nodes(id)), Levels(store.count_by_status(id))
        tasks = store.list_by_workflow(id, 1000)[0]
        fresh, failed = (
            queue.list_ready(id, status, levels.free, 100, places=levels.find_places(status))[0]
            for status in (TaskStatus.PENDING, TaskStatus.FAILED)
        )
        blocked = store.list_blocked(id, levels.free, 100)
        waiting = store.list_waiting(id, levels.free, 100)
        groups = {
            (row["group_id"], row["task_count"], row["completed"]) for row in queue.list_groups(id, 10)[0]
        }
    progress = graph.compute_progress()

    assert [each.id for each in fresh + failed] == [node.id for node in graph.list_ready()]
    assert [each.id for each in blocked] == [
        node.id for node in graph.list_blocked() if node.status is TaskStatus.PENDING
    ]
    assert [each.id for each in waiting] == [each.id for each in blocked]
    assert levels.by_status == progress.by_status
    assert (levels.total, levels.remaining, levels.all_complete) == (
        progress.total,
        progress.remaining,
        progress.all_complete,
    )
    assert levels.completed_sequence == progress.completed_sequence
    assert levels.current_sequence == progress.current_sequence
    assert groups == {tuple(group) for group in progress.groups}
    for each in tasks:
        node = graph[each.id]
        assert levels.is_blocked(each) == graph.is_blocked(node)
        assert levels.count_open_dependencies(each) == graph.count_open_dependencies(node)


def test_the_store_and_the_graph_agree_on_each_task(world: World):
    plan = world.create_plan(
        {"name": "a"}, {"name": "b", "depends_on": []}, {"name": "c", "sequence": 2},
        {"name": "d", "sequence": 3, "depends_on": ["a", "b"]},
    )  # fmt: skip
    plan.set_status("b", "completed")

    with world.app.database.reading() as tx:
        store = TaskStore(tx)
        graph = OracleGraph(store.list_nodes(plan.id))
        for each in store.list_by_workflow(plan.id, 10)[0]:
            node = graph[each.id]
            assert store.is_blocked(each) == graph.is_blocked(node)
            found, total = store.list_open_dependencies(each, 10)
            assert [other.id for other in found] == [other.id for other in graph.list_open_dependencies(node)]
            assert total == graph.count_open_dependencies(node)
            done, count = store.list_done_dependencies(each, 10)
            assert len(done) == count == len(graph.list_dependencies(node)) - total


def make_count(sequence: int, status: str, count: int = 1, **given: int) -> StatusCount:
    return StatusCount(sequence, TaskStatus(status), count, **({"waiting": 0, "implied": 0} | given))


def test_levels_without_tasks_are_not_complete():
    levels = Levels([])

    assert (levels.total, levels.remaining, levels.all_complete) == (0, 0, False)
    assert (levels.current_sequence, levels.completed_sequence) == (0, 0)


def test_a_level_is_unblocked_when_the_lower_level_is_done():
    levels = Levels(
        [
            make_count(1, "completed", 2),
            make_count(3, "pending", 4, implied=4),
            make_count(7, "pending", 1, implied=1),
        ]
    )

    assert levels.free == [3]
    assert levels.by_status[TaskStatus.BLOCKED] == 1
    assert levels.is_blocked(make_task("late", sequence=7))
    assert not levels.is_blocked(make_task("now", sequence=3))
    assert levels.count_open_dependencies(make_task("late", sequence=7)) == 4
