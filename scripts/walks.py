"""Follows the requests that users make most, and prints how many of our modules and git programs work for each.

`make walks` prints the table. Everything is done from outside: commands, a server over standard streams, REST.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRACER = Path(__file__).with_name("walk_tracer.py")
PATIENCE_SECONDS = 120.0
CHECKS = 'checks:\n  right: {run: ["true"], needs: ["*.txt"]}\n'
JOB = """\
name: report
version: "1.0.0"
summary: Write a report.
common_job_info_provided_to_all_steps_at_runtime: Nothing.
workflows:
  - {name: full, summary: Write it., steps: [write]}
steps:
  - id: write
    name: Write
    description: Write the report.
    instructions_file: steps/write.md
    outputs: {report.txt: {type: file, description: One page., required: true}}
    reviews: []
    checks: [right]
"""
AGENT = 'echo "$DEEPWORK_TASK" > "$DEEPWORK_TASK.txt"\necho Done.\n'


@dataclass(frozen=True)
class Walk:
    """What worked for one request."""

    modules: frozenset[str]
    calls: int
    git_programs: int

    @property
    def packages(self) -> int:
        """How many packages the modules are in."""
        return len({name.rpartition(".")[0] for name in self.modules})


class Project:
    """A repository with checks that are trusted, and a person with a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "shop"
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
        }
        self._records = itertools.count()
        for name, text in {
            ".deepwork/checks.yml": CHECKS,
            ".deepwork/jobs/report/job.yml": JOB,
            ".deepwork/jobs/report/steps/write.md": "Write it.\n",
            "agent.sh": AGENT,
            "a.txt": "one\n",
        }.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
            self.run("git", "config", "--global", key, value)
        self.run("git", "init", "-q", "-b", "main")
        self.commit(self.folder)
        self.deepwork("trust", "--yes")

    def run(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            words, cwd=folder or self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def commit(self, tree: Path) -> None:
        self.run("git", "add", "-A", folder=tree)
        self.run("git", "commit", "-qm", "work", folder=tree)

    def deepwork(self, *words: str) -> Any:
        """Run a command, and return its answer if it is JSON."""
        text = self.run(sys.executable, "-P", "-m", "deepwork", *words)
        return json.loads(text) if "--json" in words else text

    def plan(self, **plan: Any) -> tuple[str, list[str]]:
        """Create a plan of three tasks that can start at once; return its id and theirs."""
        tasks = [{"name": f"Task {number}", "parallel_group": "g", "sequence": 1} for number in range(3)]
        given = {
            "name": f"Plan {time.monotonic_ns()}",
            "prompt": "p",
            "summary": "s",
            "max_parallel_tasks": 3,
            "tasks": tasks,
            **plan,
        }
        place = self.home / "plan.json"
        place.write_text(json.dumps(given))
        id = self.deepwork("plans", "create", "--file", str(place), "--json")["id"]
        shown = self.deepwork("plans", "show", id, "--json")
        return id, [task["id"] for task in shown["tasks"]]

    def trace_command(self, *words: str) -> Walk:
        """Follow a command from its start to its end."""
        record = self._choose_record()
        self.run(sys.executable, "-P", str(TRACER), str(record), "now", *words)
        return read_walk(record)

    def _choose_record(self) -> Path:
        return self.home / f"record-{next(self._records)}.json"

    @contextmanager
    def trace_server(self, *words: str) -> Iterator[TracedServer]:
        record = self._choose_record()
        log = record.with_suffix(".log")
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", str(TRACER), str(record), "signal", *words],
                cwd=self.folder, env=self.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=errors, text=True,
            )  # fmt: skip
        try:
            yield TracedServer(process, record, log)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()


class TracedServer:
    """A server that records between two signals."""

    def __init__(self, process: subprocess.Popen[str], record: Path, log: Path) -> None:
        self._process, self._record, self._log = process, record, log
        self._ids = itertools.count(1)

    def find_link(self) -> tuple[str, str]:
        """Return the address and the token of the dashboard as soon as the server says them."""

        def search() -> re.Match[str] | None:
            return re.search(r"(http://\S+?)/\?token=(\S+)", self._log.read_text())

        wait_until(lambda: search() is not None)
        found = search()
        assert found is not None
        return found[1], found[2]

    def trace(self, act: Callable[[], object]) -> Walk:
        """Follow what the server does during `act`."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)  # the handler runs between two steps of the main thread
        act()
        self._process.send_signal(signal.SIGUSR2)
        return read_walk(self._record)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a request of MCP and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": parameters}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == request["id"]:
                result: dict[str, Any] = answer["result"]
                return result
        raise SystemExit(f"The server ended during {method}.")

    def initialize(self) -> None:
        client = {"name": "walks", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise SystemExit(f"{tool}: {result['content'][0]['text']}")
        answer: dict[str, Any] = result["structuredContent"]
        return answer


def read_walk(record: Path) -> Walk:
    """Read a record as soon as it is written."""
    wait_until(record.exists)
    found = json.loads(record.read_text())
    record.unlink()
    return Walk(frozenset(found["modules"]), found["calls"], found["git_programs"])


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("A server did not answer.")
        time.sleep(0.05)


def walk_claim(project: Project, *, with_worktree: bool) -> Walk:
    """Claim a task with a server that has claimed one before."""
    _, (first, second, _) = project.plan(auto_create_workspaces=with_worktree)
    with project.trace_server("serve") as server:
        server.initialize()
        ids = [server.call("agent_register", name=f"a{n}", runtime="custom")["id"] for n in range(2)]
        claim(server, first, ids[0])
        return server.trace(lambda: claim(server, second, ids[1]))


def claim(server: TracedServer, task: str, agent: str) -> dict[str, Any]:
    """Claim a task; a refusal is an answer, too."""
    answer = server.call("task_claim", task_id=task, agent_id=agent)
    if not answer["success"]:
        raise SystemExit(f"The claim was refused: {answer}")
    return answer


def do_task(project: Project, server: TracedServer, task: str, name: str) -> Callable[[], object]:
    """Claim a task and do its work in its worktree; return what completes it."""
    agent = server.call("agent_register", name=name, runtime="custom")["id"]
    tree = Path(claim(server, task, agent)["workspace_path"])
    (tree / f"{name}.txt").write_text("done\n")
    project.commit(tree)
    arguments = {"id": task, "agent_id": agent, "outcome": "Done."}
    server.call("task_update_status", status="in_progress", **arguments)
    return lambda: server.call("task_update_status", status="completed", **arguments)


def walk_completion(project: Project) -> Walk:
    """Complete a task that has a worktree and no check."""
    _, (first, second, _) = project.plan(auto_create_workspaces=True)
    with project.trace_server("serve") as server:
        server.initialize()
        do_task(project, server, first, "first")()
        return server.trace(do_task(project, server, second, "second"))


def walk_finished_step(project: Project) -> Walk:
    """Finish a step of a job that has a check."""
    with project.trace_server("serve", "--no-quality-gate") as server:
        server.initialize()
        server.call("start_workflow", goal="g", job_name="report", workflow_name="full")
        (project.folder / "report.txt").write_text("All is well.\n")
        return server.trace(lambda: server.call("finished_step", outputs={"report.txt": "report.txt"}))


def walk_landing(project: Project) -> Walk:
    """Land one task that has a check."""
    _, (task, *_) = project.plan(auto_create_workspaces=True, checks=["right"])
    with project.trace_server("serve") as server:
        server.initialize()
        do_task(project, server, task, f"land-{task}")()
    return project.trace_command("land", task)


def walk_approval(project: Project) -> Walk:
    """Approve finished work on the dashboard."""
    _, (task, *_) = project.plan(auto_create_workspaces=True, approval="after")
    with project.trace_server("serve") as server:
        server.initialize()
        with suppress(SystemExit):  # NEEDS_APPROVAL
            do_task(project, server, task, f"approve-{task}")()
    [approval] = project.deepwork("approvals", "list", "--json")["approvals"]
    with project.trace_server("dashboard", "--port", "0") as server:
        address, token = server.find_link()
        request(f"{address}/api/v1/approvals", token)  # the first request prepares what all need
        decide = f"{address}/api/v1/approvals/{approval['id']}/approve"
        return server.trace(lambda: request(decide, token, {"comment": "Good."}))


def request(address: str, token: str, body: Mapping[str, object] | None = None) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(
        urllib.request.Request(address, data, headers), timeout=PATIENCE_SECONDS
    ) as answer:
        answer.read()


def walk_run(project: Project) -> Walk:
    """Let agents do two tasks."""
    id, (*_, last) = project.plan(auto_create_workspaces=True)
    project.deepwork("plans", "remove-task", id, last, "--json")
    return project.trace_command("run", id, "--agent", f"sh {project.folder / 'agent.sh'}", "--json")


WALKS: dict[str, Callable[[Project], Walk]] = {
    "task_claim, warm": lambda project: walk_claim(project, with_worktree=False),
    "task_claim with a worktree": lambda project: walk_claim(project, with_worktree=True),
    "task_update_status(completed) with a worktree": walk_completion,
    "finished_step with a check": walk_finished_step,
    "deepwork land, one task": walk_landing,
    "Approve on the dashboard": walk_approval,
    "deepwork run, two attempts": walk_run,
}


def main() -> None:
    asked = sys.argv[1:]
    print("| walk | modules / packages | calls into another module | git programs |\n|---|--:|--:|--:|")
    for name, follow in WALKS.items():
        if asked and not any(word in name for word in asked):
            continue
        folder = Path(tempfile.mkdtemp(prefix="walk-"))
        try:
            walk = follow(Project(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(
            f"| {name} | {len(walk.modules)} / {walk.packages} | {walk.calls:,} | {walk.git_programs} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
