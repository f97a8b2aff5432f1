"""A person's machine on which `deepwork run` lets a real client work, with a model that plays a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clients.machine import Machine
from clients.model_endpoint import ModelEndpoint, Tokens
from clients.vendors import Vendor, point_at

SECONDS_FOR_A_RUN = 300
_TRANSCRIPT_SECONDS = 3
"""Clients write their transcripts with a delay: what Claude Code did in its last moment before a kill is lost."""
TASK = {"name": "Greet", "description": "Write hi into a.txt."}


@dataclass(frozen=True)
class Ran:
    """What `deepwork run` printed and how it ended."""

    code: int
    events: list[dict[str, Any]]
    stderr: str

    @property
    def attempt(self) -> dict[str, Any]:
        """The last state of the last attempt."""
        return [event for event in self.events if event["type"] == "attempt"][-1]

    @property
    def tokens(self) -> Tokens:
        return Tokens(*(self.attempt[f"{name}_tokens"] for name in ("input", "cached", "output")))


class RunnerMachine:
    """A project with one task, a vendor's client, and the agents.yml that gives the client its model."""

    def __init__(self, machine: Machine, endpoint: ModelEndpoint, vendor: str, **profile: Any) -> None:
        self._machine, self.endpoint = machine, endpoint
        self.vendor: Vendor = point_at(endpoint.url)[vendor]
        self.vendor.install(machine.home)
        machine.environment.update(self.vendor.variables, TZ="UTC")
        machine.write("~/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
        agent = {"kind": vendor, "env": [*self.vendor.variables], **profile}
        self.write_agents({"agents": {"worker": agent}})
        machine.write("README.md", "A project.\n")
        machine.run("git", "add", "-A")
        machine.run("git", "commit", "-qm", "Begin")
        self.plan = self._create_plan()

    def write_agents(self, definition: dict[str, Any]) -> None:
        self._machine.write("~/.config/deepwork/agents.yml", json.dumps(definition))
        self._machine.home.joinpath(".config/deepwork/agents.yml").chmod(0o600)

    def run(self, *words: str, meanwhile: Callable[[], None] = lambda: None) -> Ran:
        """Run the plan until it ends; the agents are the client of this machine."""
        command = ["deepwork", "run", self.plan, "--agent", "worker", "--json", *words]
        with subprocess.Popen(
            command, cwd=self._machine.project, env=self._machine.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                meanwhile()
                stdout, stderr = process.communicate(timeout=SECONDS_FOR_A_RUN)
            finally:
                if process.poll() is None:
                    self._machine.run("deepwork", "runs", "stop", self._find_run(), "--now")
                    process.kill()
        return Ran(process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr)

    def _find_run(self) -> str:
        return str(self.ask("runs", "list")["runs"][0]["id"])

    def kill_agent_when_the_model_hangs(self) -> None:
        """Kill the client and the process that watches it, as a machine that goes down would."""
        self.wait_for_step("hang")
        [file] = self._machine.project.glob(".deepwork/runs/*/1/process")
        process = json.loads(file.read_text())
        time.sleep(_TRANSCRIPT_SECONDS)
        os.kill(process["pid"], signal.SIGKILL)

    def wait_for_step(self, name: str) -> None:
        """Wait until the model has played such a step."""
        self._wait(lambda: any(entry["step"] == name for entry in self.endpoint.ledger.list_entries()))

    def wait_for_attempt(self, number: int) -> None:
        """Wait until the task has this many attempts."""
        self._wait(lambda: len(list(self._machine.project.glob(".deepwork/runs/at_*"))) >= number)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + SECONDS_FOR_A_RUN
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.05)

    def ask(self, *words: str) -> Any:
        """Run a deepwork command and return its JSON answer."""
        done = subprocess.run(
            ["deepwork", *words, "--json"], cwd=self._machine.project, env=self._machine.environment,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def read_committed(self, ran: Ran, name: str) -> str:
        """Read a file as it was committed on the task's branch."""
        return self._machine.run("git", "show", f"{ran.attempt['branch']}:{name}")

    def get_spent(self) -> Tokens:
        """Return what the model says that it was asked for."""
        return self.endpoint.ledger.sum_tokens()

    def _create_plan(self) -> str:
        plan = self.ask("plans", "create", "Greetings", "--prompt", "Greet.")["id"]
        self._machine.write("plan.json", json.dumps({"summary": "Greet", "tasks": [TASK]}))
        self.ask("plans", "set-plan", plan, "plan.json")
        self._machine.project.joinpath("plan.json").unlink()
        return str(plan)
