"""Other ways to connect: the HTTP server, PostgreSQL, a read-only token, a network without WebSockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from fastmcp import Client

from application import empty_database, make_app
from dashboard.make import create_token
from deepwork.edge.server.application import Application
from e2e.browser import Dashboard, Visitor, run_in_thread
from e2e.make import MadeProject, open_app
from tracking import make as track

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def app(dashboard: Dashboard) -> Iterator[Application]:
    """The same store, opened as by an agent's server."""
    app, _ = open_app(dashboard.project)
    yield app
    app.close()


@pytest.mark.parametrize(
    ("scope", "mark", "refusal"),
    [("read", "read only", "This needs the scope work."), ("admin", "not a person's token", "Only a person")],
)
def test_a_visitor_who_is_no_person_is_offered_no_actions_and_cannot_call_them(
    browser: Browser,
    dashboard: Dashboard,
    made: MadeProject,
    app: Application,
    scope: str,
    mark: str,
    refusal: str,
) -> None:
    token = create_token(app, f"guest-{scope}", scope)
    with Visitor(browser, dashboard, token) as guest:
        guest.open("/")
        guest.page.locator(f'[data-id="blocker:{made.blocker}"] a').click()
        guest.page.locator(".inbox-evidence").wait_for()

        assert mark in guest.page.locator(".who").inner_text()
        assert guest.page.get_by_role("button", name="Resolve").count() == 0
        answer = guest.page.evaluate(
            """async issue => {
                const answer = await fetch('/api/v1/actions/resolve_issue', {
                    method: 'POST', headers: {'content-type': 'application/json'},
                    body: JSON.stringify({issue_id: issue, note: 'As I like it.'}),
                });
                return {status: answer.status, ...await answer.json()};
            }""",
            made.blocker,
        )
        assert (answer["status"], answer["code"]) == (403, "UNAUTHORIZED")
        assert answer["message"].startswith(refusal)


def test_events_arrive_without_websockets(
    browser: Browser, dashboard: Dashboard, made: MadeProject, app: Application
) -> None:
    with Visitor(browser, dashboard) as visitor:
        # Like a proxy without WebSocket support: the server refuses every socket.
        visitor.page.add_init_script(
            """window.sockets = 0;
            window.WebSocket = class extends WebSocket {
                constructor(url) { super(url.replace('/ws', '/no-socket')); window.sockets += 1; }
            }"""
        )
        with visitor.page.expect_request("**/api/v1/events?since=*"):
            visitor.page.goto(f"{dashboard.url}/")
        visitor.wait_until_loaded()

        track.create_blocker(app, made.tasks["running"], "Does this get through?")

        visitor.page.get_by_role("button", name="1 new").click()
        visitor.page.wait_for_selector("text=Does this get through?")
        assert visitor.page.evaluate("window.sockets") == 2


def test_a_requested_review_is_approved_in_place(visitor: Visitor, made: MadeProject) -> None:
    task = made.tasks["unsure"]
    visitor.open(f"/?item=manual_review:{task}")
    visitor.page.get_by_role("button", name="Approve").click()
    box = visitor.page.locator(".askbox")
    box.get_by_role("textbox").fill("Half up is legal there.")
    box.get_by_role("button", name="Approve").click()

    visitor.page.locator(f'.inbox-row.is-gone[data-id="manual_review:{task}"]').wait_for()
    visitor.open(f"/tasks/{task}")
    said = visitor.page.locator(".milestones li", has_text="Half up is legal there.").inner_text()
    assert "approved by owner" in said
    assert visitor.page.get_by_role("button", name="Approve").count() == 0


def test_lists_are_filtered_and_sorted_by_the_server(visitor: Visitor, made: MadeProject) -> None:
    visitor.open("/runs")
    visitor.page.get_by_label("Profile").select_option("simple")
    visitor.page.wait_for_selector("[data-run]:has-text('Handbook')")
    visitor.page.wait_for_selector("[data-run]:has-text('Payments')", state="detached")
    visitor.open(f"/blockers?run={made.done}&state=all")
    visitor.page.wait_for_selector("text=Nothing is blocked")
    visitor.page.get_by_role("link", name="Only one run").click()
    visitor.page.wait_for_selector(f'[data-issue="{made.blocker}"]')

    visitor.page.get_by_label("Order").select_option("asc")

    visitor.page.wait_for_url("**/history?*order=asc*")
    visitor.page.wait_for_selector(f'[data-issue="{made.blocker}"]')


@pytest.mark.thorough
def test_the_dashboard_works_with_postgresql(browser: Browser, postgres_url: str, tmp_path: Path) -> None:
    empty_database(postgres_url)
    with Dashboard(tmp_path, database=postgres_url) as dashboard, Visitor(browser, dashboard) as visitor:
        visitor.open("/settings")
        visitor.page.wait_for_selector("text=PostgreSQL")
        visitor.open("/")
        team = make_app(tmp_path, postgres_url)
        try:
            id = track.create_workflow(team, name="From another machine", objective="Be seen.")
            task = track.create_task(team, (id, track.create_phase(team, id, 1)), "speak up")
            track.create_blocker(team, task, "Is anybody there?")
        finally:
            team.close()

        visitor.page.wait_for_selector("text=Is anybody there?")
        visitor.open(f"/runs/{id}?tab=timeline")
        visitor.page.wait_for_selector(f'.timeline .row[data-key="{task}"]')
        assert visitor.troubles == []


def test_a_network_server_shows_the_work_of_its_own_clients(browser: Browser, tmp_path: Path) -> None:
    with Dashboard(tmp_path, "serve", "--transport", "http") as server, Visitor(browser, server) as visitor:
        visitor.open("/")

        visitor.open("/runs")
        id = run_in_thread(lambda: anyio.run(_track, f"{server.url}/mcp"))

        visitor.page.wait_for_selector("[data-run]:has-text('By a client')")
        visitor.open(f"/runs/{id}")
        assert visitor.page.locator("h1").inner_text() == "By a client"
        assert visitor.troubles == []


async def _track(url: str) -> str:
    async with Client(url) as client:
        given: dict[str, Any] = {"name": "By a client", "objective": "Be seen."}
        answer = await client.call_tool("start_workflow", given)
        id: str = answer.structured_content["workflow_id"]
        return id


def test_the_page_is_not_live_while_the_server_cannot_read_its_store(
    browser: Browser, tmp_path: Path
) -> None:
    with Dashboard(tmp_path, "serve", "--transport", "http") as server, Visitor(browser, server) as visitor:
        visitor.open("/")
        store = tmp_path / ".deepwork" / "deepwork.db"
        moved = store.rename(store.with_name("moved.db"))
        store.mkdir()

        visitor.page.wait_for_selector("#connection.is-failed")
        visitor.page.get_by_role("button", name="Retry now").click()
        visitor.page.wait_for_selector("#connection.is-failed")
        store.rmdir()
        moved.rename(store)

        visitor.page.wait_for_selector("#connection.is-live")
