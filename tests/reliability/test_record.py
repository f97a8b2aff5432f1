"""The record of the long runs, and the page that is written from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.record_test_run import parse_summary
from scripts.reliability_page import render_figures

from reliability.batches import BATCHES
from reliability.parts import PARTS
from reliability.record import append_entry, load_record, select_batches, sum_counts


def make_batch(part: str = "kills", **more: object) -> dict[str, object]:
    return {
        "part": part, "version": "1.0", "commit": "abc", "date": "2026-01-31T12:00:00Z", "seconds": 90.0,
        "database": "SQLite", "seed": 1, "counts": {"kills": 30, "calls": 100, "first_try": 90}, **more,
    }  # fmt: skip


def test_every_part_has_a_batch():
    assert [part.name for part in PARTS] == list(BATCHES)


def test_batches_of_one_version_add_up(tmp_path: Path):
    file = tmp_path / "record.json"
    for batch in (make_batch(), make_batch(), make_batch(version="0.9"), make_batch("claims-sqlite")):
        append_entry("batches", batch, file)

    found = select_batches(load_record(file), "kills", "1.0")

    assert sum_counts(found) == {"kills": 60, "calls": 200, "first_try": 180}
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert len(file.read_text().splitlines()) == 4 + 7


def test_the_page_says_what_was_done_and_what_is_missing():
    page = render_figures({"batches": [make_batch(), make_batch()], "test_runs": []})

    assert "| 60 kills, 200 calls | 300 kills (not reached) | 3 min | abc |" in page
    assert '| `kills` | 0 | 0 | 0 | - | 90.0 % | `make chaos ARGS="--again --only kills"` |' in page


def test_a_failed_batch_is_shown_and_counts_for_nothing():
    failed = make_batch(faults=["was acknowledged but is missing: x"], seed=77)
    page = render_figures({"batches": [make_batch(), failed], "test_runs": []})

    assert "| 30 kills, 100 calls |" in page
    assert "| 77 | was acknowledged but is missing: x |" in page


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("== 8217 passed in 1138.10s (0:18:58) ==", {"passed": 8217, "failed": 0, "seconds": 1138.1}),
        ("== 3 failed, 80 passed, 1 error in 9.5s ==", {"passed": 80, "failed": 4, "seconds": 9.5}),
        ("== 5 passed, 2 skipped in 9.50s ==", {"passed": 5, "failed": 0, "skipped": 2, "seconds": 9.5}),
    ],
)
def test_a_test_run_is_read_from_the_last_line_of_pytest(line: str, expected: dict[str, object]):
    assert parse_summary(f"...\n{line}\nexit 0\n") == expected


def test_a_log_without_a_summary_is_refused():
    with pytest.raises(SystemExit, match="not complete"):
        parse_summary("........ [ 72%]")
