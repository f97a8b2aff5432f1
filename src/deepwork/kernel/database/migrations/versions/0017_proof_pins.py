"""What proofs were made with, and the guarded files that differed before work began."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("proofs", sa.Column("is_clean", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("proofs", sa.Column("pins_digest", sa.Text))  # NULL: made by an older version
    op.add_column("proofs", sa.Column("guarded_digest", sa.Text))  # NULL: none differed from the base
    op.create_table(
        "guarded_starts",
        sa.Column("workflow_id", sa.Text, primary_key=True),  # plan, tracked workflow or job session
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("tree_path", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),  # versions of files by path, as JSON
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
