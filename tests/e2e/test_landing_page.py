"""A person lands a plan on the page, sees what is in the way, and asks why a line exists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor, find_violations
from e2e.make import open_app
from landing.make import LandingProject
from workspaces.make import create_repository


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    with Dashboard(create_repository(tmp_path / "project")) as running:
        yield running


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def take_screenshot(visitor: Visitor, name: str) -> None:
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        visitor.page.screenshot(path=f"{folder}/{name}.png")


def test_a_person_lands_a_plan_and_asks_why_a_line_exists(visitor: Visitor, app: Application) -> None:
    project = LandingProject(visitor.dashboard.project, app)
    plan = project.plan({"parse": None, "print": None})
    for name in plan.ids:
        plan.claim(name)
    decided = {"type": "decision", "summary": "Parse by hand: <b>no</b> library."}
    call_tool(
        app, "checkpoint_add", task_id=plan.ids["parse"], agent_id=plan.claims["parse"]["agent_id"], **decided
    )
    for name in plan.ids:
        tree = Path(plan.claims[name]["workspace_path"])
        (tree / "a.txt").write_text(f"one\n{name}\n")
        plan.complete(name)
    page, dialog = visitor.page, visitor.page.locator("dialog")
    visitor.open(f"/runs/{plan.id}?tab=landing")
    page.get_by_text("Nothing was landed yet").wait_for()

    # Uncommitted work is refused, unless the person wants it committed.
    page.get_by_role("button", name="Land…").click()
    assert find_violations(visitor) == []
    dialog.get_by_label("Commit uncommitted work first").check()
    take_screenshot(visitor, "land-dialog")
    dialog.get_by_role("button", name="Land", exact=True).click()
    dialog.get_by_text("1 task landed, 1 not yet.").wait_for()
    take_screenshot(visitor, "land-result")
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("list", name="Ended").get_by_text("landed").wait_for()
    page.get_by_role("list", name="On the way").get_by_text("conflicts with what landed before").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "landing-tab")

    # What is in the way is in the inbox; the landing names the file, and the file who changed it.
    visitor.open("/")
    page.get_by_role("link", name="conflicts with what landed before").click()
    page.get_by_role("link", name="Open its page").click()
    page.get_by_role("heading", name="In the way").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "landing")
    page.get_by_role("link", name="a.txt").click()
    page.locator(".chain").get_by_text("parse").first.wait_for()
    assert visitor.address.startswith("/history?show=why&path=a.txt&commit=main")

    # A line of a diff leads to the chain behind it, by keyboard.
    visitor.open(f"/tasks/{plan.ids['parse']}")
    page.get_by_role("button", name="Why line 1").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    dialog.get_by_text("Parse by hand: <b>no</b> library.").wait_for()
    dialog.get_by_text("changed by parse").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "why")
    page.set_viewport_size({"width": 360, "height": 740})
    take_screenshot(visitor, "why-phone")
    assert page.evaluate("document.querySelector('dialog').scrollWidth <= innerWidth")
    dialog.get_by_role("link", name="parse").first.click()
    page.set_viewport_size({"width": 1280, "height": 800})
