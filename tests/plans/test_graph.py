"""What can start, what waits, how far a plan is, and what cannot be one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import pytest

from deepwork.errors import Code, InvalidInput
from deepwork.plans import graph
from deepwork.plans.graph import Graph, problems
from deepwork.plans.models import Node, Outline, TaskStatus
from plans.make import node, outline


def names(nodes: Iterable[Node]) -> list[str]:
    return [each.name for each in nodes]


def codes(*outlines: Outline, existing: Sequence[Node] = ()) -> list[Code]:
    return [problem.code for problem in problems(outlines, existing=existing)]


def message(*outlines: Outline, existing: Sequence[Node] = ()) -> str:
    [problem] = problems(outlines, existing=existing)
    return problem.message


def two_levels(width: int, status: str = "pending") -> list[Node]:
    return [
        *(node(f"a{number}", status, sequence=1) for number in range(width)),
        *(node(f"b{number}", sequence=2) for number in range(width)),
    ]


# Who waits for whom


def test_a_task_that_names_its_dependencies_waits_for_exactly_these():
    plan = Graph([node("a"), node("b"), node("c", sequence=2, depends_on=["b"])])

    assert names(plan.dependencies(plan["c"])) == ["b"]


def test_a_task_that_names_none_follows_the_next_lower_sequence_there_is():
    plan = Graph([node("a", sequence=1), node("b", sequence=4), node("c", sequence=9), node("d", sequence=4)])

    assert names(plan.dependencies(plan["c"])) == ["b", "d"]
    assert names(plan.dependencies(plan["b"])) == ["a"]
    assert names(plan.dependencies(plan["a"])) == []
    assert plan.previous_level == {1: None, 4: 1, 9: 4}


def test_a_task_that_names_an_empty_list_waits_for_nothing():
    plan = Graph([node("a"), node("b", sequence=2, depends_on=[])])

    assert not plan.is_blocked(plan["b"])
    assert plan.dependencies(plan["b"]) == []


def test_an_explicit_task_still_belongs_to_its_level():
    plan = Graph([node("a", depends_on=[]), node("b", sequence=2)])

    assert names(plan.open_dependencies(plan["b"])) == ["a"]


@pytest.mark.parametrize("done", ["completed", "skipped"])
def test_what_is_done_or_skipped_blocks_nobody(done: str):
    plan = Graph([node("a", done), node("b", sequence=2), node("c", sequence=2, depends_on=["a"])])

    assert not plan.is_blocked(plan["b"])
    assert not plan.is_blocked(plan["c"])


@pytest.mark.parametrize("status", ["pending", "planning", "in_progress", "paused", "failed"])
def test_whatever_is_not_done_blocks_those_after_it(status: str):
    plan = Graph([node("a", status), node("b", sequence=2), node("c", sequence=2, depends_on=["a"])])

    assert plan.is_blocked(plan["b"])
    assert plan.is_blocked(plan["c"])


@pytest.mark.parametrize("waits_for", [None, ["z", "y", "x", "w"]])
def test_open_dependencies_come_in_plan_order_up_to_a_limit_and_are_all_counted(waits_for: list[str] | None):
    before = [node("z"), node("y", "completed"), node("x", "in_progress"), node("w")]
    plan = Graph([*before, node("last", sequence=2, depends_on=waits_for)])
    last = plan["last"]

    assert names(plan.open_dependencies(last)) == ["z", "x", "w"]
    assert names(plan.open_dependencies(last, 2)) == ["z", "x"]
    assert plan.open_count(last) == 3
    assert names(plan.dependencies(last)) == ["z", "y", "x", "w"]
    assert names(plan.dependencies(last, 2)) == ["z", "y"]


def test_dependents_are_those_that_name_a_task():
    plan = Graph([node("a"), node("b", depends_on=["a"]), node("c", sequence=2), node("d", depends_on=["b"])])

    assert names(plan.dependents(["a"])) == ["b"]
    assert names(plan.dependents(["a", "b"])) == ["b", "d"]
    assert plan.dependents(["d"]) == []


def test_a_task_is_found_by_its_id():
    plan = Graph([node("build", id="tk_1")])

    assert plan["tk_1"].name == "build"
    assert "tk_1" in plan
    assert "build" not in plan


# What can start


def test_a_task_waits_for_every_task_before_it():
    plan = Graph([node("design", "completed"), node("build"), node("ship", depends_on=["design", "build"])])

    assert names(plan.ready()) == ["build"]
    assert names(plan.blocked()) == ["ship"]


def test_ready_tasks_come_by_sequence_then_as_written_and_failed_ones_last():
    plan = Graph(
        [
            node("broken", "failed", depends_on=[]),
            node("late", sequence=3, depends_on=[]),
            node("second", sequence=2, depends_on=[]),
            node("first", sequence=2, depends_on=[]),
            node("early", sequence=1, depends_on=[]),
        ]
    )

    assert names(plan.ready()) == ["early", "second", "first", "late", "broken"]
    assert names(plan.ready(retry_failed=False)) == ["early", "second", "first", "late"]


@pytest.mark.parametrize("status", ["planning", "in_progress", "paused", "completed", "skipped"])
def test_what_runs_or_ended_is_neither_ready_nor_blocked(status: str):
    plan = Graph([node("a"), node("b", status, depends_on=["a"]), node("c", status, depends_on=[])])

    assert names(plan.ready()) == ["a"]
    assert plan.blocked() == []


def test_a_failed_task_that_waits_again_is_blocked_but_counted_as_failed():
    plan = Graph([node("new"), node("broken", "failed", depends_on=["new"])])

    assert names(plan.blocked()) == ["broken"]
    assert names(plan.ready()) == ["new"]
    assert plan.progress().by_status[TaskStatus.FAILED] == 1
    assert plan.progress().by_status[TaskStatus.BLOCKED] == 0


@pytest.mark.parametrize(
    ("available", "max_parallel", "running", "recommended"),
    [(5, 3, 0, 3), (5, 3, 1, 2), (1, 3, 1, 1), (5, 1, 1, 0), (5, 1, 4, 0), (5, -3, 0, 0), (0, 3, 0, 0)],
)
def test_running_tasks_take_room_and_the_advice_is_never_negative(
    available: int, max_parallel: int, running: int, recommended: int
):
    assert graph.recommended_count(available, max_parallel=max_parallel, running=running) == recommended


# How far it is


def test_progress_counts_every_status_and_blocked_apart_from_pending():
    plan = Graph(
        [
            node("a", "completed"),
            node("b", "in_progress", sequence=2),
            node("c", sequence=3),
            node("d", depends_on=[]),
        ]
    )

    progress = plan.progress()

    assert progress.by_status == {
        "pending": 1,
        "blocked": 1,
        "planning": 0,
        "in_progress": 1,
        "paused": 0,
        "completed": 1,
        "failed": 0,
        "skipped": 0,
    }
    assert (progress.total, progress.remaining, progress.all_complete) == (4, 3, False)


@pytest.mark.parametrize(
    ("statuses", "completed", "current"),
    [
        ("pending pending pending", 0, 2),
        ("completed in_progress pending", 2, 5),
        ("completed skipped failed", 5, 7),
        ("completed completed completed", 7, 0),
        ("pending completed completed", 0, 2),
    ],
)
def test_progress_says_up_to_which_sequence_all_is_done(statuses: str, completed: int, current: int):
    plan = Graph(
        node(f"t{sequence}", status, sequence=sequence)
        for sequence, status in zip((2, 5, 7), statuses.split(), strict=True)
    )

    progress = plan.progress()

    assert (progress.completed_sequence, progress.current_sequence) == (completed, current)


def test_groups_come_as_first_seen_with_how_many_are_done():
    plan = Graph(
        [
            node("a", "completed", parallel_group="ui"),
            node("b", parallel_group="api"),
            node("c", "skipped", parallel_group="ui"),
            node("d", parallel_group="ui"),
            node("e"),
        ]
    )

    assert plan.progress().groups == (("ui", 3, 2), ("api", 1, 0))


def test_a_plan_is_complete_when_all_is_done_and_there_was_something_to_do():
    assert Graph([node("a", "completed"), node("b", "skipped")]).progress().all_complete
    assert not Graph([node("a", "completed"), node("b", "failed")]).progress().all_complete
    assert not Graph([]).progress().all_complete


def test_an_empty_graph_has_nothing_of_anything():
    plan = Graph([])

    assert (plan.ready(), plan.blocked(), plan.levels()) == ([], [], [])
    assert plan.progress().completed_sequence == plan.progress().current_sequence == 0


# How it is drawn, and what runs side by side


def test_a_task_is_drawn_in_the_first_row_below_all_it_waits_for():
    plan = Graph(
        [
            node("ship", sequence=9, depends_on=["test", "write"]),
            node("ask", sequence=1),
            node("write", sequence=2),
            node("build", sequence=2),
            node("test", sequence=2, depends_on=["build"]),
        ]
    )

    assert [names(row) for row in plan.levels()] == [["ask"], ["write", "build"], ["test"], ["ship"]]


def test_two_tasks_run_together_when_neither_waits_for_the_other_however_far_around():
    plan = Graph(
        [
            node("a"),
            node("b"),
            node("c", sequence=2),
            node("d", sequence=3, depends_on=["c"]),
            node("e", sequence=3, depends_on=[]),
        ]
    )
    a, b, c, d, e = plan.nodes

    assert plan.runs_together(a, b)
    assert plan.runs_together(e, a)
    assert plan.runs_together(c, e)
    assert not plan.runs_together(c, c)
    assert not plan.runs_together(a, d)
    assert not plan.runs_together(d, a)
    assert plan.run_together([a, b, d, e]) == {"a": [b, e], "b": [a, e], "d": [e], "e": [a, b, d]}


# What cannot be a plan


def test_a_good_plan_has_no_problems():
    plan = [
        outline("a"),
        outline("b", depends_on=["a"]),
        outline("c", sequence=2),
        outline("d", sequence=2, depends_on=["c"]),
    ]

    assert problems(plan) == []
    graph.check(plan)


def test_an_empty_plan_is_refused():
    assert codes() == [Code.INVALID_INPUT]
    assert message() == "The plan has no tasks."


def test_tasks_that_exist_need_no_new_ones():
    assert codes(existing=[node("a")]) == []


def test_a_blank_name_is_refused_and_told_by_its_place():
    assert message(outline("a"), outline(" \t")) == "Task 2 of those given has no name."


def test_a_name_stands_for_one_task():
    assert codes(outline("a"), outline(" a "), outline("A")) == [Code.DUPLICATE_TASK_NAME]
    assert message(outline("a"), outline("a"), outline("a")) == "3 tasks have the name 'a'."


def test_a_name_that_exists_already_is_taken():
    assert codes(outline("a"), existing=[node("a", id="tk_1")]) == [Code.DUPLICATE_TASK_NAME]
    assert message(outline("a"), existing=[node("a")]) == "The plan has a task 'a' already."


def test_a_task_cannot_depend_on_itself():
    assert codes(outline("a", depends_on=[" a"])) == [Code.SELF_DEPENDENCY]
    assert message(outline("a", depends_on=["a"])) == "Task 'a' depends on itself."


def test_a_task_that_depends_on_itself_and_another_is_told_both():
    told = problems([outline("a", depends_on=["a", "b"]), outline("b", depends_on=["a"])])

    assert [problem.message for problem in told] == [
        "Task 'a' depends on itself.",
        "2 tasks wait for each other in a circle: a -> b -> a.",
    ]


def test_a_dependency_must_exist():
    assert codes(outline("build", depends_on=["design"])) == [Code.UNKNOWN_DEPENDENCY]
    assert message(outline("x", depends_on=["y"])) == "Task 'x' depends on 'y', which is not in the plan."


def test_a_dependency_that_nearly_exists_is_guessed():
    told = message(outline("Design the API"), outline("build", depends_on=["Design the Api"]))

    assert told.endswith("Did you mean 'Design the API'?")


def test_a_task_may_depend_on_one_that_exists_or_comes_later():
    assert codes(outline("b", depends_on=["a", "c"]), outline("c"), existing=[node("a", id="tk_1")]) == []


def test_a_dependency_named_twice_counts_once():
    assert codes(outline("a"), outline("b", depends_on=["a", " a", "a"])) == []


def test_tasks_that_wait_for_each_other_are_named_in_their_circle():
    told = message(
        outline("a", depends_on=["b"]), outline("b", depends_on=["c"]), outline("c", depends_on=["a"])
    )

    assert told == "3 tasks wait for each other in a circle: a -> b -> c -> a."


def test_a_circle_through_a_sequence_is_found_and_explained():
    plan = [outline("a", sequence=1, depends_on=["b"]), outline("b", sequence=2)]

    assert codes(*plan) == [Code.CIRCULAR_DEPENDENCY]
    assert message(*plan) == (
        "2 tasks wait for each other in a circle: a -> b -> a. "
        "b (sequence 2) waits for all of sequence 1, a among them."
    )


def test_a_new_task_that_comes_between_existing_ones_can_close_a_circle():
    existing = [node("a", sequence=1), node("c", sequence=3)]

    assert codes(outline("b", sequence=2), existing=existing) == []
    assert message(outline("b", sequence=2, depends_on=["c"]), existing=existing) == (
        "2 tasks wait for each other in a circle: c -> b -> c. "
        "c (sequence 3) waits for all of sequence 2, b among them."
    )


def test_of_a_long_circle_ten_tasks_are_named():
    told = message(*(outline(f"t{number}", depends_on=[f"t{(number + 1) % 30}"]) for number in range(30)))

    assert told.startswith("30 tasks wait for each other in a circle: t0 -> t1 -> ")
    assert told.endswith(" -> t8 -> t9 -> … -> t0.")


def test_each_knot_of_tasks_is_told_once_by_its_shortest_circle():
    told = problems(
        [
            outline("a", depends_on=["b", "c"]),
            outline("b", depends_on=["c"]),
            outline("c", depends_on=["a"]),
            outline("x", depends_on=["y", "a"]),
            outline("y", depends_on=["x"]),
        ]
    )

    assert sorted(problem.message.split(": ")[1] for problem in told) == ["a -> c -> a.", "x -> y -> x."]


def test_a_name_cannot_break_the_line_it_is_told_on():
    told = message(outline("a\nb", depends_on=["c"]), outline("c", depends_on=["a\nb"]))

    assert told.endswith(r"a\nb -> c -> a\nb.")


def test_all_problems_are_told_at_once_under_the_code_of_the_first():
    plan = [
        outline(""),
        outline("a"),
        outline("a"),
        outline("b", depends_on=["b"]),
        outline("c", depends_on=["nowhere"]),
        outline("d", depends_on=["e"]),
        outline("e", depends_on=["d"]),
    ]

    with pytest.raises(InvalidInput) as refused:
        graph.check(plan)

    assert [problem.code for problem in problems(plan)] == [
        Code.INVALID_INPUT,
        Code.DUPLICATE_TASK_NAME,
        Code.SELF_DEPENDENCY,
        Code.UNKNOWN_DEPENDENCY,
        Code.CIRCULAR_DEPENDENCY,
    ]
    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.message.splitlines() == [problem.message for problem in problems(plan)]
    assert refused.value.recoverable


def test_one_problem_is_one_line_with_its_own_remedy():
    with pytest.raises(InvalidInput) as refused:
        graph.check([outline("a", depends_on=["b"]), outline("b", depends_on=["a"])])

    assert refused.value.code is Code.CIRCULAR_DEPENDENCY
    assert refused.value.message == "2 tasks wait for each other in a circle: a -> b -> a."
    assert "`depends_on: []`" in refused.value.suggestion


def test_a_plan_full_of_problems_is_told_the_first_fifty():
    plan = [outline(f"t{number}", depends_on=[f"u{number}"]) for number in range(1_000)]

    with pytest.raises(InvalidInput) as refused:
        graph.check(plan)

    assert len(refused.value.message.splitlines()) == 51
    assert refused.value.message.endswith("These are the first 50 problems.")


# As large as plans may be


def test_a_plan_has_at_most_so_many_tasks():
    plan = [outline(f"t{number}") for number in range(graph.MAX_TASKS)]

    assert codes(*plan) == []
    assert codes(*plan, outline("one more")) == [Code.TOO_LARGE]
    assert codes(*plan, existing=[node("one more")]) == [Code.TOO_LARGE]


def test_a_plan_has_at_most_so_many_dependencies():
    first = [outline(f"a{number}") for number in range(100)]
    everything = [each.name for each in first]
    after = [outline(f"b{number}", depends_on=everything) for number in range(1_000)]

    assert codes(*first, *after) == []
    assert codes(*first, *after, outline("one more", depends_on=["a0"])) == [Code.TOO_LARGE]
    with pytest.raises(InvalidInput, match="100,001 dependencies"):
        graph.check([*first, *after, outline("one more", depends_on=["a0"])])


def test_a_chain_of_twenty_thousand_is_not_too_deep():
    chain = [
        outline(f"t{number}", depends_on=[f"t{number - 1}"] if number else []) for number in range(20_000)
    ]
    drawn = Graph([node(f"t{number}", sequence=number) for number in range(20_000)]).levels()

    assert codes(*chain) == []
    assert len(drawn) == 20_000


def questions(nodes: list[Node]) -> None:
    """Everything one can ask about a plan."""
    plan = Graph(nodes)
    for each in nodes:
        plan.is_blocked(each)
        plan.open_count(each)
        plan.open_dependencies(each, 3)
    plan.ready()
    plan.blocked()
    plan.progress()
    plan.levels()
    plan.dependents([nodes[0].id])
    plan.run_together(nodes[:20])


def validation(nodes: list[Node]) -> None:
    problems([outline(each.name, sequence=each.sequence, depends_on=each.depends_on) for each in nodes])


def knotted(width: int) -> list[Node]:
    """Two levels, each task of the first waiting for one of the second, which waits for all of the first."""
    return [
        *(node(f"a{number}", depends_on=[f"b{number}"]) for number in range(width)),
        *(node(f"b{number}", sequence=2) for number in range(width)),
    ]


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work executes: a measure that no busy machine disturbs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("work", "plan"),
    [
        (questions, two_levels),
        (questions, lambda width: two_levels(width, "completed")),
        (validation, two_levels),
        (validation, knotted),
    ],
)
def test_work_grows_as_the_plan_does(work: Callable[[list[Node]], None], plan: Callable[[int], list[Node]]):
    small, large = plan(250), plan(1_000)

    assert lines_run(lambda: work(large)) < 4.4 * lines_run(lambda: work(small))


def test_two_levels_of_five_thousand_are_no_effort():
    questions(two_levels(5_000))
    validation(two_levels(5_000))
