"""`make demo`: from a sentence to a branch. One "done" is false, one agent is killed, one meets a limit; all of it lands."""

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
WISH = "Let guests pay in two currencies"
TESTS = "test:\n\t@! grep -n TODO *.txt\n"
AGENT = """\
#!/bin/sh
exec "{python}" -P "{script}" "$@"
"""


def show(_: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-runner-") as folder:
        project = Path(folder) / "project"
        environment = set_up(Path(folder), project)
        (project / "README.txt").write_text("A shop.\n")
        (project / "Makefile").write_text(TESTS)
        for words in (["add", "."], ["commit", "-q", "-m", "Add tests"]):
            subprocess.run(["git", *words], cwd=project, env=environment, check=True)
        print(f'$ deepwork do "{WISH}"   (a script plays Claude Code)\n', flush=True)
        report = do(project, environment)
        merges = importlib.import_module("landed_work").show(
            project, environment
        )  # next to this file, as in main.py
    sent_back = sum(len(task.get("failed", ())) for task in report["tasks"])
    return (
        f"{len(report['tasks']) - 1} tasks landed by {merges} merges, {sent_back} false “done” sent back by its check,"
        f" ${report['usd']:.2f}; one task rewound, and that undone"
    )


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


def do(project: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Say what is wanted, and print what happens; return the report."""
    options = ["--yes", "--trust", "--agent", "claude", "--json", "--path", str(project)]
    names: dict[str, str] = {}
    stages: dict[str, tuple[str, int]] = {}
    report: dict[str, Any] = {}
    with subprocess.Popen(
        [*DEEPWORK, "do", WISH, *options], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["type"] == "wish":
                print_plan(event)
            elif event["type"] == "task":
                names[event["id"]] = event["name"]
            elif event["type"] == "attempt":
                stage = event["stage"], event["starts"]
                if stages.get(event["id"]) != stage:
                    print_attempt(
                        event, names.get(event["task_id"]) or event.get("task_name", event["task_id"])
                    )
                stages[event["id"]] = stage
            elif event["type"] == "report":
                report = event
    print(f"  report  {report['state']}: {', '.join(report['take_in'])}", flush=True)
    return report


def print_plan(wish: dict[str, Any]) -> None:
    for task in wish["plan"]["tasks"]:
        after = f"  after {', '.join(task['depends_on'])}" if task["depends_on"] else ""
        print(f"  plan    {task['name']:<9} {task['description'].splitlines()[0][6:]}{after}", flush=True)
    print(f"  plan    lands on {wish['branch']}", flush=True)


def print_attempt(event: dict[str, Any], name: str) -> None:
    described = {
        "running": f"works (start {event['starts']})",
        "preparing": f"goes on in the same session: {event.get('reason', '')}",
        "parked": f"waits until {event.get('not_before')}: {event.get('reason', '')}",
        "failed": f"is sent back: {event.get('reason', '').partition(chr(10))[0]}",
        "done": f"done, {event['input_tokens'] + event['output_tokens']} tokens, ${event['usd']:.2f}",
    }
    is_new = event["stage"] == "preparing" and event["starts"] < 2
    if event["stage"] in described and not is_new:
        print(f"  agent   {name}: {described[event['stage']]}", flush=True)


if __name__ == "__main__":
    print(show(Path()))
