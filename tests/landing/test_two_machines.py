"""Two machines with a clone each and one store: nothing is said to be where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, empty_database, make_app
from deepwork.delivery.landing.queue import LandingQueue
from deepwork.delivery.landing.service import LandingService
from deepwork.delivery.landing.store import BranchLeaseStore
from deepwork.kernel.errors import DeepworkError, NotAllowed
from landing.make import PERSON, LandingProject, get_statuses
from workspaces.make import commit, create_plan, create_repository, run_git

A, B = "host-a", "host-b"


class Machines:
    """A repository on one machine, its clone on another, and a plan that both work on."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        folders = {A: create_repository(folder / "a"), B: folder / "b"}
        run_git(folder, "clone", "-q", str(folders[A]), str(folders[B]))
        self.at: dict[str, LandingProject] = {}
        for host, place in folders.items():
            monkeypatch.setenv("DEEPWORK_TEST_HOST", host)
            app = make_app(place, url, clock)
            assert app.repositories.host == host  # read once
            self.at[host] = LandingProject(place, app, clock)
        self.clock = clock
        self.plan = self.at[A].plan({"one": [], "two": ["one"], "three": [], "four": ["two", "three"]})
        run_git(folders[B], "checkout", "-q", "-b", "desk")

    def claim(self, host: str, task: str) -> dict[str, Any]:
        """Claim a task on a machine, as an agent over MCP does there."""
        app = self.at[host].app
        agent = call_tool(app, "agent_register", name=task, runtime="custom")["id"]
        claimed: dict[str, Any] = call_tool(app, "task_claim", task_id=self.plan.ids[task], agent_id=agent)
        self.plan.claims[task] = claimed | {"agent_id": agent, "app": app}
        return claimed

    def do(self, host: str, task: str) -> dict[str, Any]:
        """Do a task on a machine."""
        claimed = self.claim(host, task)
        assert claimed["success"], claimed
        commit(Path(claimed["workspace_path"]), task, **{f"{task}_txt": task})
        self.set_status(host, task, "completed", outcome="Done.")
        return claimed

    def set_status(self, host: str, task: str, status: str, **more: Any) -> None:
        """Report the status of a task, as the agent that claimed it does."""
        work = {"id": self.plan.ids[task], "agent_id": self.plan.claims[task]["agent_id"]}
        call_tool(self.at[host].app, "task_update_status", status=status, **work, **more)

    def do_without_worktrees(self, host: str) -> None:
        """Replace the plan by one whose tasks are done in the checkout; do its first task, uncommitted."""
        app = self.at[host].app
        self.plan.id, _ = create_plan(app)
        tasks = [{"name": "one", "depends_on": []}, {"name": "two", "depends_on": ["one"]}]
        call_tool(app, "workflow_set_plan", id=self.plan.id, plan={"summary": "s", "tasks": tasks})
        shown = call_tool(app, "workflow_get", id=self.plan.id, include_tasks=True)["tasks"]
        self.plan.ids = {task["name"]: task["id"] for task in shown}
        assert self.claim(host, "one")["success"]
        (self.at[host].folder / "one.txt").write_text("one")
        self.set_status(host, "one", "completed", outcome="Done.")

    def fetch(self, host: str, branch: str) -> None:
        """Fetch a branch from the other machine, as a person does."""
        [other] = {A, B} - {host}
        self.at[host].git("fetch", "-q", str(self.at[other].folder), f"{branch}:{branch}")

    def land(self, host: str) -> dict[str, Any]:
        return self.at[host].land(workflow_id=self.plan.id)

    def close(self) -> None:
        for project in self.at.values():
            project.app.close()


@pytest.fixture
def machines(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    empty_database(postgres_url)
    made = Machines(tmp_path, postgres_url, monkeypatch)
    yield made
    made.close()


def test_a_task_waits_until_the_work_that_it_builds_on_is_here(machines: Machines) -> None:
    branch = machines.do(A, "one")["branch"]

    refused = machines.claim(B, "two")
    machines.fetch(B, branch)
    claimed = machines.claim(B, "two")

    assert (refused["success"], refused["reason"]) == (False, "work_elsewhere")
    assert branch in refused["message"]
    assert A in refused["message"]
    assert claimed["success"]
    assert claimed["builds_on"] == [branch]
    assert (Path(claimed["workspace_path"]) / "one.txt").read_text() == "one"


def test_another_commit_of_the_branch_is_not_the_work(machines: Machines) -> None:
    claimed = machines.do(A, "one")
    commit(Path(claimed["workspace_path"]), "later", later_txt="later")
    machines.fetch(B, claimed["branch"])

    found = machines.claim(B, "two")

    assert found["success"]  # the commit of the work came with it
    assert not (Path(found["workspace_path"]) / "later.txt").exists()
    assert (Path(found["workspace_path"]) / "one.txt").exists()


def test_a_plan_lands_only_where_all_its_work_is(machines: Machines) -> None:
    branches = {
        task: machines.do(host, task)["branch"] for host, task in ((A, "one"), (A, "two"), (B, "three"))
    }
    machines.fetch(B, branches["two"])
    branches["four"] = machines.do(B, "four")["branch"]
    tips = {host: project.git("rev-parse", "main") for host, project in machines.at.items()}

    lacking = machines.land(A)
    unmoved = {host: project.git("rev-parse", "main") for host, project in machines.at.items()}
    for task in ("three", "four"):
        machines.fetch(A, branches[task])
    landed = machines.land(A)
    elsewhere = machines.land(B)
    machines.at[B].git("fetch", "-q", str(machines.at[A].folder), "main:main")
    known = machines.land(B)

    assert (lacking["exit_code"], lacking["landings"], unmoved) == (3, [], tips)
    found = {each["name"]: (each["because"], each["branch"], each["host"]) for each in lacking["skipped"]}
    assert found == {task: ("work_elsewhere", branches[task], B) for task in ("three", "four")}
    assert get_statuses(landed) == dict.fromkeys(branches, "landed")
    assert (elsewhere["exit_code"], elsewhere["landings"]) == (3, [])
    assert {each["host"] for each in elsewhere["skipped"]} == {A}
    assert (known["exit_code"], get_statuses(known)) == (0, dict.fromkeys(branches, "landed"))
    for project in machines.at.values():
        assert all(project.read(f"{task}.txt") == task for task in branches)
        assert project.list_landed() == ["one", "two", "three", "four"]


def test_work_in_a_checkout_is_known_by_its_machine(machines: Machines) -> None:
    machines.do_without_worktrees(A)

    refused = machines.claim(B, "two")
    with pytest.raises(DeepworkError) as begun:
        machines.set_status(B, "two", "in_progress")
    lacking = machines.land(B)
    commit(machines.at[A].folder, "one and more", more_txt="more")
    machines.at[B].git("pull", "-q", "origin", "desk")
    unknown = machines.claim(B, "two")
    machines.at[A].git("reset", "-q", "--hard", "HEAD~1")
    commit(machines.at[A].folder, "one", one_txt="one")
    machines.at[B].git("fetch", "-q", "origin", "desk")
    machines.at[B].git("reset", "-q", "--hard", "FETCH_HEAD")

    assert (refused["success"], refused["reason"]) == (False, "work_elsewhere")
    assert f"{machines.at[A].folder} on {A}, on the branch desk" in refused["message"]
    assert "`git pull origin desk`" in refused["message"]
    assert A in begun.value.message
    assert (lacking["exit_code"], lacking["landings"]) == (3, [])
    assert [(each["because"], each["branch"], each["host"]) for each in lacking["skipped"]] == [
        ("work_elsewhere", "desk", A)
    ]
    assert unknown["reason"] == "work_elsewhere"
    assert machines.claim(B, "two")["success"]


def test_work_is_found_in_the_commit_that_came_later_and_nothing_older_is_begun_with(
    machines: Machines,
) -> None:
    base = machines.at[A].commit_on("main", base_txt="base")
    machines.plan = machines.at[A].plan({"one": [], "two": ["one"], "three": []})
    claimed = machines.claim(A, "one")
    tree = Path(claimed["workspace_path"])
    (tree / "one.txt").write_text("one")
    machines.set_status(A, "one", "completed", outcome="Done.")
    commit(tree, "one")
    commit(tree, "later", later_txt="later")
    machines.fetch(B, claimed["branch"])
    machines.at[B].git("fetch", "-q", "origin")

    two, three = machines.claim(B, "two"), machines.claim(B, "three")

    assert two["builds_on"] == [claimed["branch"]]
    found = {each.name for each in Path(two["workspace_path"]).glob("*.txt")}
    assert found == {"a.txt", "base.txt", "one.txt"}
    assert run_git(Path(three["workspace_path"]), "rev-parse", "HEAD") == base  # not what B has checked out


def test_a_tree_that_began_without_work_lacks_it_until_it_is_merged(machines: Machines) -> None:
    branch = machines.do(A, "one")["branch"]
    machines.at[B].app._workspace_service.accept_missing(machines.plan.ids["two"])
    began = machines.claim(B, "two")
    call_tool(
        machines.at[B].app,
        "task_release",
        task_id=machines.plan.ids["two"],
        agent_id=machines.plan.claims["two"]["agent_id"],
    )
    machines.fetch(B, branch)

    again = machines.claim(B, "two")
    run_git(Path(again["workspace_path"]), "merge", "-q", branch)
    merged = machines.claim(B, "two")

    assert (began["unmerged"], again["unmerged"]) == ([branch], [branch])
    assert f"git merge {branch}" in again["warning"]
    assert merged["reason"] == "claimed"


def test_work_of_an_older_version_is_completed_again_before_others_build_on_it(machines: Machines) -> None:
    branch = machines.do(A, "one")["branch"]
    with machines.at[A].app.database.transaction() as tx:
        tx.update("plan_tasks", machines.plan.ids["one"], {"completed_tree": None, "completed_head": None})
    machines.fetch(B, branch)

    unknown = machines.claim(B, "two")
    unlanded = machines.land(B)
    call_tool(
        machines.at[A].app,
        "task_update_status",
        id=machines.plan.ids["one"],
        status="pending",
        outcome="Again.",
        caller=PERSON,
    )
    assert machines.claim(A, "one")["success"]
    machines.set_status(A, "one", "completed", outcome="Done.")

    command = f"`deepwork tasks retry {machines.plan.ids['one']}`"
    assert unknown["reason"] == "work_elsewhere"
    assert command in unknown["message"]
    assert [command in each["reason"] for each in unlanded["skipped"]] == [True]
    assert machines.claim(B, "two")["success"]


def test_one_machine_lands_and_what_it_left_can_be_given_up(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.fetch(B, machines.do(A, "one")["branch"])
    with monkeypatch.context() as patch:
        patch.setattr(LandingQueue, "work", lambda *_: True)  # it is killed before it has done anything
        machines.land(A)
    find, looks = LandingService._find_elsewhere, [1]

    def look(*given: Any) -> Any:
        if not looks:
            return find(*given)
        looks.clear()  # the first time, A has not begun yet
        return []

    monkeypatch.setattr(LandingService, "_find_elsewhere", look)
    late = machines.land(B)
    database = machines.at[A].app.database
    with database.transaction() as tx:
        [id] = [row["id"] for row in tx.fetch_all("SELECT id FROM landings")]
        tx.update("landings", id, {"status": "checking"})
        BranchLeaseStore(tx, 30_000).take("repository", "main", "A")

    with pytest.raises(NotAllowed):
        machines.at[B].act("cancel_landing", landing_id=id)
    machines.clock.advance(seconds=31)
    given_up = machines.at[B].act("cancel_landing", landing_id=id)
    landed = machines.land(B)

    assert (late["exit_code"], late["landings"]) == (3, [])
    assert [each["host"] for each in late["skipped"]] == [A]
    assert f"`deepwork landings cancel {id}`" in late["skipped"][0]["reason"]
    assert given_up["status"] == "cancelled"
    assert get_statuses(landed) == {"one": "landed"}
    assert machines.at[B].list_landed() == ["one"]


def test_a_shallow_clone_lands_nothing(machines: Machines) -> None:
    machines.at[A].git("commit", "-q", "--allow-empty", "-m", "more")
    machines.do(B, "three")
    machines.at[B].git("fetch", "-q", "--depth", "1", f"file://{machines.at[A].folder}", "desk")

    with pytest.raises(NotAllowed) as refused:
        machines.land(B)
    machines.at[B].git("fetch", "-q", "--unshallow", f"file://{machines.at[A].folder}")

    assert "git fetch --unshallow" in str(refused.value.suggestion)
    assert get_statuses(machines.land(B)) == {"three": "landed"}


def test_what_a_person_merged_on_one_machine_counts_on_another_when_it_is_there(machines: Machines) -> None:
    one, three = machines.do(A, "one"), machines.do(A, "three")
    here = machines.at[A]
    here.git("checkout", "-q", "main")
    here.git("merge", "-q", "--no-ff", "-m", "by hand", one["branch"])
    here.git("checkout", "-q", "desk")
    here.git("merge", "-q", "--ff-only", "main")
    call_tool(here.app, "workspace_update", id=one["workspace_id"], status="merged")
    commit(here.folder, "squashed by hand", three_txt="three")
    here.git("branch", "-f", "main")
    here_landed = machines.land(A)
    machines.fetch(B, three["branch"])

    refused, lacking = machines.claim(B, "two"), machines.land(B)
    machines.at[B].git("pull", "-q", "origin", "desk")
    machines.at[B].git("branch", "-f", "main")

    assert get_statuses(here_landed) == {"three": "landed"}
    assert refused["reason"] == "work_elsewhere"
    assert "`git pull origin desk`" in refused["message"]
    assert (lacking["exit_code"], [each["name"] for each in lacking["skipped"]]) == (3, ["one"])
    assert machines.claim(B, "two")["success"]
    landed = machines.land(B)
    assert (landed["exit_code"], get_statuses(landed)) == (0, {"three": "landed"})
