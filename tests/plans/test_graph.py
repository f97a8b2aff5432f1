"""The dependency graph: what can start, what waits, progress, and validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import pytest

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.work.plans.models import Node, Outline, TaskStatus
from deepwork.work.plans.rules import graph
from deepwork.work.plans.rules.graph import Graph, find_problems
from plans.graph_oracle import OracleGraph
from plans.make import make_node, make_outline


def list_names(nodes: Iterable[Node]) -> list[str]:
    return [each.name for each in nodes]


def find_codes(*outlines: Outline, existing: Sequence[Node] = ()) -> list[Code]:
    return [problem.code for problem in find_problems(outlines, existing=existing)]


def find_message(*outlines: Outline, existing: Sequence[Node] = ()) -> str:
    [problem] = find_problems(outlines, existing=existing)
    return problem.message


def make_two_levels(width: int, status: str = "pending") -> list[Node]:
    return [
        *(make_node(f"a{number}", status, sequence=1) for number in range(width)),
        *(make_node(f"b{number}", sequence=2) for number in range(width)),
    ]


# Dependencies


def test_a_task_with_explicit_dependencies_waits_only_for_them():
    plan = Graph([make_node("a"), make_node("b"), make_node("c", sequence=2, depends_on=["b"])])

    assert list_names(plan.list_dependencies(plan["c"])) == ["b"]


def test_a_task_without_explicit_dependencies_waits_for_the_next_lower_sequence():
    plan = Graph(
        [
            make_node("a", sequence=1),
            make_node("b", sequence=4),
            make_node("c", sequence=9),
            make_node("d", sequence=4),
        ]
    )

    assert list_names(plan.list_dependencies(plan["c"])) == ["b", "d"]
    assert list_names(plan.list_dependencies(plan["b"])) == ["a"]
    assert list_names(plan.list_dependencies(plan["a"])) == []
    assert plan.previous_level == {1: None, 4: 1, 9: 4}


def test_a_task_with_an_empty_dependency_list_waits_for_nothing():
    plan = Graph([make_node("a"), make_node("b", sequence=2, depends_on=[])])

    assert not plan.is_blocked(plan["b"])
    assert plan.list_dependencies(plan["b"]) == []


def test_a_task_with_explicit_dependencies_still_belongs_to_its_level():
    plan = OracleGraph([make_node("a", depends_on=[]), make_node("b", sequence=2)])

    assert list_names(plan.list_open_dependencies(plan["b"])) == ["a"]


@pytest.mark.parametrize("done", ["completed", "skipped"])
def test_completed_and_skipped_tasks_block_no_task(done: str):
    plan = Graph(
        [make_node("a", done), make_node("b", sequence=2), make_node("c", sequence=2, depends_on=["a"])]
    )

    assert not plan.is_blocked(plan["b"])
    assert not plan.is_blocked(plan["c"])


@pytest.mark.parametrize("status", ["pending", "planning", "in_progress", "paused", "failed"])
def test_unfinished_tasks_block_their_dependents(status: str):
    plan = Graph(
        [make_node("a", status), make_node("b", sequence=2), make_node("c", sequence=2, depends_on=["a"])]
    )

    assert plan.is_blocked(plan["b"])
    assert plan.is_blocked(plan["c"])


@pytest.mark.parametrize("waits_for", [None, ["z", "y", "x", "w"]])
def test_open_dependencies_are_listed_in_plan_order_up_to_a_limit_and_all_counted(
    waits_for: list[str] | None,
):
    before = [make_node("z"), make_node("y", "completed"), make_node("x", "in_progress"), make_node("w")]
    plan = OracleGraph([*before, make_node("last", sequence=2, depends_on=waits_for)])
    last = plan["last"]

    assert list_names(plan.list_open_dependencies(last)) == ["z", "x", "w"]
    assert list_names(plan.list_open_dependencies(last, 2)) == ["z", "x"]
    assert plan.count_open_dependencies(last) == 3
    assert list_names(plan.list_dependencies(last)) == ["z", "y", "x", "w"]
    assert list_names(plan.list_dependencies(last, 2)) == ["z", "y"]


def test_dependents_are_the_tasks_with_an_explicit_dependency():
    plan = Graph(
        [
            make_node("a"),
            make_node("b", depends_on=["a"]),
            make_node("c", sequence=2),
            make_node("d", depends_on=["b"]),
        ]
    )

    assert list_names(plan.list_dependents(["a"])) == ["b"]
    assert list_names(plan.list_dependents(["a", "b"])) == ["b", "d"]
    assert plan.list_dependents(["d"]) == []


def test_a_task_is_found_by_its_id():
    plan = Graph([make_node("build", id="tk_1")])

    assert plan["tk_1"].name == "build"
    assert "tk_1" in plan
    assert "build" not in plan


# What can start


def test_a_task_is_blocked_until_every_dependency_is_done():
    plan = OracleGraph(
        [
            make_node("design", "completed"),
            make_node("build"),
            make_node("ship", depends_on=["design", "build"]),
        ]
    )

    assert list_names(plan.list_ready()) == ["build"]
    assert list_names(plan.list_blocked()) == ["ship"]


def test_ready_tasks_are_sorted_by_sequence_and_plan_order_with_failed_ones_last():
    plan = Graph(
        [
            make_node("broken", "failed", depends_on=[]),
            make_node("late", sequence=3, depends_on=[]),
            make_node("second", sequence=2, depends_on=[]),
            make_node("first", sequence=2, depends_on=[]),
            make_node("early", sequence=1, depends_on=[]),
        ]
    )

    assert list_names(plan.list_ready()) == ["early", "second", "first", "late", "broken"]


@pytest.mark.parametrize("status", ["planning", "in_progress", "paused", "completed", "skipped"])
def test_running_and_finished_tasks_are_neither_ready_nor_blocked(status: str):
    plan = OracleGraph(
        [make_node("a"), make_node("b", status, depends_on=["a"]), make_node("c", status, depends_on=[])]
    )

    assert list_names(plan.list_ready()) == ["a"]
    assert plan.list_blocked() == []


def test_a_failed_task_with_open_dependencies_is_blocked_but_counted_as_failed():
    plan = OracleGraph([make_node("new"), make_node("broken", "failed", depends_on=["new"])])

    assert list_names(plan.list_blocked()) == ["broken"]
    assert list_names(plan.list_ready()) == ["new"]
    assert plan.compute_progress().by_status[TaskStatus.FAILED] == 1
    assert plan.compute_progress().by_status[TaskStatus.BLOCKED] == 0


@pytest.mark.parametrize(
    ("available", "max_parallel", "running", "recommended"),
    [(5, 3, 0, 3), (5, 3, 1, 2), (1, 3, 1, 1), (5, 1, 1, 0), (5, 1, 4, 0), (5, -3, 0, 0), (0, 3, 0, 0)],
)
def test_the_recommended_count_subtracts_running_tasks_and_is_never_negative(
    available: int, max_parallel: int, running: int, recommended: int
):
    assert graph.recommend_count(available, max_parallel=max_parallel, running=running) == recommended


# Progress


def test_progress_counts_every_status_and_blocked_separately_from_pending():
    plan = OracleGraph(
        [
            make_node("a", "completed"),
            make_node("b", "in_progress", sequence=2),
            make_node("c", sequence=3),
            make_node("d", depends_on=[]),
        ]
    )

    progress = plan.compute_progress()

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
def test_progress_contains_the_completed_and_the_current_sequence(
    statuses: str, completed: int, current: int
):
    plan = OracleGraph(
        make_node(f"t{sequence}", status, sequence=sequence)
        for sequence, status in zip((2, 5, 7), statuses.split(), strict=True)
    )

    progress = plan.compute_progress()

    assert (progress.completed_sequence, progress.current_sequence) == (completed, current)


def test_groups_are_listed_in_plan_order_with_their_completed_count():
    plan = OracleGraph(
        [
            make_node("a", "completed", parallel_group="ui"),
            make_node("b", parallel_group="api"),
            make_node("c", "skipped", parallel_group="ui"),
            make_node("d", parallel_group="ui"),
            make_node("e"),
        ]
    )

    assert plan.compute_progress().groups == (("ui", 3, 2), ("api", 1, 0))


def test_a_plan_is_complete_when_it_has_tasks_and_all_are_done():
    assert (
        OracleGraph([make_node("a", "completed"), make_node("b", "skipped")]).compute_progress().all_complete
    )
    assert (
        not OracleGraph([make_node("a", "completed"), make_node("b", "failed")])
        .compute_progress()
        .all_complete
    )
    assert not OracleGraph([]).compute_progress().all_complete


def test_an_empty_graph_has_no_tasks_and_no_progress():
    plan = OracleGraph([])

    assert (plan.list_ready(), plan.list_blocked(), plan.list_rows()) == ([], [], [])
    assert plan.compute_progress().completed_sequence == plan.compute_progress().current_sequence == 0


# Rows, and what may run in parallel


def test_a_task_is_in_the_first_row_below_all_its_dependencies():
    plan = Graph(
        [
            make_node("ship", sequence=9, depends_on=["test", "write"]),
            make_node("ask", sequence=1),
            make_node("write", sequence=2),
            make_node("build", sequence=2),
            make_node("test", sequence=2, depends_on=["build"]),
        ]
    )

    assert [list_names(row) for row in plan.list_rows()] == [["ask"], ["write", "build"], ["test"], ["ship"]]


# Invalid plans


def test_a_valid_plan_has_no_problems():
    plan = [
        make_outline("a"),
        make_outline("b", depends_on=["a"]),
        make_outline("c", sequence=2),
        make_outline("d", sequence=2, depends_on=["c"]),
    ]

    assert find_problems(plan) == []
    graph.validate_outlines(plan)


def test_an_empty_plan_is_refused():
    assert find_codes() == [Code.INVALID_INPUT]
    assert find_message() == "The plan has no tasks."


def test_a_plan_with_existing_tasks_needs_no_new_ones():
    assert find_codes(existing=[make_node("a")]) == []


def test_a_blank_name_is_refused_and_reported_by_its_index():
    assert find_message(make_outline("a"), make_outline(" \t")) == "Task 2 in the list has no name."


def test_task_names_must_be_unique():
    assert find_codes(make_outline("a"), make_outline(" a "), make_outline("A")) == [Code.DUPLICATE_TASK_NAME]
    assert find_message(make_outline("a"), make_outline("a"), make_outline("a")) == "3 tasks are named 'a'."


def test_the_name_of_an_existing_task_cannot_be_reused():
    assert find_codes(make_outline("a"), existing=[make_node("a", id="tk_1")]) == [Code.DUPLICATE_TASK_NAME]
    assert find_message(make_outline("a"), existing=[make_node("a")]) == "The plan already has a task 'a'."


def test_a_task_cannot_depend_on_itself():
    assert find_codes(make_outline("a", depends_on=[" a"])) == [Code.SELF_DEPENDENCY]
    assert find_message(make_outline("a", depends_on=["a"])) == "Task 'a' depends on itself."


def test_a_task_that_depends_on_itself_and_another_has_both_problems():
    reported = find_problems([make_outline("a", depends_on=["a", "b"]), make_outline("b", depends_on=["a"])])

    assert [problem.message for problem in reported] == [
        "Task 'a' depends on itself.",
        "2 tasks wait for each other in a cycle: a -> b -> a.",
    ]


def test_a_dependency_must_exist():
    assert find_codes(make_outline("build", depends_on=["design"])) == [Code.UNKNOWN_DEPENDENCY]
    assert (
        find_message(make_outline("x", depends_on=["y"]))
        == "Task 'x' depends on 'y', which is not in the plan."
    )


def test_a_misspelled_dependency_gets_a_suggestion():
    reported = find_message(
        make_outline("Design the API"), make_outline("build", depends_on=["Design the Api"])
    )

    assert reported.endswith("Did you mean 'Design the API'?")


def test_a_task_may_depend_on_an_existing_or_a_later_task():
    assert (
        find_codes(
            make_outline("b", depends_on=["a", "c"]), make_outline("c"), existing=[make_node("a", id="tk_1")]
        )
        == []
    )


def test_a_dependency_listed_twice_counts_once():
    assert find_codes(make_outline("a"), make_outline("b", depends_on=["a", " a", "a"])) == []


def test_a_dependency_cycle_is_reported_with_its_tasks():
    reported = find_message(
        make_outline("a", depends_on=["b"]),
        make_outline("b", depends_on=["c"]),
        make_outline("c", depends_on=["a"]),
    )

    assert reported == "3 tasks wait for each other in a cycle: a -> b -> c -> a."


def test_a_cycle_through_a_sequence_is_detected_and_explained():
    plan = [make_outline("a", sequence=1, depends_on=["b"]), make_outline("b", sequence=2)]

    assert find_codes(*plan) == [Code.CIRCULAR_DEPENDENCY]
    assert find_message(*plan) == (
        "2 tasks wait for each other in a cycle: a -> b -> a. "
        "b (sequence 2) waits for all of sequence 1, including a."
    )


def test_a_new_task_between_existing_ones_can_create_a_cycle():
    existing = [make_node("a", sequence=1), make_node("c", sequence=3)]

    assert find_codes(make_outline("b", sequence=2), existing=existing) == []
    assert find_message(make_outline("b", sequence=2, depends_on=["c"]), existing=existing) == (
        "2 tasks wait for each other in a cycle: c -> b -> c. "
        "c (sequence 3) waits for all of sequence 2, including b."
    )


def test_a_long_cycle_is_reported_with_ten_tasks():
    reported = find_message(
        *(make_outline(f"t{number}", depends_on=[f"t{(number + 1) % 30}"]) for number in range(30))
    )

    assert reported.startswith("30 tasks wait for each other in a cycle: t0 -> t1 -> ")
    assert reported.endswith(" -> t8 -> t9 -> … -> t0.")


def test_each_cyclic_component_is_reported_once_by_its_shortest_cycle():
    reported = find_problems(
        [
            make_outline("a", depends_on=["b", "c"]),
            make_outline("b", depends_on=["c"]),
            make_outline("c", depends_on=["a"]),
            make_outline("x", depends_on=["y", "a"]),
            make_outline("y", depends_on=["x"]),
        ]
    )

    assert sorted(problem.message.split(": ")[1] for problem in reported) == ["a -> c -> a.", "x -> y -> x."]


def test_a_line_break_in_a_name_is_escaped():
    reported = find_message(make_outline("a\nb", depends_on=["c"]), make_outline("c", depends_on=["a\nb"]))

    assert reported.endswith(r"a\nb -> c -> a\nb.")


def test_all_problems_are_reported_together_under_the_code_of_the_first():
    plan = [
        make_outline(""),
        make_outline("a"),
        make_outline("a"),
        make_outline("b", depends_on=["b"]),
        make_outline("c", depends_on=["nowhere"]),
        make_outline("d", depends_on=["e"]),
        make_outline("e", depends_on=["d"]),
    ]

    with pytest.raises(InvalidInput) as refused:
        graph.validate_outlines(plan)

    assert [problem.code for problem in find_problems(plan)] == [
        Code.INVALID_INPUT,
        Code.DUPLICATE_TASK_NAME,
        Code.SELF_DEPENDENCY,
        Code.UNKNOWN_DEPENDENCY,
        Code.CIRCULAR_DEPENDENCY,
    ]
    assert refused.value.code is Code.INVALID_INPUT
    assert refused.value.message.splitlines() == [problem.message for problem in find_problems(plan)]
    assert refused.value.recoverable


def test_a_single_problem_is_one_line_with_its_own_suggestion():
    with pytest.raises(InvalidInput) as refused:
        graph.validate_outlines([make_outline("a", depends_on=["b"]), make_outline("b", depends_on=["a"])])

    assert refused.value.code is Code.CIRCULAR_DEPENDENCY
    assert refused.value.message == "2 tasks wait for each other in a cycle: a -> b -> a."
    assert "`depends_on: []`" in refused.value.suggestion


def test_only_the_first_fifty_problems_of_a_plan_are_reported():
    plan = [make_outline(f"t{number}", depends_on=[f"u{number}"]) for number in range(1_000)]

    with pytest.raises(InvalidInput) as refused:
        graph.validate_outlines(plan)

    assert len(refused.value.message.splitlines()) == 51
    assert refused.value.message.endswith("These are the first 50 problems.")


# Plans of the maximum size


def test_the_number_of_tasks_in_a_plan_is_limited():
    plan = [make_outline(f"t{number}") for number in range(graph.MAX_TASKS)]

    assert find_codes(*plan) == []
    assert find_codes(*plan, make_outline("one more")) == [Code.TOO_LARGE]
    assert find_codes(*plan, existing=[make_node("one more")]) == [Code.TOO_LARGE]


def test_the_number_of_dependencies_in_a_plan_is_limited():
    first = [make_outline(f"a{number}") for number in range(100)]
    everything = [each.name for each in first]
    after = [make_outline(f"b{number}", depends_on=everything) for number in range(1_000)]

    assert find_codes(*first, *after) == []
    assert find_codes(*first, *after, make_outline("one more", depends_on=["a0"])) == [Code.TOO_LARGE]
    with pytest.raises(InvalidInput, match="100,001 dependencies"):
        graph.validate_outlines([*first, *after, make_outline("one more", depends_on=["a0"])])


def test_a_chain_of_twenty_thousand_tasks_causes_no_recursion_error():
    chain = [
        make_outline(f"t{number}", depends_on=[f"t{number - 1}"] if number else [])
        for number in range(20_000)
    ]
    drawn = Graph([make_node(f"t{number}", sequence=number) for number in range(20_000)]).list_rows()

    assert find_codes(*chain) == []
    assert len(drawn) == 20_000


def query_everything(nodes: list[Node]) -> None:
    """Run every query of the graph."""
    plan = OracleGraph(nodes)
    for each in nodes:
        plan.is_blocked(each)
        plan.count_open_dependencies(each)
        plan.list_open_dependencies(each, 3)
    plan.list_ready()
    plan.list_blocked()
    plan.compute_progress()
    plan.list_rows()
    plan.list_dependents([nodes[0].id])


def validate(nodes: list[Node]) -> None:
    find_problems(
        [make_outline(each.name, sequence=each.sequence, depends_on=each.depends_on) for each in nodes]
    )


def make_cyclic_levels(width: int) -> list[Node]:
    """Two levels, each task of the first waiting for one of the second, which waits for all of the first."""
    return [
        *(make_node(f"a{number}", depends_on=[f"b{number}"]) for number in range(width)),
        *(make_node(f"b{number}", sequence=2) for number in range(width)),
    ]


def count_lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that are executed: a measure that does not depend on the machine's load."""
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
        (query_everything, make_two_levels),
        (query_everything, lambda width: make_two_levels(width, "completed")),
        (validate, make_two_levels),
        (validate, make_cyclic_levels),
    ],
)
def test_effort_grows_linearly_with_the_plan(
    work: Callable[[list[Node]], None], plan: Callable[[int], list[Node]]
):
    small, large = plan(250), plan(1_000)

    assert count_lines_run(lambda: work(large)) < 4.4 * count_lines_run(lambda: work(small))


def test_two_levels_of_five_thousand_tasks_are_processed_quickly():
    query_everything(make_two_levels(5_000))
    validate(make_two_levels(5_000))
