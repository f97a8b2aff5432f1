"""Many processes open a database that does not exist yet."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from application import call_tool, list_events
from chaos.workers import Worker, run_together
from deepwork.edge.server.application import Application

ROUNDS = 10
NAMES = [f"agent {number}" for number in range(8)]


def names(app: Application) -> list[str]:
    return sorted(agent["name"] for agent in call_tool(app, "agent_list")["agents"])


def test_eight_processes_can_start_together_on_a_new_database(
    new_location: Callable[[], str], crew: list[Worker], open_app: Callable[[str], Application]
):
    for _ in range(ROUNDS):
        location = new_location()

        outcomes = run_together(
            crew, [{"do": "register", "location": location, "name": name} for name in NAMES]
        )

        assert [outcome for outcome in outcomes if not outcome.is_well] == []
        app = open_app(location)
        assert names(app) == NAMES
        assert [event.seq for event in list_events(app)] == list(range(1, 9))
        app.close()


def test_eight_commands_can_start_together_in_a_new_project(
    tmp_path: Path, open_app: Callable[[str], Application]
):
    for number in range(2):
        project = tmp_path / f"project {number}"
        project.mkdir()
        gate, start = os.pipe()

        # `read` waits for the end of the pipe: closing it starts all of them at the same time.
        commands = [
            subprocess.Popen(
                ["/bin/sh", "-c", 'read -r _; exec "$@"', "sh", sys.executable, "-P", "-m", "deepwork",
                 "agents", "register", name, "custom"],
                cwd=project, stdin=gate, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for name in NAMES
        ]  # fmt: skip
        os.close(gate)
        os.close(start)
        said = [(command.communicate(timeout=600)[1], command.returncode) for command in commands]

        assert said == [("", 0)] * len(NAMES)
        app = open_app(str(project / ".deepwork" / "deepwork.db"))
        assert names(app) == NAMES
        app.close()
