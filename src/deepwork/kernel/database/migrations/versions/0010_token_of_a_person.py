"""Whether the holder of a token may decide as a person does; no token of an earlier version may."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("is_person", sa.Boolean, nullable=False, server_default=sa.false()))
