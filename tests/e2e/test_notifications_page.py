"""Notifications on the page: a device, channels, the service worker, and what happened since somebody left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.browser import Dashboard, Visitor, find_violations, run_in_thread, wait_until
from e2e.make import MadeProject, make_project
from notifications.make import Receiver

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dashboard, MadeProject]]:
    """A project of a user with settings of their own."""
    project = tmp_path_factory.mktemp("notified") / "project"
    project.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(project.parent / "config"))
        made = run_in_thread(lambda: make_project(project))
        with Dashboard(project) as dashboard:
            yield dashboard, made


def find_file(dashboard: Dashboard) -> Path:
    return dashboard.project.parent / "config" / "deepwork" / "notifications.json"


def test_a_channel_is_added_tried_and_removed_and_quiet_hours_are_kept(
    visitor: Visitor, dashboard: Dashboard
):
    page = visitor.page
    with Receiver() as receiver:
        visitor.open("/settings?show=notifications")
        page.get_by_label("Kind").select_option("webhook")
        page.get_by_label("Address").fill(f"{receiver.url}/hook")
        page.get_by_role("button", name="Add", exact=True).click()
        page.wait_for_selector("text=It is not shown again.")
        page.get_by_role("button", name="Test 127.0.0.1").click()
        wait_until(lambda: receiver.got, "no test was sent")
        assert receiver.got[0].said["kind"] == "test"
        page.wait_for_selector("#result .is-good")
    page.get_by_role("button", name="Test 127.0.0.1").click()
    page.wait_for_selector("#result .is-bad")

    page.get_by_role("checkbox", name=re.compile("Quiet hours")).check()
    page.get_by_label("From").fill("21:30")
    page.get_by_role("button", name="Save").click()
    wait_until(
        lambda: json.loads(find_file(dashboard).read_text())["quiet"] is not None,
        "quiet hours were not stored",
    )
    visitor.open("/settings?show=notifications")
    assert page.get_by_label("From").input_value() == "21:30"
    assert find_violations(visitor) == []
    page.get_by_role("button", name="Remove 127.0.0.1").click()
    page.wait_for_selector("text=None yet.")
    visitor.troubles = [each for each in visitor.troubles if "400" not in each]


def test_a_push_message_is_shown_and_a_click_opens_what_it_is_about(visitor: Visitor, made: MadeProject):
    """Chromium's own push service cannot be reached here: the browser is given the message as its service would."""
    page, context = visitor.page, visitor.context
    context.grant_permissions(["notifications"])
    visitor.open("/settings?show=notifications")
    assert page.evaluate("document.querySelector('link[rel=manifest]') !== null")
    tools = context.new_cdp_session(page)
    found: dict[str, str] = {}

    def note(event: dict[str, Any]) -> None:
        for each in event["registrations"]:
            found["id"] = each["registrationId"]

    tools.on("ServiceWorker.workerRegistrationUpdated", note)
    tools.send("ServiceWorker.enable")
    register = """async () => {
        const policy = trustedTypes.createPolicy("test", {createScriptURL: (url) => url});
        await navigator.serviceWorker.register(policy.createScriptURL("/service-worker.js"));
        await navigator.serviceWorker.ready;
    }"""
    page.evaluate(register)
    wait_until(lambda: page.evaluate("1") and found, "no service worker was registered")
    said = {
        "id": "nm_1",
        "title": "An approval waits for you.",
        "body": "",
        "path": f"/tasks/{made.tasks['part']}",
    }

    def push(data: str) -> None:
        message = {"origin": visitor.dashboard.url, "registrationId": found["id"], "data": data}
        tools.send("ServiceWorker.deliverPushMessage", message)

    list_shown = """async () => {
        const shown = await (await navigator.serviceWorker.ready).getNotifications();
        return shown.map((each) => [each.title, each.tag, each.data.path]);
    }"""
    push(json.dumps(said))
    push(json.dumps(said))  # sent again
    wait_until(lambda: page.evaluate(list_shown), "nothing was shown")
    assert page.evaluate(list_shown) == [[said["title"], "nm_1", said["path"]]]

    [worker] = context.service_workers
    click = """async () => {
        const [shown] = await self.registration.getNotifications();
        self.dispatchEvent(new NotificationEvent("notificationclick", {notification: shown}));
    }"""
    worker.evaluate(click)
    page.wait_for_url(f"**{said['path']}")

    def is_each_shown() -> bool:
        # Again and again: the browser drops what it gets while it stops or starts the worker.
        push("no json")
        push(json.dumps(said | {"id": "nm_2", "path": "https://example.org/"}))
        return len(page.evaluate(list_shown)) == 2

    wait_until(is_each_shown, "each message shows something")
    assert {each[2] for each in page.evaluate(list_shown)} == {"/"}


def test_on_the_first_visit_after_an_hour_a_line_says_what_happened(visitor: Visitor, made: MadeProject):
    page = visitor.page
    visitor.open("/runs")
    assert page.locator(".is-news").count() == 0
    page.wait_for_function("localStorage.getItem('deepwork.seen')")
    page.evaluate(f"localStorage.setItem('deepwork.seen', String(Date.now() - {30 * HOUR_MS}))")

    visitor.open("/runs")
    page.wait_for_selector(".is-news")
    assert find_violations(visitor) == []
    page.get_by_role("link", name="Look").click()
    page.wait_for_selector(".since-lines")

    assert page.locator(".is-news").count() == 0
    assert page.locator("#since-decided li").count() > 0
    assert find_violations(visitor) == []
    page.locator("#since-failed a").first.click()
    page.wait_for_url("**/tasks/**")
    visitor.open("/runs")
    assert page.locator(".is-news").count() == 0


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_the_pages_fit_every_width(browser: Browser, dashboard: Dashboard, width: int):
    with Visitor(browser, dashboard, viewport={"width": width, "height": 800}) as visitor:
        for address in ("/settings?show=notifications", "/since/7d"):
            visitor.open(address)
            assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
            assert find_violations(visitor) == []
