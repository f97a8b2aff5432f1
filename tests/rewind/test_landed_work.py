"""Rewinding work that has landed: a new commit on its branch undoes it, and history stays as it is."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from application import Clock, call_tool
from cli.run import run_deepwork
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from landing.make import LandingProject
from rewind.killed_process import act_and_die
from rewind.make import act, rewind

on_both_databases = pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def landings(app: Application, project: Path, clock: Clock) -> LandingProject:
    return LandingProject(project, app, clock)


def list_files(landings: LandingProject, branch: str) -> list[str]:
    return landings.git("ls-tree", "-r", "--name-only", branch).splitlines()


@on_both_databases
def test_landed_work_is_reverted_by_a_new_commit_and_can_land_again(
    app: Application, landings: LandingProject
) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}, "ui": {"ui_txt": "ui\n"}})
    landings.land(workflow_id=plan.id)
    landed = landings.git("rev-parse", "main")

    preview = act(app, "preview_rewind", task_id=plan.ids["api"])
    done = rewind(app, plan.ids["api"])

    assert [(each["branch"], each["task"]) for each in preview["reverts"]] == [("main", "api")]
    assert landings.git("rev-parse", "main^") == landed
    assert done["reverted"] == [landings.git("rev-parse", "main")]
    assert "ui.txt" in list_files(landings, "main")
    assert "api.txt" not in list_files(landings, "main")

    act(app, "undo_rewind", rewind_id=done["id"])
    assert "api.txt" in list_files(landings, "main")
    assert call_tool(app, "task_get", id=plan.ids["api"])["status"] == "completed"

    rewind(app, plan.ids["api"])
    landings.do(plan, "api", api_txt="better\n")
    landings.land(task_id=plan.ids["api"])
    assert landings.git("show", "main:api.txt") == "better"
    assert "ui.txt" in list_files(landings, "main")


def test_a_revert_that_conflicts_with_later_work_is_refused_with_the_files(
    app: Application, landings: LandingProject
) -> None:
    plan = landings.plan({"api": None, "ui": ["api"]})
    landings.do(plan, "api", shop_txt="api\n")
    landings.do(plan, "ui", shop_txt="ui\n")
    landings.land(workflow_id=plan.id)
    tip = landings.git("rev-parse", "main")

    with pytest.raises(NotAllowed, match=r"shop\.txt"):
        rewind(app, plan.ids["api"], dependents="keep")
    assert landings.git("rev-parse", "main") == tip

    rewind(app, plan.ids["api"], dependents="reset")
    assert "shop.txt" not in list_files(landings, "main")


def test_a_branch_that_is_checked_out_is_not_moved(app: Application, landings: LandingProject) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}})
    landings.git("checkout", "-q", "main")
    landings.land(workflow_id=plan.id)
    tip = landings.git("rev-parse", "main")
    integration = f"deepwork/integration/{plan.id}"
    branches = landings.git("branch", "--list", "deepwork/integration/*").split()
    branch = integration if integration in branches else branches[-1]
    assert "api.txt" in list_files(landings, branch)

    rewind(app, plan.ids["api"])

    assert landings.git("rev-parse", "main") == tip
    assert "api.txt" not in list_files(landings, branch)


@on_both_databases
def test_work_that_a_person_merged_is_taken_back_by_merging_again(
    app: Application, landings: LandingProject
) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}, "ui": {"ui_txt": "ui\n"}})
    landings.git("checkout", "-q", "main")
    landings.land(workflow_id=plan.id)
    integration = f"deepwork/integration/{plan.id}"
    landings.git("merge", "-q", integration)
    tip, merge = landings.git("rev-parse", "main"), [{"branch": integration, "into": "main"}]

    for _ in range(2):
        preview = act(app, "preview_rewind", task_id=plan.ids["api"])
        done = rewind(app, plan.ids["api"])
        undone = act(app, "undo_rewind", rewind_id=done["id"])

        reverts = [(each["branch"], each["merge_into"]) for each in preview["reverts"]]
        assert (preview["possible"], reverts) == (True, [(integration, "main")])
        assert (done["stage"], done["merges"], undone["stage"]) == ("done", merge, "done")
        assert "merges" not in undone, "main never had the commit that is undone"
        assert landings.git("rev-parse", "main") == tip

    done = rewind(app, plan.ids["api"])
    landings.git("merge", "-q", integration)
    assert "api.txt" not in list_files(landings, "main")
    assert "ui.txt" in list_files(landings, "main")

    undone = act(app, "undo_rewind", rewind_id=done["id"])
    landings.git("merge", "-q", integration)
    assert undone["merges"] == merge
    assert "api.txt" in list_files(landings, "main")


def test_the_command_says_which_merge_takes_the_revert_in(
    app: Application, landings: LandingProject, location: str
) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}})
    landings.git("checkout", "-q", "main")
    landings.land(workflow_id=plan.id)
    line = f"git merge deepwork/integration/{plan.id}"
    landings.git(*line.split()[1:])

    shown, done = (
        run_deepwork(landings.folder, "rewind", plan.ids["api"], option, "--db", location)
        for option in ("--dry-run", "--yes")
    )
    landings.git(*line.split()[1:])

    assert (shown.code, done.code) == (0, 0), done.err
    assert f"deepwork/integration/{plan.id}" in shown.out
    assert line in done.out
    assert "api.txt" not in list_files(landings, "main")


def test_a_revert_lands_once_even_if_the_rewind_is_killed_after_it(
    app: Application, landings: LandingProject, tmp_path: Path, location: str
) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}})
    landings.land(workflow_id=plan.id)
    killed = act_and_die(tmp_path, location, "land", "rewind_task", task_id=plan.ids["api"])
    assert killed == -signal.SIGKILL
    tip = landings.git("rev-parse", "main")

    done = rewind(app, plan.ids["api"])

    assert done["reverted"] == [tip]
    assert landings.git("rev-parse", "main") == tip


def test_cleaning_keeps_what_undoing_needs_until_it_is_undone(
    app: Application, landings: LandingProject, clock: Clock
) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}, "ui": {"ui_txt": "ui\n"}})
    landings.git("checkout", "-q", "main")
    landings.land(workflow_id=plan.id)
    integration = f"deepwork/integration/{plan.id}"
    landings.git("merge", "-q", integration)
    done = rewind(app, plan.ids["api"])
    landings.git("merge", "-q", integration)
    clock.advance(seconds=3600)
    tree = Path(plan.claims["api"]["workspace_path"])

    cleaned = act(app, "remove_leftovers", older_than_days=0)

    kept = {each["name"]: each["kept"] for each in cleaned["kept"]}
    [rescue] = done["rescue_branches"]
    assert done["id"] in kept[rescue]
    assert tree.is_dir()
    assert landings.git("branch", "--list", rescue)

    undone = act(app, "undo_rewind", rewind_id=done["id"])
    assert undone["stage"] == "done"
    landings.git("merge", "-q", integration)
    assert "api.txt" in list_files(landings, "main")
    freed = act(app, "remove_leftovers", older_than_days=0)
    assert rescue in {each["name"] for each in freed["removable"]}


def test_the_preview_names_the_branch_that_has_the_work(app: Application, landings: LandingProject) -> None:
    plan = landings.plan_done({"api": {"api_txt": "api\n"}})
    landings.git("checkout", "-q", "main")
    landings.land(workflow_id=plan.id)

    [revert] = act(app, "preview_rewind", task_id=plan.ids["api"])["reverts"]

    assert revert["branch"] == f"deepwork/integration/{plan.id}"
    assert revert.get("merge_into") is None, "main does not have it"
