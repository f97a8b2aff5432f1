"""A person watches agents at work on the page, and stops them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dashboard.make_agent_runs import move
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunEvent, RunStatus
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.service import AttemptService, RunService
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.application import Application
from deepwork.gates.budgets.models import CostSource, Entry, Usage
from deepwork.gates.budgets.service import BudgetService
from e2e.browser import Dashboard, Visitor, run_in_thread
from e2e.make import MadeProject, open_app

MARKUP = "<img src=x onerror=alert(1)> make deploy"


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by the process that drives the run."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def report_progress(app: Application, attempt_id: str, now_doing: str) -> None:
    """Store what an agent does now, and tell it, as the runner does."""
    with app.database.transaction() as tx:
        attempt = AttemptStore(tx).get(attempt_id)
    changed = AttemptService(app.database).update(attempt, now_doing=now_doing, usd_micros=2_000_000)
    assert changed is not None
    usage = Usage(0, 2_000_000 - attempt.usd_micros, CostSource.REPORTED)
    spent = Entry(f"attempt:{attempt_id}", 2, usage, run_id=attempt.run_id)
    with app.database.transaction() as tx:
        BudgetService(tx).record(spent)
        tx.emit(RunEvent.ATTEMPT_PROGRESS, build_payload(describe_attempt(changed)), changed.workflow_id)


def test_a_run_that_nobody_drives_is_unattended(visitor: Visitor, made: MadeProject) -> None:
    page = visitor.page
    assert made.locks is not None
    made.locks.release_all()
    try:
        visitor.open("/live")
        line = page.locator(f"[data-agent-run={made.agent_run}]")
        line.locator(".state", has_text="unattended").wait_for()
        line.get_by_text(f"deepwork runs attach {made.agent_run}").first.wait_for()
        visitor.open(f"/runs/{made.plan}")
        page.locator("h1 + .state", has_text="unattended").wait_for()
    finally:
        made.hold_locks()

    # Nothing is stored when a process takes over, so no event tells of it; the page looks again by itself.
    page.locator("h1 + .state", has_text="running").wait_for()


def test_a_person_watches_agents_and_stops_them(
    visitor: Visitor, app: Application, made: MadeProject
) -> None:
    page = visitor.page
    visitor.open("/")
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.wait_for_selector("main h1:has-text('Live')")
    lane = page.locator(f"[data-lane={made.attempts['works']}]")
    lane.get_by_text("Bash: make test").wait_for()
    page.locator(f"[data-lane={made.attempts['limited']}]").get_by_text("for ").wait_for()
    run_in_thread(lambda: report_progress(app, made.attempts["works"], "Bash: make lint"))
    lane.get_by_text("Bash: make lint").wait_for()
    page.locator(f"[data-agent-run={made.agent_run}]").get_by_role("link").click()
    card = page.locator("main")
    card.get_by_text("$3.40 of $20.00").first.wait_for()
    card.get_by_text("claude, then codex").wait_for()
    page.locator(f"[data-attempt={made.attempts['limited']}]").get_by_text("limit: until").wait_for()
    works = page.locator(f"[data-attempt={made.attempts['works']}]")
    works.get_by_text("Bash: make lint").wait_for()
    works.get_by_role("button", name="Output").click()
    works.get_by_text("All sums are exact now.").wait_for()
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/work.png", full_page=True)

    # What the agent does next appears by itself, as text.
    run_in_thread(lambda: report_progress(app, made.attempts["works"], MARKUP))
    works.get_by_text(MARKUP).wait_for()
    card.get_by_text("$3.40 of $20.00").first.wait_for()

    card.get_by_role("button", name="Pause").click()
    card.get_by_text("Paused by human:owner.").wait_for()
    card.get_by_role("button", name="Resume").click()
    card.get_by_role("button", name="Pause").wait_for()
    card.get_by_role("button", name="Stop now").click()
    page.locator("dialog").get_by_role("button", name="Stop now").click()
    card.get_by_text("stopping").wait_for()
    with app.database.reading() as tx:
        assert tx.fetch_value("SELECT status FROM runner_runs") == "ending"

    # What the driver leaves for a person is on the home page, and leads to the run.
    def end_run() -> None:
        with app.database.reading() as tx:
            attempt = AttemptStore(tx).get(made.attempts["checked"])
        move(app, attempt, AttemptStage.PARKED, parked_for=ParkedFor.PERSON, reason="Approve the work.")
        RunService(app.database).set_status(made.agent_run, RunStatus.NEEDS_PERSON, "One task waits for you.")

    run_in_thread(end_run)
    visitor.open("/")
    page.get_by_text("The agent of frontend waits for you").wait_for()
    assert not page.get_by_role(
        "link", name="Agents stopped working on Release 2.0"
    ).is_visible()  # because of it
    visitor.open(f"/work/{made.agent_run}")
    page.get_by_text("Check tests is red: 2 tests failed.").wait_for()
    page.get_by_role("link", name="backend").first.click()
    page.get_by_role("heading", name="Attempts of agents").wait_for()
    page.get_by_role("link", name="Attempt 2").wait_for()
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/task.png", full_page=True)
