"""Part of `make demo`: a job of three steps with a nested workflow and a review that first fails."""

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

DEEPWORK = [sys.executable, "-P", "-m", "deepwork"]

# Only searches for a word. A real reviewer is Claude Code, which deepwork starts in the same way.
REVIEWER = """#!{python}
import json, sys
text = sys.stdin.read().partition("BEGIN OUTPUTS")[2].partition("END OUTPUTS")[0]
is_good = "Tuesday" in text
print(json.dumps({{"is_error": False, "structured_output": {{
    "passed": is_good,
    "feedback": "Says when." if is_good else "The announcement does not say when it happens.",
    "criteria_results": [{{"criterion": "When", "passed": is_good, "feedback": None if is_good else "No day is named."}}],
}}}}))
"""


def build_step(id: str, does: str, *reviews: dict[str, Any]) -> dict[str, Any]:
    outputs = {f"{id}.md": {"type": "file", "description": does, "required": True}}
    return {
        "id": id,
        "name": id.title(),
        "description": does,
        "instructions_file": f"steps/{id}.md",
        "outputs": outputs,
        "reviews": list(reviews),
    }


def write_job(project: Path, name: str, summary: str, *steps: dict[str, Any]) -> None:
    folder = project / ".deepwork" / "jobs" / name
    (folder / "steps").mkdir(parents=True)
    for each in steps:
        (folder / each["instructions_file"]).write_text(f"{each['description']}.\n")
    workflow = {"name": "main", "summary": summary, "steps": [each["id"] for each in steps]}
    about = {"version": "1.0.0", "common_job_info_provided_to_all_steps_at_runtime": "We are a small team."}
    definition = {"name": name, "summary": summary, **about, "steps": list(steps), "workflows": [workflow]}
    (folder / "job.yml").write_text(json.dumps(definition, indent=2))


def set_up(project: Path, programs: Path) -> None:
    """Write two jobs, and a fake `claude` program."""
    criteria = {"run_each": "step", "quality_criteria": {"When": "Does it say when?"}}
    write_job(
        project,
        "announce",
        "Write an announcement",
        build_step("facts", "Collect what is known"),
        build_step("announcement", "Write the announcement", criteria),
        build_step("send", "Write down to whom it went"),
    )
    write_job(
        project, "ask_around", "Find something out", build_step("answer", "Ask, and write down the answer")
    )
    program = programs / "claude"
    program.write_text(REVIEWER.format(python=sys.executable))
    program.chmod(0o755)


class Agent:
    """An agent that follows the steps."""

    def __init__(self, client: Client[Any], project: Path) -> None:
        self._client, self._project = client, project
        self.reviews_failed = 0

    async def start(self, goal: str, job: str) -> None:
        answer = await self._call("start_workflow", goal=goal, job_name=job, workflow_name="main")
        print(f"  starts {job:<12} {_format_stack(answer)}")

    async def deliver(self, name: str, text: str) -> Any:
        (self._project / name).write_text(text)
        answer = await self._call("finished_step", outputs={name: name})
        outcome = answer["feedback"] or answer["summary"] or f"next: {answer['begin_step']['step_id']}"
        print(
            f"  writes {name:<16} {text!r}\n         {answer['status']}: {outcome}   {_format_stack(answer)}"
        )
        self.reviews_failed += answer["status"] == "needs_work"
        return answer

    async def _call(self, tool: str, **arguments: Any) -> Any:
        return (await self._client.call_tool(tool, arguments)).structured_content


def _format_stack(answer: Any) -> str:
    return "[" + " > ".join(f"{each['workflow']} at {each['step']}" for each in answer["stack"]) + "]"


async def work(project: Path, programs: Path) -> Any:
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    arguments = [
        *DEEPWORK[1:],
        "serve",
        "--log-level",
        "warning",
        "--path",
        str(project),
        "--external-runner",
        "claude",
    ]
    async with Client(StdioTransport(DEEPWORK[0], arguments, env=environment, keep_alive=False)) as client:
        agent = Agent(client, project)
        await agent.start("Invite everybody to the party", "announce")
        await agent.deliver("facts.md", "There is a party.")
        print("\n  When is it? A nested workflow finds out:")
        await agent.start("When is the party?", "ask_around")
        print("\n  Both are on the stack; the innermost continues first:")
        await agent.deliver("answer.md", "On Tuesday.")
        print("\n  Now the announcement, whose step has a review:")
        await agent.deliver("announcement.md", "Come to our party!")
        await agent.deliver("announcement.md", "Come to our party on Tuesday!")
        print()
        done = await agent.deliver("send.md", "everybody")
        return {"failed": agent.reviews_failed, **done}


def show(project: Path) -> str:
    """Run a job from its first step to its last in this project; return what happened."""
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as folder:
        programs = Path(folder)
        set_up(project, programs)
        print(
            "An agent runs a job of three steps. The reviewer is not a model here but a script of ten lines,"
        )
        print("on the PATH as `claude`: it checks whether the text names the day.\n")
        done = anyio.run(work, project, programs)
        words = ["sessions", "list", "--all", "--path", str(project)]
        listed = subprocess.run(
            [*DEEPWORK, *words], check=True, capture_output=True, text=True, timeout=60
        ).stdout
        print(
            f"\nEvery step was stored before it was answered. From a terminal:\n\n$ deepwork sessions list --all\n{listed}"
        )
        return (
            f"{len(done['all_outputs'])} outputs of the outer workflow; {done['failed']} review failed, and passed at"
            " the second attempt"
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="deepwork-demo-") as own:
        print(show(Path(own)))
