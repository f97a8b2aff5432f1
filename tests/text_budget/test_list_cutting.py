"""Long lists are cut to a number of entries and of bytes."""

from __future__ import annotations

from deepwork.kernel.text_budget.shortening import ListCutter, cut_list, measure_json


def test_a_list_is_cut_to_its_first_entries():
    assert cut_list(["a", "b", "c"], max_entries=2) == ["a", "b"]


def test_a_list_is_cut_to_its_bytes_as_json():
    entries = ["ü" * 10] * 10

    shown = cut_list(entries, max_bytes=100)

    assert len(shown) == 4
    assert measure_json(shown) <= 100


def test_no_more_entries_are_measured_than_fit():
    measured: list[str] = []

    def measure(entry: str) -> int:
        measured.append(entry)
        return 40

    cut_list(["x"] * 1000, max_bytes=100, measure=measure)

    assert len(measured) == 3


def test_a_cutter_remembers_the_length_of_the_lists_that_it_cut():
    lists = ListCutter()

    lists.cut("short", ["a"])
    lists.cut("long", ["a"] * 501)

    assert lists.totals == {"long": 501}
