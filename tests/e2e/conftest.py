"""Fixtures for each module: a browser, and a dashboard with data.

Playwright keeps an event loop running in its thread, where no other loop can run; so it is stopped at the end
of each module, before other tests run. `--dist loadfile` keeps the tests of a module together.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import skip_or_fail
from e2e.browser import FLAGS, Dashboard, Visitor, run_in_thread
from e2e.make import MadeProject, make_project

if TYPE_CHECKING:
    from playwright.sync_api import Browser


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.needs("chromium"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_or_fail("Playwright is not installed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dashboard, MadeProject]]:
    """A project with a morning's work, and its dashboard."""
    project = tmp_path_factory.mktemp("work") / "project"
    project.mkdir()
    made = run_in_thread(lambda: make_project(project))
    with Dashboard(project) as dashboard:
        yield dashboard, made


@pytest.fixture
def made(furnished: tuple[Dashboard, MadeProject]) -> MadeProject:
    return furnished[1]


@pytest.fixture
def dashboard(furnished: tuple[Dashboard, MadeProject]) -> Dashboard:
    return furnished[0]


@pytest.fixture
def visitor(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, dashboard) as visiting:
        yield visiting
        assert visiting.troubles == []
        assert visiting.foreign == []
