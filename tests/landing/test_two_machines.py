"""Two machines with a clone each and one store: nothing is said to be where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, empty_database, make_app
from landing.make import LandingProject, get_statuses
from workspaces.make import commit, create_repository, run_git

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
        work = {"id": self.plan.ids[task], "agent_id": self.plan.claims[task]["agent_id"]}
        call_tool(self.at[host].app, "task_update_status", status="completed", outcome="Done.", **work)
        return claimed

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
