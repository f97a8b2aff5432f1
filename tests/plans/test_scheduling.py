"""Which tasks can start, and the progress of a plan, on every database."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from application import Clock, measure_bytes
from deepwork.edge.server.application import Application
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, NotAllowed
from plans.make import make_random_plan
from plans.world import World, expect_error

EVERY_STATUS = {"pending", "blocked", "planning", "in_progress", "paused", "completed", "failed", "skipped"}


def list_available(world: World, agent: str, **given: Any) -> list[str]:
    return [task["name"] for task in world.call("task_get_available", agent_id=agent, **given)["tasks"]]


def add_random_demands(tasks: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    """Return the tasks, some of them with files and required capabilities."""
    return [
        task
        | {"files_likely_affected": dice.sample(["a.py", "b.py"], dice.randint(0, 1))}
        | {"required_capabilities": dice.sample(["sql", "go"], dice.randint(0, 1))}
        for task in tasks
    ]


def get_id(task: dict[str, Any]) -> str:
    return str(task["id"])


# workflow_next_tasks


def test_next_tasks_contain_everything_needed_to_start(world: World):
    plan = world.create_plan(
        "before",
        {"name": "one", "description": "Do one.", "sequence": 2, "parallel_group": "g", "depends_on": ["before"]},
        {"name": "two", "description": "Do two.", "sequence": 2, "parallel_group": "g"},
        {"name": "last", "sequence": 3},
        max_parallel_tasks=5,
    )  # fmt: skip
    plan.set_status("before", "completed")

    answer = plan.get_next_tasks()

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


def test_a_task_without_a_group_is_not_marked_as_parallel(world: World):
    [task] = world.create_plan("a").get_next_tasks()["tasks"]

    assert task["can_parallelize"] is False
    assert "parallel_with" not in task


def test_only_a_group_marks_tasks_as_parallel_however_many_may_run(world: World):
    alone = {"name": "c", "parallel_group": "g"}

    answer = world.create_plan("a", "b", alone, max_parallel_tasks=3).get_next_tasks()

    assert answer["recommended_count"] == 3
    assert [task["can_parallelize"] for task in answer["tasks"]] == [False, False, True]


def test_a_group_marks_tasks_as_parallel_also_while_the_plan_runs_one_by_one(world: World):
    tasks = [{"name": name, "parallel_group": "g"} for name in "ab"]

    answer = world.create_plan(*tasks, max_parallel_tasks=1).get_next_tasks()

    assert [task["can_parallelize"] for task in answer["tasks"]] == [True, True]


def test_only_tasks_offered_together_are_named_as_parallel(world: World):
    plan = world.create_plan(
        {"name": "done", "parallel_group": "g"},
        {"name": "free", "parallel_group": "g"},
        {"name": "waits", "parallel_group": "g", "sequence": 2},
    )
    plan.set_status("done", "completed")

    [task] = plan.get_next_tasks()["tasks"]

    assert (task["name"], "parallel_with" in task) == ("free", False)


def test_sequences_run_in_order_and_tasks_of_one_sequence_in_parallel(world: World):
    plan = world.create_plan(
        {"name": "a", "sequence": 10}, {"name": "b", "sequence": 20}, {"name": "c", "sequence": 20}, {"name": "d", "sequence": 30},
    )  # fmt: skip

    assert plan.list_offered() == ["a"]
    plan.set_status("a", "completed")
    assert plan.list_offered() == ["b", "c"]
    plan.set_status("b", "completed")
    assert plan.list_offered() == ["c"]
    plan.set_status("c", "skipped")
    assert plan.list_offered() == ["d"]


def test_claimed_and_started_tasks_are_not_offered(world: World):
    plan = world.create_plan("claimed", "begun", "free")
    plan.claim("claimed", world.register_agent())
    plan.set_status("begun", "in_progress")

    assert plan.list_offered() == ["free"]


def test_failed_tasks_are_offered_last_with_their_error(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "failed", error="No\ndisk.")

    fresh, again = plan.get_next_tasks()["tasks"]

    assert fresh["name"] == "b"
    assert "attempts" not in fresh
    assert (again["name"], again["status"], again["attempts"], again["last_error"]) == (
        "a",
        "failed",
        1,
        "No disk.",
    )


def test_failed_tasks_can_be_excluded(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "failed")

    answer = plan.get_next_tasks(include_failed=False)

    assert [task["name"] for task in answer["tasks"]] == ["b"]
    assert answer["total_available"] == answer["recommended_count"] == 1


def test_a_plan_with_a_failed_task_is_not_complete(world: World):
    plan = world.create_plan("a")
    plan.set_status("a", "failed")

    assert plan.get_next_tasks()["all_complete"] is False
    plan.set_status("a", "skipped")
    assert plan.get_next_tasks()["all_complete"] is True


def test_the_recommended_count_is_the_parallel_limit_minus_active_tasks(world: World):
    plan = world.create_plan(*"abcdef", max_parallel_tasks=3)

    assert plan.get_next_tasks()["recommended_count"] == 3
    plan.set_status("a", "in_progress")
    plan.claim("b", world.register_agent())
    assert (plan.get_next_tasks()["recommended_count"], plan.get_next_tasks()["running"]) == (1, 2)
    plan.set_status("c", "planning")
    plan.set_status("d", "planning")
    assert plan.get_next_tasks()["recommended_count"] == 0, "never negative"


def test_tasks_that_wait_for_the_default_limit_are_counted_in_a_warning(world: World):
    plan = world.create_plan("a", "b", "c", {"name": "last", "sequence": 2}, max_parallel_tasks=1)

    assert "2 tasks wait only for it" in plan.get_next_tasks()["warning"]
    plan.set_status("a", "completed")
    agent = world.register_agent()
    plan.claim("b", agent)
    assert "1 task waits only for it" in plan.get_next_tasks()["warning"]
    plan.set_status("c", "skipped")
    assert "warning" not in plan.get_next_tasks()
    plan.set_status("b", "completed", agent_id=agent)
    assert "warning" not in plan.get_next_tasks()


def test_no_more_tasks_are_recommended_than_available(world: World):
    assert world.create_plan("a", max_parallel_tasks=9).get_next_tasks()["recommended_count"] == 1


@pytest.mark.parametrize("status", ["paused", "failed", "abandoned"])
def test_an_inactive_workflow_offers_nothing_and_returns_the_reason(world: World, status: str):
    plan = world.create_plan("a")
    for step in ("in_progress", status):
        world.call("workflow_update_status", id=plan.id, status=step)

    answer = plan.get_next_tasks()

    assert (answer["tasks"], answer["recommended_count"], answer["total_available"]) == ([], 0, 0)
    assert answer["workflow_status"] == status
    assert status in answer["reason"]


def test_a_workflow_without_a_plan_offers_nothing(world: World):
    answer = world.call("workflow_next_tasks", workflow_id=world.create_workflow())

    assert (answer["tasks"], answer["workflow_status"], answer["all_complete"]) == ([], "planning", False)


def test_the_default_limit_is_the_parallelism_between_20_and_200(world: World):
    names = [f"t{number:03}" for number in range(230)]
    plan = world.create_plan(*names, max_parallel_tasks=30)

    assert plan.list_offered() == names[:30]
    assert plan.get_next_tasks()["total_available"] == 230
    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=1)
    assert len(plan.list_offered()) == 20
    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=10_000)
    assert len(plan.list_offered()) == 200
    assert plan.list_offered(limit=2) == names[:2]


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_limit_out_of_range_is_an_input_error(world: World, limit: int):
    plan = world.create_plan("a")

    with expect_error(Code.INVALID_INPUT, "limit"):
        plan.get_next_tasks(limit=limit)
    with expect_error(Code.INVALID_INPUT, "limit"):
        list_available(world, world.register_agent(), limit=limit)


def test_an_answer_does_not_grow_quadratically_with_a_group(world: World):
    plan = world.create_plan(*({"name": f"t{number}", "parallel_group": "g"} for number in range(200)))

    few, many = measure_bytes(plan.get_next_tasks(limit=20)), measure_bytes(plan.get_next_tasks(limit=200))

    assert many < 12 * few
    assert {len(task["parallel_with"]) for task in plan.get_next_tasks(limit=200)["tasks"]} == {3}


# Files


def test_tasks_with_conflicting_files_come_last_and_are_not_recommended(world: World):
    plan = world.create_plan(
        {"name": "running", "files_likely_affected": ["src/**/*.py"]},
        {"name": "clashes", "files_likely_affected": ["src/a.py"]},
        {"name": "free", "files_likely_affected": ["docs/**"]},
        {"name": "says nothing"},
    )
    plan.set_status("running", "in_progress")

    answer = plan.get_next_tasks()

    assert [task["name"] for task in answer["tasks"]] == ["free", "says nothing", "clashes"]
    assert answer["tasks"][2]["conflicts_with"] == [plan["running"]]
    assert "conflicts_with" not in answer["tasks"][0]
    assert (answer["recommended_count"], answer["total_available"]) == (2, 3)


def test_file_conflicts_can_be_ignored(world: World):
    plan = world.create_plan(
        {"name": "a", "files_likely_affected": ["x"]}, {"name": "b", "files_likely_affected": ["x"]}, "c"
    )
    world.call("workflow_set_parallelism", id=plan.id, max_parallel_tasks=9, file_conflicts="ignore")
    plan.set_status("a", "in_progress")

    assert plan.list_offered() == ["b", "c"]
    assert "conflicts_with" not in plan.get_next_tasks()["tasks"][0]


# task_get_available


def test_an_available_task_has_every_field_needed_to_choose_it(world: World):
    plan = world.create_plan(
        {"name": "a", "description": "Do a.", "parallel_group": "g", "estimated_complexity": "low",
         "files_likely_affected": ["a.py"], "required_capabilities": ["sql"]},
    )  # fmt: skip
    agent = world.register_agent(capabilities=["sql", "python"])

    answer = world.call("task_get_available", agent_id=agent, workflow_id=plan.id)

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
    agent = world.register_agent()
    before = world.call("task_get_available", agent_id=agent)["total_available"]

    one, _, paused = world.create_plan("one"), world.create_plan("two"), world.create_plan("paused")
    world.call("workflow_update_status", id=paused.id, status="paused")

    assert world.call("task_get_available", agent_id=agent)["total_available"] == before + 2
    assert list_available(world, agent, workflow_id=one.id) == ["one"]
    assert list_available(world, agent, workflow_id=paused.id) == []


def test_the_oldest_workflow_comes_first(app: Application, clock: Clock):
    world = World(app, clock)
    world.create_plan("old")
    clock.advance(seconds=1)
    world.create_plan("young")

    assert list_available(world, world.register_agent()) == ["old", "young"]


@pytest.mark.parametrize("seed", range(6))
def test_the_combined_offer_matches_the_offers_of_each_workflow(app: Application, clock: Clock, seed: int):
    dice, world = random.Random(seed), World(app, clock)
    plans = [
        world.create_plan(
            *add_random_demands(make_random_plan(dice), dice), max_parallel_tasks=dice.randint(1, 9)
        )
        for _ in range(4)
    ]
    lost, agent = world.register_agent(), world.register_agent(capabilities=["sql"])
    for silence in (0, 91):  # the second time, earlier claims have expired
        for plan, _ in product(plans, range(4)):
            with suppress(NotAllowed):  # random statuses ignore the transition rules
                plan.set_status(
                    dice.choice(plan.list_tasks())["name"],
                    dice.choice(["completed", "failed", "in_progress"]),
                )
            for name in plan.list_offered()[:1]:
                plan.claim(name, lost)
        world.let_leases_expire(silence)

        together = world.call("task_get_available", agent_id=agent, limit=200)
        each = [world.call("task_get_available", agent_id=agent, workflow_id=plan.id) for plan in plans]

        offers = [task for answer in each for task in answer["tasks"]]
        assert together["total_available"] == sum(answer["total_available"] for answer in each)
        assert sorted(together["tasks"], key=get_id) == sorted(offers, key=get_id)
        speaks_against = [
            (task.get("at_limit", False), "conflicts_with" in task) for task in together["tasks"]
        ]
        assert speaks_against == sorted(speaks_against)


def test_fifty_workflows_need_no_more_statements_than_one(world: World, monkeypatch: pytest.MonkeyPatch):
    agent, statements, execute = world.register_agent(), [], Transaction._execute

    def noted(tx: Transaction, sql: str, values: Any) -> Any:
        statements.append(sql)
        return execute(tx, sql, values)

    monkeypatch.setattr(Transaction, "_execute", noted)
    asked = []
    for more in (1, 49):
        plans = [world.create_plan("taken", "free") for _ in range(more)]
        for plan in plans:
            plan.claim("taken", agent)
        statements.clear()
        world.call("task_get_available", agent_id=agent)
        asked.append(len(statements))

    assert asked[1] == asked[0]


def test_a_task_is_available_to_agents_with_its_capabilities(world: World):
    plan = world.create_plan(
        {"name": "both", "required_capabilities": ["sql", "go"]},
        {"name": "sql", "required_capabilities": ["sql"]},
        "anybody",
    )

    assert list_available(world, world.register_agent(), workflow_id=plan.id) == ["anybody"]
    assert list_available(world, world.register_agent(capabilities=["sql"]), workflow_id=plan.id) == [
        "sql",
        "anybody",
    ]
    assert (
        len(list_available(world, world.register_agent(capabilities=["go", "sql", "c"]), workflow_id=plan.id))
        == 3
    )


def test_tasks_without_matching_capabilities_do_not_hide_others(world: World):
    plan = world.create_plan(
        *({"name": f"t{number}", "required_capabilities": ["rust"]} for number in range(300)), "for anybody",
    )  # fmt: skip

    answer = world.call("task_get_available", agent_id=world.register_agent(), workflow_id=plan.id)

    assert [task["name"] for task in answer["tasks"]] == ["for anybody"]
    assert answer["total_available"] == 1


def test_only_tasks_that_an_agent_can_do_are_counted(world: World):
    easy = [f"t{number}" for number in range(210)]
    plan = world.create_plan(*easy, {"name": "hard", "depends_on": [], "required_capabilities": ["rust"]})

    answer = world.call("task_get_available", agent_id=world.register_agent(), workflow_id=plan.id)

    assert answer["total_available"] == len(easy)


def test_required_capabilities_change_with_the_context_of_a_task(world: World):
    plan = world.create_plan({"name": "a", "required_capabilities": ["sql"]})
    long = "x" * 100_000
    agents = {name: world.register_agent(capabilities=name.split()) for name in ("sql", "go", "")}

    def list_able(required: object) -> list[str]:
        context = {"required_capabilities": required}
        world.call("task_set_plan", id=plan["a"], plan={"steps": ["Do it."]}, context=context)
        plan.set_status("a", "pending")
        return [name for name, agent in agents.items() if list_available(world, agent, workflow_id=plan.id)]

    assert list_able(["go", "go"]) == ["go"]
    assert list_able(["go", "sql"]) == list_able([long]) == []
    assert list_able("sql") == ["sql"]
    assert list_able([]) == ["sql", "go", ""]


def test_tasks_over_the_parallel_limit_are_marked(world: World):
    full = world.create_plan("taken", "no room", max_parallel_tasks=1)
    full.claim("taken", world.register_agent())

    answer = world.call("task_get_available", agent_id=world.register_agent(), workflow_id=full.id)

    assert [(task["name"], task["at_limit"]) for task in answer["tasks"]] == [("no room", True)]


def test_failed_tasks_are_available_for_a_retry(world: World):
    plan = world.create_plan("a", "b")
    plan.set_status("a", "failed")

    assert list_available(world, world.register_agent(), workflow_id=plan.id) == ["b", "a"]


def test_available_tasks_are_limited_and_counted(world: World):
    names = [f"t{number:02}" for number in range(25)]
    plan = world.create_plan(*names, max_parallel_tasks=1)
    agent = world.register_agent()

    assert list_available(world, agent, workflow_id=plan.id) == names[:20]
    assert list_available(world, agent, workflow_id=plan.id, limit=3) == names[:3]
    assert world.call("task_get_available", agent_id=agent, workflow_id=plan.id)["total_available"] == 25


def test_a_large_context_does_not_enlarge_the_list(world: World):
    plan = world.create_plan("a")
    world.call("task_set_plan", id=plan["a"], plan={"steps": []}, context={"notes": "x" * 100_000})
    world.call("task_update_status", id=plan["a"], status="pending")

    assert (
        measure_bytes(world.call("task_get_available", agent_id=world.register_agent(), workflow_id=plan.id))
        < 1000
    )


def test_an_unknown_agent_or_workflow_is_an_error(world: World):
    with expect_error(Code.AGENT_NOT_FOUND, "ag_0"):
        list_available(world, "ag_0")
    with expect_error(Code.WORKFLOW_NOT_FOUND, "wf_0"):
        list_available(world, world.register_agent(), workflow_id="wf_0")


# workflow_progress


def test_progress_counts_every_status_and_names_blocked_tasks(world: World):
    plan = world.create_plan(
        {"name": "a", "parallel_group": "g"},
        {"name": "b", "parallel_group": "g"},
        {"name": "c", "sequence": 2},
        {"name": "d", "sequence": 2, "depends_on": ["c", "b"], "parallel_group": "h"},
    )
    plan.set_status("a", "completed")

    answer = plan.get_progress()

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
    }


def test_the_current_sequence_advances_as_tasks_are_done(world: World):
    plan = world.create_plan({"name": "a"}, {"name": "b", "sequence": 4}, {"name": "c", "sequence": 9})

    def sequences() -> tuple[int, int]:
        answer = plan.get_progress()
        return answer["completed_sequence"], answer["current_sequence"]

    assert sequences() == (0, 1)
    plan.set_status("a", "completed")
    assert sequences() == (1, 4)
    plan.set_status("b", "skipped")
    assert sequences() == (4, 9)
    plan.set_status("c", "completed")
    assert sequences() == (9, 0)
    assert plan.get_progress()["estimated_remaining"] == 0


def test_skipped_tasks_count_as_completed_in_their_group(world: World):
    plan = world.create_plan({"name": "a", "parallel_group": "g"}, "b")
    plan.set_status("a", "skipped")

    assert plan.get_progress()["parallel_groups"] == [{"group_id": "g", "task_count": 1, "completed": 1}]


def test_the_remaining_time_is_estimated_from_completed_tasks(world: World):
    plan = world.create_plan(*"abcdef", max_parallel_tasks=2)
    assert "estimated_remaining_ms" not in plan.get_progress()

    for name, seconds in (("a", 10), ("b", 20)):
        plan.set_status(name, "in_progress")
        world.clock.advance(seconds=seconds)
        plan.set_status(name, "completed")

    assert plan.get_progress()["estimated_remaining"] == 4
    assert plan.get_progress()["estimated_remaining_ms"] == 4 * 15_000 // 2


def test_the_remaining_time_is_not_estimated_from_tasks_that_were_only_reported(world: World):
    plan = world.create_plan(*"abcdef", max_parallel_tasks=3)
    plan.set_status("a", "in_progress")
    world.clock.advance(seconds=0.444)
    plan.set_status("a", "completed")

    assert "estimated_remaining_ms" not in plan.get_progress()


def test_the_remaining_time_assumes_no_more_parallel_tasks_than_are_left(world: World):
    plan = world.create_plan("a", "b", max_parallel_tasks=10)
    plan.set_status("a", "in_progress")
    world.clock.advance(seconds=60)
    plan.set_status("a", "completed")

    assert plan.get_progress()["estimated_remaining_ms"] == 60_000


def test_a_workflow_without_a_plan_has_no_progress(world: World):
    answer = world.call("workflow_progress", workflow_id=world.create_workflow())

    assert (answer["total_tasks"], answer["estimated_remaining"]) == (0, 0)
    assert answer["by_status"] == dict.fromkeys(EVERY_STATUS, 0)
    assert (answer["completed_sequence"], answer["current_sequence"], answer["blocked_tasks"]) == (0, 0, [])


def test_many_blocking_tasks_are_truncated_and_counted(world: World):
    plan = world.create_plan(
        *({"name": f"t{number}"} for number in range(50)), {"name": "last", "sequence": 2}
    )

    [blocked] = plan.get_progress()["blocked_tasks"]

    assert blocked["blocked_by"] == ["t0", "t1", "t2"]
    assert blocked["blocked_by_total"] == 50


def test_blocked_tasks_are_limited_and_counted(world: World):
    plan = world.create_plan(
        "first", *({"name": f"t{number}", "depends_on": ["first"]} for number in range(120))
    )

    answer, few = plan.get_progress(), plan.get_progress(limit=2)

    assert (len(answer["blocked_tasks"]), answer["blocked_total"]) == (100, 120)
    assert [task["name"] for task in few["blocked_tasks"]] == ["t0", "t1"]
    assert few["blocked_total"] == answer["by_status"]["blocked"] == 120


def test_many_groups_are_truncated_and_counted(world: World):
    plan = world.create_plan(
        *({"name": f"t{number}", "parallel_group": f"g{number}"} for number in range(110))
    )

    answer = plan.get_progress()

    assert (len(answer["parallel_groups"]), answer["parallel_groups_total"]) == (100, 110)


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_progress_limit_out_of_range_is_an_input_error(world: World, limit: int):
    with expect_error(Code.INVALID_INPUT, "limit"):
        world.create_plan("a").get_progress(limit=limit)
