"""Calls drawn from the schemas of all tools, valid and broken; `make chaos` draws 20,000 on each database."""

from __future__ import annotations

from pathlib import Path

from reliability.fuzz import fuzz_tools

CALLS = 150
"""Two for each tool."""


def test_drawn_calls_get_an_answer_or_a_typed_error(tmp_path: Path, location: str):
    result = fuzz_tools(tmp_path, location, CALLS, seed=1)

    assert result.faults == []
    assert result.counts["calls"] == CALLS
    assert result.counts["tools"] > 70
