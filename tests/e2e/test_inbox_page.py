"""A person clears an inbox of a night's work with the keyboard alone; nothing moves, and no text is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from e2e.browser import Dashboard, Visitor, find_violations, run_in_thread
from e2e.make import open_app
from e2e.make_inbox import make_inbox
from tracking import make as track
from workspaces.make import create_repository

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = ".inbox-row.is-current .inbox-name"


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    project = create_repository(tmp_path / "project")

    def make() -> dict[str, Any]:
        app, _ = open_app(project, hours_ago=3)
        try:
            return make_inbox(project, app)
        finally:
            app.close()

    made: dict[str, Any] = run_in_thread(make)
    return made | {"project": project}


@pytest.fixture
def dashboard(made: dict[str, Any]) -> Iterator[Dashboard]:
    with Dashboard(made["project"]) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, dashboard: Dashboard) -> Iterator[Visitor]:
    with Visitor(browser, dashboard) as visiting:
        yield visiting
        assert [each for each in visiting.troubles if "status of 404" not in each] == []
        assert visiting.foreign == []


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def take_screenshot(visitor: Visitor, name: str) -> None:
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        visitor.page.screenshot(path=f"{folder}/{name}.png")


def count_open(visitor: Visitor) -> int:
    return int(visitor.page.locator(".inbox-head .count").first.inner_text() or 0)


def decide(visitor: Visitor, kind: str) -> None:
    """Decide about the item in focus, with the key that is for its kind."""
    page = visitor.page
    offered = page.locator(".actbar [data-act]").evaluate_all("all => all.map(each => each.dataset.act)")
    said = {
        "inbox.answer": ("e", "Bookings: the report says so."),
        "inbox.judge": ("a", "It is legal."),
        "inbox.raise": ("r", "20"),
        "inbox.retry": ("t", "The network is back."),
    }
    for act, (key, words) in said.items():
        if act in offered and kind != "parked_attempt":  # its runner, which is not there, would go on
            page.keyboard.press(key)
            page.locator(".askbox textarea").wait_for()
            page.keyboard.type(words)
            page.keyboard.press("Control+Enter")
            return
    if "inbox.approve" in offered and kind != "lost_claim":
        page.keyboard.press("a")
        return
    page.keyboard.press("c")


def test_an_inbox_of_a_night_is_cleared_without_a_mouse(visitor: Visitor, made: dict[str, Any]):
    page = visitor.page
    visitor.open("/")
    page.locator(".inbox-row").first.wait_for()
    before = count_open(visitor)
    kinds = page.locator(".inbox-row").evaluate_all("all => all.map(each => each.dataset.kind)")
    take_screenshot(visitor, "inbox")

    # What is decided may leave something else to decide, such as a run that can go on now.
    for _ in range(2 * before):
        row = page.locator(".inbox-row.is-current:not(.is-gone)")
        nothing = page.get_by_text("Nothing waits for you")
        row.or_(nothing).first.wait_for()
        if nothing.is_visible():
            break
        id, kind = row.get_attribute("data-id"), row.get_attribute("data-kind") or ""
        page.locator(".inbox-evidence").wait_for()
        decide(visitor, kind)
        gone = page.locator(f'.inbox-row[data-id="{id}"]:not(.is-gone)')
        gone.wait_for(state="detached")

    assert before >= 18
    assert len(set(kinds)) >= 8
    page.get_by_text("Nothing waits for you").wait_for()
    take_screenshot(visitor, "inbox-empty")


def test_the_evidence_stands_beside_the_question(visitor: Visitor, made: dict[str, Any]):
    page = visitor.page
    visitor.open("/?kind=approval")
    page.get_by_role("link", name="Sum in Decimal").click()
    detail = page.locator(".inbox-detail")
    detail.locator(".diff .is-added").first.wait_for()

    approve = detail.get_by_role("button", name="Approve")
    box = approve.bounding_box()
    height = page.viewport_size["height"]  # type: ignore[index]

    assert box is not None
    assert box["y"] + box["height"] <= height
    assert "Decimal" in detail.locator(".diff").inner_text()
    take_screenshot(visitor, "inbox-approval")
    visitor.open("/?kind=failed_task")
    page.get_by_role("link", name="Import old rows").click()
    red = page.locator(".inbox-check.is-failed").first
    red.wait_for()
    assert "test_total_is_exact" in red.inner_text()
    assert "\u001b" not in red.inner_text()
    assert red.locator(".ansi-1").count() > 0
    assert find_violations(visitor) == []
    take_screenshot(visitor, "inbox-failed")


def test_an_item_decided_elsewhere_keeps_the_draft_and_nothing_moves(
    visitor: Visitor, app: Application, made: dict[str, Any]
):
    page = visitor.page
    visitor.open("/?kind=approval")
    page.locator(".inbox-row").nth(1).locator("a").click()
    id = page.locator(".inbox-row.is-current").get_attribute("data-id") or ""
    page.keyboard.press("b")
    page.locator(".askbox textarea").fill("Round half even, please.")
    places = page.locator(".inbox-row").evaluate_all("all => all.map(each => each.getBoundingClientRect().y)")
    waiting = page.locator(".inbox-row").evaluate_all("all => all.map(each => each.dataset.id)")

    def refuse() -> None:
        given = {"approval_id": id.partition(":")[2], "comment": "Not now."}
        invoke(app.database, app.operations["refuse_approval"], given, Call("human:ada", "refuse_approval"))

    run_in_thread(refuse)
    page.locator(".inbox-row.is-gone").wait_for()

    assert page.locator(".inbox-row").evaluate_all("all => all.map(each => each.dataset.id)") == waiting
    assert (
        page.locator(".inbox-row").evaluate_all("all => all.map(each => each.getBoundingClientRect().y)")
        == places
    )
    page.get_by_text("Refused by ada").wait_for()
    assert page.locator(".inbox-draft-text").inner_text() == "Round half even, please."
    assert find_violations(visitor) == []
    take_screenshot(visitor, "inbox-decided-elsewhere")
    page.reload()
    visitor.wait_until_loaded()
    assert page.evaluate(f"localStorage.getItem('deepwork.draft.item:{id}')")


def test_what_is_new_waits_until_it_is_wanted(visitor: Visitor, app: Application, made: dict[str, Any]):
    page = visitor.page
    visitor.open("/?kind=blocker")
    page.locator(".inbox-row").first.wait_for()
    before = page.locator(".inbox-row").count()

    def raise_question() -> None:
        workflow = track.create_workflow(app, name="New", objective="Later.")
        phase = (workflow, track.create_phase(app, workflow, 1, name="Build"))
        track.create_blocker(app, track.create_task(app, phase, "ask"), "A new question?")

    run_in_thread(raise_question)
    page.get_by_role("button", name="1 new").wait_for()
    held = page.locator(".inbox-row").count()
    page.keyboard.press(".")
    page.get_by_role("link", name="A new question?").wait_for()

    assert held == before
    assert page.locator(".inbox-row").count() == before + 1


def test_a_snoozed_item_is_taken_back_and_several_are_cleared_at_once(visitor: Visitor):
    page = visitor.page
    visitor.open("/?kind=waiting_plan")
    page.locator(".inbox-row").first.wait_for()
    name = page.locator(NAME).inner_text()

    page.keyboard.press("z")
    page.locator(".askbox select option").first.wait_for(state="attached")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Snoozed for an hour").wait_for()
    page.locator(".inbox-row.is-gone").wait_for()
    page.keyboard.press("u")
    page.get_by_text("Back in your inbox").wait_for()
    page.locator(".inbox-row.is-gone").wait_for(state="detached")
    page.keyboard.press("k")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("heading", name="2 items selected").wait_for()
    page.keyboard.press("c")
    page.get_by_text("Nothing waits for you of this kind").wait_for()
    visitor.open("/?show=cleared")

    page.get_by_role("link", name=name).wait_for()
    assert page.locator(".inbox-row").count() == 2


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_inbox_fits(browser: Browser, dashboard: Dashboard, width: int, scheme: str):
    with Visitor(
        browser, dashboard, viewport={"width": width, "height": 850}, color_scheme=scheme
    ) as visitor:
        for name, address in (("list", "/"), ("approval", "/?kind=approval")):
            visitor.open(address)
            visitor.page.locator(".inbox-row").first.wait_for()
            if name == "approval":
                visitor.page.locator(".inbox-row a").first.click()
                visitor.page.locator(".inbox-evidence").wait_for()
            wide = visitor.page.evaluate("document.documentElement.scrollWidth > innerWidth")
            take_screenshot(visitor, f"inbox-{name}-{width}-{scheme}")
            assert not wide
            assert find_violations(visitor) == []
