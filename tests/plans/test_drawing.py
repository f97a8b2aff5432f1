"""Plans drawn for a terminal and for a page."""

from __future__ import annotations

from deepwork.plans.drawing import as_mermaid, as_text
from effort import effort
from plans.make import node


def test_a_plan_is_drawn_row_by_row_with_what_is_not_plain_from_the_rows():
    drawn = as_text(
        [
            node("Explore", "completed", parallel_group="d"),
            node("Ask", "skipped"),
            node("Design", "in_progress", sequence=2),
            node("Build", sequence=3, depends_on=["Design"]),
            node("Write", sequence=3, depends_on=["Explore", "Design"]),
            node("Note", "failed", sequence=3, depends_on=[]),
            node("Ship", sequence=9),
        ]
    )

    assert drawn == (
        "  1. ┌ ✓ Explore\n"
        "     ├ - Ask\n"
        "     └ ✗ Note\n"
        "  2.   ▶ Design   ← all of sequence 1\n"
        "  3. ┌ · Build\n"
        "     └ · Write    ← Explore, Design\n"
        "  4.   · Ship     ← all of sequence 3\n"
        "\n"
        "· waits 3  ▶ in progress 1  ✓ completed 1  ✗ failed 1  - skipped 1"
    )


def test_what_waits_for_just_the_row_above_needs_no_arrow():
    named = [node("a"), node("b"), node("c", depends_on=["a", "b"])]
    implied = [node("a"), node("b"), node("c", sequence=2)]

    assert as_text(named).splitlines()[:3] == ["  1. ┌ ○ a", "     └ ○ b", "  2.   · c"]
    assert as_text(implied) == as_text(named)


def test_a_plan_that_is_not_there_yet_is_said_to_be_so():
    assert as_text([]) == "There is no plan yet."
    assert as_mermaid([]).startswith("flowchart TD\n")


def test_long_names_and_many_dependencies_are_cut():
    many = [node(f"t{number}") for number in range(9)]

    drawn = as_text([*many, node("x" * 200, depends_on=[each.id for each in many[:8]])])

    assert "x" * 59 + "…  ← t0, t1, t2, t3 and 4 more" in drawn


def test_a_large_plan_is_drawn_in_short_and_quickly():
    wide = [node(f"t{number}", sequence=1 + number // 5_000) for number in range(10_000)]
    deep = [node(f"t{number}", sequence=number) for number in range(1_000)]

    assert "     └ … 4,980 more: 4,980 ready" in as_text(wide).splitlines()
    assert len(as_text(wide).splitlines()) < 50
    assert "     … 900 more rows" in as_text(deep).splitlines()
    assert len(as_mermaid(wide)) < 2_000
    assert 'r1["5,000 tasks: 5,000 ready"]' in as_mermaid(wide)
    assert 'more["850 more rows"]' in as_mermaid(deep)
    assert (
        effort(lambda: (as_text(wide), as_mermaid(wide), as_text(deep), as_mermaid(deep)), enough=500) < 500
    )


def test_mermaid_has_a_box_for_each_task_and_an_arrow_for_each_wait():
    drawn = as_mermaid(
        [node("a", "completed"), node("b", "failed"), node("c", "paused", sequence=2), node("d", sequence=3, depends_on=["c"])]
    )  # fmt: skip

    assert drawn.splitlines()[:8] == [
        "flowchart TD",
        '    t1["a"]:::done',
        '    t2["b"]:::failed',
        '    t3["c"]:::running',
        '    t4["d"]:::waits',
        "    t1 --> t3",
        "    t2 --> t3",
        "    t3 --> t4",
    ]


def test_names_mean_nothing_to_mermaid():
    drawn = as_mermaid([node('"]; click x "javascript:alert(1)" <b>\n')])

    assert "<b>" not in drawn
    assert drawn.count('"') == 2


def test_a_plan_with_sequence_zero_is_drawn_like_any_other():
    drawn = as_mermaid([node("a", sequence=0), node("b", sequence=1)])

    assert "    t1 --> t2" in drawn.splitlines()
