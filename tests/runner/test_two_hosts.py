"""Two machines run agents for one plan in one PostgreSQL store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, empty_database
from cli.run import run_deepwork
from deepwork.kernel.errors import DeepworkError
from quick import PLAIN
from runner.endings import finish, list_living, wait_until
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Process
from workspaces.make import commit, run_git

CONFIG = "lease_seconds: 600\n"
"""Longer than a busy machine takes for anything; `let_lease_end` is the only way to lose one."""


class Hosts:
    """A checkout on one machine, its clone on another, and runners on both."""

    def __init__(self, folder: Path, url: str) -> None:
        self.project = RunProject(folder, url, CONFIG)
        self.folders = {"host-a": self.project.folder, "host-b": folder / "clone"}
        self._started: list[subprocess.Popen[bytes]] = []

    def clone(self) -> Path:
        """Clone the checkout, with all that was pushed so far."""
        clone = self.folders["host-b"]
        run_git(clone.parent, "clone", "-q", str(self.project.folder), str(clone))
        (clone / ".deepwork").mkdir()
        (clone / ".deepwork" / "config.yml").write_text(CONFIG)
        return clone

    def get_variables(self, host: str) -> dict[str, str]:
        return {**self.project.variables, "DEEPWORK_TEST_HOST": host}

    def start(self, host: str, *options: str) -> subprocess.Popen[bytes]:
        """Start `deepwork run` on a machine."""
        log = (self.project.folder.parent / f"{host}.log").open("ab")
        with log:
            process = subprocess.Popen(
                [*PLAIN, "run", self.project.plan, "--json", *options],
                cwd=self.folders[host],
                env=self.get_variables(host),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.append(process)
        return process

    def list_attempts(self, task: str) -> list[dict[str, Any]]:
        return [each for each in list_attempts(self.project) if each["task_id"] == self.project.ids[task]]

    def let_lease_end(self, task: str) -> None:
        """Let so much time pass for the store that nobody holds the task any more."""
        with self.project.app.database.transaction() as tx:
            tx.execute("UPDATE leases SET until = :past WHERE what = :id", past=1, id=self.project.ids[task])

    def lose(self, host: str) -> None:
        """Let so much time pass for the store that a machine counts as gone, with everything it holds."""
        with self.project.app.database.transaction() as tx:
            tx.execute("UPDATE runner_hosts SET seen_at = :past WHERE host = :host", past=1, host=host)
            tx.execute("UPDATE leases SET until = :past WHERE who IS NOT NULL", past=1)

    def show_status(self, host: str) -> dict[str, Any]:
        """Return what `deepwork status` says on a machine."""
        shown = run_deepwork(self.folders[host], "status", "--json", environment=self.get_variables(host))
        answer: dict[str, Any] = json.loads(shown.out)
        return answer

    def list_processes(self, task: str) -> list[Process]:
        return [each for each in self.project.agents.read_ledger() if each.name == task]

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        for agent in list_living(self.project):
            os.kill(agent.pid, signal.SIGKILL)
        wait_until(lambda: not list_living(self.project), "the end of all agents")
        self.project.close()


@pytest.fixture
def hosts(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    empty_database(postgres_url)
    monkeypatch.setenv("DEEPWORK_TEST_HOST", "host-a")
    made = Hosts(tmp_path, postgres_url)
    yield made
    made.close()


def test_another_host_takes_the_task_of_one_that_is_gone(hosts: Hosts, tmp_path: Path):
    project = hosts.project
    never, opened, reached = tmp_path / "never", tmp_path / "opened", tmp_path / "reached"
    begun = [
        {"do": "append", "file": "alpha.txt", "line": "one"},
        {"do": "commit", "message": "So far"},
        {"do": "append", "file": "alpha.txt", "line": "not committed"},
        {"do": "touch", "file": str(reached)},
        {"do": "wait_for", "file": str(never)},
    ]
    project.set_plan(
        [{"name": "alpha", "description": ""}, {"name": "beta", "description": "", "depends_on": []}],
        {
            "alpha": [[*begun, *finish("alpha")], [{"do": "append", "file": "alpha.txt", "line": "two"}]],
            "beta": [[{"do": "wait_for", "file": str(opened)}, *finish("beta")]],
        },
    )

    gone = hosts.start("host-a", "--agent", "claude")
    wait_until(reached.exists, "the work of the first host")
    gone.kill()  # its agent goes on
    gone.wait()
    hosts.let_lease_end("alpha")
    clone = hosts.clone()
    other = hosts.start("host-b", "--agent", "claude", "--agents", "2")
    wait_until(lambda: len(hosts.list_attempts("alpha")) == 2, "the second host")
    wait_until(lambda: hosts.list_attempts("alpha")[1]["stage"] == "done", "the work of the second host")
    [lost, done] = hosts.list_attempts("alpha")
    living = [each for each in list_living(project) if each.name == "alpha"]
    back = hosts.start("host-a", "--agent", "claude")
    wait_until(lambda: not any(each.name == "alpha" for each in list_living(project)), "the end of its agent")
    with pytest.raises(DeepworkError) as late:
        call_tool(
            project.app,
            "task_update_status",
            id=project.ids["alpha"],
            status="completed",
            outcome="Late.",
            agent_id=lost["agent_id"],
            claim_epoch=lost["claim_epoch"],
        )
    opened.touch()
    codes = [other.wait(60), back.wait(60)]

    assert [lost["stage"], lost["host"], done["host"]] == ["stopped", "host-a", "host-b"]
    assert Path(done["tree"]).is_relative_to(clone)
    assert len(living) == 1
    assert late.value.code == "STALE_CLAIM"
    assert codes == [0, 0]
    assert [each["stage"] for each in hosts.list_attempts("beta")] == ["done"]
    assert len(hosts.list_processes("beta")) == 1
    assert run_git(clone, "show", f"{done['branch']}:alpha.txt") == "one\ntwo"
    assert (Path(lost["tree"]) / "alpha.txt").read_text() == "one\nnot committed\n"


PLAN: list[dict[str, Any]] = [
    {"name": "one", "description": "", "depends_on": []},
    {"name": "two", "description": "", "depends_on": ["one"]},
    {"name": "three", "description": "", "depends_on": []},
    {"name": "four", "description": "", "depends_on": ["two", "three"]},
]


@pytest.mark.thorough
def test_nothing_runs_without_the_work_that_it_builds_on(hosts: Hosts, tmp_path: Path):
    opened = tmp_path / "opened"
    script = {task["name"]: [finish(task["name"])] for task in PLAN}
    script["one"] = [[{"do": "wait_for", "file": str(opened)}, *finish("one")]]
    hosts.project.set_plan(PLAN, script)
    clone = hosts.clone()

    first = hosts.start("host-a", "--agent", "claude", "--agents", "1")
    wait_until(lambda: hosts.list_attempts("one"), "the first host")
    second = hosts.start("host-b", "--agent", "claude", "--agents", "1")
    wait_until(
        lambda: [each["stage"] for each in hosts.list_attempts("three")] == ["done"], "the second host"
    )
    opened.touch()
    codes = [first.wait(60), second.wait(60)]
    places = {name: [each["host"] for each in hosts.list_attempts(name)] for name in script}
    [branch] = [each["branch"] for each in hosts.list_attempts("three")]
    run_git(hosts.project.folder, "fetch", "-q", str(clone), f"{branch}:{branch}")
    again = hosts.start("host-a", "--agent", "claude").wait(60)

    assert codes == [3, 3]
    assert places == {"one": ["host-a"], "two": ["host-a"], "three": ["host-b"], "four": []}
    assert again == 0
    [done] = hosts.list_attempts("four")
    found = [run_git(hosts.project.folder, "show", f"{done['branch']}:{name}.txt") for name in script]
    assert (done["host"], found) == ("host-a", list(script))


@pytest.mark.thorough
def test_a_task_starts_without_that_work_only_if_a_person_says_so_and_its_agent_knows(hosts: Hosts):
    project = hosts.project
    project.set_plan(PLAN[:2], {"two": [finish("two")]})
    clone = hosts.clone()
    branch = complete_by_hand(hosts, "one")

    refused = hosts.start("host-b", "--agent", "claude").wait(60)
    waited = hosts.list_attempts("two")
    accepted = hosts.start("host-b", "--agent", "claude", "--without-dependencies").wait(60)

    assert (refused, waited, accepted) == (3, [], 0)
    [done] = hosts.list_attempts("two")
    [prompt] = (clone / ".deepwork").rglob(f"*{done['id']}*/**/prompt*")
    assert f"is on host-a, on the branch {branch}" in prompt.read_text()


def test_nobody_waits_for_a_host_that_is_gone_with_the_work(hosts: Hosts, tmp_path: Path):
    never, reached = tmp_path / "never", tmp_path / "reached"
    stuck = [{"do": "touch", "file": str(reached)}, {"do": "wait_for", "file": str(never)}]
    hosts.project.set_plan(PLAN[:2], {"one": [finish("one")], "two": [stuck, finish("two")]})
    hosts.clone()
    gone = hosts.start("host-a", "--agent", "claude")
    wait_until(reached.exists, "the work of the first host")
    gone.kill()
    gone.wait()
    for agent in list_living(hosts.project):
        os.kill(agent.pid, signal.SIGKILL)
    [branch] = [each["branch"] for each in hosts.list_attempts("one")]

    other = hosts.start("host-b", "--agent", "claude")
    hosts.lose("host-a")
    code = other.wait(60)
    needs = hosts.show_status("host-b")["needs_you"]
    back = hosts.start("host-a", "--agent", "claude").wait(60)

    assert code == 3
    assert [each["host"] for each in hosts.list_attempts("two")] == ["host-a"]
    [need] = [each for each in needs if each["kind"] == "agent_run"]
    for part in ("work_elsewhere", branch, "host-a was last seen at", f"deepwork run {hosts.project.plan}"):
        assert part in need["why"]
    assert back == 0
    assert hosts.list_attempts("two")[-1]["stage"] == "done"


def complete_by_hand(hosts: Hosts, task: str) -> str:
    """Do a task on the first machine as an agent over MCP does; return its branch."""
    app, id = hosts.project.app, hosts.project.ids[task]
    agent = call_tool(app, "agent_register", name=task, runtime="custom")["id"]
    claimed = call_tool(app, "task_claim", task_id=id, agent_id=agent)
    commit(Path(claimed["workspace_path"]), task, one_txt="one")
    call_tool(app, "task_update_status", id=id, agent_id=agent, status="completed", outcome="Done.")
    branch: str = claimed["branch"]
    return branch
