"""Checkpoints, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deepwork.kernel.errors import Code
from plans.world import World, expect_error


def add_checkpoint(world: World, id: str, **given: Any) -> Any:
    return world.call("checkpoint_add", task_id=id, **({"type": "progress", "summary": "Half."} | given))


def test_a_checkpoint_gets_an_id_and_the_next_number(world: World):
    plan = world.create_plan("a")

    first, second = add_checkpoint(world, plan["a"]), add_checkpoint(world, plan["a"])

    assert set(first) == {"id", "sequence"}
    assert first["id"].startswith("cp_")
    assert (first["sequence"], second["sequence"]) == (1, 2)


def test_a_checkpoint_is_stored_as_given(world: World):
    plan = world.create_plan("a")
    agent = world.register_agent()
    added = add_checkpoint(
        world, plan["a"], type="decision", summary="Use tabs.", detail={"why": ["short", None]},
        files_changed=["a.py", "b.py"], agent_id=agent,
    )  # fmt: skip

    assert plan.list_checkpoints("a") == [
        {
            "id": added["id"],
            "sequence": 1,
            "type": "decision",
            "summary": "Use tabs.",
            "detail": {"why": ["short", None]},
            "files_changed": ["a.py", "b.py"],
            "agent_id": agent,
            "created_at": world.clock.now,
        }
    ]


@pytest.mark.parametrize(
    "type", ["plan", "progress", "decision", "error", "recovery", "complete", "replan", "ERROR"]
)
def test_every_checkpoint_type_is_accepted(world: World, type: str):
    plan = world.create_plan("a")

    add_checkpoint(world, plan["a"], type=type)

    assert plan.list_checkpoints("a")[0]["type"] == type.lower()


@pytest.mark.parametrize("bad", [{"type": "wish"}, {"summary": ""}, {"files_changed": [1]}, {"detail": [1]}])
def test_an_invalid_checkpoint_is_an_input_error(world: World, bad: dict[str, Any]):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        add_checkpoint(world, plan["a"], **bad)


def test_a_checkpoint_can_be_added_to_a_finished_task(world: World):
    plan = world.create_plan("a")
    plan.set_status("a", "completed")

    assert add_checkpoint(world, plan["a"], type="complete")["sequence"] == 1


def test_checkpoints_can_be_filtered_and_paged(world: World):
    plan = world.create_plan("a")
    for type in ("progress", "error", "progress", "decision", "progress"):
        add_checkpoint(world, plan["a"], type=type)

    def listed(**given: Any) -> tuple[list[int], int]:
        answer = world.call("checkpoint_list", task_id=plan["a"], **given)
        return [each["sequence"] for each in answer["checkpoints"]], answer["total"]

    assert listed() == ([1, 2, 3, 4, 5], 5)
    assert listed(type=["progress"]) == ([1, 3, 5], 3)
    assert listed(type=["error", "decision"]) == ([2, 4], 2)
    assert listed(type=[]) == ([1, 2, 3, 4, 5], 5)
    assert listed(since_sequence=3) == ([4, 5], 2)
    assert listed(limit=2) == ([1, 2], 5)
    assert listed(since_sequence=2, limit=2) == ([3, 4], 3)
    assert listed(since_sequence=99) == ([], 0)


@pytest.mark.parametrize("bad", [{"limit": 0}, {"limit": 1001}, {"since_sequence": -1}, {"type": ["wish"]}])
def test_invalid_list_parameters_are_input_errors(world: World, bad: dict[str, Any]):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, next(iter(bad))):
        plan.list_checkpoints("a", **bad)


def test_a_list_without_a_limit_returns_at_most_a_hundred(world: World):
    plan = world.create_plan("a")
    for _ in range(101):
        add_checkpoint(world, plan["a"])

    answer = world.call("checkpoint_list", task_id=plan["a"])

    assert (len(answer["checkpoints"]), answer["total"]) == (100, 101)


@pytest.mark.differs
def test_concurrent_checkpoints_are_numbered_without_gaps_or_duplicates(world: World):
    plan = world.create_plan("a", "b")
    ids = [plan["a"], plan["b"]]

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda number: add_checkpoint(world, ids[number % 2]), range(40)))

    for name in "ab":
        assert [each["sequence"] for each in plan.list_checkpoints(name)] == list(range(1, 21))


def test_a_checkpoint_repeated_under_one_key_is_stored_once(world: World):
    plan = world.create_plan("a")
    key = world.new_caller()

    assert add_checkpoint(world, plan["a"], key=key) == add_checkpoint(world, plan["a"], key=key)
    assert len(plan.list_checkpoints("a")) == 1


def test_a_failed_call_uses_no_sequence_number(world: World):
    plan = world.create_plan("a", {"name": "b", "depends_on": ["a"]})
    with expect_error(Code.TASK_BLOCKED):
        world.call("task_set_plan", id=plan["b"], plan={"steps": ["x"]})

    assert add_checkpoint(world, plan["b"])["sequence"] == 1


def test_each_checkpoint_emits_an_event(world: World):
    plan = world.create_plan("a")
    added = add_checkpoint(world, plan["a"], summary="x" * 5000)

    [event] = [event for event in plan.list_events() if event.type == "checkpoint:created"]
    assert (event.data["id"], event.data["task_id"], event.data["sequence"]) == (added["id"], plan["a"], 1)
    assert len(event.data["summary"]) < 2100
