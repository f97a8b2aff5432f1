"""Completed tasks land on a branch: merged, one merge commit each, without touching anybody's tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import list_event_types
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.states import Cause
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.states.view import StateView
from landing.make import LandingProject, get_statuses
from workspaces.make import commit


def test_a_completed_task_lands_as_one_merge_commit_with_both_parents(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    main, branch = project.git("rev-parse", "main"), project.git("rev-parse", plan.get_branch("parse"))
    head = project.git("rev-parse", "HEAD")

    answer = project.land(task_id=plan.ids["parse"])

    [landing] = answer["landings"]
    assert (answer["exit_code"], landing["status"], landing["branch"]) == (0, "landed", "main")
    assert project.git("log", "-1", "--format=%P", "main").split() == [main, branch]
    assert project.git("rev-parse", "main") == landing["merge_commit"]
    assert project.read("b.txt") == "b"
    assert (project.git("rev-parse", "HEAD"), project.git("status", "--porcelain")) == (head, "")
    trailers = project.git("log", "-1", "--format=%(trailers:only)", "main")
    assert f"Deepwork-Task: {plan.ids['parse']}" in trailers
    assert f"Deepwork-Agent: {plan.claims['parse']['agent_id']}" in trailers
    assert f"Deepwork-Landing: {landing['id']}" in trailers
    told = [type for type in list_event_types(project.app) if type.startswith("landing:")]
    assert told == ["landing:queued", "landing:updated", "landing:updated", "landing:ended"]


def test_landing_again_says_that_it_has_landed(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    first = project.land(task_id=plan.ids["parse"])
    tip = project.git("rev-parse", "main")

    again = project.land(task_id=plan.ids["parse"])

    assert again["exit_code"] == 0
    assert [each["id"] for each in again["landings"]] == [each["id"] for each in first["landings"]]
    assert project.git("rev-parse", "main") == tip


def test_work_that_a_person_merged_needs_no_merge_commit(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    project.git("update-ref", "refs/heads/main", project.git("rev-parse", plan.get_branch("parse")))
    tip = project.git("rev-parse", "main")

    answer = project.land(task_id=plan.ids["parse"])

    assert answer["exit_code"] == 0
    assert "contains its changes already" in answer["landings"][0]["reason"]
    assert project.git("rev-parse", "main") == tip


def test_a_task_without_a_branch_has_nothing_to_land(project: LandingProject) -> None:
    plan = project.plan({"think": None})
    project.call("task_update_status", id=plan.ids["think"], status="completed", outcome="Thought.")

    answer = project.land(workflow_id=plan.id)

    assert (answer["exit_code"], answer["landings"]) == (0, [])
    assert "nothing to land" in answer["skipped"][0]["reason"]


def test_a_single_task_without_a_branch_is_said_to_have_none(project: LandingProject) -> None:
    plan = project.plan({"think": None})
    project.call("task_update_status", id=plan.ids["think"], status="completed", outcome="Thought.")

    answer = project.land(task_id=plan.ids["think"])

    assert (answer["exit_code"], answer["landings"]) == (0, [])
    assert [each["task_id"] for each in answer["skipped"]] == [plan.ids["think"]]


def test_a_task_that_is_not_completed_cannot_land(project: LandingProject) -> None:
    plan = project.plan({"parse": None})
    plan.claim("parse")

    with pytest.raises(NotAllowed, match="only completed tasks can be landed"):
        project.land(task_id=plan.ids["parse"])


def test_uncommitted_work_is_refused_or_committed(project: LandingProject) -> None:
    plan = project.plan({"parse": None})
    tree = Path(plan.claim("parse")["workspace_path"])
    (tree / "b.txt").write_text("b\n")
    plan.complete("parse")

    with pytest.raises(NotAllowed, match=r"has uncommitted work: b\.txt"):
        project.land(task_id=plan.ids["parse"])
    answer = project.land(task_id=plan.ids["parse"], commit=True)

    assert (answer["exit_code"], project.read("b.txt")) == (0, "b")
    message = project.git("log", "-1", "--format=%B", plan.get_branch("parse"))
    assert f"Deepwork-Task: {plan.ids['parse']}" in message


def test_an_unknown_branch_is_refused(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})

    with pytest.raises(InvalidInput, match="no local branch 'nowhere'"):
        project.land(task_id=plan.ids["parse"], onto="nowhere")


def test_a_branch_that_stands_for_another_one_is_refused(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    project.git("symbolic-ref", "refs/heads/alias", "refs/heads/desk")

    with pytest.raises(NotAllowed, match="symbolic ref to refs/heads/desk"):
        project.land(task_id=plan.ids["parse"], onto="alias")


def test_a_plan_lands_what_is_done_in_the_order_in_which_it_was_done(project: LandingProject) -> None:
    plan = project.plan({"a": None, "b": None, "c": None})
    project.do(plan, "b", b_txt="b\n")
    project.do(plan, "a", x_txt="x\n")

    answer = project.land(workflow_id=plan.id)

    assert answer["exit_code"] == 0
    assert project.list_landed() == ["b", "a"]
    assert [each["name"] for each in answer["skipped"]] == ["c"]


def test_a_task_lands_after_what_it_builds_on(project: LandingProject) -> None:
    plan = project.plan({"base": [], "top": ["base"]})
    project.do(plan, "base", b_txt="b\n")
    project.do(plan, "top", c_txt="c\n")

    answer = project.land(task_id=plan.ids["top"])

    assert get_statuses(answer) == {"base": "landed", "top": "landed"}
    assert project.list_landed() == ["base", "top"]


def test_a_conflict_without_an_attempt_goes_to_a_person_and_the_task_is_open_again(
    project: LandingProject,
) -> None:
    plan = project.plan({"one": [], "two": [], "after": ["two"]})
    plan.claim("one")
    plan.claim("two")
    for name in ("one", "two"):
        commit(Path(plan.claims[name]["workspace_path"]), name, a_txt=f"by {name}\n")
        plan.complete(name)

    answer = project.land(workflow_id=plan.id)

    assert answer["exit_code"] == 3
    assert get_statuses(answer) == {"one": "landed", "two": "needs_person"}
    task = project.call("task_get", id=plan.ids["two"])
    assert task["status"] == "pending"
    assert not project.call("task_check_dependencies", task_id=plan.ids["after"])["satisfied"]
    context = project.call("task_load_context", task_id=plan.ids["two"])
    assert "conflicts with main in a.txt" in str(context)
    assert project.read("a.txt") == "by one"


def test_a_landing_that_fails_is_in_the_inbox_and_the_agent_hears_of_it(project: LandingProject) -> None:
    plan = project.plan({"one": [], "two": []})
    plan.claim("one")
    plan.claim("two")
    for name in ("one", "two"):
        commit(Path(plan.claims[name]["workspace_path"]), name, a_txt=f"by {name}\n")
        plan.complete(name)

    [_, failed] = project.land(workflow_id=plan.id)["landings"]

    with project.app.database.reading() as tx:
        [entry], total = list_inbox(StateView(tx, project.app.processes))
    assert (entry.kind, entry.id, entry.why, total) == ("landing", failed["id"], Cause.CONFLICT, 1)
    assert (entry.task_id, entry.next) == (plan.ids["two"], f"deepwork land {plan.ids['two']}")
    agents = {name: plan.claims[name]["agent_id"] for name in ("one", "two")}
    [notice] = project.call("agent_heartbeat", agent_id=agents["two"])["notices"]
    assert (notice["type"], notice["task_id"], notice["by"]) == ("retry", plan.ids["two"], "deepwork")
    assert "a.txt" in notice["text"]
    assert "notices" not in project.call("agent_heartbeat", agent_id=agents["one"])


def test_resolved_work_lands_with_the_same_landing(project: LandingProject) -> None:
    plan = project.plan({"one": None, "two": None})
    plan.claim("one")
    plan.claim("two")
    for name in ("one", "two"):
        commit(Path(plan.claims[name]["workspace_path"]), name, a_txt=f"by {name}\n")
        plan.complete(name)
    [_, stopped] = project.land(workflow_id=plan.id)["landings"]
    tree = Path(plan.claim("two")["workspace_path"])
    project.git("-C", str(tree), "merge", "-q", "-X", "ours", "main")
    plan.complete("two")

    answer = project.land(workflow_id=plan.id)

    assert (answer["exit_code"], project.read("a.txt")) == (0, "by two")
    assert answer["landings"][-1]["id"] == stopped["id"]


def test_a_checked_out_target_gets_an_integration_branch(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    project.git("checkout", "-q", "main")
    main = project.git("rev-parse", "main")

    answer = project.land(task_id=plan.ids["parse"])

    [landing] = answer["landings"]
    branch = f"deepwork/integration/{plan.id}"
    assert (answer["exit_code"], landing["branch"]) == (0, branch)
    assert "because main is checked out" in landing["reason"]
    assert (project.git("rev-parse", "main"), project.git("status", "--porcelain")) == (main, "")
    assert project.read("b.txt", branch) == "b"


def test_an_integration_branch_takes_the_target_in_and_is_never_moved_back(project: LandingProject) -> None:
    plan = project.plan({"one": None, "two": None, "three": None})
    project.do(plan, "one", b_txt="b\n")
    project.do(plan, "two", c_txt="c\n")
    project.do(plan, "three", d_txt="d\n")
    project.git("checkout", "-q", "main")
    branch = f"deepwork/integration/{plan.id}"
    project.land(task_id=plan.ids["one"])
    first = project.git("rev-parse", branch)
    commit(project.folder, "by a person", e_txt="e\n")

    project.land(task_id=plan.ids["two"])
    project.git("checkout", "-q", "desk")  # it goes on there, until the target contains it
    third = project.land(task_id=plan.ids["three"])

    assert third["landings"][0]["branch"] == branch
    assert project.git("merge-base", "--is-ancestor", first, branch) == ""
    assert project.git("merge-base", "--is-ancestor", "main", branch) == ""
    files = project.git("ls-tree", "--name-only", branch).split()
    assert {"b.txt", "c.txt", "d.txt", "e.txt"} <= set(files)
    assert project.list_landed(branch) == ["one", "two", "three"]


def test_an_integration_branch_is_for_one_target(project: LandingProject) -> None:
    plan = project.plan({"one": None, "two": None})
    project.do(plan, "one", b_txt="b\n")
    project.do(plan, "two", c_txt="c\n")
    project.git("branch", "release", "main")
    project.git("checkout", "-q", "main")
    project.land(task_id=plan.ids["one"])

    free = project.land(task_id=plan.ids["two"], onto="release")
    project.git("checkout", "-q", "release")
    blocked = project.land(task_id=plan.ids["one"], onto="release")

    assert free["landings"][-1]["branch"] == "release"
    assert "has work for main" in blocked["landings"][0]["reason"]


def test_a_target_that_is_being_rebased_is_not_moved(project: LandingProject) -> None:
    plan = project.plan_done({"parse": {"b_txt": "b\n"}})
    folder = project.folder / ".git" / "rebase-merge"
    folder.mkdir()
    (folder / "head-name").write_text("refs/heads/main\n")

    answer = project.land(task_id=plan.ids["parse"])

    assert answer["landings"][0]["branch"] == f"deepwork/integration/{plan.id}"


def test_a_landing_can_be_given_up(project: LandingProject) -> None:
    plan = project.plan({"one": None, "two": None})
    plan.claim("one")
    plan.claim("two")
    for name in ("one", "two"):
        commit(Path(plan.claims[name]["workspace_path"]), name, a_txt=f"by {name}\n")
        plan.complete(name)
    [_, stopped] = project.land(workflow_id=plan.id)["landings"]

    given_up = project.act("cancel_landing", landing_id=stopped["id"])

    assert given_up["status"] == "cancelled"
    with pytest.raises(NotAllowed, match="has ended"):
        project.act("cancel_landing", landing_id=stopped["id"])
