"""What `show` says differs from what was approved."""

from __future__ import annotations

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


def test_values_of_other_types_differ() -> None:
    assert list_differences({"flag": True}, {"flag": 1}) == [{"path": "flag", "before": True, "after": 1}]
