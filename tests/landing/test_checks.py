"""The merged result passes the checks of its plan, as the target defines them, before the branch moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.make import replace_object
from deepwork.gates.checks.models import LANDING, ProofSubject
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.errors import GateClosed
from landing.make import LandingProject, get_statuses
from landing.test_approvals import find_approval
from workspaces.make import commit, run_git

CHECKS = """\
checks:
  fits:
    run: [sh, -c, "echo run >> {log}; ls; test ! -e bad.txt && ! {{ test -e b.txt && test -e c.txt; }}"]
"""


def prepare(project: LandingProject, *, trusted: bool = True) -> None:
    text = CHECKS.format(log=project.folder.parent / f"{project.folder.name}.log")
    project.define_checks(text, trusted=trusted)


def count_runs(project: LandingProject) -> int:
    log = project.folder.parent / f"{project.folder.name}.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def do_all(project: LandingProject, tasks: dict[str, dict[str, str]]) -> tuple[str, dict[str, str]]:
    """Do tasks that require no check while they are worked on; their plan requires it for landings only."""
    plan = project.plan_done(tasks)
    project.require_checks(plan.id, "fits")
    return plan.id, plan.ids


def test_a_batch_is_checked_once(project: LandingProject) -> None:
    prepare(project)
    plan, _ = do_all(project, {name: {f"{name}_txt": name} for name in ("w", "x", "y", "z")})

    answer = project.land(workflow_id=plan)

    assert answer["exit_code"] == 0
    assert project.list_landed() == ["w", "x", "y", "z"]
    assert count_runs(project) == 1


def test_what_is_red_is_found_by_splitting_and_the_rest_lands(project: LandingProject) -> None:
    prepare(project)
    tasks = {"w": {"w_txt": "w"}, "x": {"x_txt": "x"}, "broken": {"bad_txt": "bad"}, "z": {"z_txt": "z"}}
    plan, ids = do_all(project, tasks)

    answer = project.land(workflow_id=plan)

    assert answer["exit_code"] == 3
    assert get_statuses(answer) == {"w": "landed", "x": "landed", "broken": "needs_person", "z": "landed"}
    assert project.list_landed() == ["w", "x", "z"]
    [red] = [each for each in answer["landings"] if each["title"] == "broken"]
    assert (red["problem"], "bad.txt" in red["reason"]) == ("red", True)
    assert project.call("task_get", id=ids["broken"])["status"] == "pending"


def test_of_two_that_are_red_only_together_the_first_lands(project: LandingProject) -> None:
    prepare(project)
    plan, _ = do_all(project, {"one": {"b_txt": "b"}, "two": {"c_txt": "c"}})

    answer = project.land(workflow_id=plan)

    assert get_statuses(answer) == {"one": "landed", "two": "needs_person"}


def test_the_definitions_of_the_target_count_whatever_the_work_says(project: LandingProject) -> None:
    prepare(project)
    plan = project.plan({"cheat": None})
    tree = plan.claim("cheat")["workspace_path"]
    project.write_checks("checks: {fits: {run: ['true']}}\n", tree)
    project.write(tree, "bad.txt", "bad")
    run_git(Path(tree), "add", "-fA")
    run_git(Path(tree), "commit", "-qm", "cheat")
    plan.complete("cheat")
    project.require_checks(plan.id, "fits")

    answer = project.land(workflow_id=plan.id)

    assert get_statuses(answer) == {"cheat": "needs_person"}
    assert count_runs(project) == 2  # on the merged result, then on the branch without it


def test_a_red_target_is_nobodys_work(project: LandingProject) -> None:
    prepare(project)
    plan, ids = do_all(project, {"fine": {"x_txt": "x"}})
    project.commit_on("main", bad_txt="bad")

    [landing] = project.land(workflow_id=plan)["landings"]

    assert (landing["status"], landing["problem"]) == ("needs_person", "target_red")
    assert project.call("task_get", id=ids["fine"])["status"] == "completed"


def test_checks_that_nobody_trusted_do_not_run(project: LandingProject) -> None:
    prepare(project, trusted=False)
    plan, _ = do_all(project, {"fine": {"x_txt": "x"}})

    [landing] = project.land(workflow_id=plan)["landings"]

    assert (landing["status"], landing["problem"]) == ("needs_person", "checks")
    assert "deepwork trust" in landing["reason"]
    assert count_runs(project) == 0


def test_a_landing_reuses_only_what_a_landing_proved(project: LandingProject) -> None:
    text = CHECKS.replace("fits:", "fits:\n    clean: true")
    project.define_checks(text.format(log=project.folder.parent / f"{project.folder.name}.log"))
    plan = project.plan({"fine": None})
    project.require_checks(plan.id, "fits", approval=("landing",))
    project.do(plan, "fine", x_txt="x")  # proved in a clean tree, with the same files as the merge
    completed = count_runs(project)

    asked = project.land(workflow_id=plan.id)
    landed = count_runs(project)
    project.act("give_approval", approval_id=find_approval(asked, "fine"))

    assert (completed, landed, count_runs(project)) == (1, 2, 2)
    assert project.list_landed() == ["fine"]


def test_a_change_of_what_the_target_guards_needs_a_person(project: LandingProject) -> None:
    project.define_checks("checks: {fits: {run: ['true']}}\nguarded: [Makefile]\n")
    plan = project.plan_done({"plain": {"x_txt": "x"}, "weak": {"Makefile": "test: ;"}})

    asked = project.land(workflow_id=plan.id)
    before = project.list_landed()
    project.act("give_approval", approval_id=find_approval(asked, "weak"))

    assert (asked["exit_code"], before) == (3, ["plain"])
    assert get_statuses(asked) == {"plain": "landed", "weak": "waiting"}
    assert project.list_landed() == ["plain", "weak"]


def test_a_repository_that_hides_a_guarded_change_by_a_false_object_lands_nothing(
    project: LandingProject,
) -> None:
    """Git believes what is stored under a hash, so it sees no difference; the real object comes back later."""
    (project.folder / "guarded").mkdir()
    commit(project.folder, **{"guarded/rule": "strict\n"})
    project.define_checks("checks: {fits: {run: ['true']}}\nguarded: ['guarded/**']\n")
    project.git("checkout", "-q", "-b", "desk")
    plan = project.plan_done({"weak": {"guarded/rule": "easy\n"}})
    honest = project.git("rev-parse", "main:guarded")
    replace_object(project.folder, project.git("rev-parse", f"{plan.get_branch('weak')}:guarded"), honest)

    answer = project.land(workflow_id=plan.id)

    assert (answer["exit_code"], get_statuses(answer)) == (3, {"weak": "needs_person"})
    assert project.git("rev-parse", "main:guarded") == honest


def test_what_a_person_approved_for_the_task_is_not_asked_again(project: LandingProject) -> None:
    project.define_checks("checks: {fits: {run: ['true']}}\nguarded: [Makefile]\n")
    plan = project.plan({"weak": None}, checks=["fits"])
    commit(Path(plan.claim("weak")["workspace_path"]), Makefile="test: ;")
    with pytest.raises(GateClosed) as closed:
        plan.complete("weak")
    project.act("give_approval", approval_id=closed.value.evidence["approval"]["id"])
    plan.complete("weak")

    answer = project.land(workflow_id=plan.id)

    assert (answer["exit_code"], project.list_landed()) == (0, ["weak"])


def test_what_somebody_committed_to_the_integration_branch_needs_a_person(project: LandingProject) -> None:
    """Otherwise a branch that an agent made first would bring easier rules along."""
    project.define_checks("checks: {fits: {run: [make, -s]}}\nguarded: [Makefile]\n")
    commit(project.folder, Makefile="all: ; @test -e x.txt\n")
    plan = project.plan({"first": None, "second": None}, checks=["fits"])
    project.do(plan, "first", x_txt="x")
    branch = f"deepwork/integration/{plan.id}"
    project.git("branch", branch, "main")
    project.commit_on(branch, Makefile="all: ;\n")

    asked = project.land(workflow_id=plan.id)
    before = project.list_landed(branch)
    project.act("give_approval", approval_id=find_approval(asked, "first"))
    project.do(plan, "second", x_txt="x", y_txt="y")
    again = project.land(workflow_id=plan.id)  # a person has seen it

    assert (asked["exit_code"], before) == (3, [])
    assert (again["exit_code"], project.list_landed(branch)) == (0, ["first", "second"])


def test_work_that_the_target_has_already_counts_as_landed_only_if_its_checks_pass(
    project: LandingProject,
) -> None:
    prepare(project)
    plan, _ = do_all(project, {"fine": {"x_txt": "x"}})
    project.git("checkout", "-q", "main")
    project.git("merge", "-q", project.git("branch", "--list", "deepwork/fine*").split()[-1])
    commit(project.folder, bad_txt="bad")
    project.git("checkout", "-q", "desk")

    [red] = project.land(workflow_id=plan)["landings"]
    project.git("branch", "-f", "main", "main~1")
    [green] = project.land(workflow_id=plan)["landings"]

    assert (red["status"], red["problem"]) == ("needs_person", "target_red")
    assert green["status"] == "landed"
    with project.app.database.reading() as tx:
        assert len(ProofStore(tx).list_used_by(ProofSubject(LANDING, green["id"]))) == 1
