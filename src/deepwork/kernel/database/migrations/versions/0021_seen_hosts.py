"""When each machine of a run was last seen, so that others need not wait for one that is gone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("runner_hosts", sa.Column("seen_at", sa.BigInteger))  # NULL: not since it joined
