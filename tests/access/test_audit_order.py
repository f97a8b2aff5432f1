"""Audit entries are written at the end of a transaction, so that nobody waits for a row while they hold the log."""

from __future__ import annotations

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.database.transaction import join_transaction


def test_a_call_inside_a_transaction_is_recorded_when_that_ends(app: Application):
    with app.database.transaction() as tx, join_transaction(tx):
        call_tool(app, "agent_register", name="ada", runtime="custom")
        before = tx.fetch_value("SELECT count(*) FROM audit WHERE tool = 'agent_register'")

    with app.database.reading() as tx:
        after = tx.fetch_value("SELECT count(*) FROM audit WHERE tool = 'agent_register'")
    assert (before, after) == (0, 1)
