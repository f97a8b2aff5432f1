"""Attributing changes to tasks, no more certain than is known."""

from __future__ import annotations

from deepwork.kernel.git.snapshot_types import FileChange
from deepwork.work.tracking.attribution import CandidateTask, Interval, attribute_changes
from deepwork.work.tracking.models import AttributedChange

A, B = CandidateTask("a"), CandidateTask("b")


def build_interval(running: str, *changes: str) -> Interval:
    """Changes as `path:before>after`, where a dash is no file."""
    return Interval(tuple(_build_change(each) for each in changes), frozenset(running.split()))


def _build_change(text: str) -> FileChange:
    path, _, versions = text.partition(":")
    before, _, after = (versions or "1>2").partition(">")
    return FileChange(path, None if before == "-" else before, None if after == "-" else after)


def format_attribution(found: dict[str | None, list[AttributedChange]]) -> dict[str | None, dict[str, str]]:
    return {owner: {each.path: each.attribution.value for each in of} for owner, of in found.items()}


def test_changes_during_one_task_are_attributed_to_it() -> None:
    assert format_attribution(
        attribute_changes([build_interval("a", "x.py"), build_interval("b", "y.py")], [A, B])
    ) == {"a": {"x.py": "exclusive"}, "b": {"y.py": "exclusive"}}


def test_changes_while_no_task_runs_are_attributed_to_no_task() -> None:
    assert format_attribution(attribute_changes([build_interval("", "x.py")], [A])) == {
        None: {"x.py": "outside"}
    }


def test_changes_during_several_tasks_are_shared_and_name_the_others() -> None:
    found = attribute_changes([build_interval("a b", "x.py")], [A, B])

    assert format_attribution(found) == {"a": {"x.py": "shared"}, "b": {"x.py": "shared"}}
    assert (found["a"][0].shared_with, found["b"][0].shared_with) == (("b",), ("a",))


def test_an_area_of_only_one_task_decides_the_attribution() -> None:
    workers = [CandidateTask("a", ("src",)), CandidateTask("b", ("docs",)), CandidateTask("c")]

    found = attribute_changes([build_interval("a b c", "src/x.py", "docs/y.md", "other.txt")], workers)

    assert format_attribution(found) == {
        "a": {"src/x.py": "area", "other.txt": "shared"},
        "b": {"docs/y.md": "area", "other.txt": "shared"},
        "c": {"other.txt": "shared"},
    }


def test_an_area_of_two_tasks_does_not_decide_the_attribution() -> None:
    workers = [CandidateTask("a", ("src",)), CandidateTask("b", ("*.py",))]

    assert format_attribution(attribute_changes([build_interval("a b", "src/x.py")], workers)) == {
        "a": {"src/x.py": "shared"},
        "b": {"src/x.py": "shared"},
    }


def test_a_single_task_also_gets_changes_outside_its_areas() -> None:
    assert format_attribution(
        attribute_changes([build_interval("a", "docs/y.md")], [CandidateTask("a", ("src",))])
    ) == {"a": {"docs/y.md": "exclusive"}}


def test_changes_are_attributed_to_a_child_and_not_to_its_ancestors() -> None:
    workers = [
        CandidateTask("a", ("src",)),
        CandidateTask("b", parent_id="a"),
        CandidateTask("c", parent_id="b"),
        CandidateTask("d", parent_id="a"),
    ]

    assert format_attribution(attribute_changes([build_interval("a b c", "src/x.py")], workers)) == {
        "c": {"src/x.py": "exclusive"}
    }
    assert format_attribution(attribute_changes([build_interval("a c", "src/x.py")], workers)) == {
        "c": {"src/x.py": "exclusive"}
    }
    assert format_attribution(attribute_changes([build_interval("a c d", "x.py")], workers)) == {
        "c": {"x.py": "shared"},
        "d": {"x.py": "shared"},
    }
    assert format_attribution(
        attribute_changes([build_interval("a b", "x.py"), build_interval("a", "y.py")], workers)
    ) == {"b": {"x.py": "exclusive"}, "a": {"y.py": "exclusive"}}


def test_cyclic_parents_cause_no_endless_loop() -> None:
    workers = [
        CandidateTask("a", parent_id="b"),
        CandidateTask("b", parent_id="a"),
        CandidateTask("c", parent_id="gone"),
    ]

    assert format_attribution(attribute_changes([build_interval("c", "x.py")], workers)) == {
        "c": {"x.py": "exclusive"}
    }
    assert format_attribution(attribute_changes([build_interval("a", "x.py")], workers)) == {
        "a": {"x.py": "exclusive"}
    }


def test_only_net_changes_are_attributed() -> None:
    gaps = [
        build_interval("a", "new.py:->1", "edited.py:1>2", "back.py:1>2", "brief.py:->1"),
        build_interval("a", "edited.py:2>3", "back.py:2>1", "brief.py:1>-", "new.py:1>2"),
    ]

    assert [(each.path, each.before, each.after) for each in attribute_changes(gaps, [A])["a"]] == [
        ("edited.py", "1", "3"),
        ("new.py", None, "2"),
    ]


def test_several_changes_take_the_least_certain_attribution() -> None:
    gaps = [
        build_interval("a", "x.py:1>2"),
        build_interval("a b", "x.py:2>3"),
        build_interval("b", "x.py:3>4"),
    ]

    found = attribute_changes(gaps, [A, B])

    assert [(each.before, each.after, each.attribution, each.shared_with) for each in found["a"]] == [
        ("1", "3", "shared", ("b",))
    ]
    assert [(each.before, each.after, each.attribution, each.shared_with) for each in found["b"]] == [
        ("2", "4", "shared", ("a",))
    ]


def test_two_overlapping_tasks_get_their_own_changes() -> None:
    """A starts, writes; B starts; both write in their areas; a person edits when both are done."""
    workers = [CandidateTask("a", ("src/api",)), CandidateTask("b", ("src/ui",))]
    gaps = [
        build_interval("a", "src/api/one.py:->1", "shared.md:1>2"),
        build_interval("a b", "src/api/two.py:->1", "src/ui/one.ts:->1"),
        build_interval("b", "src/ui/two.ts:->1"),
        build_interval("", "notes.md:1>2"),
    ]

    assert format_attribution(attribute_changes(gaps, workers)) == {
        "a": {"shared.md": "exclusive", "src/api/one.py": "exclusive", "src/api/two.py": "area"},
        "b": {"src/ui/one.ts": "area", "src/ui/two.ts": "exclusive"},
        None: {"notes.md": "outside"},
    }
