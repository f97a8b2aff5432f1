"""Takes the screenshots of the dashboard that the documentation shows, from the data of its browser tests."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

PROJECT = Path(__file__).parents[1]
IMAGES = PROJECT / "docs" / "images"

sys.path.insert(0, str(PROJECT / "tests"))

from e2e.browser import FLAGS, Dashboard, Visitor  # noqa: E402 - the tests are not a package
from e2e.make import make_project  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="deepwork-screenshots-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        made = make_project(project)
        pages = {
            "dashboard-home": ("/", "light"),
            "dashboard-timeline": (f"/runs/{made.track}?tab=timeline&task={made.tasks['part']}", "dark"),
            "dashboard-work": ("/live", "light"),
        }
        with Dashboard(project) as dashboard, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            for name, (path, scheme) in pages.items():
                with Visitor(browser, dashboard, color_scheme=scheme) as visitor:
                    visitor.open(path)
                    visitor.page.screenshot(path=IMAGES / f"{name}.png")
            browser.close()


if __name__ == "__main__":
    main()
