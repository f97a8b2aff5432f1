"""What `show` says differs from what was approved."""

from __future__ import annotations

import pytest

from deepwork.gates.approvals.models import list_differences


def test_only_what_differs_is_listed() -> None:
    before = {"name": "a", "tasks": [{"name": "x", "d": 1}, {"name": "y", "d": 2}], "same": [1, {"k": 2}]}
    after = {"name": "a", "tasks": [{"name": "x", "d": 1}, {"name": "y", "d": 3}], "same": [1, {"k": 2}]}

    assert list_differences(before, after) == [{"path": "tasks.[y].d", "before": 2, "after": 3}]


def test_what_was_added_or_removed_has_one_side() -> None:
    found = list_differences({"gone": 1, "list": [1]}, {"new": None, "list": [1, 2]})

    assert found == [
        {"path": "gone", "before": 1},
        {"path": "list.[1]", "after": 2},
        {"path": "new", "after": None},
    ]


def test_a_change_of_the_order_is_listed() -> None:
    before, after = {"tasks": [{"name": "x"}, {"name": "y"}]}, {"tasks": [{"name": "y"}, {"name": "x"}]}

    assert list_differences(before, after) == [{"path": "tasks.order", "before": "x, y", "after": "y, x"}]


def test_texts_of_several_lines_are_compared_by_line() -> None:
    found = list_differences({"text": "one\ntwo\nthree"}, {"text": "one\n2\nthree"})

    assert found == [{"path": "text", "diff": ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]}]


@pytest.mark.parametrize("end", ["\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_line_that_another_character_swallows_is_listed(end: str) -> None:
    """After it, what was a line of code is the rest of a comment."""
    found = list_differences({"text": "# One.\ncheck()\n"}, {"text": f"# One.{end}check()\n"})

    changed = f"# One.{end}check()".split("\n")
    removed = ["-# One.", "-check()"][: 3 - len(changed)]
    assert found[0]["diff"][1:] == [*removed, f"+{changed[0]}", *[f" {line}" for line in changed[1:]], " "]


def test_a_line_end_at_the_end_is_listed() -> None:
    found = list_differences({"text": "one\ntwo"}, {"text": "one\ntwo\n"})

    assert found == [{"path": "text", "diff": ["@@ -1,2 +1,3 @@", " one", " two", "+"]}]


def test_values_of_other_types_differ() -> None:
    assert list_differences({"flag": True}, {"flag": 1}) == [{"path": "flag", "before": True, "after": 1}]
