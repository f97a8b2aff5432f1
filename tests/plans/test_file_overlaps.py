"""Which tasks are likely to change the same files."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.work.plans.models import parse_likely_files
from deepwork.work.plans.rules.levels import (
    ActiveTask,
    FileSet,
    OverlapIndex,
    find_overlapping,
    list_shared_files,
)
from plans.make import make_task

FREE: list[object] = ["a.py", ["a.py", 1, None, "b"], [], 7, {"a": 1}, None]
"""A task's context is free-form, so `files_likely_affected` may hold anything."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "/src/a.py "),
        ("src", "src/a.py"),
        ("src/", "src/deep/a.py"),
        ("src/**", "src/a.py"),
        ("src/*.py", "src/{a,b}.py"),
        ("**/*.md", "docs"),
        ("docs/*", "docs/deep/page.md"),
        ("src/[ab].py", "src/a*"),
        ("src/[", "src/["),
        ("~/notes", "~/notes"),
        ("../other/x", "../other/x"),
        ("app/[id]/page.tsx", "app/i/page.tsx"),
    ],
)
def test_overlapping_file_sets_are_detected(one: str, other: str):
    assert FileSet([one]).overlaps(FileSet([other]))
    assert FileSet([other, "elsewhere"]).overlaps(FileSet(["nowhere", one]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("src/a.py", "src/b.py"),
        ("src/a", "src/ab"),
        ("src/*.py", "src/a.md"),
        ("src/**", "docs/**"),
        ("src/[", "src/]"),
        ("", "**"),
        ("  ", " "),
    ],
)
def test_separate_file_sets_do_not_overlap(one: str, other: str):
    assert not FileSet([one]).overlaps(FileSet([other]))
    assert not FileSet([other]).overlaps(FileSet([one]))


@pytest.mark.parametrize(
    ("own", "theirs", "shared"),
    [
        (("src/a.py", "b"), ("./src/a.py", "c"), ["src/a.py"]),
        (("src",), ("src/a.py", "src/b.py"), ["src/a.py", "src/b.py"]),
        (("src/a.py",), ("src",), ["src/a.py"]),
        (("**/*.md", "x.py"), ("docs/a.md",), ["docs/a.md"]),
        (("src/*.py", "x.py"), ("src/a*",), ["src/*.py"]),
        (("src",), ("src/",), ["src"]),
    ],
)
def test_shared_files_are_named_as_exactly_as_possible(
    own: tuple[str, ...], theirs: tuple[str, ...], shared: list[str]
):
    assert list_shared_files(own, theirs) == shared


def test_a_task_overlaps_neither_with_itself_nor_with_a_task_without_files():
    mine = make_task("mine", context={"files_likely_affected": ["a"]})
    index = OverlapIndex(
        [mine, make_task("silent"), make_task("same", context={"files_likely_affected": ["a"]})]
    )

    assert [other.name for other in index.find_overlapping(mine)] == ["same"]
    assert index.find_overlapping(make_task("also silent")) == []


@pytest.mark.parametrize("context", [{}, *({"files_likely_affected": given} for given in FREE)])
def test_likely_files_parsed_from_a_context_match_those_of_the_task(context: dict[str, Any]):
    assert parse_likely_files(context) == make_task("any", context=context).files


def test_active_tasks_with_overlapping_files_are_found():
    others = [
        ActiveTask("tk_a", "a", ("src/a.py",)),
        ActiveTask("tk_b", "b", ("docs",)),
        ActiveTask("tk_c", "c", ()),
    ]

    assert [other.name for other in find_overlapping(("src/**", "docs/x.md"), others)] == ["a", "b"]
    assert find_overlapping(("docs/x.md",), others) == [others[1]]
    assert find_overlapping((), others) == []


def test_ten_thousand_files_are_compared_quickly():
    one, other = (FileSet(f"{side}/{number}.py" for number in range(10_000)) for side in ("left", "right"))

    assert not one.overlaps(other)
