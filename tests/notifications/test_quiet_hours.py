"""Quiet hours, by the clock of a time zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from deepwork.kernel.errors import InvalidInput
from deepwork.views.notifications.models import parse_quiet_hours

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


@pytest.mark.parametrize(
    ("begins", "ends", "now", "last"),
    [
        ("22:00", "07:00", "2026-06-10T23:00", None),
        ("22:00", "07:00", "2026-06-10T06:59", None),
        ("22:00", "07:00", "2026-06-10T22:00", None),
        ("22:00", "07:00", "2026-06-10T07:00", ("2026-06-09T22:00", "2026-06-10T07:00")),
        ("22:00", "07:00", "2026-06-10T21:59", ("2026-06-09T22:00", "2026-06-10T07:00")),
        ("12:00", "13:00", "2026-06-10T12:30", None),
        ("12:00", "13:00", "2026-06-10T11:59", ("2026-06-09T12:00", "2026-06-09T13:00")),
        ("12:00", "13:00", "2026-06-10T23:59", ("2026-06-10T12:00", "2026-06-10T13:00")),
        # The night in which the clock is put forward, and the one in which it is put back:
        ("22:00", "07:00", "2026-03-29T06:30", None),
        ("22:00", "07:00", "2026-03-29T07:30", ("2026-03-28T22:00", "2026-03-29T07:00")),
        ("22:00", "07:00", "2026-10-25T07:30", ("2026-10-24T22:00", "2026-10-25T07:00")),
    ],
)
def test_they_last_or_ended_at_the_hours_of_the_wall(
    begins: str, ends: str, now: str, last: tuple[str, str] | None
):
    hours = parse_quiet_hours(begins, ends, "Europe/Berlin")

    assert hours.find_last_end(at(now)) == (None if last is None else (at(last[0]), at(last[1])))


def test_without_a_zone_it_is_that_of_this_machine():
    hours = parse_quiet_hours("00:00", "23:59")
    noon = int(datetime(2026, 6, 10, 12).timestamp() * 1000)  # noqa: DTZ001 - this machine's

    assert hours.find_last_end(noon) is None


@pytest.mark.parametrize(
    ("begins", "ends", "zone"),
    [("22:00", "22:00", ""), ("7:00", "22:00", ""), ("24:00", "07:00", ""), (None, "07:00", ""),
     ("22:00", "", ""), ("22:00", "07:00", "Nowhere/Atall"), ("22:00", "07:00", "../../etc/passwd")],
)  # fmt: skip
def test_what_is_no_time_or_zone_is_refused(begins: str, ends: str, zone: str):
    with pytest.raises(InvalidInput):
        parse_quiet_hours(begins, ends, zone)
