"""Every attack that the page calls stopped names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"


def list_rows() -> list[str]:
    text = PAGE.read_text().partition("## What an agent with a shell can do")[2].partition("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_a_row_is_either_not_stopped_or_names_a_test_that_exists():
    for row in list_rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert len(named) == (0 if "**not stopped**" in row else 1), row
        for file, name in named:
            assert f"def {name}(" in (ROOT / file).read_text(), row


def test_the_table_says_what_is_stopped_and_what_is_not():
    rows = list_rows()

    assert len([row for row in rows if "**not stopped**" in row]) >= 5
    assert len(rows) >= 20
