"""Live updates, reconnecting after interruptions, and actions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor, wait_until
from e2e.make import MadeProject, open_app
from tracking import make as track

if TYPE_CHECKING:
    from playwright.sync_api import Response


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by an agent's server."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


def list_shown_seqs(visitor: Visitor) -> list[int]:
    shown: list[int] = visitor.page.eval_on_selector_all(
        ".log .log-seq", "cells => cells.map(cell => +cell.textContent)"
    )
    return sorted(shown)


def test_a_blocker_appears_on_home_without_a_reload(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    visitor.open("/")
    visitor.page.evaluate("window.isTheSame = true")

    track.create_blocker(app, made.tasks["running"], "May the yen have cents?")

    visitor.page.get_by_role("button", name="1 new").click()
    visitor.page.wait_for_selector("text=May the yen have cents?")
    assert visitor.page.evaluate("window.isTheSame") is True


def test_a_task_that_ends_is_shown_as_ended_in_the_open_timeline(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    where = (made.track, track.create_phase(app, made.track, 3, name="Check"))
    visitor.open(f"/runs/{made.track}?tab=timeline")

    task = track.create_task(app, where, "Count the cents", agent_name="Kay")
    row = visitor.page.locator(f'.row[data-key="{task}"]')
    row.wait_for()
    assert "running" in row.inner_text()
    track.complete_task(app, task)

    row.get_by_text("done").wait_for()


def test_events_missed_during_an_outage_arrive_once_and_in_order(
    visitor: Visitor, made: MadeProject, dashboard: Dashboard, app: Application
) -> None:
    visitor.open(f"/runs/{made.track}?tab=log&type=milestone:created")
    visitor.page.wait_for_selector(".log .row")
    dashboard.stop()
    visitor.page.wait_for_selector("text=The server is not responding.")

    for number in range(12):
        call_tool(app, "log_milestone", task_id=made.tasks["running"], message=f"unseen {number}")
    dashboard.start()

    visitor.page.wait_for_selector("#connection.is-live")
    visitor.page.wait_for_selector("text=unseen 11")

    def unseen() -> list[int]:
        texts = visitor.page.locator(".log .log-text").all_inner_texts()
        return sorted(int(text.rsplit(" ", 1)[1]) for text in texts if "unseen" in text)

    wait_until(lambda: len(unseen()) >= 12, "not everything was caught up")
    assert unseen() == list(range(12))
    shown = list_shown_seqs(visitor)
    assert len(shown) == len(set(shown))
    visitor.troubles.clear()  # the browser logs the refused connections


def test_a_blocker_is_resolved_in_place_and_recorded_as_done_by_a_person(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    issue = track.create_blocker(app, made.tasks["running"], "Who signs this off?")
    visitor.open(f"/?item=blocker:{issue}")
    visitor.page.get_by_role("button", name="Resolve").click()
    box = visitor.page.locator(".askbox")
    box.get_by_role("textbox").fill("The treasurer does.")
    box.get_by_role("button", name="Resolve").click()

    visitor.page.locator(f'.inbox-row.is-gone[data-id="blocker:{issue}"]').wait_for()
    visitor.open(f"/runs/{made.track}?tab=issues&state=resolved")
    resolved = visitor.page.locator(f'[data-issue="{issue}"]').inner_text()
    assert "The treasurer does." in resolved
    assert "human" in resolved


def test_an_error_of_an_action_is_shown_in_its_dialog_and_the_text_stays(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    issue = track.create_blocker(app, made.tasks["running"], "Which tax?")
    visitor.open("/history?show=problems")
    visitor.page.locator(f'[data-issue="{issue}"]').get_by_role("button", name="Resolve").click()
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("x")
    visitor.page.route("**/api/v1/actions/**", lambda route: route.fulfill(
        status=409, content_type="application/json",
        body=json.dumps({"code": "INVALID_STATE", "message": "It is over.", "suggestion": "Look again."}),
    ))  # fmt: skip
    dialog.get_by_role("button", name="Resolve").click()

    dialog.get_by_text("It is over. Look again.").wait_for()
    visitor.page.unroute("**/api/v1/actions/**")
    visitor.page.reload()
    visitor.page.locator(f'[data-issue="{issue}"]').get_by_role("button", name="Resolve").click()
    assert dialog.get_by_role("textbox").input_value() == "x"
    visitor.page.keyboard.press("Control+Enter")
    visitor.page.locator("#result").get_by_text("Resolve: done.").wait_for()
    visitor.troubles.clear()  # the browser logs the 409


def test_the_title_shows_how_many_items_need_a_person(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    read: list[Response] = []
    visitor.page.on("response", lambda answer: read.append(answer) if is_home(answer) else None)
    visitor.open("/runs")
    visitor.page.wait_for_selector(".badge")

    track.create_blocker(app, made.tasks["running"], "One more?")

    # Claims expire and tasks fall silent meanwhile, so compare with the page's last response.
    def is_counted() -> bool:
        home = read[-1].json()
        is_there = "One more?" in [need["title"] for need in home["needs_you"]]
        return is_there and visitor.page.title().startswith(f"({home['needs_you_total']})")

    wait_until(is_counted, "the title did not change")


def is_home(answer: Response) -> bool:
    return answer.url.endswith("/api/v1/home") and answer.status == 200


def test_an_offline_browser_shows_it_and_resumes_when_back_online(
    visitor: Visitor, made: MadeProject, app: Application
) -> None:
    visitor.open("/")
    visitor.context.set_offline(True)
    visitor.page.wait_for_selector("text=You are offline.")

    track.create_blocker(app, made.tasks["running"], "Said while nobody listened?")
    visitor.context.set_offline(False)

    visitor.page.get_by_role("button", name="1 new").click()
    visitor.page.wait_for_selector("text=Said while nobody listened?")
    visitor.page.wait_for_selector(".notice", state="detached")
    visitor.troubles.clear()  # the browser logs what it could not load
