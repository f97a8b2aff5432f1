"""One participant of the race in `test_race.py`: it changes, reports, claims or decides, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.config import load_settings
from deepwork.kernel.errors import DeepworkError

_PAUSE = 0.02
_TRIES = 3
"""How often each content is tried: the first try asks, the next may pass."""


class Participant:
    """Acts on its own connection; `seen` is what it got past a gate."""

    def __init__(self, folder: str, location: str, subject: str, name: str) -> None:
        settings = load_settings(Path(folder), {"database": location, "git_branch": "off"}, environment={})
        self.app = Application(settings)
        self.folder, self.subject, self.name = Path(folder), subject, name
        self.seen: list[str] = []

    def run(self, role: str, rounds: int, others: int) -> list[str]:
        """Try several contents, each a few times; refusals are part of the race.

        A participant that decides does so until the `others` are done.
        """
        if role == "decide":
            while len(list(self.folder.glob("*.done"))) < others:
                self.decide()
                time.sleep(_PAUSE)
        else:
            act: Callable[[str], None] = getattr(self, role)
            for turn in range(rounds * _TRIES):
                with suppress(DeepworkError):
                    act(f"{self.name}-{turn // _TRIES}")
                time.sleep(_PAUSE)
            (self.folder / f"{self.name}.done").touch()
        self.app.close()
        return self.seen

    def replan(self, name: str) -> None:
        """Change the plan once; the tries leave time to decide."""
        if name in self.seen:
            return
        self.seen.append(name)
        self.call("workflow_replan", workflow_id=self.subject, reason="r", tasks=[{"name": name}])

    def claim(self, name: str) -> None:
        *_, task = self.call("workflow_get", id=self.subject, include_tasks=True)["tasks"]
        agent = self.call("agent_register", name=name, runtime="custom")["id"]
        if self.call("task_claim", task_id=task["id"], agent_id=agent)["success"]:
            self.seen.append(task["name"])

    def report(self, name: str) -> None:
        """Report other work than the others; a report of a task that is done already changes nothing."""
        if self.call("task_get", id=self.subject)["status"] != "completed":
            self.call("task_update_status", id=self.subject, status="completed", outcome=name)

    def finish(self, name: str) -> None:
        """Finish the step with a file that no other participant writes, and go back to it."""
        path = f"{self.name}.md"
        (self.folder / path).write_text(name)
        given = {"step_id": "a", "outputs": {"plan.md": path}, "session_id": self.subject}
        if self.call("finished_step", **given)["status"] == "needs_work":
            return
        self.seen.append(name)
        self.call("go_to_step", step_id="a", session_id=self.subject)

    def decide(self) -> None:
        """Approve all that waits."""
        with self.app.database.reading() as tx:
            rows = tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending'")
        for row in rows:
            call = Call(f"human:{self.name}", "give_approval")
            spec = self.app.operations["give_approval"]
            with suppress(DeepworkError):
                invoke(self.app.database, spec, {"approval_id": row["id"]}, call)

    def call(self, tool: str, /, **arguments: object) -> Any:
        return invoke(self.app.database, self.app.registry[tool], arguments, Call("local", tool))


def take_part(
    folder: str, location: str, role: str, subject: str, name: str, rounds: int, others: int
) -> list[str]:
    """Run one participant; return what it got past a gate."""
    return Participant(folder, location, subject, name).run(role, rounds, others)
