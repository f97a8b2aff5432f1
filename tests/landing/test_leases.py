"""One process at a time moves a branch; one that lost its lease notices, and changes nothing."""

from __future__ import annotations

import pytest

from deepwork.delivery.landing import queue as landing_queue
from deepwork.delivery.landing.models import PreparedCommit
from deepwork.delivery.landing.recorder import LEASE_SECONDS, BranchLeases, LeaseLost
from deepwork.edge.server.assembly.trees import open_git
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.git.merge_commits import move_branch
from landing.make import PERSON, LandingProject
from landing.many_tasks import ManyTasks


def prepare(project: LandingProject, *names: str) -> ManyTasks:
    project.git("checkout", "-q", "-b", "desk")
    return ManyTasks(project.app, project.folder, {name: {f"{name}.txt": name} for name in names})


def test_a_lease_is_for_one_process_until_its_time_is_over(project: LandingProject) -> None:
    leases, here = BranchLeases(project.app.database, open_git), str(project.folder)
    clone = project.folder.parent / f"{project.folder.name}-clone"
    project.git("branch", "other")
    project.git("clone", "-q", ".", str(clone))
    assert project.clock
    with leases.hold(here, "main") as first:
        assert first
        with leases.hold(str(clone), "main") as second, leases.hold(here, "other") as other:
            assert (second, other is not None) == (None, True)
        project.clock.advance(seconds=LEASE_SECONDS + 1)

        with leases.hold(here, "main") as third:
            assert third
            assert third.epoch == first.epoch + 1
            with pytest.raises(LeaseLost):
                leases.renew(first)


def test_a_process_that_lost_its_lease_leaves_the_landing_to_the_other(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare(project, "one")
    assert project.clock
    clock, landed_by_other = project.clock, []

    def move_late(*arguments: object) -> bool:
        """Be so slow that another process lands everything; only then move the branch."""
        monkeypatch.setattr(landing_queue, "move_branch", move_branch)
        clock.advance(seconds=LEASE_SECONDS + 1)
        landed_by_other.append(project.land(workflow_id=plan.id))
        return move_branch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(landing_queue, "move_branch", move_late)
    answer = project.land(workflow_id=plan.id)

    assert answer["landings"] == landed_by_other[0]["landings"]
    assert project.list_landed() == ["one"]


@pytest.mark.differs
def test_a_landing_that_waits_for_another_process_says_so(project: LandingProject) -> None:
    plan = prepare(project, "one")
    clock, said = project.clock, []
    assert clock

    def note(progress: float, total: float | None = None, message: str | None = None) -> None:
        said.append(message)
        clock.advance(seconds=LEASE_SECONDS + 1)  # the other process is dead

    with BranchLeases(project.app.database, open_git).hold(str(project.folder), "main") as other:
        assert other
        call = Call(PERSON, "land_work", patience=None, report_progress=note)
        landing = {"workflow_id": plan.id}
        answer = invoke(project.app.database, project.app.operations["land_work"], landing, call)

    assert said == ["Waiting: another process lands onto main, or died less than a minute ago"]
    assert answer["exit_code"] == 0


def test_a_branch_that_somebody_moved_meanwhile_is_merged_again(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare(project, "one")

    def move_second(*arguments: object) -> bool:
        monkeypatch.setattr(landing_queue, "move_branch", move_branch)
        project.commit_on("main", b_txt="b\n")
        return move_branch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(landing_queue, "move_branch", move_second)
    answer = project.land(workflow_id=plan.id)

    assert answer["exit_code"] == 0
    assert (project.read("b.txt"), project.read("one.txt")) == ("b", "one")


def test_a_prepared_commit_lands_on_the_tip_of_its_branch(project: LandingProject) -> None:
    plan = prepare(project, "one")
    project.land(workflow_id=plan.id)

    def build(tip: str) -> str:
        tree = project.git("rev-parse", f"{tip}^1^{{tree}}")
        return project.git("commit-tree", "-p", tip, "-m", "Revert one", tree)

    tip = project.git("rev-parse", "main")
    prepared = PreparedCommit(
        "rw_1", "Revert one", str(project.folder), "main", build, plan.id, plan.ids["one"]
    )
    landing = project.app.landings.prepared.land(prepared)
    again = project.app.landings.prepared.land(prepared)

    assert (landing.status, again) == ("landed", landing)
    assert "one.txt" not in project.git("ls-tree", "--name-only", "main").split()
    assert project.git("rev-parse", f"{landing.merge_commit}^@") == tip
