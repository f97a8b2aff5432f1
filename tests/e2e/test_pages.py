"""Every page: both themes, links, keyboard, narrow windows, accessibility."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from application import skip_or_fail
from e2e.browser import AXE, Dashboard, Visitor, wait_until
from e2e.make import MadeProject

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def list_paths(made: MadeProject) -> list[str]:
    run, part = f"/runs/{made.track}", made.tasks["part"]
    return [
        "/", "/?kind=approval", "/?show=cleared", "/runs", "/runs?q=nothing-of-the-kind", "/history", "/history?show=decisions", "/history?show=problems",
        "/history?show=approvals", "/history?show=why", "/live", "/live?show=agents", f"/live?show=agents&agent={made.agent}",
        "/runs?kind=job", "/runs?kind=plan", "/settings", "/settings?show=credentials", "/settings?show=browser", "/settings?show=notifications", "/since/7d", run, f"{run}?tab=graph", f"{run}?tab=tasks", f"{run}?tab=files",
        f"{run}?tab=files&file=src/ledger/balance.py", f"{run}?tab=decisions", f"{run}?tab=issues", f"{run}?tab=log",
        f"{run}?tab=timeline&task={part}", f"/tasks/{part}", f"/tasks/{part}?diff=split", f"/runs/{made.done}",
        f"/runs/{made.plan}?tab=graph", f"/tasks/{made.planned['backend']}", f"/runs/{made.job}",
        f"/tasks/{made.job}%2Fpolish", "/review", f"/review?item={made.planned['backend']}", f"/live?item={made.attempts['works']}", f"/work/{made.agent_run}",
        "/spend", "/spend?by=day&days=7", f"/spend?run={made.plan}", f"/runs/{made.plan}", f"/runs/{made.plan}?tab=landing",
    ]  # fmt: skip


@dataclass
class Seen:
    """The problems found on all pages."""

    violations: list[tuple[str, ...]] = field(default_factory=list)
    wide: list[tuple[str, int, int]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def seen(browser: Browser, furnished: tuple[Dashboard, MadeProject]) -> Seen:
    """Opens every page once, runs axe on it, then makes the window narrow."""
    if not AXE.exists():
        skip_or_fail("axe-core is not installed: install npm, then run `make test` again")
    dashboard, made = furnished
    found = Seen()
    with Visitor(browser, dashboard) as visitor:
        visitor.context.add_init_script(AXE.read_text())
        for address in list_paths(made):
            visitor.page.set_viewport_size({"width": 1280, "height": 800})
            visitor.open(address)
            found.violations += [(address, *each) for each in _find_violations(visitor)]
            found.wide += [(address, *each) for each in _find_wide_elements(visitor)]
        found.troubles = visitor.troubles + visitor.foreign
    return found


def _find_violations(visitor: Visitor) -> Iterator[tuple[str, ...]]:
    # All rules in one theme; in the other only what a theme can change: the colours.
    for theme, rules in (("light", "{}"), ("dark", "{runOnly: ['color-contrast']}")):
        visitor.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        answer = visitor.page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], ...{rules}}})")
        for each in answer["violations"]:
            yield theme, each["id"], each["nodes"][0]["html"][:200]


def _find_wide_elements(visitor: Visitor) -> Iterator[tuple[int, int]]:
    for width, height in ((360, 740), (640, 400)):  # a phone; a desktop window at 200 %
        visitor.page.set_viewport_size({"width": width, "height": height})
        over = visitor.page.evaluate(
            "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth) - innerWidth"
        )
        if over > 0:
            yield width, over


@pytest.mark.thorough
def test_axe_finds_nothing_on_any_page_in_either_theme(seen: Seen) -> None:
    assert seen.violations == []


@pytest.mark.thorough
def test_no_page_is_wider_than_a_narrow_window(seen: Seen) -> None:
    assert seen.wide == []


@pytest.mark.thorough
def test_no_page_logs_errors_or_contacts_another_host(seen: Seen) -> None:
    assert seen.troubles == []


def test_a_link_restores_the_view_and_back_the_previous_one(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}?tab=tasks&sort=name&status=failed&task={made.tasks['broken']}")
    rows = visitor.page.locator(".tasks .row[data-key]")
    wait_until(lambda: rows.count() == 1, "the list does not show exactly the failed task")
    visitor.page.get_by_role("heading", name="Migrate old rows").wait_for()

    visitor.page.reload()
    visitor.page.get_by_role("heading", name="Migrate old rows").wait_for()
    visitor.page.get_by_role("tab", name="Log").click()
    visitor.page.wait_for_selector(".log .row")
    visitor.page.go_back()

    visitor.page.wait_for_selector(".tasks .row")
    assert visitor.address.startswith(f"/runs/{made.track}?tab=tasks&sort=name&status=failed")
    visitor.page.go_forward()
    visitor.page.wait_for_selector(".log .row")


def freeze_clock(visitor: Visitor) -> None:
    """Stop the page's clock: the second key must follow the first within 1.2 seconds, which a slow machine may miss."""
    visitor.page.clock.set_fixed_time(time.time() * 1000)


def test_lists_can_be_reached_by_keyboard(visitor: Visitor, made: MadeProject) -> None:
    page = visitor.page
    freeze_clock(visitor)
    visitor.open("/")
    for keys, heading in (("gr", "Runs"), ("gh", "History"), ("ge", "Settings"), ("gr", "Runs")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_selector(f"main h1:text-is('{heading}')")
    page.wait_for_selector("[data-run]")

    page.keyboard.press("j")
    page.wait_for_selector("[data-run] a:focus")
    first = visitor.get_focused_text()
    page.keyboard.press("j")
    wait_until(lambda: visitor.get_focused_text() != first, "the focus did not move")
    page.keyboard.press("k")
    wait_until(lambda: visitor.get_focused_text() == first, "the focus did not come back")


def test_a_run_and_its_tasks_can_be_reached_by_keyboard(visitor: Visitor, made: MadeProject) -> None:
    page = visitor.page
    freeze_clock(visitor)
    visitor.open("/runs")
    page.wait_for_selector("[data-run]")
    page.keyboard.press("/")
    page.keyboard.type("Payments")
    wait_until(
        lambda: page.locator("[data-run]").count() == 1 and "q=Payments" in visitor.address,
        "the list was not filtered",
    )
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".run-row")
    for tab in ("Tasks", "Graph", "Timeline"):
        page.keyboard.press("]")
        page.wait_for_selector(f'[role="tab"][aria-selected="true"]:has-text("{tab}")')
    page.wait_for_selector(".timeline .row[data-key]")

    page.keyboard.press("j")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector('.timeline .row[aria-expanded="false"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("aside h2:text-is('Read the ledger')")
    page.keyboard.press("Escape")
    page.wait_for_selector("aside", state="detached")

    page.keyboard.press("[")
    page.wait_for_selector('[role="tab"][aria-selected="true"]:has-text("Graph")')


def test_the_help_can_be_opened_and_closed_by_keyboard(visitor: Visitor) -> None:
    visitor.open("/runs")
    visitor.page.keyboard.press("?")
    visitor.page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()

    visitor.page.keyboard.press("Escape")

    visitor.page.wait_for_selector("dialog", state="detached")


def test_shortcuts_can_be_turned_off_and_are_off_while_typing(visitor: Visitor) -> None:
    freeze_clock(visitor)
    visitor.open("/runs")
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("ge")
    assert visitor.address.startswith("/runs")

    visitor.page.keyboard.press("Escape")
    visitor.page.keyboard.press("?")
    visitor.page.get_by_label("Enable single-key shortcuts").uncheck()
    visitor.page.keyboard.press("Escape")
    visitor.page.wait_for_selector("dialog", state="detached")
    visitor.page.keyboard.press("g")
    visitor.page.keyboard.press("e")

    assert visitor.address.startswith("/runs")


def test_a_chosen_theme_is_set_before_the_first_frame(browser: Browser, dashboard: Dashboard) -> None:
    with Visitor(browser, dashboard, color_scheme="light") as visitor:
        visitor.open("/")
        light = visitor.page.evaluate("getComputedStyle(document.body).backgroundColor")
        visitor.page.get_by_label("Theme").select_option("dark")
        visitor.page.add_init_script(
            "requestAnimationFrame(() => { window.firstTheme = document.documentElement.dataset.theme })"
        )
        visitor.open("/runs")

        assert visitor.page.evaluate("window.firstTheme") == "dark"
        assert visitor.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        assert visitor.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_missing_runs_and_pages_show_an_error_and_a_link_back(visitor: Visitor) -> None:
    visitor.open("/runs/tw_000000000000")
    visitor.page.get_by_role("alert").get_by_text("Not found", exact=True).wait_for()
    visitor.open("/nowhere")

    visitor.page.get_by_role("link", name="Go to the inbox").click()

    visitor.page.wait_for_selector("main h1:has-text('Inbox')")
    visitor.troubles.clear()  # the browser logs the 404


def test_a_diff_shows_changed_words_and_attribution(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/tasks/{made.tasks['part']}")
    file = visitor.page.get_by_role("region", name="src/ledger/balance.py", exact=True)
    file.locator("mark", has_text="Decimal").wait_for()

    assert "exclusive" in file.inner_text()
    visitor.page.get_by_role("button", name="Side by side").click()
    file.locator("table.is-split").wait_for()


def test_reviews_of_a_job_are_shown_with_their_criteria(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.job}")

    step = visitor.page.locator(".card.is-current").inner_text()

    assert "needs you" in step
    assert "Cut the second paragraph." in step
    assert "The second paragraph says the same twice." in step


def test_a_click_in_the_graph_selects_the_task(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.plan}?tab=graph")
    visitor.page.get_by_role("button", name="frontend").click()
    visitor.page.wait_for_selector("aside h2:text-is('frontend')")

    visitor.page.get_by_text("Edges as a table").click()

    edges = visitor.page.locator(".plain-table tbody tr")
    wait_until(lambda: edges.count() == 8, "the table does not have the eight edges of the plan")
