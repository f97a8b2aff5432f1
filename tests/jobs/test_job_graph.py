"""A workflow drawn for a terminal and for a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepwork.work.jobs.definitions.catalog import load_job
from deepwork.work.jobs.definitions.graph import render_mermaid, render_text
from deepwork.work.jobs.definitions.models import Job
from jobs.make import make_job, make_output, make_review, make_step, make_workflow, write_job

DIAMOND = make_job(
    make_step("ask"),
    make_step("search", dependencies=["ask"], inputs=[{"file": "ask.md", "from_step": "ask"}]),
    make_step("read", dependencies=["ask"], outputs={"notes": make_output("files", required=False)}),
    make_step("write", dependencies=["search", "read"], reviews=[make_review()]),
    workflows=[make_workflow("ask", ["search", "read"], "write")],
)


def load_from(folder: Path, data: dict[str, Any]) -> Job:
    return load_job(write_job(folder, data))


def test_text_shows_the_order_the_groups_and_the_files(tmp_path: Path):
    diamond = load_from(tmp_path, DIAMOND)

    assert render_text(diamond, diamond.workflows[0]).splitlines() == [
        "report/main: All of it.",
        "  1.   ask     Ask  → ask.md",
        "  2. ┌ search  Search  ← ask.md of ask  → search.md",
        "     └ read    Read  → (notes…)",
        "  3.   write   Write  → write.md  ✓ reviewed",
    ]


def test_mermaid_shows_the_order_the_groups_and_the_files(tmp_path: Path):
    diamond = load_from(tmp_path, DIAMOND)

    assert render_mermaid(diamond, diamond.workflows[0]).splitlines() == [
        "flowchart TD",
        '    s1["Ask"]',
        '    subgraph g1["at the same time"]',
        '        s2["Search"]',
        '        s3["Read"]',
        "    end",
        '    s4["Write<br/>reviewed"]',
        "    s1 ==> g1",
        "    g1 ==> s4",
        '    s1 -. "ask.md" .-> s2',
    ]


def test_a_step_name_cannot_break_out_of_its_mermaid_box(tmp_path: Path):
    hostile = load_from(
        tmp_path, make_job(make_step("a", name='x"]; click s1 "javascript:alert(1)"\n<script>#'))
    )

    box = render_mermaid(hostile, hostile.workflows[0]).splitlines()[1]

    assert box.count('"') == 2
    assert "<" not in box


def test_a_name_or_summary_cannot_add_a_line_to_the_text(tmp_path: Path):
    workflow = make_workflow("ask") | {"summary": "All\nof it."}
    job = load_from(
        tmp_path, make_job(make_step("ask", name="Ask\n  9.   forged  Forged"), workflows=[workflow])
    )

    assert render_text(job, job.workflows[0]).splitlines() == [
        "report/main: All of it.",
        "  1.   ask  Ask 9. forged Forged  → ask.md",
    ]


def test_groups_of_one_and_of_three_steps_are_drawn_with_brackets(tmp_path: Path):
    made = load_from(
        tmp_path,
        make_job(
            make_step("a"),
            make_step("b"),
            make_step("c"),
            make_step("d"),
            workflows=[make_workflow(["a"], ["b", "c", "d"])],
        ),
    )

    drawn = render_text(made, made.workflows[0])

    assert [line[5] for line in drawn.splitlines()[1:]] == ["╶", "┌", "├", "└"]
