"""What the channels of a person were told, how the channels are, and who was here when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("channel_id", sa.Text, nullable=False),
        sa.Column("thing", sa.Text, nullable=False),  # what waits, or which run ended
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column(
            "message_id", sa.Text
        ),  # of the message that tells it, which stays the same when it is sent again
        sa.Column("claimed_by", sa.Text),  # who sends it now
        sa.Column("claimed_until", sa.BigInteger),
        sa.Column("told_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("channel_id", "thing"),
    )
    op.create_index("notifications_by_message", "notifications", ["message_id"])
    op.create_table(
        "notification_channels",
        sa.Column("channel_id", sa.Text, primary_key=True),
        sa.Column("failures", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("failing_since", sa.BigInteger),
        sa.Column("problem", sa.Text),
        sa.Column("next_at", sa.BigInteger),  # not before
        sa.Column("told_at", sa.BigInteger),
        # How far the inbox was read: what an older look finds does not count.
        sa.Column("looked_seq", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("looked_at", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "visits",
        sa.Column("person", sa.Text, primary_key=True),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("left_at", sa.BigInteger),  # the last sign before the last absence
    )
