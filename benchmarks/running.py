"""Measures the runner with fifty agents: how much processor it takes, and how fast it adopts them.

The agents are real processes that sleep. One more process writes into their output what a real agent would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.large_plans import open_application
from benchmarks.projects import build_plan
from benchmarks.timing import Effort, Samples, measure_ms
from benchmarks.tracking import create_repository

from deepwork.delivery.runner import processes
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import AttemptStage, RunRequest
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.application import Application

AGENTS, LINES = 50, 20
ONE_PERCENT, FIVE_PERCENT, SECOND = "1 % of a core", "5 % of a core", "a second"
IDLE = f"idle runner, {AGENTS} agents"
BUSY = f"runner, {AGENTS} agents with {LINES} lines/s each"
ADOPTION = f"adopting {AGENTS} agents"

_USAGE = '"usage":{"input_tokens":4,"cache_read_input_tokens":20000,"output_tokens":120}'
_MESSAGE = f'{{"id":"msg_NUMBER","model":"claude-sonnet-4-5",{_USAGE},"content":[BLOCK]}}'
_BLOCKS = (
    '{"type":"text","text":"Now I change the next part of the parser."}',
    '{"type":"tool_use","id":"tool_NUMBER","name":"Bash","input":{"command":"make test"}}',
)
_RESULT = f'{{"tool_use_id":"tool_NUMBER","type":"tool_result","content":"{"x" * 2000}"}}'
_LINES = (
    *(f'{{"type":"assistant","message":{_MESSAGE.replace("BLOCK", block)}}}\n' for block in _BLOCKS),
    f'{{"type":"user","message":{{"role":"user","content":[{_RESULT}]}}}}\n',
)
"""One turn of Claude Code: each part of a message is a line, then comes the answer of the tool."""
_WRITER = """
import sys, time
rate, *names = sys.argv[1:]
lines, files = sys.stdin.readlines(), [open(name, "ab", 0) for name in names]
number, began = 0, time.monotonic()
while True:
    line = lines[number % len(lines)].replace("NUMBER", str(number // len(lines))).encode()
    for file in files:
        file.write(line)
    number += 1
    time.sleep(max(0, began + number / int(rate) - time.monotonic()))  # a busy machine writes no fewer lines
"""
_WINDOW_SECONDS = 5.0
_SETTLE_SECONDS = 12.0
_PATIENCE_SECONDS = 300.0


def measure_runner(effort: Effort) -> Samples:
    """Measure the same agents while they are silent and while they write, then adopt them."""
    folder = effort.make_folder("runner")
    windows = min(3, max(1, effort.rounds // 5))
    with _use_scripted_claude(folder), _run_agents(folder / "tree") as (app, run):
        with _drive(app, run):
            _wait_for_agents(app, run)
            time.sleep(min(_SETTLE_SECONDS, effort.calls))
            idle = [_measure_share() for _ in range(windows)]
            with _write_lines(app, run):
                time.sleep(2)
                busy = [_measure_share() for _ in range(windows)]
        adoptions = [measure_ms(lambda: _adopt(app, run)) for _ in range(windows)]
    floors: Samples = {ONE_PERCENT: [10.0], FIVE_PERCENT: [50.0], SECOND: [1000.0]}
    return floors | {IDLE: idle, BUSY: busy, ADOPTION: adoptions}


def _measure_share() -> float:
    """Return the milliseconds of CPU that this process takes in a second."""
    before, began = time.process_time(), time.monotonic()
    time.sleep(_WINDOW_SECONDS)
    return (time.process_time() - before) / (time.monotonic() - began) * 1000


def _adopt(app: Application, run_id: str) -> None:
    """Look after agents that another runner started, for the first time."""
    processes._read_recorded.cache_clear()  # noqa: SLF001 - a new process knows none of them
    engine = app.runner._build_engine(app.runner._find_profile)  # noqa: SLF001
    engine.tick(run_id)
    engine.close()


@contextmanager
def _use_scripted_claude(folder: Path) -> Iterator[None]:
    program = folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 3600\n")
    program.chmod(0o755)
    before = dict(os.environ)
    os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _run_agents(root: Path) -> Iterator[tuple[Application, str]]:
    """Start a run with a task for each agent; end all agents afterwards."""
    create_repository(root, 20)
    app, ask = open_application(root)
    created = {"name": "bench", "source_type": "prompt", "source_content": "Measure."}
    plan = ask("workflow_create", **created, max_parallel_tasks=AGENTS, auto_create_workspaces=True)["id"]
    ask("workflow_set_plan", id=plan, plan=build_plan(AGENTS, "wide"))
    try:
        yield app, app.runner.start_plan(plan, RunRequest(agents=("claude",), parallel=AGENTS)).id
    finally:
        starts = [AttemptFiles(each) for each in app.settings.state_folder.glob("runs/*/*") if each.is_dir()]
        for files in starts:
            processes.end_process(files, grace_seconds=0)
        app.close()


@contextmanager
def _drive(app: Application, run: str) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=app.runner.drive, args=(run, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _wait_for_agents(app: Application, run: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(_list_outputs(app, run)) < AGENTS:
        assert time.monotonic() < deadline, "the agents did not start"
        time.sleep(0.5)


def _list_outputs(app: Application, run: str) -> list[Path]:
    with app.database.reading() as tx:
        attempts = AttemptStore(tx).list_of_run(run)
    return [
        AttemptFiles.locate(app.settings.state_folder, each.id, each.starts).stdout
        for each in attempts
        if each.stage is AttemptStage.RUNNING
    ]


@contextmanager
def _write_lines(app: Application, run: str) -> Iterator[None]:
    outputs = map(str, _list_outputs(app, run))
    command = [sys.executable, "-I", "-S", "-c", _WRITER, str(LINES), *outputs]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    try:
        assert writer.stdin is not None
        writer.stdin.writelines(_LINES)
        writer.stdin.close()
        yield
    finally:
        writer.kill()
        writer.wait()
