"""The frame of every page: the palette, addresses of earlier versions, pages that load when needed, signing in."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.browser import AXE, Dashboard, Visitor, wait_until
from e2e.make import MadeProject
from quick import PLAIN

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_the_palette_goes_to_runs_and_pages_without_a_mouse(visitor: Visitor, made: MadeProject) -> None:
    page = visitor.page
    visitor.open("/settings")
    page.keyboard.press("Control+k")
    page.keyboard.type("payments")
    page.get_by_role("option", name="Payments in two currencies").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{made.track}*")

    page.keyboard.press("Control+k")
    page.keyboard.type("hist")
    page.get_by_role("option", name="History").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:text-is('History')")
    assert page.locator("dialog").count() == 0

    page.keyboard.press("Control+k")
    page.keyboard.type("Edsger")
    page.get_by_role("option", name="agent Edsger").wait_for()
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog", state="detached")


def test_addresses_of_earlier_versions_lead_to_where_their_content_is_now(
    visitor: Visitor, made: MadeProject
) -> None:
    visitor.open("/decisions?category=library_choice")
    visitor.page.wait_for_url("**/history?show=decisions&category=library_choice")
    visitor.page.get_by_text("Which type holds money?").wait_for()
    visitor.open("/why?commit=HEAD")
    visitor.page.wait_for_url("**/history?show=why&commit=HEAD")
    visitor.open("/health")
    visitor.page.wait_for_url("**/settings")
    visitor.page.go_back()
    assert visitor.address == "/history?show=why&commit=HEAD"


def test_a_page_is_loaded_only_when_somebody_goes_there(visitor: Visitor) -> None:
    loaded: list[str] = []
    visitor.page.on("request", lambda request: loaded.append(request.url))
    visitor.open("/")
    assert not [url for url in loaded if "/assets/history-" in url]

    visitor.page.get_by_role("link", name="History").click()

    visitor.page.wait_for_selector("main h1:text-is('History')")
    assert [url for url in loaded if "/assets/history-" in url]


def test_the_log_of_everything_says_who_did_what(visitor: Visitor) -> None:
    visitor.open("/history")

    visitor.page.get_by_role("row").filter(has_text="Edsger took “design”").wait_for()
    visitor.page.get_by_label("Filter log").fill("claude on “backend”")
    visitor.page.get_by_role("row").filter(has_text="2 tests failed").first.wait_for()


def test_a_browser_without_a_token_signs_in_on_the_page(browser: Browser, dashboard: Dashboard) -> None:
    with Visitor(browser, dashboard, viewport={"width": 390, "height": 844}) as visitor:
        visitor.context.clear_cookies()
        page = visitor.page
        page.goto(f"{dashboard.url}/runs")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        if AXE.exists():
            # The page runs no scripts of its own, and its policy allows none; the check comes from outside.
            client = visitor.context.new_cdp_session(page)
            client.send("Page.setBypassCSP", {"enabled": True})
            page.reload()
            page.evaluate(AXE.read_text())
            assert page.evaluate("axe.run().then((found) => found.violations.map((each) => each.id))") == []

        page.get_by_label("Token").fill(dashboard.token)
        page.keyboard.press("Enter")

        page.wait_for_selector("#connection.is-live")
        assert "token" not in visitor.address
        visitor.troubles.clear()  # the browser logs the 401


@pytest.mark.thorough
def test_the_page_is_not_live_while_the_server_is_stopped(browser: Browser, tmp_path: Path) -> None:
    with Dashboard(tmp_path, program=PLAIN) as dashboard, Visitor(browser, dashboard) as visitor:
        visitor.open("/settings")
        os.kill(dashboard.pid, signal.SIGSTOP)
        try:
            visitor.page.wait_for_selector("#connection.is-gone")
            assert visitor.page.locator(".health li").count() > 3
        finally:
            os.kill(dashboard.pid, signal.SIGCONT)
        visitor.page.wait_for_selector("#connection.is-live")
        wait_until(lambda: visitor.page.locator(".notice").count() == 0, "the notice did not go")
