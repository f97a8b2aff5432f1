"""Limits and failures by their wording; the texts are those that vendors print, or constructed after them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.adapters.wording import classify, find_reset
from deepwork.delivery.runner.models import LimitReached, TransientFailure
from deepwork.delivery.runner.stream_state import StreamState, begin_start

NOW = datetime(2026, 11, 17, 21, 13, 20, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
MINUTE = 60_000
HOUR = 60 * MINUTE


def at(*fields: int, zone: str = "UTC") -> int:
    return int(datetime(*fields, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Claude AI usage limit reached|1794960000", 1_794_960_000_000),
        ("usage limit reached|1794960000123", 1_794_960_000_123),
        ('{"resets_at": 1794960000}', 1_794_960_000_000),
        ("Please try again in 20 minutes.", NOW_MS + 20 * MINUTE),
        ("try again in 1 hour and 5 minutes", NOW_MS + 65 * MINUTE),
        ("Try again in 5 days 3 hours 12 minutes.", NOW_MS + (123 * 60 + 12) * MINUTE),
        ("resets in 2h 1m", NOW_MS + 121 * MINUTE),
        ("Your quota will reset after 5h23m10s.", NOW_MS + 5 * HOUR + 23 * MINUTE + 10_000),
        ("Please retry in 5.5s", NOW_MS + 5_500),
        ("Please retry in 250ms", NOW_MS + 250),
        ("Suggested retry after 60s.", NOW_MS + MINUTE),
        ("retry-after: 90", NOW_MS + 90_000),
        ("It will reset in 2 days 4 hours.", NOW_MS + 52 * HOUR),
        ("You've hit your session limit · resets 3am", at(2026, 11, 18, 3)),
        ("You've hit your limit · resets 11:20pm (UTC)", at(2026, 11, 17, 23, 20)),
        ("resets 8:30pm (Asia/Tokyo)", at(2026, 11, 18, 20, 30, zone="Asia/Tokyo")),
        ("resets 12:50am (America/Los_Angeles)", at(2026, 11, 18, 0, 50, zone="America/Los_Angeles")),
        ("or try again at 9:26 PM.", at(2026, 11, 17, 21, 26)),
        ("Try again at Nov 19th, 2026 3:05 PM.", at(2026, 11, 19, 15, 5)),
        ("weekly limit · resets Nov 20 at 5pm (UTC)", at(2026, 11, 20, 17)),
        ("weekly limit · resets Nov 20, 5pm", at(2026, 11, 20, 17)),
        ("resets at 23:15", at(2026, 11, 17, 23, 15)),
        ("try again after 2026-11-17T22:00:00Z", at(2026, 11, 17, 22)),
        ("resets Jan 2, 4am", None),
        ("Try again later.", None),
        ("resets 31:99", None),
        ("resets 3", None),
        ("resets Feb 31, 4am", None),
        ("usage limit reached|9999999999", None),
        (f"try again in {'9' * 400} minutes", None),
        (f"retry-after: {'9' * 400}", None),
        (f"try again in 0.{'9' * 400}s and {'9' * 39} weeks", None),
        ("try again after 0001-01-01T00:00:00+14:00", at(1, 1, 1) - 14 * HOUR),
        ("try again after 9999-12-31T23:59:59-14:00", None),
        ("", None),
    ],
)
def test_a_reset_is_found_in_what_vendors_write(text: str, expected: int | None) -> None:
    assert find_reset(text, NOW_MS, UTC) == expected


def test_a_time_of_day_that_has_just_passed_is_not_that_of_tomorrow() -> None:
    assert find_reset("resets 9:10pm", NOW_MS, UTC) == at(2026, 11, 17, 21, 10)
    assert find_reset("resets 9:01pm", NOW_MS, UTC) == at(2026, 11, 18, 21, 1)


def test_a_date_without_a_year_may_be_in_the_next_one() -> None:
    december = at(2026, 12, 30, 20)

    assert find_reset("resets Jan 2, 4am", december, UTC) == at(2027, 1, 2, 4)


def test_an_unknown_time_zone_is_that_of_the_machine() -> None:
    found = find_reset("resets 11:20pm (Middle/Earth)", NOW_MS, UTC)

    assert found == at(2026, 11, 17, 23, 20)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("You've hit your session limit · resets 3am", "five_hour"),
        ("You’ve hit your usage limit. Upgrade to Pro or try again at 9:26 PM.", "usage"),
        ("You've hit your limit · resets 6:20pm (Europe/Berlin)", "usage"),
        ("You've reached your weekly limit", "seven_day"),
        ("API Error: Request rejected (429) · This request would exceed your rate limit.", "rate"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate"),
        ("[API Error: You have exhausted your daily quota on this model.]", "quota"),
        ("RESOURCE_EXHAUSTED", "quota"),
        ("Quota exceeded. Check your plan and billing details.", "billing"),
        ("Credit balance is too low", "billing"),
        ("Your workspace is out of credits. Add credits to continue.", "billing"),
        ("FreeUsageLimitError", "usage"),
        ('AI_APICallError: Rate limit reached for requests"', "rate"),
    ],
)
def test_a_limit_is_known_by_its_wording(text: str, scope: str) -> None:
    found = classify(f"some line\n{text}\nanother", NOW_MS, UTC)

    assert isinstance(found, LimitReached)
    assert (found.scope, found.message) == (scope, text)


@pytest.mark.parametrize(
    "text",
    [
        "API Error: 529 Overloaded",
        "Selected model is at capacity. Please try a different model.",
        "We're currently experiencing high demand, which may cause temporary errors.",
        "stream disconnected before completion: error sending request",
        "Reconnecting... 2/5 (unexpected status 404 Not Found)",
        "exceeded retry limit, last status: 503 Service Unavailable",
        "[API Error: exception TypeError: fetch failed sending request]",
        "read ECONNRESET",
        "API Error: Connection error.",
        "Request timed out",
        "Internal Server Error",
    ],
)
def test_a_passing_failure_is_known_by_its_wording(text: str) -> None:
    assert classify(text, NOW_MS, UTC) == TransientFailure(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent thread limit reached",
        "Invalid API key · Please run /login",
        "Traceback: AssertionError on line 500",
        "maximum recursion limit",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The test timed out.",
        "No conversation found with session ID 429",
    ],
)
def test_other_failures_are_neither(text: str) -> None:
    assert classify(text, NOW_MS, UTC) is None


def test_a_long_text_is_searched_at_its_ends_only() -> None:
    filler = "x" * 100_000

    assert isinstance(classify(f"{filler}\nusage limit reached", NOW_MS), LimitReached)
    assert isinstance(classify(f"usage limit reached\n{filler}", NOW_MS), LimitReached)
    assert classify(f"{filler}\nusage limit reached\n{filler}", NOW_MS) is None


@pytest.mark.parametrize("vendor", ["claude", "codex", "gemini", "opencode"])
def test_a_session_that_is_gone_is_known_by_what_the_real_client_said(vendor: str) -> None:
    stderr = (Path(__file__).parent / "streams" / f"{vendor}_lost.stderr").read_text()

    state = get_adapter(vendor).finish(StreamState(session_id="s"), 1, stderr)

    assert state.is_session_lost
    assert begin_start(state).session_id is None
