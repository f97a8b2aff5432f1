"""One browser for all tests, and for each module a furnished dashboard to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from e2e.browsing import CHROMIUM, FLAGS, Dashboard, Visitor, aside
from e2e.make_e2e import Made, morning
from house import leave_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        leave_out("Playwright is not installed")
    if not CHROMIUM.exists():
        leave_out("Chromium is not installed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def furnished(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dashboard, Made]]:
    """A project with a morning's work in it, and its dashboard."""
    project = tmp_path_factory.mktemp("work") / "project"
    project.mkdir()
    made = aside(lambda: morning(project))
    with Dashboard(project) as dashboard:
        yield dashboard, made


@pytest.fixture
def made(furnished: tuple[Dashboard, Made]) -> Made:
    return furnished[1]


@pytest.fixture
def dashboard(furnished: tuple[Dashboard, Made]) -> Dashboard:
    return furnished[0]


@pytest.fixture
def visitor(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, dashboard) as visiting:
        yield visiting
        assert visiting.troubles == []
        assert visiting.foreign == []
