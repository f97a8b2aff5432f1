"""For each module a browser, and a furnished dashboard to look at.

Playwright keeps a loop running in its thread, in which nothing else may run one: so it is stopped at the end of
each module, before a test of another kind comes. `--dist loadfile` keeps the tests of a module together.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import leave_out
from e2e.browsing import FLAGS, Dashboard, Visitor, aside
from e2e.make_e2e import Made, morning

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.needs("chromium"))
            # The first of a module furnishes its dashboard too.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        leave_out("Playwright is not installed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dashboard, Made]]:
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
