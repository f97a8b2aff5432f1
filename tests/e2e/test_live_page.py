"""A person watches agents of a real run on the page, tells one something, takes it over and gives it back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import call_tool
from dashboard.make_agent_runs import add_attempt, start_run
from deepwork.delivery.runner.attempt_files import AttemptLocks
from e2e.browser import Dashboard, Visitor, find_violations, run_in_thread
from e2e.make import open_app
from e2e.test_work_page import report_progress
from quick import PLAIN
from runner.endings import finish, list_living, wait_until
from runner.run_project import RunProject
from runner.scripted import Steps
from workspaces.make import create_repository

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORDS = "The rate for books is 7 percent."
LANES = 200
NEVER: Steps = [{"do": "wait_for", "file": "/nonexistent/never"}]


def begin(folder: Path, name: str) -> Steps:
    """Say what it looks at, use a tool, change a file, and wait for the person."""
    return [
        {"do": "say", "text": f"I look at the tests of {name} first."},
        {"do": "tool", "name": "Bash", "detail": "pytest -q tests/rates"},
        {"do": "append", "file": "rates.py", "line": "BOOKS = 7"},
        {"do": "usage", "input": 1200, "cached": 300, "output": 40, "usd_micros": 20_000},
        {"do": "open_tool", "name": "Bash", "detail": "make coverage"},
        {"do": "touch", "file": str(folder / f"{name}.ready")},
        {"do": "wait_for", "file": str(folder / f"{name}.told")},
    ]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[RunProject]:
    made = RunProject(tmp_path)
    yield made
    made.close()


@contextmanager
def driven(project: RunProject, agent: str = "claude") -> Iterator[subprocess.Popen[bytes]]:
    """Drive the plan with `deepwork run`, in a process of its own."""
    command = [
        *PLAIN,
        "run",
        project.plan,
        "--json",
        "--agents",
        "2",
        "--agent",
        project.agents.get_agent(agent),
    ]
    runner = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield runner
    finally:
        if runner.poll() is None:
            project.app.close()
        runner.terminate()
        runner.wait(100)


def take_picture(page: Page, name: str) -> None:
    if folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png")


def test_a_person_watches_an_agent_tells_it_something_and_takes_it_over(
    browser: Browser, project: RunProject, tmp_path: Path
) -> None:
    heard = tmp_path / "heard.json"
    hook = {"do": "hook", "event": "PostToolUse", "file": str(heard)}
    scripts = [[*begin(tmp_path, "alpha"), hook, *NEVER], finish("alpha")]
    run_in_thread(lambda: project.set_plan([{"name": "alpha", "description": ""}], {"alpha": scripts}))

    with (
        Dashboard(project.folder) as dashboard,
        driven(project) as runner,
        Visitor(browser, dashboard) as visitor,
    ):
        page = visitor.page
        wait_until((tmp_path / "alpha.ready").exists, "the agent")
        visitor.open("/work")  # an address of earlier versions
        page.wait_for_url("**/live")
        lane = page.locator("[data-lane]")
        lane.locator(".state", has_text="running").wait_for()
        lane.get_by_text("Bash: make coverage").wait_for()
        lane.get_by_text("Thinking.").wait_for()
        lane.get_by_text("1.5 k tokens").wait_for()

        page.keyboard.press("j")
        page.keyboard.press("Enter")
        transcript = page.get_by_role("log", name="Transcript")
        transcript.get_by_text("I look at the tests of alpha first.").wait_for()
        tool = transcript.locator("[data-tool=Bash]").first
        tool.get_by_role("button").click()
        tool.locator("pre").first.get_by_text("pytest -q tests/rates").wait_for()
        page.get_by_role("searchbox", name="Search the transcript").fill("coverage")
        page.get_by_text("1 match").wait_for()
        page.get_by_role("searchbox", name="Search the transcript").fill("")

        page.get_by_label("Tell it something").get_by_role("textbox").fill(WORDS)
        page.get_by_role("button", name="Tell", exact=True).click()
        page.locator("[data-delivery=waiting]", has_text="after the tool call").wait_for()
        (tmp_path / "alpha.told").touch()
        page.locator("[data-delivery=delivered]", has_text="in start 1").wait_for()
        assert WORDS in heard.read_text()
        take_picture(page, "live")
        assert find_violations(visitor) == []

        page.get_by_role("tab", name="Changes").click()
        page.locator(".live-files", has_text="rates.py").wait_for()
        page.get_by_text("+BOOKS = 7").wait_for()
        page.get_by_role("tab", name="Transcript").click()

        page.locator("[data-act='live.take']").click()
        page.locator(".live-takeover code", has_text="claude --resume").wait_for()
        page.locator("[data-lane] .state", has_text="needs you").wait_for()
        assert list_living(project) == []
        take_picture(page, "live-taken")
        page.locator("[data-act='live.continue']", has_text="Hand back").click()
        page.locator(".live-takeover").wait_for(state="detached")
        transcript.get_by_text("Wrote alpha.txt.").wait_for()
        assert runner.wait(100) == 0
        assert visitor.troubles == []

    [first, second] = project.agents.read_ledger()
    assert (first.start["resumed"], second.start["resumed"]) == (False, True)


def test_a_person_pauses_an_agent_and_stops_another(
    browser: Browser, project: RunProject, tmp_path: Path
) -> None:
    names = ("alpha", "beta")
    tasks = [{"name": name, "description": ""} for name in names]
    scripts = {name: [[*begin(tmp_path, name), *NEVER], finish(name)] for name in names}
    run_in_thread(lambda: project.set_plan(tasks, scripts))

    with Dashboard(project.folder) as dashboard, driven(project, "command") as runner:
        for name in names:
            wait_until((tmp_path / f"{name}.ready").exists, name)
        with Visitor(browser, dashboard) as visitor:
            page = visitor.page
            visitor.open("/live")
            page.locator("[data-lane]", has_text="alpha").locator("[data-main]").click()
            page.locator("[data-act='live.pause']").click()
            page.locator("[data-lane]", has_text="alpha").get_by_text("paused it").wait_for()
            page.locator("[data-act='live.continue']", has_text="Continue").click()
            wait_until(lambda: len(project.agents.read_ledger()) == 3, "the next start of alpha")

            page.locator("[data-lane]", has_text="beta").locator("[data-main]").click()
            page.locator("[data-act='live.stop']").click()
            page.get_by_role("form", name="Stop").get_by_role("button", name="Stop").click()
            page.locator(".live-detail .state", has_text="stopped").wait_for()
            assert runner.wait(100) == 3
            assert visitor.troubles == []
        statuses = run_in_thread(lambda: {task["name"]: task["status"] for task in project.list_tasks()})
    assert statuses == {"alpha": "completed", "beta": "failed"}


COUNT = """() => {
  window.touched = new Set();
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const element = target.nodeType === 1 ? target : target.parentElement;
      if (!element || element.closest("time")) continue;
      const lane = element.closest("[data-lane]");
      window.touched.add(lane ? lane.dataset.lane : element.className);
    }
  }).observe(document.querySelector(".live-lanes"), { subtree: true, childList: true, characterData: true, attributes: true });
}"""


def test_what_one_of_many_agents_does_changes_only_its_row(browser: Browser, tmp_path: Path) -> None:
    folder = create_repository(tmp_path / "project")
    with Dashboard(folder) as dashboard:
        app, _ = open_app(folder)

        def make() -> list[str]:
            tasks = [{"name": f"task {number}", "description": ""} for number in range(LANES)]
            plan = call_tool(app, "workflow_create", name="Many", source_type="prompt", source_content="x")[
                "id"
            ]
            call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
            found = call_tool(app, "workflow_get", id=plan, include_tasks=True, task_limit=LANES)["tasks"]
            run = start_run(app, plan)
            return [
                add_attempt(app, run, each["id"], agent_id=f"ag_{at}").id for at, each in enumerate(found)
            ]

        attempts = run_in_thread(make)
        locks = AttemptLocks(folder / ".deepwork")
        for id in attempts:
            locks.take(id)
        with Visitor(browser, dashboard) as visitor:
            visitor.open("/live")
            page = visitor.page
            page.wait_for_function(f"document.querySelectorAll('[data-lane]').length === {len(attempts)}")
            page.evaluate(COUNT)
            for id in attempts[20:23]:
                run_in_thread(partial(report_progress, app, id, f"Bash: make {id}"))
                page.locator(f"[data-lane={id}]").get_by_text(f"Bash: make {id}").wait_for()
            touched = page.evaluate("[...window.touched]")
            assert set(touched) == set(attempts[20:23])
            assert visitor.troubles == []
        locks.release_all()
        app.close()
