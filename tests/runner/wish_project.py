"""A project, scripted agents that plan, work and review, and `deepwork do` as a command on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.run import CommandResult, run_deepwork
from quick import PLAIN
from runner.run_project import RunProject
from runner.scripted import Steps

TESTS = "test:\n\t@! grep -rn broken --include='*.txt' . || (echo 'FAILED: a file says that it is broken' && exit 1)\n"
NO_FINDINGS = '{"findings": []}'


def plan_task(name: str, **others: Any) -> dict[str, Any]:
    """Return a task as a good planner writes it."""
    return {
        "name": name,
        "description": f"Goal: write {name}.txt.\nDone when: the file is there.",
        "files_likely_affected": [f"{name}.txt"],
        "depends_on": [],
        **others,
    }


def write_plan(*tasks: Mapping[str, Any], **others: Any) -> Steps:
    """Return the steps of a planner that hands over a plan."""
    plan = {"summary": "Two files.", "tasks": list(tasks), **others}
    return [hand_over(plan), {"do": "exit", "text": "Planned."}]


def hand_over(plan: Mapping[str, Any], answer: str = "../../answer.json") -> dict[str, Any]:
    """Return the step in which a planner calls the tool; the answer goes to a file."""
    return {"do": "call", "tool": "workflow_set_plan", "file": answer, "arguments": {"plan": dict(plan)}}


def work(name: str, text: str = "good") -> Steps:
    """Return the steps of an agent that writes a file."""
    return [
        {"do": "write", "file": f"{name}.txt", "text": f"{text}\n"},
        {"do": "exit", "text": f"Wrote {name}.txt."},
    ]


def review(verdict: str = NO_FINDINGS) -> Steps:
    """Return the steps of a reviewer."""
    return [{"do": "exit", "text": f"I looked at all of it.\n{verdict}"}]


class WishProject(RunProject):
    """A checkout whose makefile has tests; its agents do what a script says."""

    def __init__(self, folder: Path, location: str | None = None, makefile: str = TESTS) -> None:
        super().__init__(folder, location, config="")
        with self.app.database.transaction():
            pass  # the store is there, so that its key can be shared
        self._share_key()
        if makefile:
            self.commit({"Makefile": makefile})

    def commit(self, files: Mapping[str, str]) -> None:
        """Commit files in the person's checkout."""
        from workspaces.make import run_git

        for path, text in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)
            run_git(self.folder, "add", "--", path)
        run_git(self.folder, "commit", "-qm", "Add files")

    def script(
        self,
        plan: Sequence[Steps],
        tasks: Mapping[str, Sequence[Steps]],
        reviews: Sequence[Steps] | None = None,
    ) -> None:
        """Say what the planner, the agents and the reviewers do: the first process, the second, and so on."""
        starts = {"Plan: ": list(plan), **{name: list(steps) for name, steps in tasks.items()}}
        starts["Final review"] = list(reviews or [review()])
        self.agents.write_script({name.strip(): steps for name, steps in starts.items()}, {})

    def build_do(self, *words: str) -> list[str]:
        """Return the command as a list of words."""
        return [*PLAIN, "do", *words]

    def do(self, *words: str) -> CommandResult:
        """Run `deepwork do` to its end."""
        return run_deepwork(self.folder, "do", *words, environment=self.variables)

    def list_wishes(self) -> list[dict[str, Any]]:
        found = run_deepwork(self.folder, "do", "--list", "--json", environment=self.variables)
        wishes: list[dict[str, Any]] = json.loads(found.out)["wishes"]
        return wishes
