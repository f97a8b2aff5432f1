"""A person steers a running run on its page, and finds out why work does not land."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from application import call_tool
from e2e.browser import Dashboard, Visitor, find_violations, run_in_thread, wait_until
from e2e.make import MadeProject, open_app
from landing.make import LandingProject
from landing.test_checks import CHECKS
from runner.endings import finish
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from workspaces.make import commit, create_repository

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def take_screenshot(visitor: Visitor, name: str) -> None:
    """Take pictures for a person who wants to look at the page, in three widths and two themes."""
    if not (folder := os.environ.get("DEEPWORK_TESTS_SCREENSHOTS")):
        return
    for width in (390, 1024, 1440):
        for theme in ("light", "dark"):
            visitor.page.set_viewport_size({"width": width, "height": 900})
            visitor.page.emulate_media(color_scheme=theme)
            visitor.page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png")
    visitor.page.set_viewport_size({"width": 1280, "height": 800})
    visitor.page.emulate_media(color_scheme="light")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[RunProject]:
    made = RunProject(tmp_path)
    yield made
    made.close()


def wait_for(folder: Path, name: str) -> list[dict[str, str]]:
    return [
        {"do": "touch", "file": str(folder / f"{name}.ready")},
        {"do": "wait_for", "file": str(folder / f"{name}.go")},
    ]


def test_a_person_steers_a_running_run(browser: Browser, project: RunProject, tmp_path: Path) -> None:
    script = {
        "alpha": [[*wait_for(tmp_path, "alpha"), *finish("alpha")]],
        "beta": [[*wait_for(tmp_path, "beta"), *finish("beta")]],
        "gamma": [finish("gamma")],
        "delta": [[*wait_for(tmp_path, "delta"), *finish("delta")]],
        "epsilon": [finish("epsilon")],
    }
    waits = {"gamma": ["alpha"], "epsilon": ["gamma"]}
    tasks = [
        {"name": name, "description": f"Do {name}.", "depends_on": waits.get(name, [])}
        for name in script
        if name != "delta"
    ]
    run_in_thread(lambda: project.set_plan(tasks, script))
    command = project.build_command("--agents", "1", "--agent", project.agents.get_agent("command"))
    runner = subprocess.Popen(command, cwd=project.folder, env=project.variables, stdout=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "alpha.ready").exists, "alpha did not begin")
        with Dashboard(project.folder) as dashboard, Visitor(browser, dashboard) as visitor:
            steer(visitor, project, tmp_path)
            # The panel of a task may ask for it once more while it is dropped.
            assert [each for each in visitor.troubles if "404" not in each] == []
        assert runner.wait(100) == 0
    finally:
        for name in ("alpha", "beta", "delta"):
            (tmp_path / f"{name}.go").touch()
        runner.kill()
        runner.wait()
    statuses = {task["name"]: task["status"] for task in run_in_thread(project.list_tasks)}
    assert statuses == {
        "alpha": "completed",
        "beta": "skipped",
        "delta": "completed",
        "gamma two": "completed",
    }
    assert len(run_in_thread(lambda: list_attempts(project))) == 4


def steer(visitor: Visitor, project: RunProject, folder: Path) -> None:
    page = visitor.page
    visitor.open(f"/runs/{project.plan}")

    # Now is first: what runs, then what is ready; the rest is folded.
    assert page.get_by_role("tab", selected=True).inner_text() == "Now"
    page.get_by_role("region", name="Running").get_by_role("link", name="alpha").wait_for()
    assert page.locator(".run-lane h3").evaluate_all("all => all.map(each => each.innerText.replace(/\\s+/, ' '))") == [
        "Running 1", "Ready 1",
    ]  # fmt: skip
    page.get_by_role("link", name="2 waiting").wait_for()
    page.get_by_text("1 of 1 agent at work").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "run-now")

    # More agents: the next task starts at once.
    page.get_by_role("button", name="Agents").click()
    page.get_by_role("combobox", name="Agents").select_option("3")
    page.locator(".askbox").get_by_role("button", name="Agents").click()
    page.get_by_text("Up to 3 agents work at a time now").wait_for()
    wait_until((folder / "beta.ready").exists, "beta did not begin")

    # A new task is taken by the run.
    page.get_by_role("button", name="Add a task").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Name", exact=True).fill("delta")
    dialog.get_by_label("What is to be done").fill("Do delta.")
    take_screenshot(visitor, "run-add-task")
    assert find_violations(visitor) == []
    dialog.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("Added delta. The run takes it").wait_for()
    wait_until((folder / "delta.ready").exists, "delta did not begin")
    page.get_by_role("region", name="Running").get_by_role("link", name="delta").wait_for()

    # Other words for a task that waits, by keyboard; what was typed is kept when the dialog is closed.
    visitor.open(f"/runs/{project.plan}?task={project.ids['gamma']}")
    page.locator(".peek").get_by_role("button", name="Reword").click()
    dialog.get_by_label("Name", exact=True).fill("gamma two")
    page.keyboard.press("Escape")
    page.locator(".peek").get_by_role("button", name="Reword").click()
    assert dialog.get_by_label("Name", exact=True).input_value() == "gamma two"
    dialog.get_by_role("button", name="Reword").click()
    page.get_by_text("gamma two was changed.").wait_for()

    # One that has not begun is dropped; one that runs ends with its agent.
    visitor.open(f"/runs/{project.plan}?task={project.ids['epsilon']}")
    page.locator(".peek").get_by_role("button", name="Drop").click()
    page.locator(".askbox").get_by_role("button", name="Drop").click()
    page.get_by_text("epsilon is out of the plan").wait_for()
    page.locator(".peek").wait_for(state="detached")  # there is nothing to show any more
    visitor.open(f"/runs/{project.plan}")
    page.get_by_role("region", name="Running").get_by_role("link", name="beta").click()
    page.locator(".peek").get_by_role("button", name="Drop, and end its agent").click()
    take_screenshot(visitor, "run-drop")
    page.locator(".askbox").get_by_role("button", name="Drop, and end its agent").click()
    page.get_by_text("its agent is ended").wait_for()

    # Paused, nothing starts; resumed, the rest is done.
    visitor.open(f"/runs/{project.plan}")
    page.get_by_role("button", name="Pause", exact=True).first.click()
    page.get_by_text("Paused: no more agents start").wait_for()
    for name in ("alpha", "delta"):
        (folder / f"{name}.go").touch()
    page.get_by_role("region", name="Ready").get_by_role("link", name="gamma two").wait_for()
    page.get_by_role("button", name="Resume", exact=True).first.click()
    page.get_by_text("3 done").wait_for()


@pytest.fixture
def own(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    """A visitor of a repository of its own."""
    repository = create_repository(tmp_path / "project")
    with Dashboard(repository) as running, Visitor(browser, running) as visiting:
        yield visiting
        assert visiting.troubles == []


def test_a_red_landing_shows_the_culprit_and_lands_when_it_is_corrected(own: Visitor, tmp_path: Path) -> None:
    visitor, folder = own, own.dashboard.project
    app, _ = open_app(folder)
    try:
        project = LandingProject(folder, app)
        project.define_checks(CHECKS.format(log=tmp_path / "runs.log"))
        plan = project.plan_done({"good": {"good_txt": "good"}, "broken": {"bad_txt": "bad"}})
        project.require_checks(plan.id, "fits")
        run_in_thread(lambda: project.land(workflow_id=plan.id))
        page = visitor.page
        visitor.open(f"/runs/{plan.id}?tab=landing")

        queued = page.get_by_role("list", name="On the way")
        queued.get_by_text("passes without it").wait_for()
        assert "bad.txt" in queued.locator(".run-log-end").inner_text()
        assert find_violations(visitor) == []
        take_screenshot(visitor, "landing-red")

        plan.claim("broken")
        tree = Path(plan.claims["broken"]["workspace_path"])
        (tree / "bad.txt").unlink()
        commit(tree, "corrected", fine_txt="fine")
        run_in_thread(lambda: plan.complete("broken"))
        queued.get_by_role("button", name="Land again").click()
        page.get_by_role("list", name="Ended").get_by_role("link", name="broken").wait_for()
        page.get_by_text("2 tasks landed, 0 on the way").wait_for()
        assert call_tool(app, "workflow_get", id=plan.id)["status"] == "completed"
    finally:
        app.close()


def make_large_plan(project: Path) -> str:
    """Make a plan of 2,000 tasks in 40 levels, half of which are done; return its id."""
    app, clock = open_app(project, hours_ago=2)
    try:
        id: str = call_tool(
            app, "workflow_create", name="Two thousand", source_type="prompt", source_content="All of it."
        )["id"]
        tasks = [
            {"name": f"Module {level}.{n}", "description": "Move it.", "sequence": level}
            for level in range(1, 41)
            for n in range(50)
        ]
        call_tool(app, "workflow_set_plan", id=id, plan={"summary": "s", "tasks": tasks})
        with app.database.transaction() as tx:
            done = (
                "SET status = 'completed', started_at = :at, finished_at = :at + 60000 WHERE sequence <= 20"
            )
            tx.execute(f"UPDATE plan_tasks {done}", at=clock.now)
        front = call_tool(app, "workflow_next_tasks", workflow_id=id, limit=3)["tasks"]
        agent = call_tool(app, "agent_register", name="claude · Module 21.0", runtime="custom")["id"]
        call_tool(app, "task_claim", task_id=front[0]["id"], agent_id=agent, start=True)
    finally:
        app.close()
    return id


def test_a_graph_of_2000_tasks_opens_where_work_goes_on(own: Visitor) -> None:
    visitor, page = own, own.page
    id = run_in_thread(lambda: make_large_plan(own.dashboard.project))
    visitor.open("/runs")
    before = page.evaluate("performance.getEntriesByType('resource').length")
    page.evaluate(
        "to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')) }",
        f"/runs/{id}?tab=graph",
    )
    page.locator(".node").first.wait_for()
    sizes = page.evaluate(
        """before => performance.getEntriesByType('resource').slice(before)
            .filter(each => each.name.includes('/api/v1/runs/')).map(each => [each.name, each.decodedBodySize])""",
        before,
    )

    assert sum(size for _, size in sizes) <= 60 * 1024, sizes
    page.get_by_role("button", name="Levels 1 to 20").wait_for()
    running = page.locator(".node", has_text="Module 21.0")
    assert "claude" in running.inner_text()
    box, room = running.bounding_box(), page.locator(".graph").bounding_box()
    assert box is not None
    assert room is not None
    assert room["x"] <= box["x"] <= room["x"] + room["width"]  # it is in view
    take_screenshot(visitor, "graph-2000")
    assert find_violations(visitor) == []

    page.get_by_role("searchbox", name="Find a task or an agent").fill("claude")
    page.get_by_text("1 found").wait_for()
    page.get_by_role("button", name="Fit").click()
    take_screenshot(visitor, "graph-found")
    page.get_by_role("button", name="Levels 1 to 20").click()
    page.get_by_role("button", name="Levels 1 to 3").click()
    page.get_by_role("button", name="Level 1", exact=False).first.wait_for()

    # The timeline opens there, too.
    visitor.open(f"/runs/{id}?tab=timeline")
    page.locator(".timeline .row[data-key]").first.wait_for()
    assert (
        page.get_by_role("row", name="Level 1", exact=False).first.get_attribute("aria-expanded") == "false"
    )
    take_screenshot(visitor, "timeline-2000")


def test_spending_is_beside_budgets_and_limits(visitor: Visitor, made: MadeProject) -> None:
    page = visitor.page
    visitor.open("/spend")

    page.get_by_role("table", name="What was spent").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "spend")
    page.get_by_label("Add up").select_option("agent")
    page.wait_for_url("**/spend?by=agent")
    page.get_by_role("columnheader", name="Agent").wait_for()
    visitor.open(f"/spend?run={made.plan}")
    page.get_by_role("heading", name="This run").wait_for()
    assert find_violations(visitor) == []
    take_screenshot(visitor, "spend-run")
