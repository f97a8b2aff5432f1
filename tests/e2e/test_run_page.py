"""The page of a run: its addresses, progress, graph and log."""

from __future__ import annotations

from e2e.browser import Visitor
from e2e.make import MadeProject


def test_a_path_with_the_name_of_a_tab_opens_it(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}/graph")

    visitor.page.wait_for_selector(".node")

    assert visitor.address == f"/runs/{made.track}?tab=graph"


def test_an_unknown_path_below_a_run_is_not_found(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}%2Fevents")

    visitor.page.get_by_role("heading", name="Page not found").wait_for()


def test_the_graph_of_a_tracked_run_shows_its_phases(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}?tab=graph")

    visitor.page.wait_for_selector(".node.is-phase")

    assert visitor.page.locator("button.node.is-phase").count() == 0


def test_running_work_does_not_look_done(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}")

    style = "getComputedStyle(document.querySelector('.bar-{}')).backgroundImage"
    assert visitor.page.evaluate(style.format("good")) == "none"
    assert "repeating-linear-gradient" in visitor.page.evaluate(style.format("run"))


def test_the_log_of_a_plan_names_agents(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.plan}?tab=log&type=plan_task:claimed")

    visitor.page.wait_for_selector(".log-text:has-text('Edsger took “design”')")


def test_the_issues_tab_counts_all_issues(visitor: Visitor, made: MadeProject) -> None:
    visitor.open(f"/runs/{made.track}?tab=issues")

    shown = visitor.page.locator("[data-issue]").count()

    assert shown > 0
    assert visitor.page.get_by_role("tab", name="Issues").locator(".count").inner_text() == str(shown)
