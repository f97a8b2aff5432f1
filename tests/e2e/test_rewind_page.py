"""A person looks at what rewinding a task would do, rewinds it with a passphrase, and undoes it, on the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import call_tool
from approvals.person import PASSPHRASE, enroll_passphrase
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor, find_violations
from e2e.make import open_app
from workspaces.make import Plan, create_repository

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dashboard]:
    """A dashboard of a repository, whose user has settings of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    with Dashboard(create_repository(tmp_path / "project")) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, dashboard) as visiting:
        yield visiting
        # A wrong passphrase is an answer with the status 403, which browsers report.
        assert [each for each in visiting.troubles if "status of 403" not in each] == []
        assert visiting.foreign == []


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def take_screenshot(visitor: Visitor, name: str) -> None:
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        visitor.page.screenshot(path=f"{folder}/{name}.png")


def test_a_person_rewinds_a_task_and_undoes_it(visitor: Visitor, app: Application) -> None:
    plan = Plan(app, {"api": [], "ui": ["api"]})
    plan.do("api", api_txt="api\n")
    tree = Path(plan.claim("ui")["workspace_path"])
    file = Path(plan.claims["api"]["workspace_path"]) / "api.txt"
    enroll_passphrase(app)
    page, dialog = visitor.page, visitor.page.locator("dialog")
    visitor.open(f"/tasks/{plan.ids['api']}")

    page.get_by_role("button", name="Rewind…").click()
    dialog.get_by_text("api.txt").wait_for()
    dialog.get_by_text("What its agents did outside of the repository").wait_for()
    assert dialog.get_by_role("button", name="Rewind", exact=True).is_disabled()
    dialog.get_by_label("Keep").check()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "rewind-preview")
    dialog.get_by_label("Passphrase").fill("wrong")
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    dialog.get_by_role("alert").wait_for()
    assert file.exists()
    dialog.get_by_label("Passphrase").fill(PASSPHRASE)
    dialog.get_by_role("button", name="Rewind", exact=True).click()
    dialog.get_by_text("The task went back to its start, with 1 file.").wait_for()
    take_screenshot(visitor, "rewind-done")

    assert not file.exists()
    dialog.get_by_role("button", name="Close").last.click()
    page.locator("h1 + .state", has_text="ready").wait_for()
    page.get_by_role("link", name="ui").click()
    page.get_by_text("It was built on work that was rewound since").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "stale-input")
    visitor.open(f"/tasks/{plan.ids['api']}")
    page.get_by_role("button", name="Undo…").click()
    dialog.get_by_label("Passphrase").fill(PASSPHRASE)
    dialog.get_by_role("button", name="Undo", exact=True).click()
    page.locator("h1 + .state", has_text="done").wait_for()
    page.locator("[data-rewind]", has_text="undone").wait_for()
    take_screenshot(visitor, "rewind-undone")
    assert file.read_text() == "api\n"
    assert tree.is_dir()
    assert "stale_input" not in call_tool(app, "task_get", id=plan.ids["ui"])
