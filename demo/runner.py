"""Part of `make demo`: deepwork starts agents; one is killed, one meets a usage limit, and all work lands."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]
GIT_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "demo"), ("EMAIL", "demo@example.org"))
}
PLAN = {
    "name": "A night of work",
    "prompt": "Three tasks, two agents.",
    "summary": "Two tasks at the same time, then one that needs both",
    "tasks": [
        {"name": "is killed", "description": "Write a file."},
        {"name": "meets a limit", "description": "Write a file."},
        {"name": "needs both", "description": "Write a file.", "depends_on": ["is killed", "meets a limit"]},
    ],
}
AGENT = """\
#!/bin/sh
exec "{python}" -P "{script}" "$@"
"""


def show(_: Path) -> str:
    print("deepwork run starts agents, and goes on after a crash and a usage limit\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-runner-") as folder:
        project = Path(folder) / "project"
        environment = set_up(Path(folder), project)
        plan = create_plan(project, environment)
        print("  person  deepwork run PLAN --agents 2 --agent claude --land   (a script plays Claude Code)")
        done = run(project, environment, plan)
        merges = importlib.import_module("landed_work").show(
            project, environment
        )  # next to this file, as in main.py
    return f"{done} tasks done by agents that were killed and met a limit; {merges} merges on one branch, one rewound and back"


def set_up(folder: Path, project: Path) -> dict[str, str]:
    """Make a repository, and a program `claude` that plays a script."""
    programs = folder / "bin"
    programs.mkdir()
    agent = programs / "claude"
    script = Path(__file__).with_name("scripted_agent.py")
    agent.write_text(AGENT.format(python=sys.executable, script=script))
    agent.chmod(0o755)
    project.mkdir()
    environment = {
        **os.environ,
        **GIT_IDENTITY,
        "XDG_CONFIG_HOME": f"{folder}/config",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "Start"]):
        subprocess.run(["git", *words], cwd=project, env=environment, check=True)
    return environment


def create_plan(project: Path, environment: dict[str, str]) -> str:
    created = subprocess.run(
        [*DEEPWORK, "plans", "create", "--file", "-", "--json", "--path", str(project)],
        input=json.dumps(PLAN),
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    answer = json.loads(created.stdout)
    return str(answer.get("workflow_id") or answer["id"])


def run(project: Path, environment: dict[str, str], plan: str) -> int:
    """Run the plan, and print what happens to each attempt; return how many ended with a task that is done."""
    options = ["--agents", "2", "--agent", "claude", "--land", "--json", "--path", str(project)]
    command = [*DEEPWORK, "run", plan, *options]
    names: dict[str, str] = {}
    stages: dict[str, tuple[str, int]] = {}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["type"] == "task":
                names[event["id"]] = event["name"]
            elif event["type"] == "attempt":
                stage = event["stage"], event["starts"]
                if stages.get(event["id"]) != stage:
                    print_attempt(event, names.get(event["task_id"], event["task_id"]))
                stages[event["id"]] = stage
    print(f"  run     exit code {process.returncode}", flush=True)
    return sum(stage == "done" for stage, _ in stages.values())


def print_attempt(event: dict[str, Any], name: str) -> None:
    described = {
        "running": f"works (start {event['starts']})",
        "preparing": f"goes on in the same session: {event.get('reason', '')}",
        "parked": f"waits until {event.get('not_before')}: {event.get('reason', '')}",
        "done": f"done, {event['input_tokens'] + event['output_tokens']} tokens, ${event['usd']:.2f}",
    }
    is_new = event["stage"] == "preparing" and event["starts"] < 2
    if event["stage"] in described and not is_new:
        print(f"  agent   {name}: {described[event['stage']]}", flush=True)


if __name__ == "__main__":
    print(show(Path()))
