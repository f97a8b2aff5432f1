"""J3: the git branch of a session, in real repositories."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deepwork.edge.server.application import Application
from deepwork.work.jobs.branch import build_branch_name
from jobs.project import make_step, write_files, write_job
from jobs.runs import call_job_tool, open_app
from jobs.test_sessions import run_together

pytestmark = pytest.mark.needs("git")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "tracked.md")
    write_job(tmp_path, "chain", [make_step("a")])
    write_job(tmp_path, "other", [make_step("a")])
    return tmp_path


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "tracked.md")
    commit(root)
    return root


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root: Path) -> None:
    git(root, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q", "-m", "x")


def current(root: Path) -> str:
    return git(root, "branch", "--show-current")


def start(
    root: Path | Application, name: str = "chain", instance: str | None = "acme", git_branch: str = "switch"
) -> str | None:
    app = root if isinstance(root, Application) else open_app(root, git_branch=git_branch)
    given: dict[str, Any] = {"goal": "x", "job_name": name, "workflow_name": "main", "instance_id": instance}
    branch: str | None = call_job_tool(app, "start_workflow", **given)["branch"]
    return branch


def test_a_session_creates_a_branch_and_switches_to_it(repository: Path):
    assert start(repository) == current(repository) == "deepwork/chain-main-acme"


def test_without_an_instance_the_branch_name_contains_the_date(repository: Path):
    assert re.fullmatch(r"deepwork/chain-main-\d{4}-\d\d-\d\d", start(repository, instance=None) or "")


def test_create_makes_the_branch_without_switching_to_it(repository: Path):
    assert start(repository, git_branch="create") == "deepwork/chain-main-acme"
    assert current(repository) == "main"
    assert "deepwork/chain-main-acme" in git(repository, "branch", "--list", "deepwork/*")


def test_off_creates_no_branch(repository: Path):
    assert start(repository, git_branch="off") is None
    assert git(repository, "branch", "--list", "deepwork/*") == ""


def test_a_taken_branch_name_gets_a_number(repository: Path):
    git(repository, "tag", "deepwork/chain-main-acme")

    made = []
    for _ in range(3):
        git(repository, "switch", "-q", "main")
        made.append(start(repository))

    assert made == ["deepwork/chain-main-acme", "deepwork/chain-main-acme-2", "deepwork/chain-main-acme-3"]


def test_uncommitted_work_is_not_touched(repository: Path):
    (repository / "tracked.md").write_text("changed")
    (repository / "staged.md").write_text("staged")
    git(repository, "add", "staged.md")
    before = git(repository, "status", "--porcelain", "-uno")

    start(repository)

    assert git(repository, "status", "--porcelain", "-uno") == before
    assert (repository / "tracked.md").read_text() == "changed"


def test_a_nested_session_stays_on_the_branch_of_the_outer_one(repository: Path):
    app = open_app(repository, git_branch="switch")

    assert start(app) == start(app, "other") == current(repository)
    app.close()


def test_a_session_stays_on_an_existing_deepwork_branch(repository: Path):
    git(repository, "switch", "-q", "-c", "deepwork/by-hand")

    assert start(repository) == current(repository) == "deepwork/by-hand"


def test_a_session_can_start_at_a_detached_head(repository: Path):
    git(repository, "checkout", "-q", "--detach")

    assert start(repository) == current(repository)


def test_without_a_repository_or_a_commit_no_branch_is_created(root: Path):
    assert start(root) is None
    git(root, "init", "-q")
    assert start(root) is None


def test_concurrent_sessions_share_one_branch(repository: Path):
    apps = [open_app(repository, git_branch="switch") for _ in range(4)]

    branches = run_together(*(lambda app=app: start(app) for app in apps))

    assert branches == ["deepwork/chain-main-acme"] * 4


@pytest.mark.parametrize(
    "suffix",
    [
        "a b",
        "../x",
        "x..y",
        "x.lock",
        "-x",
        "x~^:?*[\\y",
        "@{",
        "/",
        "ü",
        "",
        "x" * 300,
        "y" * 103 + ".lock" + "z" * 50,
    ],
)
def test_any_text_becomes_a_valid_branch_name(suffix: str):
    name = build_branch_name("job", "flow", suffix)

    subprocess.run(["git", "check-ref-format", "--branch", name], check=True, capture_output=True)
    assert name.startswith("deepwork/job-flow")


# What the answers say about it


def start_fully(app: Application) -> Any:
    given = {"goal": "x", "job_name": "chain", "workflow_name": "main", "instance_id": "acme"}
    return call_job_tool(app, "start_workflow", **given)


def test_the_answers_at_the_start_and_at_the_end_say_how_to_go_back(repository: Path):
    app = open_app(repository, git_branch="switch")

    begun = start_fully(app)
    done = call_job_tool(app, "finished_step", outputs={"a.md": "a.md"})

    assert begun["branch_switched"] is True
    for note in (begun["branch_note"], done["branch_note"]):
        assert "deepwork/chain-main-acme" in note
        assert note.endswith("To go back: `git switch main`.")
    app.close()


def test_an_aborted_session_and_a_detached_head_say_how_to_go_back_too(repository: Path):
    git(repository, "checkout", "-q", "--detach")
    commit = git(repository, "rev-parse", "--short", "HEAD")
    app = open_app(repository, git_branch="switch")

    start_fully(app)
    note = call_job_tool(app, "abort_workflow", explanation="enough")["branch_note"]

    assert note.endswith(f"To go back: `git switch --detach {commit}`.")
    app.close()


def test_a_tree_that_left_the_branch_of_the_session_gets_no_note(repository: Path):
    app = open_app(repository, git_branch="switch")
    start_fully(app)
    git(repository, "switch", "-q", "main")

    assert "branch_note" not in call_job_tool(app, "abort_workflow", explanation="enough")
    app.close()


def test_a_session_on_the_branch_of_an_earlier_one_says_how_to_go_back_too(repository: Path):
    app = open_app(repository, git_branch="switch")
    start_fully(app)
    call_job_tool(app, "abort_workflow", explanation="enough")

    begun = start_fully(app)
    done = call_job_tool(app, "finished_step", outputs={"a.md": "a.md"})

    assert (begun["branch"], begun["branch_switched"]) == ("deepwork/chain-main-acme", False)
    for note in (begun["branch_note"], done["branch_note"]):
        assert note.endswith("To go back: `git switch main`.")
    app.close()


def test_the_note_at_the_end_names_the_sessions_that_still_use_the_branch(repository: Path):
    apps = [open_app(repository, git_branch="switch") for _ in range(2)]
    first, _ = (start_fully(app)["begin_step"]["session_id"] for app in apps)

    note = call_job_tool(apps[1], "finished_step", outputs={"a.md": "a.md"})["branch_note"]

    assert note.endswith(f"Session {first} still uses this branch. To go back: `git switch main`.")
    for app in apps:
        app.close()


def test_create_and_off_are_named_in_the_answer(repository: Path):
    made = start_fully(open_app(repository, git_branch="create"))
    none = start_fully(open_app(repository, git_branch="off"))

    assert made["branch_switched"] is False
    assert "stays on main: git_branch is `create`" in made["branch_note"]
    assert none["branch"] is None
    assert not none.keys() & {"branch_switched", "branch_note"}


def test_the_tree_is_not_switched_under_a_running_task(repository: Path):
    app = open_app(repository, git_branch="switch")
    _claim_task(app)

    begun = start_fully(app)

    assert (begun["branch"], begun["branch_switched"]) == ("deepwork/chain-main-acme", False)
    assert "stays on main: 1 task of plans runs in it" in begun["branch_note"]
    assert current(repository) == "main"
    assert git(repository, "branch", "--list", "deepwork/*").strip() == "deepwork/chain-main-acme"
    done = call_job_tool(app, "finished_step", outputs={"a.md": "a.md"})
    assert "branch_note" not in done
    app.close()


def test_the_tree_is_not_switched_while_it_has_workspaces(repository: Path, tmp_path: Path):
    app = open_app(repository, git_branch="switch")
    plan, task, agent = _claim_task(app, "first", "second")
    call_job_tool(app, "task_update_status", id=task, status="completed", agent_id=agent, outcome="done")
    path = str(tmp_path.parent / f"{tmp_path.name}-tree")
    call_job_tool(app, "workspace_create", workflow_id=plan, path=path, branch="side")

    begun = start_fully(app)

    assert begun["branch_switched"] is False
    assert "it has 1 active workspace of plans" in begun["branch_note"]
    assert current(repository) == "main"
    app.close()


@pytest.mark.parametrize("has_workspace", [True, False])
def test_plans_that_have_ended_do_not_keep_the_tree_on_its_branch(
    repository: Path, tmp_path: Path, has_workspace: bool
):
    app = open_app(repository, git_branch="switch")
    plan, _, _ = _claim_task(app)
    if has_workspace:
        path = str(tmp_path.parent / f"{tmp_path.name}-tree")
        call_job_tool(app, "workspace_create", workflow_id=plan, path=path, branch="side")
    call_job_tool(app, "workflow_update_status", id=plan, status="abandoned", reason="not needed")

    begun = start_fully(app)

    assert begun["branch_switched"] is True
    assert current(repository) == "deepwork/chain-main-acme"
    app.close()


def _claim_task(app: Application, *names: str) -> tuple[str, str, str]:
    """Make a plan whose first task an agent runs in the main tree."""
    tasks = [{"name": name, "description": "d"} for name in names or ("t",)]
    plan = call_job_tool(app, "workflow_create", name="p", source_type="prompt", source_content="x")["id"]
    call_job_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    task = call_job_tool(app, "workflow_next_tasks", workflow_id=plan)["tasks"][0]["id"]
    agent = call_job_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
    assert call_job_tool(app, "task_claim", task_id=task, agent_id=agent)["success"]
    call_job_tool(app, "task_update_status", id=task, status="in_progress", agent_id=agent)
    return plan, task, agent
