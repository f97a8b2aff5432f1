"""What is on its way to a branch, as a person sees it: places, culprits with their logs, conflicts with whom."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.edge.cli.landings import _describe_queued
from landing.make import LandingProject
from landing.test_checks import prepare


def read_queue(project: LandingProject, plan: str) -> dict[str, dict[str, Any]]:
    answer = project.act("get_landing_queue", workflow_id=plan)
    return {each["title"]: each for each in answer["landings"]}


def test_a_red_landing_names_the_work_with_the_end_of_its_log(project: LandingProject):
    prepare(project)
    plan = project.plan_done({"good": {"good_txt": "good"}, "broken": {"bad_txt": "bad"}})
    project.require_checks(plan.id, "fits")

    project.land(workflow_id=plan.id)
    answer = project.act("get_landing_queue", workflow_id=plan.id)
    [red] = answer["landings"]

    assert (red["title"], red["culprit"], answer["landed"]) == ("broken", "work", 1)
    assert [(each["check"], each["verdict"]) for each in red["red"]] == [("fits", "failed")]
    assert "bad.txt" in red["red"][0]["log"]
    assert {each["tool"] for each in red["actions"]} >= {"land_work", "cancel_landing"}


def test_a_branch_that_is_red_without_the_work_is_the_culprit(project: LandingProject):
    prepare(project)
    plan = project.plan_done({"good": {"good_txt": "good"}})
    project.require_checks(plan.id, "fits")
    project.commit_on("main", bad_txt="somebody broke it")

    project.land(workflow_id=plan.id)
    [red] = read_queue(project, plan.id).values()

    assert (red["culprit"], [each["check"] for each in red["red"]]) == ("branch", ["fits"])
    assert not any(
        "because of main" in line for line in _describe_queued(red)
    )  # the check itself may be wrong


def test_a_conflict_says_with_whom(project: LandingProject):
    plan = project.plan_done({"one": {"shared.txt": "one\n"}, "two": {"shared.txt": "two\n"}})

    landed = project.land(workflow_id=plan.id)
    [stuck] = read_queue(project, plan.id).values()

    first = next(each for each in landed["landings"] if each["title"] == "one")
    assert (stuck["title"], stuck["conflict"]["files"]) == ("two", ["shared.txt"])
    assert [each["landing_id"] for each in stuck["conflict"]["others"]] == [first["id"]]
    assert "culprit" not in stuck


def test_a_conflict_with_a_commit_of_a_person_names_the_commit(project: LandingProject):
    plan = project.plan_done({"one": {"shared.txt": "one\n"}})
    made = project.commit_on("main", **{"shared.txt": "mine\n"})

    project.land(workflow_id=plan.id)
    [stuck] = read_queue(project, plan.id).values()

    assert [(each["commit"], "landing_id" in each) for each in stuck["conflict"]["others"]] == [(made, False)]


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_waits_in_the_queue_has_its_place(project: LandingProject, is_gone: bool):
    plan = project.plan_done({"one": {"a.txt": "1\n"}, "two": {"b.txt": "2\n"}})
    service = project.app.landings.service
    from deepwork.delivery.landing.work_finder import choose_target

    work = service._finder.find(plan.id, None, commits=False)
    service.queue(work, choose_target(work.workflow, None))
    found = read_queue(project, plan.id)
    if is_gone:
        project.land(workflow_id=plan.id)

    assert {title: each["position"] for title, each in found.items()} == {"one": 1, "two": 2}
    assert list(read_queue(project, plan.id)) == ([] if is_gone else ["one", "two"])
