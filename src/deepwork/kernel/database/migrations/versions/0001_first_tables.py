"""Agents and what they hold, messages, the event log, idempotency keys.

Times are Unix milliseconds. JSON is kept as text: both databases give back what was put in.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("runtime", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("said", sa.Text, nullable=False),  # its own word on its status; silence makes it offline
        sa.Column("capabilities", sa.Text, nullable=False),
        sa.Column("current_task_id", sa.Text),
        sa.Column("workspace_path", sa.Text),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("registered_by", sa.Text, nullable=False),
        sa.Column("last_heartbeat", sa.BigInteger, nullable=False),
        sa.Column("silent_since", sa.BigInteger),  # when somebody noticed that it had gone silent
        sa.Column("unregistered_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("agents_by_age", "agents", ["created_at", "id"])
    op.create_index("agents_by_sign_of_life", "agents", ["silent_since", "unregistered_at", "last_heartbeat"])

    op.create_table(
        "leases",
        sa.Column("what", sa.Text, primary_key=True),
        sa.Column("who", sa.Text),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_index("leases_by_holder", "leases", ["who"])
    op.create_table(
        "lost_leases",
        sa.Column("who", sa.Text, primary_key=True),
        sa.Column("what", sa.Text, primary_key=True),
        sa.Column("lost_at", sa.BigInteger, nullable=False),
    )

    op.create_table(
        "inboxes",
        sa.Column("agent_id", sa.Text, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("received", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sender_id", sa.Text, sa.ForeignKey("agents.id")),
        sa.Column("recipient_id", sa.Text, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),  # in the recipient's inbox, without gaps
        sa.Column("message_type", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("priority", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text),
        sa.Column("task_id", sa.Text),
        sa.Column("reply_to_id", sa.Text, sa.ForeignKey("messages.id")),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("read_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.UniqueConstraint("recipient_id", "position", name="messages_in_order"),
    )
    op.create_index("messages_by_status", "messages", ["recipient_id", "status", "position"])
    op.create_index("messages_waiting", "messages", ["recipient_id", "status", "priority", "expires_at"])
    op.create_index("messages_by_thread", "messages", ["thread_id", "created_at"])
    op.create_index("messages_by_sender", "messages", ["sender_id"])

    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("workflow_id", sa.Text),
        sa.Column("ts", sa.BigInteger, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("events_by_workflow", "events", ["workflow_id", "seq"])
    op.create_index("events_by_time", "events", ["ts"])
    last = op.create_table("event_sequence", sa.Column("last_seq", sa.BigInteger, nullable=False))
    op.bulk_insert(last, [{"last_seq": 0}])

    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.Text, primary_key=True),
        sa.Column("tool", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("idempotency_keys_by_time", "idempotency_keys", ["created_at"])
