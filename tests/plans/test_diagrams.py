"""Plans rendered for a terminal and as Mermaid."""

from __future__ import annotations

from deepwork.work.plans.diagrams import render_mermaid, render_text
from effort import measure_effort
from plans.make import make_node


def test_a_plan_is_drawn_in_rows_with_dependencies_that_the_rows_do_not_show():
    drawn = render_text(
        [
            make_node("Explore", "completed", parallel_group="d"),
            make_node("Ask", "skipped"),
            make_node("Design", "in_progress", sequence=2),
            make_node("Build", sequence=3, depends_on=["Design"]),
            make_node("Write", sequence=3, depends_on=["Explore", "Design"]),
            make_node("Note", "failed", sequence=3, depends_on=[]),
            make_node("Ship", sequence=9),
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


def test_a_task_that_waits_only_for_the_row_above_has_no_arrow():
    named = [make_node("a"), make_node("b"), make_node("c", depends_on=["a", "b"])]
    implied = [make_node("a"), make_node("b"), make_node("c", sequence=2)]

    assert render_text(named).splitlines()[:3] == ["  1. ┌ ○ a", "     └ ○ b", "  2.   · c"]
    assert render_text(implied) == render_text(named)


def test_a_missing_plan_is_reported_as_missing():
    assert render_text([]) == "There is no plan yet."
    assert render_mermaid([]).startswith("flowchart TD\n")


def test_long_names_and_many_dependencies_are_truncated():
    many = [make_node(f"t{number}") for number in range(9)]

    drawn = render_text([*many, make_node("x" * 200, depends_on=[each.id for each in many[:8]])])

    assert "x" * 59 + "…  ← t0, t1, t2, t3 and 4 more" in drawn


def test_a_large_plan_is_summarized_and_drawn_quickly():
    wide = [make_node(f"t{number}", sequence=1 + number // 5_000) for number in range(10_000)]
    deep = [make_node(f"t{number}", sequence=number) for number in range(1_000)]

    assert "     └ … 4,980 more: 4,980 ready" in render_text(wide).splitlines()
    assert len(render_text(wide).splitlines()) < 50
    assert "     … 900 more rows" in render_text(deep).splitlines()
    assert len(render_mermaid(wide)) < 2_000
    assert 'r1["5,000 tasks: 5,000 ready"]' in render_mermaid(wide)
    assert 'more["850 more rows"]' in render_mermaid(deep)
    assert (
        measure_effort(
            lambda: (render_text(wide), render_mermaid(wide), render_text(deep), render_mermaid(deep)),
            enough=500,
        )
        < 500
    )


def test_mermaid_has_a_box_for_each_task_and_an_arrow_for_each_dependency():
    drawn = render_mermaid(
        [make_node("a", "completed"), make_node("b", "failed"), make_node("c", "paused", sequence=2), make_node("d", sequence=3, depends_on=["c"])]
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


def test_names_are_escaped_for_mermaid():
    drawn = render_mermaid([make_node('"]; click x "javascript:alert(1)" <b>\n')])

    assert "<b>" not in drawn
    assert drawn.count('"') == 2


def test_a_plan_with_sequence_zero_is_drawn_like_any_other():
    drawn = render_mermaid([make_node("a", sequence=0), make_node("b", sequence=1)])

    assert "    t1 --> t2" in drawn.splitlines()
