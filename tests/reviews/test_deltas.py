"""What changed between two rounds: every changed line is shown in exactly one of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from deepwork.gates.reviews import deltas
from deepwork.gates.reviews.deltas import (
    FileDelta,
    FileVersion,
    Hunk,
    compute_delta,
    diff_lines,
    render_delta,
    split_lines,
)
from deepwork.gates.reviews.round_trees import MAX_STORED, RoundTrees
from deepwork.gates.reviews.rounds import Finding, Severity

lines = some.lists(some.sampled_from(["a\n", "b\n", "c\n", "\n", "d"]), max_size=12)


def apply_hunks(delta: FileDelta) -> list[tuple[str, bool]]:
    """Rebuild the new lines from the old ones and the hunks; true for those that the delta shows as new."""
    built: list[tuple[str, bool]] = []
    at = 0
    for hunk in delta.hunks or ():
        built += [(line, False) for line in delta.old[at : hunk.old_start]]
        built += [(line, True) for line in delta.new[hunk.new_start : hunk.new_end]]
        at = hunk.old_end
    return built + [(line, False) for line in delta.old[at:]]


@given(some.lists(lines, min_size=2, max_size=6), some.booleans())
def test_every_changed_line_is_covered_by_exactly_one_delta(versions: list[list[str]], compares_little: bool):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "_MAX_COMPARED", 4 if compares_little else deltas._MAX_COMPARED)
        shown_in = [{0} for _ in versions[0]]  # the first round shows everything
        for number, (old, new) in enumerate(pairwise(versions), start=1):
            delta = FileDelta("a", tuple(old), tuple(new), diff_lines(old, new))
            built = apply_hunks(delta)

            assert [line for line, _ in built] == new
            kept = iter(carry_over(delta, shown_in))
            shown_in = [{number} if is_new else next(kept) for _, is_new in built]
            assert {
                place for place, rounds in enumerate(shown_in, 1) if number in rounds
            } <= delta.changed_lines
        assert all(len(rounds) == 1 for rounds in shown_in)


def carry_over(delta: FileDelta, shown_in: list[set[int]]) -> list[set[int]]:
    """Return in which rounds the lines that stay were shown."""
    gone = {place for hunk in delta.hunks or () for place in range(hunk.old_start, hunk.old_end)}
    return [rounds for place, rounds in enumerate(shown_in) if place not in gone]


@given(some.text(alphabet="ab\r\n\x0c\u2028"))
def test_splitting_into_lines_loses_nothing_and_only_a_line_feed_ends_a_line(text: str):
    assert "".join(split_lines(text)) == text
    assert all("\n" not in line[:-1] for line in split_lines(text))


def test_a_removed_line_marks_the_lines_around_it():
    delta = FileDelta("a", ("1", "2", "3"), ("1", "3"), (Hunk(1, 2, 1, 1),))

    assert delta.changed_lines == {1, 2}


def make_version(text: str | None, digest: str = "") -> FileVersion:
    return FileVersion(digest or str(text), text)


def test_files_that_are_new_gone_or_not_text_count_as_changed():
    old = {"same": make_version("x"), "gone": make_version("x"), "binary": make_version(None, "1")}
    new = {"same": make_version("x"), "new": make_version("x\n"), "binary": make_version(None, "2")}

    delta = compute_delta(old, new)

    assert [each.path for each in delta.files] == ["binary", "gone", "new"]
    found = {
        name: delta.has_changed(Finding(Severity.MAJOR, "It is wrong.", file=name, line=1))
        for name in ("same", "new", "binary", "unknown", None)
    }
    assert found == {"same": False, "new": True, "binary": True, "unknown": True, None: True}
    assert "+x" in render_delta(delta)
    assert "gone: no longer submitted" in render_delta(delta)


def test_a_rendered_delta_has_the_changed_lines_and_a_few_around_them():
    text = [f"line {number}\n" for number in range(100)]
    changed = [*text[:50], "other\n", *text[51:]]

    page = render_delta(
        compute_delta({"a": make_version("".join(text))}, {"a": make_version("".join(changed))})
    )

    assert page.splitlines() == [
        "--- a", "@@ line 51 @@", " line 47", " line 48", " line 49", "-line 50", "+other",
        " line 51", " line 52", " line 53",
    ]  # fmt: skip


def test_a_delta_that_is_too_long_names_the_file():
    huge = {"a": make_version("x" * (deltas.MAX_RENDERED + 1))}

    assert (
        render_delta(compute_delta({}, huge)) == "a: the changes are too long to be shown here; read the file"
    )


# Stored trees


def test_a_stored_tree_is_loaded_as_it_was(tmp_path: Path):
    (tmp_path / "a.md").write_text("é\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\x00")
    trees = RoundTrees(tmp_path, tmp_path / "tmp")

    tree = trees.read(["a.md", "b.bin", "missing", "../outside"])
    name = trees.save(tree)
    (tmp_path / "a.md").write_text("changed\n")

    assert sorted(tree) == ["a.md", "b.bin"]
    assert trees.load(name) == tree
    assert [each.path for each in compute_delta(tree, trees.read(tree)).files] == ["a.md"]


def test_a_tree_that_is_gone_or_damaged_is_no_error(tmp_path: Path):
    (tmp_path / "a.md").write_text("text")
    trees = RoundTrees(tmp_path, tmp_path / "tmp")
    name = trees.save(trees.read(["a.md"]))
    for stored in (tmp_path / "tmp" / "review_trees").iterdir():
        stored.write_text("{}")

    assert [trees.load(each) for each in (name, None, "../../a.md", "0" * 64)] == [None] * 4


def test_a_file_too_large_to_compare_always_counts_as_changed(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"x" * (MAX_STORED + 1))
    trees = RoundTrees(tmp_path, tmp_path / "tmp")
    before = trees.load(trees.save(trees.read(["large"])))

    assert before is not None
    assert [each.path for each in compute_delta(before, trees.read(["large"])).files] == ["large"]
