"""What each channel was told, and how the channels are.

One row per channel and thing, for as long as the thing waits: of all processes that look, one adds it, and of
all that send, one has it until its claim ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import new_id
from deepwork.views.notifications.models import Thing

CLAIM_MS = 60_000
"""How long one process has to send a message; longer than any sending takes."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 30_000, 3_600_000


@dataclass(frozen=True)
class ChannelState:
    """How a channel is; times in Unix milliseconds."""

    channel_id: str
    failures: int = 0
    failing_since: int | None = None
    problem: str | None = None
    next_at: int | None = None
    told_at: int | None = None
    looked_seq: int = 0
    looked_at: int = 0


@dataclass(frozen=True)
class ToldThing:
    """One thing that a channel was told, or is to be told."""

    thing: str
    kind: str
    since: int
    message_id: str | None
    claimed_until: int | None
    told_at: int | None


class NotificationStore:
    """Reads and writes what channels are told."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_states(self, channels: Collection[str]) -> dict[str, ChannelState]:
        """Return how these channels are, by id; those that nothing is known of are left out."""
        if not channels:
            return {}
        sql = f"SELECT {_STATE_COLUMNS} FROM notification_channels WHERE channel_id IN :channels"
        return {
            row["channel_id"]: _parse_state(row) for row in self._tx.fetch_all(sql, channels=list(channels))
        }

    def list_things(self, channel: str) -> dict[str, ToldThing]:
        """List what a channel was told or is to be told, by key."""
        sql = f"SELECT {_THING_COLUMNS} FROM notifications WHERE channel_id = :channel"
        return {row["thing"]: _parse_thing(row) for row in self._tx.fetch_all(sql, channel=channel)}

    def begin_look(self, channel: str, seq: int, at: int) -> bool:
        """Note how far the inbox was read; False if somebody has read further, so that this look is too old.

        Its row stays locked, so two looks never decide at the same time.
        """
        self._add_state(channel)
        sql = """
            UPDATE notification_channels SET looked_seq = :seq, looked_at = :at
             WHERE channel_id = :channel AND looked_seq <= :seq AND looked_at <= :at
        """
        return self._tx.execute(sql, channel=channel, seq=seq, at=at) == 1

    def add_things(self, channel: str, things: Iterable[Thing]) -> None:
        """Add what the channel has not been told."""
        for each in things:
            row = {"channel_id": channel, "thing": each.key, "kind": each.kind, "since": each.since}
            self._tx.insert_new("notifications", row)

    def remove_things(self, channel: str, keys: Sequence[str]) -> None:
        """Remove what does not wait any more, so that it is told again if it does; not what is being sent."""
        sql = """
            DELETE FROM notifications
             WHERE channel_id = :channel AND thing IN :keys
               AND (claimed_until IS NULL OR claimed_until < :now)
        """
        if keys:
            self._tx.execute(sql, channel=channel, keys=list(keys), now=self._tx.now)

    def claim(self, channel: str, by: str) -> tuple[str, list[ToldThing]]:
        """Take what is to be told, if nobody else has it: a message that was begun before, or a new one."""
        until = self._tx.now + CLAIM_MS
        begun = self._tx.fetch_value(
            """
            SELECT min(message_id) FROM notifications
             WHERE channel_id = :channel AND message_id IS NOT NULL AND told_at IS NULL
               AND (claimed_until IS NULL OR claimed_until < :now)
            """,
            channel=channel,
            now=self._tx.now,
        )
        message = begun or new_id("nm")
        condition = (
            "message_id = :message AND (claimed_until IS NULL OR claimed_until < :now)"
            if begun
            else "message_id IS NULL"
        )
        rows = self._tx.fetch_all(
            f"""
            UPDATE notifications SET message_id = :message, claimed_by = :by, claimed_until = :until
             WHERE channel_id = :channel AND told_at IS NULL AND {condition}
             RETURNING {_THING_COLUMNS}
            """,
            channel=channel,
            message=message,
            by=by,
            until=until,
            **({"now": self._tx.now} if begun else {}),
        )
        return message, [_parse_thing(row) for row in rows]

    def mark_told(self, channel: str, message: str) -> None:
        """Record that a message reached its channel, which works."""
        self._add_state(channel)
        sql = """
            UPDATE notifications SET told_at = :now, claimed_by = NULL, claimed_until = NULL
             WHERE channel_id = :channel AND message_id = :message
        """
        self._tx.execute(sql, channel=channel, message=message, now=self._tx.now)
        sql = """
            UPDATE notification_channels
               SET failures = 0, failing_since = NULL, problem = NULL, next_at = NULL, told_at = :now
             WHERE channel_id = :channel
        """
        self._tx.execute(sql, channel=channel, now=self._tx.now)

    def mark_failed(self, channel: str, message: str, problem: str, wait_ms: int = 0) -> None:
        """Record that a message did not reach its channel, and when to try again."""
        self._add_state(channel)
        sql = """
            UPDATE notifications SET claimed_by = NULL, claimed_until = NULL
             WHERE channel_id = :channel AND message_id = :message
        """
        self._tx.execute(sql, channel=channel, message=message)
        failures = self.find_states([channel])[channel].failures
        pause = max(min(FIRST_PAUSE_MS * 2 ** min(failures, 20), LONGEST_PAUSE_MS), wait_ms)
        sql = """
            UPDATE notification_channels
               SET failures = failures + 1, failing_since = coalesce(failing_since, :now), problem = :problem,
                   next_at = :next_at
             WHERE channel_id = :channel
        """
        self._tx.execute(
            sql, channel=channel, problem=problem, now=self._tx.now, next_at=self._tx.now + pause
        )

    def forget(self, channel: str) -> None:
        """Forget a channel that was removed."""
        for table in ("notifications", "notification_channels"):
            self._tx.execute(f"DELETE FROM {table} WHERE channel_id = :channel", channel=channel)

    def _add_state(self, channel: str) -> None:
        self._tx.insert_new("notification_channels", {"channel_id": channel})


_STATE_COLUMNS = "channel_id, failures, failing_since, problem, next_at, told_at, looked_seq, looked_at"
_THING_COLUMNS = "thing, kind, since, message_id, claimed_until, told_at"


@row_parser
def _parse_state(row: Row) -> ChannelState:
    return ChannelState(**row)


@row_parser
def _parse_thing(row: Row) -> ToldThing:
    return ToldThing(**row)
