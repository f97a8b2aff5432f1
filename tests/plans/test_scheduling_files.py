"""Which tasks are likely to change the same files."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.plans.overlaps import Files, Rival, Rivals, files_named, rivals
from plans.make import task

FREE: list[object] = ["a.py", ["a.py", 1, None, "b"], [], 7, {"a": 1}, None]
"""A task's context is its owner's: there may be anything in the place of files."""


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
def test_these_overlap(one: str, other: str):
    assert Files([one]).overlap(Files([other]))
    assert Files([other, "elsewhere"]).overlap(Files(["nowhere", one]))


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
def test_these_do_not(one: str, other: str):
    assert not Files([one]).overlap(Files([other]))
    assert not Files([other]).overlap(Files([one]))


def test_a_task_is_no_rival_of_itself_nor_of_one_without_files():
    mine = task("mine", context={"files_likely_affected": ["a"]})
    rivals = Rivals([mine, task("silent"), task("same", context={"files_likely_affected": ["a"]})])

    assert [other.name for other in rivals.of(mine)] == ["same"]
    assert rivals.of(task("also silent")) == []


@pytest.mark.parametrize("context", [{}, *({"files_likely_affected": given} for given in FREE)])
def test_a_rival_is_read_as_the_task_is(context: dict[str, Any]):
    assert files_named(context) == task("any", context=context).files


def test_rivals_of_a_task_under_way_are_those_that_any_would_find():
    others = [Rival("tk_a", "a", ("src/a.py",)), Rival("tk_b", "b", ("docs",)), Rival("tk_c", "c", ())]

    assert [other.name for other in rivals(("src/**", "docs/x.md"), others)] == ["a", "b"]
    assert rivals(("docs/x.md",), others) == [others[1]]
    assert rivals((), others) == []


def test_very_many_files_are_compared_in_no_time():
    one, other = (Files(f"{side}/{number}.py" for number in range(10_000)) for side in ("left", "right"))

    assert not one.overlap(other)
