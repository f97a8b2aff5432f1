"""Part of `make demo`: a change, two review rules, and the reviews that result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]

RULES = """\
python:
  description: The code contains no passwords.
  match: {include: ["src/**/*.py"]}
  review:
    strategy: individual
    instructions: Look for passwords.
    agent: {claude: security-expert}

pages:
  description: Every page says what it is about.
  match: {include: ["docs/**/*.md"]}
  review:
    strategy: matches_together
    instructions: Each page must begin with a heading.
    additional_context: {unchanged_matching_files: true}
"""


def git(project: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, *words], cwd=project, check=True, capture_output=True, timeout=60)


def write(project: Path, name: str, text: str) -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)


def set_up(project: Path) -> None:
    """Create a repository with two rules on main, and a branch with a change of three files."""
    git(project, "init", "-q", "-b", "main")
    write(project, ".deepreview", RULES)
    write(project, "docs/start.md", "# Start\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "rules")
    git(project, "switch", "-q", "-c", "feature")
    write(project, "src/app.py", "print('hello')\n")
    write(project, "src/login.py", "password = 'tuesday'\n")
    write(project, "docs/login.md", "# Login\n")


def review_files(project: Path, instructions: str) -> str:
    """Review in place of a model: check the files in the instructions for two problems."""
    under_review = instructions.partition("## Files to Review")[2].partition("\n## ")[0]
    for file in re.findall(r"^- @(.+)$", under_review, re.MULTILINE):
        text = (project / file).read_text()
        if file.endswith(".py") and "password" in text:
            return f"{file}:1: the code contains a password"
        if file.endswith(".md") and not text.startswith("# "):
            return f"{file}:1: the heading is missing"
    return ""


class Agent:
    """An agent that has its changes reviewed."""

    def __init__(self, client: Client[Any], project: Path) -> None:
        self._client, self._project = client, project

    async def review(self) -> int:
        """Run one round: get the due reviews, run them, record those that passed; return how many were due."""
        instructions = (await self._client.call_tool("get_review_instructions")).structured_content["result"]  # type: ignore[index]
        tasks = re.findall(
            r'^name: "(.+)"\n.*\n\tsubagent_type: (.+)\n\tprompt: "@(.+)"$', instructions, re.MULTILINE
        )
        for name, kind, path in tasks:
            found = review_files(self._project, (self._project / path).read_text())
            print(f"  {name:<32} by {kind:<16} {found or 'PASSED'}")
            if not found:
                await self._client.call_tool("mark_review_passed", {"review_id": Path(path).stem})
        if "passed before" in (last := instructions.splitlines()[-1]) or not tasks:
            print(f"  {last}")
        return len(tasks)


async def work(project: Path) -> list[int]:
    arguments = [*DEEPWORK[1:], "serve", "--log-level", "warning", "--path", str(project)]
    transport = StdioTransport(DEEPWORK[0], arguments, env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        agent = Agent(client, project)
        rounds = [await agent.review()]
        print("\n  The password is removed. Reviews that passed are not due again unless their files change:")
        write(project, "src/login.py", "import getpass\n")
        rounds.append(await agent.review())
        print("\n  Once more:")
        rounds.append(await agent.review())
        return rounds


def show(_: Path) -> str:
    """Review a change, in a separate repository without other changes; return what happened."""
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as folder:
        project = Path(folder)
        set_up(project)
        print("An agent has changed three files. Two rules in .deepreview say who must look at them;")
        print("the reviewer is not a model here but a function of ten lines.\n")
        rounds = anyio.run(work, project)
        command = [*DEEPWORK, "review", "--check", "--path", folder]
        checked = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=60
        )
    print(f"\n$ deepwork review --check; echo $?\n{checked.stdout.decode()}{checked.returncode}\n")
    return f"2 rules; {rounds[0]} reviews at first, {rounds[1]} after the fix, {rounds[2]} at the end"


if __name__ == "__main__":
    print(show(Path()))
