"""A fake reviewer: puts `claude` on the PATH of a server and records its calls."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from patience import is_true_in_time, wait_until

FAKE = Path(__file__).with_name("fake_claude.py")


class Reviewer:
    """Installs a fake `claude` in a folder, configures its behaviour and reads its calls."""

    def __init__(self, folder: Path, *plan: Any) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "claude"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE}" "$@"\n')
        program.chmod(0o755)
        self.set_plan(*plan)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which a server finds it."""
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "CLAUDE_FAKE_FOLDER": str(self.folder)}

    def set_plan(self, *plan: Any) -> None:
        """Set the behaviour of the following calls, one by one."""
        (self.folder / "plan.json").write_text(json.dumps(plan or ["pass"]))
        (self.folder / "count").unlink(missing_ok=True)
        for call in self.folder.glob("call-*.json"):
            call.unlink()

    @property
    def calls(self) -> list[dict[str, Any]]:
        files = sorted(self.folder.glob("call-*.json"), key=lambda file: int(file.stem[5:]))
        return [json.loads(file.read_text()) for file in files]

    @property
    def prompts(self) -> list[str]:
        return [call["stdin"] for call in self.calls]

    @property
    def most_at_once(self) -> int:
        moments = [(call["began"], 1) for call in self.calls] + [(call["ended"], -1) for call in self.calls]
        running = [sum(change for _, change in sorted(moments)[: place + 1]) for place in range(len(moments))]
        return max(running)

    def wait_for_a_call(self) -> dict[str, Any]:
        wait_until(lambda: self.calls and (self.folder / "child.pid").exists(), "a call of the reviewer")
        return self.calls[0]

    def has_started_a_child(self, calls: int) -> bool:
        """Whether it was called this often since its plan was set, and has ever started a child."""
        return len(self.calls) == calls and (self.folder / "child.pid").exists()

    def has_exited(self) -> bool:
        """Whether the last reviewer and its child have exited; waits, because being killed takes a moment."""
        pids = [self.calls[-1]["pid"], int((self.folder / "child.pid").read_text())]
        return is_true_in_time(lambda: not any(map(is_running, pids)))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def make_failing_verdict(feedback: str, **criteria: str) -> dict[str, Any]:
    """Make a failing verdict; each criterion has feedback, empty if it is met."""
    results = [
        {"criterion": name, "passed": not wrong, "feedback": wrong or None}
        for name, wrong in criteria.items()
    ]
    return {"passed": False, "feedback": feedback, "criteria_results": results}
