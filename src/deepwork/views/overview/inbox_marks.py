"""What people did with entries of the inbox that they did not decide: put off, cleared, given away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deepwork.kernel.attention import Attention
from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum


class InboxEvent(CaseInsensitiveEnum):
    """Event types of the inbox."""

    UPDATED = "inbox:updated"


@dataclass(frozen=True)
class InboxMark:
    """What a person did with an entry; times in Unix milliseconds."""

    item: str
    """The key of the entry."""
    seen_since: int
    """Since when the entry had waited. It comes back when it waits since a later time."""
    marked_by: str
    marked_at: int
    snoozed_until: int | None = None
    cleared_at: int | None = None
    owner: str | None = None
    """Who shall look at it: `human:NAME`, or the id of an agent."""
    note: str | None = None

    def hides(self, entry: Attention, now: int) -> bool:
        """Whether the entry is not to be listed now."""
        is_put_off = self.cleared_at is not None or (self.snoozed_until or 0) > now
        return is_put_off and entry.since <= self.seen_since

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return self.snoozed_until is None and self.cleared_at is None and self.owner is None


def find_mark(marks: Mapping[str, InboxMark], entry: Attention) -> InboxMark | None:
    """Return the mark of an entry; of one that stands for several, the first that one of them has."""
    found: Iterable[InboxMark] = (marks[each.key] for each in entry.members if each.key in marks)
    return next(iter(found), None)


def name_owner(owner: str, agents: Mapping[str, str]) -> str:
    """Return the name of a person or an agent."""
    return agents.get(owner, owner.removeprefix(PERSON_PREFIX))
