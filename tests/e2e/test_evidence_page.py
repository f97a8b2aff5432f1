"""Budget, spending, checks and open approvals on the pages of a plan and a task."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from application import call_tool
from budgets.make import claim, create_plan, report
from dashboard.test_evidence import PROOF
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import ask
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.store import ProofStore
from e2e.browser import Dashboard, Visitor
from e2e.make import open_app


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by an agent's server."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def test_the_pages_show_budget_checks_and_open_approvals(visitor: Visitor, app: Application) -> None:
    plan, first, second = create_plan(
        app, {"name": "Build", "budget": {"usd": 1.5}}, {"name": "Ship"}, budget={"usd": 2, "minutes": 90}
    )
    agent = call_tool(app, "agent_register", name="Budgeter", runtime="custom")["id"]
    assert claim(app, first, agent)["success"]
    report(app, first, usd=1.25, tokens=4000)
    with app.database.transaction() as tx:
        ProofStore(tx).add(PROOF)
        ProofStore(tx).add_uses(ProofSubject("task", first), [PROOF.id])
    asked = ask(app.database, ApprovalRequest(ApprovalKind.TASK, first, plan, {"outcome": "Built."}))
    visitor.open(f"/runs/{plan}")
    visitor.page.wait_for_selector("text=$1.25 spent of $2.00")
    visitor.page.wait_for_selector("text=$1.25 unverified")

    report(app, first, usd=1)  # the open page follows
    visitor.page.wait_for_selector("text=is used up")
    assert claim(app, second, agent)["reason"] == "budget"
    visitor.open(f"/tasks/{first}")

    visitor.page.wait_for_selector("text=$2.25 spent of $1.50")
    visitor.page.wait_for_selector("text=12 tests, 1 skipped")
    link = visitor.page.locator("section", has_text="Waiting for approval").get_by_role("link")
    assert link.get_attribute("href") == f"/approvals/{asked.id}"
    visitor.open("/")
    visitor.page.wait_for_selector("text=release used up its budget")
