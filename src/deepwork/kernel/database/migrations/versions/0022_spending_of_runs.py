"""Which run spent what: the cost of a run that has ended stays, although its attempts continue in another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("spending", sa.Column("run_id", sa.Text))  # NULL: no run of agents spent it
    op.execute(
        """
        UPDATE spending SET run_id = (SELECT run_id FROM attempts WHERE attempts.id = substr(stream, 9))
         WHERE stream LIKE 'attempt:%'
        """
    )
    op.create_index("spending_by_run", "spending", ["run_id"])
