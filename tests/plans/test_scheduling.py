"""What can be done now, and how far a plan is, on every database."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from application import Clock, size
from deepwork.database.transaction import Transaction
from deepwork.errors import Code, NotAllowed
from deepwork.server.application import Application
from plans.make import random_plan
from plans.world import World, refused

EVERY_STATUS = {"pending", "blocked", "planning", "in_progress", "paused", "completed", "failed", "skipped"}


def available(world: World, agent: str, **given: Any) -> list[str]:
    return [task["name"] for task in world.ask("task_get_available", agent_id=agent, **given)["tasks"]]


def wanting(tasks: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    """The same tasks, some of them with files and with capabilities that they ask for."""
    return [
        task
        | {"files_likely_affected": dice.sample(["a.py", "b.py"], dice.randint(0, 1))}
        | {"required_capabilities": dice.sample(["sql", "go"], dice.randint(0, 1))}
        for task in tasks
    ]


def by_id(task: dict[str, Any]) -> str:
    return str(task["id"])


# workflow_next_tasks


def test_what_comes_next_is_offered_with_all_it_takes_to_begin(world: World):
    plan = world.plan(
        "before",
        {"name": "one", "description": "Do one.", "sequence": 2, "parallel_group": "g", "depends_on": ["before"]},
        {"name": "two", "description": "Do two.", "sequence": 2, "parallel_group": "g"},
        {"name": "last", "sequence": 3},
        max_parallel_tasks=5,
    )  # fmt: skip
    plan.move("before", "completed")

    answer = plan.next()

    common = {
        "status": "pending", "sequence": 2, "can_parallelize": True, "parallel_group": "g",
        "dependencies_completed": ["before"],
    }  # fmt: skip
    assert answer == {
        "tasks": [
            {
                "id": plan["one"],
                "name": "one",
                "description": "Do one.",
                "parallel_with": [plan["two"]],
                **common,
            },
            {
                "id": plan["two"],
                "name": "two",
                "description": "Do two.",
                "parallel_with": [plan["one"]],
                **common,
            },
        ],
        "max_parallel": 5,
        "running": 0,
        "recommended_count": 2,
        "total_available": 2,
        "workflow_status": "in_progress",
        "all_complete": False,
    }


def test_a_task_without_a_group_is_not_said_to_run_beside_others(world: World):
    [task] = world.plan("a").next()["tasks"]

    assert task["can_parallelize"] is False
    assert "parallel_with" not in task


def test_only_tasks_offered_together_are_named_as_parallel(world: World):
    plan = world.plan(
        {"name": "done", "parallel_group": "g"},
        {"name": "free", "parallel_group": "g"},
        {"name": "waits", "parallel_group": "g", "sequence": 2},
    )
    plan.move("done", "completed")

    [task] = plan.next()["tasks"]

    assert (task["name"], "parallel_with" in task) == ("free", False)


def test_sequences_alone_run_in_order_and_shared_ones_together(world: World):
    plan = world.plan(
        {"name": "a", "sequence": 10}, {"name": "b", "sequence": 20}, {"name": "c", "sequence": 20}, {"name": "d", "sequence": 30},
    )  # fmt: skip

    assert plan.offered() == ["a"]
    plan.move("a", "completed")
    assert plan.offered() == ["b", "c"]
    plan.move("b", "completed")
    assert plan.offered() == ["c"]
    plan.move("c", "skipped")
    assert plan.offered() == ["d"]


def test_what_is_claimed_or_begun_is_not_offered(world: World):
    plan = world.plan("claimed", "begun", "free")
    plan.claim("claimed", world.agent())
    plan.move("begun", "in_progress")

    assert plan.offered() == ["free"]


def test_failed_tasks_are_offered_last_with_what_went_wrong(world: World):
    plan = world.plan("a", "b")
    plan.move("a", "failed", error="No\ndisk.")

    fresh, again = plan.next()["tasks"]

    assert fresh["name"] == "b"
    assert "attempts" not in fresh
    assert (again["name"], again["status"], again["attempts"], again["last_error"]) == (
        "a",
        "failed",
        1,
        "No disk.",
    )


def test_failed_tasks_can_be_left_out(world: World):
    plan = world.plan("a", "b")
    plan.move("a", "failed")

    answer = plan.next(include_failed=False)

    assert [task["name"] for task in answer["tasks"]] == ["b"]
    assert answer["total_available"] == answer["recommended_count"] == 1


def test_a_failed_task_never_counts_as_all_complete(world: World):
    plan = world.plan("a")
    plan.move("a", "failed")

    assert plan.next()["all_complete"] is False
    plan.move("a", "skipped")
    assert plan.next()["all_complete"] is True


def test_recommended_is_what_there_is_room_for_beside_what_runs(world: World):
    plan = world.plan(*"abcdef", max_parallel_tasks=3)

    assert plan.next()["recommended_count"] == 3
    plan.move("a", "in_progress")
    plan.claim("b", world.agent())
    assert (plan.next()["recommended_count"], plan.next()["running"]) == (1, 2)
    plan.move("c", "planning")
    plan.move("d", "planning")
    assert plan.next()["recommended_count"] == 0, "never below nothing"


def test_no_more_is_recommended_than_there_is(world: World):
    assert world.plan("a", max_parallel_tasks=9).next()["recommended_count"] == 1


@pytest.mark.parametrize("status", ["paused", "failed", "abandoned"])
def test_a_workflow_that_rests_offers_nothing_and_says_why(world: World, status: str):
    plan = world.plan("a")
    for step in ("in_progress", status):
        world.ask("workflow_update_status", id=plan.id, status=step)

    answer = plan.next()

    assert (answer["tasks"], answer["recommended_count"], answer["total_available"]) == ([], 0, 0)
    assert answer["workflow_status"] == status
    assert status in answer["reason"]


def test_a_workflow_without_a_plan_offers_nothing(world: World):
    answer = world.ask("workflow_next_tasks", workflow_id=world.create())

    assert (answer["tasks"], answer["workflow_status"], answer["all_complete"]) == ([], "planning", False)


def test_as_many_are_offered_as_may_run_but_at_least_a_page(world: World):
    names = [f"t{number:03}" for number in range(230)]
    plan = world.plan(*names, max_parallel_tasks=30)

    assert plan.offered() == names[:30]
    assert plan.next()["total_available"] == 230
    world.ask("workflow_set_parallelism", id=plan.id, max_parallel_tasks=1)
    assert len(plan.offered()) == 20
    world.ask("workflow_set_parallelism", id=plan.id, max_parallel_tasks=10_000)
    assert len(plan.offered()) == 200
    assert plan.offered(limit=2) == names[:2]


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_limit_out_of_range_is_an_input_error(world: World, limit: int):
    plan = world.plan("a")

    with refused(Code.INVALID_INPUT, "limit"):
        plan.next(limit=limit)
    with refused(Code.INVALID_INPUT, "limit"):
        available(world, world.agent(), limit=limit)


def test_an_answer_does_not_grow_with_the_square_of_a_group(world: World):
    plan = world.plan(*({"name": f"t{number}", "parallel_group": "g"} for number in range(200)))

    few, many = size(plan.next(limit=20)), size(plan.next(limit=200))

    assert many < 12 * few
    assert {len(task["parallel_with"]) for task in plan.next(limit=200)["tasks"]} == {10}


# Files


def test_tasks_whose_files_are_in_use_come_last_and_are_not_recommended(world: World):
    plan = world.plan(
        {"name": "running", "files_likely_affected": ["src/**/*.py"]},
        {"name": "clashes", "files_likely_affected": ["src/a.py"]},
        {"name": "free", "files_likely_affected": ["docs/**"]},
        {"name": "says nothing"},
    )
    plan.move("running", "in_progress")

    answer = plan.next()

    assert [task["name"] for task in answer["tasks"]] == ["free", "says nothing", "clashes"]
    assert answer["tasks"][2]["conflicts_with"] == [plan["running"]]
    assert "conflicts_with" not in answer["tasks"][0]
    assert (answer["recommended_count"], answer["total_available"]) == (2, 3)


def test_files_are_not_looked_at_where_nobody_wants_it(world: World):
    plan = world.plan(
        {"name": "a", "files_likely_affected": ["x"]}, {"name": "b", "files_likely_affected": ["x"]}, "c"
    )
    world.ask("workflow_set_parallelism", id=plan.id, max_parallel_tasks=9, file_conflicts="ignore")
    plan.move("a", "in_progress")

    assert plan.offered() == ["b", "c"]
    assert "conflicts_with" not in plan.next()["tasks"][0]


# task_get_available


def test_an_available_task_shows_what_an_agent_must_know_to_choose(world: World):
    plan = world.plan(
        {"name": "a", "description": "Do a.", "parallel_group": "g", "estimated_complexity": "low",
         "files_likely_affected": ["a.py"], "required_capabilities": ["sql"]},
    )  # fmt: skip
    agent = world.agent(capabilities=["sql", "python"])

    answer = world.ask("task_get_available", agent_id=agent, workflow_id=plan.id)

    assert answer == {
        "tasks": [
            {
                "id": plan["a"],
                "workflow_id": plan.id,
                "name": "a",
                "description": "Do a.",
                "status": "pending",
                "sequence": 1,
                "parallel_group": "g",
                "context": {
                    "estimated_complexity": "low",
                    "files_likely_affected": ["a.py"],
                    "required_capabilities": ["sql"],
                },
                "attempts": 0,
            }
        ],
        "total_available": 1,
    }


def test_tasks_of_every_open_workflow_are_available(world: World):
    agent = world.agent()
    before = world.ask("task_get_available", agent_id=agent)["total_available"]

    one, _, paused = world.plan("one"), world.plan("two"), world.plan("paused")
    world.ask("workflow_update_status", id=paused.id, status="paused")

    assert world.ask("task_get_available", agent_id=agent)["total_available"] == before + 2
    assert available(world, agent, workflow_id=one.id) == ["one"]
    assert available(world, agent, workflow_id=paused.id) == []


def test_the_oldest_workflow_comes_first(app: Application, clock: Clock):
    world = World(app, clock)
    world.plan("old")
    clock.advance(seconds=1)
    world.plan("young")

    assert available(world, world.agent()) == ["old", "young"]


@pytest.mark.parametrize("seed", range(6))
def test_all_workflows_together_offer_what_each_of_them_offers(app: Application, clock: Clock, seed: int):
    dice, world = random.Random(seed), World(app, clock)
    plans = [
        world.plan(*wanting(random_plan(dice), dice), max_parallel_tasks=dice.randint(1, 9)) for _ in range(4)
    ]
    lost, agent = world.agent(), world.agent(capabilities=["sql"])
    for silence in (0, 91):  # the second time, what was claimed before is free again
        for plan, _ in product(plans, range(4)):
            with suppress(NotAllowed):  # dice know no rules
                plan.move(
                    dice.choice(plan.tasks())["name"], dice.choice(["completed", "failed", "in_progress"])
                )
            for name in plan.offered()[:1]:
                plan.claim(name, lost)
        world.silence(silence)

        together = world.ask("task_get_available", agent_id=agent, limit=200)
        each = [world.ask("task_get_available", agent_id=agent, workflow_id=plan.id) for plan in plans]

        offers = [task for answer in each for task in answer["tasks"]]
        assert together["total_available"] == sum(answer["total_available"] for answer in each)
        assert sorted(together["tasks"], key=by_id) == sorted(offers, key=by_id)
        speaks_against = [
            (task.get("at_limit", False), "conflicts_with" in task) for task in together["tasks"]
        ]
        assert speaks_against == sorted(speaks_against)


def test_fifty_workflows_are_asked_by_no_more_statements_than_one(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    agent, statements, execute = world.agent(), [], Transaction._execute

    def noted(tx: Transaction, sql: str, values: Any) -> Any:
        statements.append(sql)
        return execute(tx, sql, values)

    monkeypatch.setattr(Transaction, "_execute", noted)
    asked = []
    for more in (1, 49):
        plans = [world.plan("taken", "free") for _ in range(more)]
        for plan in plans:
            plan.claim("taken", agent)
        statements.clear()
        world.ask("task_get_available", agent_id=agent)
        asked.append(len(statements))

    assert asked[1] == asked[0]


def test_a_task_is_available_to_whoever_can_do_it(world: World):
    plan = world.plan(
        {"name": "both", "required_capabilities": ["sql", "go"]},
        {"name": "sql", "required_capabilities": ["sql"]},
        "anybody",
    )

    assert available(world, world.agent(), workflow_id=plan.id) == ["anybody"]
    assert available(world, world.agent(capabilities=["sql"]), workflow_id=plan.id) == ["sql", "anybody"]
    assert len(available(world, world.agent(capabilities=["go", "sql", "c"]), workflow_id=plan.id)) == 3


def test_tasks_that_an_agent_cannot_do_hide_none_that_it_can(world: World):
    plan = world.plan(
        *({"name": f"t{number}", "required_capabilities": ["rust"]} for number in range(300)), "for anybody",
    )  # fmt: skip

    answer = world.ask("task_get_available", agent_id=world.agent(), workflow_id=plan.id)

    assert [task["name"] for task in answer["tasks"]] == ["for anybody"]
    assert answer["total_available"] == 1


def test_tasks_that_there_is_no_room_for_are_marked_and_come_last(world: World):
    full = world.plan("taken", "no room", max_parallel_tasks=1)
    full.claim("taken", world.agent())

    answer = world.ask("task_get_available", agent_id=world.agent(), workflow_id=full.id)

    assert [(task["name"], task["at_limit"]) for task in answer["tasks"]] == [("no room", True)]


def test_failed_tasks_are_available_for_another_try(world: World):
    plan = world.plan("a", "b")
    plan.move("a", "failed")

    assert available(world, world.agent(), workflow_id=plan.id) == ["b", "a"]


def test_available_tasks_come_by_the_page(world: World):
    names = [f"t{number:02}" for number in range(25)]
    plan = world.plan(*names, max_parallel_tasks=1)
    agent = world.agent()

    assert available(world, agent, workflow_id=plan.id) == names[:20]
    assert available(world, agent, workflow_id=plan.id, limit=3) == names[:3]
    assert world.ask("task_get_available", agent_id=agent, workflow_id=plan.id)["total_available"] == 25


def test_a_large_context_makes_no_large_list(world: World):
    plan = world.plan("a")
    world.ask("task_set_plan", id=plan["a"], plan={"steps": []}, context={"notes": "x" * 100_000})
    world.ask("task_update_status", id=plan["a"], status="pending")

    assert size(world.ask("task_get_available", agent_id=world.agent(), workflow_id=plan.id)) < 1000


def test_an_unknown_agent_or_workflow_has_nothing_available(world: World):
    with refused(Code.AGENT_NOT_FOUND, "ag_0"):
        available(world, "ag_0")
    with refused(Code.WORKFLOW_NOT_FOUND, "wf_0"):
        available(world, world.agent(), workflow_id="wf_0")


# workflow_progress


def test_progress_counts_every_status_and_names_what_waits(world: World):
    plan = world.plan(
        {"name": "a", "parallel_group": "g"},
        {"name": "b", "parallel_group": "g"},
        {"name": "c", "sequence": 2},
        {"name": "d", "sequence": 2, "depends_on": ["c", "b"], "parallel_group": "h"},
    )
    plan.move("a", "completed")

    answer = plan.progress()

    assert answer == {
        "total_tasks": 4,
        "by_status": dict.fromkeys(EVERY_STATUS, 0) | {"pending": 1, "blocked": 2, "completed": 1},
        "completed_sequence": 0,
        "current_sequence": 1,
        "blocked_tasks": [
            {"id": plan["c"], "name": "c", "blocked_by": ["b"]},
            {"id": plan["d"], "name": "d", "blocked_by": ["b", "c"]},
        ],
        "blocked_total": 2,
        "parallel_groups": [
            {"group_id": "g", "task_count": 2, "completed": 1},
            {"group_id": "h", "task_count": 1, "completed": 0},
        ],
        "estimated_remaining": 3,
        "estimated_remaining_ms": 0,
    }


def test_sequences_that_are_done_move_on(world: World):
    plan = world.plan({"name": "a"}, {"name": "b", "sequence": 4}, {"name": "c", "sequence": 9})

    def sequences() -> tuple[int, int]:
        answer = plan.progress()
        return answer["completed_sequence"], answer["current_sequence"]

    assert sequences() == (0, 1)
    plan.move("a", "completed")
    assert sequences() == (1, 4)
    plan.move("b", "skipped")
    assert sequences() == (4, 9)
    plan.move("c", "completed")
    assert sequences() == (9, 0)
    assert plan.progress()["estimated_remaining"] == 0


def test_skipped_tasks_count_as_completed_in_their_group(world: World):
    plan = world.plan({"name": "a", "parallel_group": "g"}, "b")
    plan.move("a", "skipped")

    assert plan.progress()["parallel_groups"] == [{"group_id": "g", "task_count": 1, "completed": 1}]


def test_the_time_that_remains_is_unknown_at_first_and_then_follows_the_pace(world: World):
    plan = world.plan(*"abcdef", max_parallel_tasks=2)
    assert "estimated_remaining_ms" not in plan.progress()

    for name, seconds in (("a", 10), ("b", 20)):
        plan.move(name, "in_progress")
        world.clock.advance(seconds=seconds)
        plan.move(name, "completed")

    assert plan.progress()["estimated_remaining"] == 4
    assert plan.progress()["estimated_remaining_ms"] == 4 * 15_000 // 2


def test_a_workflow_without_a_plan_has_made_no_progress(world: World):
    answer = world.ask("workflow_progress", workflow_id=world.create())

    assert (answer["total_tasks"], answer["estimated_remaining"]) == (0, 0)
    assert answer["by_status"] == dict.fromkeys(EVERY_STATUS, 0)
    assert (answer["completed_sequence"], answer["current_sequence"], answer["blocked_tasks"]) == (0, 0, [])


def test_what_waits_for_very_many_names_a_few_and_how_many(world: World):
    plan = world.plan(*({"name": f"t{number}"} for number in range(50)), {"name": "last", "sequence": 2})

    [blocked] = plan.progress()["blocked_tasks"]

    assert blocked["blocked_by"] == ["t0", "t1", "t2"]
    assert blocked["blocked_by_total"] == 50


def test_blocked_tasks_come_by_the_page(world: World):
    plan = world.plan("first", *({"name": f"t{number}", "depends_on": ["first"]} for number in range(120)))

    answer, few = plan.progress(), plan.progress(limit=2)

    assert (len(answer["blocked_tasks"]), answer["blocked_total"]) == (100, 120)
    assert [task["name"] for task in few["blocked_tasks"]] == ["t0", "t1"]
    assert few["blocked_total"] == answer["by_status"]["blocked"] == 120


def test_very_many_groups_are_counted(world: World):
    plan = world.plan(*({"name": f"t{number}", "parallel_group": f"g{number}"} for number in range(110)))

    answer = plan.progress()

    assert (len(answer["parallel_groups"]), answer["parallel_groups_total"]) == (100, 110)


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_page_out_of_range_is_an_input_error(world: World, limit: int):
    with refused(Code.INVALID_INPUT, "limit"):
        world.plan("a").progress(limit=limit)
