"""What people watch while agents work: one line for each, with what it does, since when, and at what cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from deepwork.delivery.runner.holding import offer_attempt_actions
from deepwork.delivery.runner.models import Attempt, AttemptStage
from deepwork.delivery.runner.operations import NameWork, RunLines, RunStates
from deepwork.delivery.runner.responses import AttemptLine
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.answers import Act, Answer, Id, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import PageLimit
from deepwork.kernel.values import format_optional_timestamp

QUIET_MS = 120_000
"""An agent that wrote nothing and used no processor for this long is quiet."""


class AgentLane(AttemptLine):
    """An agent at work. Tokens and dollars are missing as long as its vendor says nothing about them."""

    tokens: int | None = None  # type: ignore[assignment]
    usd: float | None = None  # type: ignore[assignment]
    vendor: str
    quiet_since: IsoTime | None = None
    """Since when it has written nothing and used no processor, if that is long ago."""
    actions: list[Act]


class AgentLanes(Answer):
    """The attempts that have not ended, the oldest first."""

    lanes: list[AgentLane]
    total: int


class LaneOperations:
    """Reads what agents do now."""

    traits: ClassVar = Traits(toolset="runner", people_only=True, one_transaction=True)

    def __init__(
        self, database: Database, view_states: Callable[[Transaction], RunStates], name_work: NameWork
    ) -> None:
        self._database, self._view_states, self._name_work = database, view_states, name_work

    @operation("read")
    def list_lanes(self, limit: PageLimit = 200) -> AgentLanes:
        """Agents of runs that have not ended: what each does and since when, and what it used."""
        with self._database.reading() as tx:
            found, total = AttemptStore(tx).list_open(limit)
            return AgentLanes(lanes=self._build(tx, found), total=total)

    @operation("read")
    def get_lane(self, id: Id) -> AgentLane:
        """One agent of a run, at work or not."""
        with self._database.reading() as tx:
            [lane] = self._build(tx, [AttemptStore(tx).get(id)])
            return lane

    def _build(self, tx: Transaction, attempts: Sequence[Attempt]) -> list[AgentLane]:
        lines = RunLines(tx, self._view_states(tx), self._name_work).build_attempts(attempts)
        return [_build_lane(each, line, tx.now) for each, line in zip(attempts, lines, strict=True)]


def _build_lane(attempt: Attempt, line: AttemptLine, now: int) -> AgentLane:
    knows_usage = bool(attempt.tokens or attempt.usd_source)
    known = {
        **vars(line),
        "vendor": attempt.vendor,
        "tokens": attempt.tokens if knows_usage else None,
        "usd": line.usd if attempt.usd_source else None,
        "quiet_since": _find_quiet(attempt, now),
        "actions": offer_attempt_actions(attempt),
    }
    return AgentLane(**known)


def _find_quiet(attempt: Attempt, now: int) -> str | None:
    is_quiet = attempt.stage is AttemptStage.RUNNING and now - (attempt.active_at or now) > QUIET_MS
    return format_optional_timestamp(attempt.active_at) if is_quiet else None
