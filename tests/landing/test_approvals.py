"""A plan with `approval: landing` moves no branch before a person approved exactly the merged result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.errors import GateClosed, NotAllowed
from deepwork.work.plans.models import ApprovalTime, TaskRequirements, serialize_requirements
from landing.make import LandingProject, get_statuses
from landing.many_tasks import ManyTasks
from workspaces.make import commit


def prepare(project: LandingProject, *names: str) -> ManyTasks:
    project.git("checkout", "-q", "-b", "desk")
    plan = ManyTasks(project.app, project.folder, {name: {f"{name}.txt": name} for name in names})
    project.require_checks(plan.id, approval=("landing",))
    return plan


def find_approval(answer: dict[str, Any], title: str) -> str:
    [landing] = [each for each in answer["landings"] if each["title"] == title]
    return str(landing["reason"].rpartition(" ")[2].strip("`."))


def test_the_branch_moves_when_a_person_approves(project: LandingProject) -> None:
    plan = prepare(project, "one")
    main = project.git("rev-parse", "main")
    asked = project.land(workflow_id=plan.id)
    again = project.land(workflow_id=plan.id)
    assert (asked["exit_code"], project.git("rev-parse", "main")) == (3, main)
    assert again["landings"] == asked["landings"]

    decided = project.act("give_approval", approval_id=find_approval(asked, "one"))

    assert "Landed on main" in decided["effect"]
    assert project.list_landed() == ["one"]


def test_no_setting_of_the_repository_hides_the_commits(project: LandingProject) -> None:
    plan = project.plan({"one": None}, approval=["landing"])
    tree = Path(plan.claim("one")["workspace_path"])
    made = commit(tree, "déjà vu", a_txt="a\n")
    plan.complete("one")
    project.git("config", "i18n.logOutputEncoding", "UTF-16")

    asked = project.land(workflow_id=plan.id)

    with project.app.database.reading() as tx:
        shown = ApprovalStore(tx).get(find_approval(asked, "one")).shown
    assert shown["commits"] == [{"commit": made, "subject": "déjà vu"}]


def test_another_state_of_the_branch_is_asked_about_again(project: LandingProject) -> None:
    plan = prepare(project, "one")
    asked = project.land(workflow_id=plan.id)
    project.commit_on("main", b_txt="b\n")

    decided = project.act("give_approval", approval_id=find_approval(asked, "one"))

    assert "A person has to approve it" in decided["effect"]
    assert project.list_landed() == []
    asked_again = project.land(workflow_id=plan.id)
    assert find_approval(asked_again, "one") != find_approval(asked, "one")


def test_work_that_was_changed_after_its_approval_does_not_land(project: LandingProject) -> None:
    plan = project.plan({"one": None}, approval=["after"])
    tree = Path(plan.claim("one")["workspace_path"])
    commit(tree, "work", b_txt="approved\n")
    with pytest.raises(GateClosed) as closed:
        plan.complete("one")
    project.act("give_approval", approval_id=closed.value.evidence["approval"]["id"])
    commit(tree, "more", b_txt="never seen\n")

    with pytest.raises(NotAllowed, match="deepwork tasks retry"):
        project.land(task_id=plan.ids["one"])
    project.git("-C", str(tree), "reset", "-q", "--hard", "HEAD~1")

    assert project.land(task_id=plan.ids["one"])["exit_code"] == 0


def test_refused_work_is_not_landed_and_the_next_agent_reads_why(project: LandingProject) -> None:
    plan = prepare(project, "one", "two")
    asked = project.land(workflow_id=plan.id)

    project.act("refuse_approval", approval_id=find_approval(asked, "one"), comment="Too risky.")

    assert get_statuses(project.land(workflow_id=plan.id)) == {"two": "waiting"}
    context = project.call("task_load_context", task_id=plan.ids["one"])
    assert "Too risky." in str(context)
    assert project.list_landed() == []


@pytest.mark.parametrize("way", ["other_task", "target"])
def test_work_that_is_on_the_branch_already_needs_its_approval(project: LandingProject, way: str) -> None:
    """Another task that needs none may have brought its commits along, or somebody moved the target."""
    plan = project.plan({"seen": None, "free": None})
    require_approval(project, plan.ids["seen"])
    project.do(plan, "seen", a_txt="a\n")
    branch = plan.get_branch("seen")
    if way == "target":
        project.git("branch", "-f", "main", branch)
    else:
        tree = Path(plan.claim("free")["workspace_path"])
        project.git("-C", str(tree), "merge", "-q", branch)
        plan.complete("free")
        project.land(task_id=plan.ids["free"])
    assert project.read("a.txt") == "a"

    asked = project.land(workflow_id=plan.id)

    assert get_statuses(asked)["seen"] == "waiting"
    decided = project.act("give_approval", approval_id=find_approval(asked, "seen"))
    assert "Landed on main" in decided["effect"]
    assert project.land(workflow_id=plan.id)["exit_code"] == 0


def require_approval(project: LandingProject, task_id: str) -> None:
    required = TaskRequirements(approval=(ApprovalTime.LANDING,))
    with project.app.database.transaction() as tx:
        tx.update("plan_tasks", task_id, {"requirements": serialize_requirements(required)})
