"""Ages are words where a model or a person reads text."""

from __future__ import annotations

import pytest

from deepwork.kernel.values import format_age

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (MINUTE, "1 minute ago"),
        (59 * MINUTE + 59, "59 minutes ago"),
        (HOUR, "1 hour ago"),
        (47 * HOUR, "1 day ago"),
        (3 * DAY, "3 days ago"),
    ],
)
def test_an_age_is_described_in_its_largest_unit(seconds: int, words: str):
    now = 1_800_000_000_000

    assert format_age(now - seconds * 1000, now) == words
