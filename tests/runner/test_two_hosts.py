"""Two machines run agents for one plan in one PostgreSQL store."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, empty_database
from deepwork.errors import DeepworkError
from quick import PLAIN
from runner.endings import finish, list_living, wait_until
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Process
from workspaces.make import run_git

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
