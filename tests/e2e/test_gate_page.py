"""A person decides about a job's step at its quality gate, and writes to an agent, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor
from e2e.make import MadeProject, open_app
from jobs.runs import call_job_tool, get_session, start_job


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by an agent's server."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def finish(app: Application, name: str) -> Any:
    return call_job_tool(app, "finished_step", outputs={name: name})


def decide(visitor: Visitor, label: str, text: str | None = None) -> None:
    """Click the button in the head of the page, and answer its dialog if there is one."""
    visitor.page.locator(".run-head-actions").get_by_role("button", name=label, exact=True).click()
    if text is not None:
        visitor.page.locator("dialog textarea").fill(text)
        visitor.page.locator("dialog").get_by_role("button", name=label, exact=True).click()


def test_a_job_at_its_gate_goes_on_when_a_person_decides(visitor: Visitor, app: Application) -> None:
    id = start_job(app, "letter")
    finish(app, "draft.md")
    finish(app, "polish.md")
    visitor.open(f"/runs/{id}")

    decide(visitor, "Grant a review")
    visitor.page.wait_for_selector("text=human:owner granted one more review")
    decide(visitor, "Send back", "Cut the second paragraph.")
    visitor.page.wait_for_selector("text=human:owner sent it back")
    buttons = visitor.page.locator(".run-head-actions .actions button")
    assert buttons.all_inner_texts() == ["Abort"]

    assert "Cut the second paragraph." in finish(app, "polish.md")["feedback"]
    finish(app, "polish.md")
    decide(visitor, "Pass", "Good enough.")
    visitor.page.wait_for_selector("text=human:owner let it pass")

    assert finish(app, "polish.md")["begin_step"]["step_id"] == "send"
    made = [(each["decision"], each["text"]) for each in get_session(app, id)["decisions"]]
    assert made == [
        ("round_granted", None),
        ("sent_back", "Cut the second paragraph."),
        ("passed", "Good enough."),
    ]


def test_an_override_and_a_self_review_look_different(visitor: Visitor, app: Application) -> None:
    id = start_job(app, "letter")
    finish(app, "draft.md")
    verdict = {
        "review_run_each": "step", "passed": False, "feedback": "Too long.",
        "criteria_results": [{"criterion": "Clear", "passed": True}, {"criterion": "Short", "passed": False}],
    }  # fmt: skip
    given: dict[str, Any] = {"outputs": {"polish.md": "polish.md"}}
    call_job_tool(app, "finished_step", **given, review_results=[verdict])
    call_job_tool(app, "finished_step", **given, quality_review_override_reason="Urgent.")

    visitor.open(f"/runs/{id}")

    visitor.page.wait_for_selector("text=Self-review 1")
    visitor.page.wait_for_selector("text=review overridden")


def test_the_dialog_of_a_message_names_the_recipient(
    visitor: Visitor, app: Application, made: MadeProject
) -> None:
    [agent] = [each for each in call_tool(app, "agent_list")["agents"] if each["id"] == made.agent]
    visitor.open("/live?show=agents")

    card = visitor.page.locator(f'[data-agent="{made.agent}"]')
    card.get_by_role("button", name="Send message").click()

    assert visitor.page.locator("dialog h2").inner_text() == f"Message to {agent['name']} ({made.agent})"
