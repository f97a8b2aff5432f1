"""What a person wants of an attempt: that it pauses, stops, is taken over or continues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("wish", sa.Text))  # pause, take, stop, continue
