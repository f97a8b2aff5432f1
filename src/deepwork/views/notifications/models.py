"""Channels, quiet hours, and what a message says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum, format_timestamp

RUN_ENDED, TEST = "run_ended", "test"
_CLOCK_PATTERN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_MAX_TITLES = 5


class ChannelKind(CaseInsensitiveEnum):
    """How a channel tells."""

    PUSH = "push"  # Web Push, to a browser
    WEBHOOK = "webhook"
    NTFY = "ntfy"
    COMMAND = "command"


@dataclass(frozen=True)
class Channel:
    """A place where a person is told; it is kept in the user's settings folder."""

    id: str
    kind: ChannelKind
    name: str
    added_at: int
    """What waited or ended before is not told, in Unix milliseconds."""
    url: str = field(default="", repr=False)
    """May contain a secret, such as the topic of ntfy."""
    secret: str = field(default="", repr=False)
    """Signs a webhook, or opens a topic of ntfy."""
    argv: tuple[str, ...] = field(default=(), repr=False)
    public_key: str = field(default="", repr=False)
    """`p256dh` of a browser's subscription."""
    auth: str = field(default="", repr=False)
    origin: str = ""
    """Of the page that subscribed."""
    person: str = ""
    """Whose browser it is."""


@dataclass(frozen=True)
class QuietHours:
    """When nothing is sent, by the clock of a time zone; of this machine if it is empty."""

    begins: time
    ends: time
    zone: str = ""

    def find_last_end(self, now: int) -> tuple[int, int] | None:
        """Return when the last quiet hours began and ended, in Unix milliseconds; None while they last."""
        moment = datetime.fromtimestamp(now / 1000, self._load_zone())
        if moment.tzinfo is None:
            moment = moment.astimezone()
        length = self._measure()
        for days in (0, 1):
            day = moment.date() - timedelta(days=days)
            began = self._at(datetime.combine(day, self.begins), moment)
            ended = self._at(datetime.combine(day, self.begins) + length, moment)
            if began <= moment < ended:
                return None
            if ended <= moment:
                return _to_milliseconds(began), _to_milliseconds(ended)
        raise AssertionError  # those of yesterday ended at the latest today

    def to_dict(self) -> dict[str, str]:
        """Return them as the file has them."""
        words = {"begins": f"{self.begins:%H:%M}", "ends": f"{self.ends:%H:%M}"}
        return words | ({"zone": self.zone} if self.zone else {})

    def _measure(self) -> timedelta:
        day = datetime(2000, 1, 1)  # noqa: DTZ001 - only a difference
        length = datetime.combine(day, self.ends) - datetime.combine(day, self.begins)
        return length if length > timedelta(0) else length + timedelta(days=1)

    def _load_zone(self) -> tzinfo | None:
        return ZoneInfo(self.zone) if self.zone else None

    def _at(self, wall: datetime, like: datetime) -> datetime:
        return wall.replace(tzinfo=like.tzinfo) if self.zone else wall.astimezone()


def parse_quiet_hours(begins: Any, ends: Any, zone: Any = "") -> QuietHours:
    """Parse quiet hours such as 22:00 and 07:00; raises InvalidInput for anything else."""
    first, last = _parse_clock("begins", begins), _parse_clock("ends", ends)
    if first == last:
        raise InvalidInput("Quiet hours begin and end at the same time.", suggestion="Write 22:00-07:00.")
    try:
        if zone:
            ZoneInfo(zone)
    except (KeyError, ValueError, OSError, TypeError):
        raise InvalidInput(
            f"`zone`: {str(zone)[:60]!r} is no time zone that this machine knows.",
            suggestion="Write a name such as Europe/Berlin.",
        ) from None
    return QuietHours(first, last, zone or "")


def _parse_clock(name: str, given: Any) -> time:
    found = _CLOCK_PATTERN.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise InvalidInput(f"`{name}`: {str(given)[:20]!r} is no time of day.", suggestion="Write 22:00.")
    return time(int(found[1]), int(found[2]))


def _to_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


@dataclass(frozen=True)
class Thing:
    """What is told: something that waits for a person, or a run that ended."""

    key: str
    """The same as long as it waits."""
    kind: str
    id: str
    since: int
    title: str = ""
    run: str = ""
    path: str = "/"
    """Where the dashboard shows it."""


@dataclass(frozen=True)
class Notification:
    """What one channel is sent at once."""

    id: str
    """The same when it is sent again."""
    kind: str
    title: str
    body: str
    path: str
    at: int
    things: Sequence[Mapping[str, Any]] = ()

    def to_dict(self, link: str = "") -> dict[str, Any]:
        """Return it as webhooks and commands get it."""
        said = {name: getattr(self, name) for name in ("id", "kind", "title", "body", "path")}
        found = said | {"at": format_timestamp(self.at), "things": list(self.things)}
        return found | {"link": f"{link}{self.path}"} if link else found


def build_message(
    id: str, things: Sequence[Thing], now: int, *, says_content: bool, quiet: tuple[int, int] | None = None
) -> Notification:
    """Build the message that tells these things; text of tasks and names only if that was asked for.

    `quiet`: when the last quiet hours began and ended. What they held back is told with a link to what
    happened meanwhile.
    """
    ended = [each for each in things if each.kind == RUN_ENDED]
    waiting = [each for each in things if each.kind != RUN_ENDED]
    said = [_count_waiting(waiting)] if waiting else []
    said += [_count_ended(len(ended))] if ended else []
    if quiet is not None and any(each.since < quiet[1] for each in things):
        path = f"/since/{format_timestamp(quiet[0])}"
    else:
        path = things[0].path if len(things) == 1 else "/"
    lines = _list_kinds(waiting) if len(waiting) > 1 else []
    if says_content:
        lines = [_describe(each) for each in things[:_MAX_TITLES]]
        lines += [f"and {len(things) - _MAX_TITLES} more"] if len(things) > _MAX_TITLES else []
    return Notification(
        id=id,
        kind="waits" if waiting else RUN_ENDED,
        title=" ".join(said),
        body="\n".join(lines),
        path=path,
        at=now,
        things=[_list_facts(each, says_content=says_content) for each in things],
    )


def build_test_message(id: str, now: int) -> Notification:
    """Build the message of `deepwork notify test`."""
    body = "This channel works: it tells you what waits for you and which runs ended."
    return Notification(id, TEST, "A test of deepwork", body, "/", now)


def _list_facts(thing: Thing, *, says_content: bool) -> dict[str, Any]:
    facts = {"kind": thing.kind, "id": thing.id, "since": format_timestamp(thing.since)}
    return facts | ({"title": thing.title, "run": thing.run} if says_content else {})


def _describe(thing: Thing) -> str:
    return f"{thing.title} ({thing.run})" if thing.run and thing.run not in thing.title else thing.title


def _count_waiting(waiting: Sequence[Thing]) -> str:
    if len(waiting) > 1:
        return f"{len(waiting)} things wait for you."
    one, _ = _WORDS.get(waiting[0].kind, _OTHER)
    return f"{one[:1].upper()}{one[1:]} waits for you."


def _count_ended(count: int) -> str:
    return "A run ended." if count == 1 else f"{count} runs ended."


def _list_kinds(waiting: Sequence[Thing]) -> list[str]:
    """Say how many there are of each kind, the most first."""
    counts = Counter(each.kind for each in waiting).most_common()
    return [
        ", ".join(
            _WORDS.get(kind, _OTHER)[0] if count == 1 else f"{count} {_WORDS.get(kind, _OTHER)[1]}"
            for kind, count in counts
        )
    ]


_OTHER = ("something", "other things")
_WORDS = {
    "agent_run": ("a run that stopped", "runs that stopped"),
    "approval": ("an approval", "approvals"),
    "blocker": ("a question", "questions"),
    "budget": ("a used-up budget", "used-up budgets"),
    "failed_task": ("a failed task", "failed tasks"),
    "gate": ("a step of a job", "steps of jobs"),
    "landing": ("a landing", "landings"),
    "lost_claim": ("a task that nobody works on", "tasks that nobody works on"),
    "manual_review": ("a review", "reviews"),
    "parked_attempt": ("an agent", "agents"),
    "review": ("a review", "reviews"),
    "stale_task": ("a silent task", "silent tasks"),
    "waiting_plan": ("a paused plan", "paused plans"),
}
