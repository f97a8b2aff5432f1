"""Part of `make demo`: an agent says that a task is done, and its check says that it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp.types import TextContent

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]
GIT_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "demo"), ("EMAIL", "demo@example.org"))
}
CHECKS = """\
checks:
  tests: {{run: ["{python}", test_price.py], timeout: 1m}}
guarded: ["test_*.py"]
"""
TEST = """\
from price import add_tax

assert add_tax(100) == 119, f"100 with tax is {add_tax(100)}, not 119"
print("1 test passed")
"""


def show(_: Path) -> str:
    print("A task is done when its check passes, whatever its agent says\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-checks-") as folder:
        project = Path(folder) / "shop"
        project.mkdir()
        # What a person trusts is stored in their own folder; the demo must not write there.
        environment = {**os.environ, **GIT_IDENTITY, "XDG_CONFIG_HOME": f"{folder}/config"}
        set_up(project, environment)
        verdicts = anyio.run(work, project, environment)
    return f"{len(verdicts)} reports of done; the check said {', '.join(verdicts)}"


def set_up(project: Path, environment: dict[str, str]) -> None:
    """Commit a project with a test and a check, and trust its command, as a person does."""
    (project / ".deepwork").mkdir()
    (project / ".deepwork/checks.yml").write_text(CHECKS.format(python=sys.executable))
    (project / "test_price.py").write_text(TEST)
    (project / "price.py").write_text("def add_tax(price):\n    return price\n")
    (project / ".gitignore").write_text("__pycache__/\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]):
        subprocess.run(["git", *words], cwd=project, env=environment, check=True)
    command = [*DEEPWORK, "trust", "--yes", "--path", str(project)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    print("  person  runs `deepwork trust`: the command of the check may run")


async def work(project: Path, environment: dict[str, str]) -> list[str]:
    """Report the task as done until its check agrees; return the verdicts."""
    options = ["serve", "--log-level", "warning", "--path", str(project), "--toolsets", "plans"]
    transport = StdioTransport(DEEPWORK[0], [*DEEPWORK[1:], *options], env=environment, keep_alive=False)
    async with Client(transport) as client:
        task = await plan(client)
        verdicts = [await report(client, task)]
        for formula in ("price * 1.2", "round(price * 1.19)"):
            (project / "price.py").write_text(f"def add_tax(price):\n    return {formula}\n")
            verdicts.append(await report(client, task))
        return verdicts


async def plan(client: Client[Any]) -> str:
    about = {"name": "Add the tax", "source_type": "prompt", "source_content": "Prices lack the tax."}
    id = (await call(client, "workflow_create", **about))["id"]
    tasks = [{"name": "add tax", "description": "add_tax adds 19 %"}]
    given = {"summary": "One task", "tasks": tasks, "checks": ["tests"]}
    await call(client, "workflow_set_plan", id=id, plan=given)
    task = (await call(client, "workflow_next_tasks", workflow_id=id))["tasks"][0]["id"]
    await call(client, "task_update_status", id=task, status="in_progress")
    return str(task)


async def report(client: Client[Any], task: str) -> str:
    """Report the task as completed, and print what comes back; return whether that was true."""
    print('  agent   "The task is completed."')
    answer = await call(
        client, "task_update_status", id=task, status="completed", outcome="The tax is added."
    )
    if "code" in answer:
        said = [line for line in answer["checks"][0]["output"].splitlines() if "Error" in line]
        print(f"  check   {answer['code']}: {' '.join(said)}", flush=True)
        return "no"
    print(f"  check   {answer['checks']}: completed", flush=True)
    return "yes"


async def call(client: Client[Any], tool: str, **arguments: Any) -> Any:
    """Call a tool, and return its answer or its error."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    if result.structured_content is not None:
        return result.structured_content
    [content, *_] = result.content
    assert isinstance(content, TextContent)
    return json.loads(content.text)


if __name__ == "__main__":
    print(show(Path()))
