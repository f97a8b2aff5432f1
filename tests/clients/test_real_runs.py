"""`deepwork run` lets the real clients work: a tool call, what it cost, a limit with its reset, and the session after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from clients.machine import START_TIMEOUT_MS, Machine
from clients.model_endpoint import ModelEndpoint
from clients.runner_machine import RunnerMachine
from clients.vendors import KEY

pytestmark = pytest.mark.timeout(900)
PROFILES: dict[str, dict[str, Any]] = {
    "claude": {"allow": ["Bash"]},
    "codex": {},
    "gemini": {},
    "opencode": {},
}
WORK = {"shell": "printf hi > a.txt"}
DONE = {"say": "Wrote a.txt."}
WORDS = "The file is for Grace, who reads it aloud."


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[ModelEndpoint]:
    with ModelEndpoint([], tmp_path / "ledger.jsonl") as endpoint:
        yield endpoint


def get_total(vendor: str, endpoint: ModelEndpoint) -> Any:
    """Sum the ledger as far as a client reports it: opencode does not say what its titles cost."""
    return endpoint.ledger.sum_tokens(asides=vendor != "opencode")


@pytest.mark.parametrize("vendor", PROFILES)
def test_a_client_does_a_task_with_a_tool_and_its_tokens_are_those_of_the_model(
    vendor: str, machine: Machine, endpoint: ModelEndpoint
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    endpoint.play(WORK, DONE)

    ran = runner.run()

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["outcome"]) == ("done", "Wrote a.txt.")
    assert runner.read_committed(ran, "a.txt") == "hi"
    assert ran.tokens == get_total(vendor, endpoint)


@pytest.mark.parametrize("vendor", PROFILES)
def test_a_client_has_the_tools_of_deepwork(vendor: str, machine: Machine, endpoint: ModelEndpoint):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    if (
        vendor == "gemini"
    ):  # it takes no server from the runner but in folders of root; the person's own entry
        machine.setup("gemini", "--scope", "user")
        machine.change("~/.gemini/settings.json", timeout=START_TIMEOUT_MS)
    note = {"mcp": "checkpoint_add", "input": {"type": "progress", "summary": "half"}}
    endpoint.play(note, {"mcp": "task_release", "input": {"agent_id": "ag_other"}}, WORK, DONE)

    ran = runner.run()

    assert ran.code == 0, ran
    noted = [bool(re.search(r"\bcp_[0-9a-z]{12}\b", asked)) for asked in endpoint.conversations]
    refused = ["UNAUTHORIZED" in asked for asked in endpoint.conversations]
    assert (noted, refused) == ([False, True, True, True], [False, False, True, True])


@pytest.mark.parametrize(
    ("vendor", "seconds"),
    [("claude", 6), ("codex", 70), ("gemini", 6)],  # Codex names the minute of the reset, not the second
)
def test_a_client_at_a_limit_is_parked_until_its_reset_and_goes_on_in_its_session(
    vendor: str, seconds: int, machine: Machine, endpoint: ModelEndpoint
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    if vendor == "claude":
        use_subscription(runner, machine)
    endpoint.play(WORK, {"limit": seconds}, DONE)

    ran = runner.run()

    assert ran.code == 0, ran
    parked = [event for event in ran.events if event.get("stage") == "parked"]
    assert [event["parked_for"] for event in parked] == ["limit"]
    assert (ran.attempt["stage"], ran.attempt["starts"], ran.attempt["resumes"]) == ("done", 2, 1)
    assert runner.read_committed(ran, "a.txt") == "hi"
    assert_went_on(endpoint)
    assert ran.tokens == get_total(vendor, endpoint)


def test_opencode_waits_at_a_short_limit_itself(machine: Machine, endpoint: ModelEndpoint):
    runner = RunnerMachine(machine, endpoint, "opencode")
    endpoint.play(WORK, {"limit": 3}, DONE)

    ran = runner.run()

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["starts"]) == ("done", 1)
    assert ran.tokens == get_total("opencode", endpoint)


@pytest.mark.parametrize("vendor", PROFILES)
def test_a_client_that_was_killed_goes_on_in_its_session(
    vendor: str, machine: Machine, endpoint: ModelEndpoint
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    endpoint.play(WORK, {"hang": True}, DONE)

    ran = runner.run(meanwhile=runner.kill_agent_when_the_model_hangs)

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["starts"], ran.attempt["resumes"]) == ("done", 2, 1)
    assert runner.read_committed(ran, "a.txt") == "hi"
    assert_went_on(endpoint)
    assert sum(asdict(ran.tokens).values()) <= sum(asdict(get_total(vendor, endpoint)).values())


@pytest.mark.parametrize(("vendor", "starts"), [("claude", 1), ("codex", 2), ("gemini", 2), ("opencode", 2)])
def test_what_a_person_tells_arrives_in_the_running_session_or_opens_the_next_start(
    vendor: str, starts: int, machine: Machine, endpoint: ModelEndpoint, tmp_path: Path
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    told = tmp_path / "told"
    endpoint.play({"shell": f"until [ -e {told} ]; do sleep 0.1; done; {WORK['shell']}"}, DONE)

    def tell() -> None:
        runner.wait_for_step("shell")
        runner.ask("tell", "Greet", WORDS)
        told.touch()

    ran = runner.run(meanwhile=tell)

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["starts"]) == ("done", starts)
    [word] = runner.ask("tell", "Greet")["words"]
    assert (word["attempt_id"], word["start"]) == (ran.attempt["id"], starts)
    heard = [WORDS in asked for asked in endpoint.conversations]
    assert heard == sorted(heard)
    assert heard[-1]


@pytest.mark.parametrize("vendor", PROFILES)
def test_what_a_person_tells_at_once_interrupts_the_session_and_continues_it(
    vendor: str, machine: Machine, endpoint: ModelEndpoint
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    endpoint.play(WORK, {"hang": True}, DONE)

    def tell() -> None:
        runner.wait_for_step("hang")
        runner.ask("tell", "Greet", WORDS, "--now")

    ran = runner.run(meanwhile=tell)

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["starts"], ran.attempt["resumes"]) == ("done", 2, 0)
    assert runner.read_committed(ran, "a.txt") == "hi"
    last = endpoint.conversations[-1]
    assert ("# Task: Greet" in last, WORDS in last, WORK["shell"] in last) == (True, True, True)


@pytest.mark.parametrize("vendor", PROFILES)
def test_what_a_person_told_a_failed_attempt_opens_the_next_one(
    vendor: str, machine: Machine, endpoint: ModelEndpoint, tmp_path: Path
):
    runner = RunnerMachine(machine, endpoint, vendor, **PROFILES[vendor])
    told = tmp_path / "told"
    wait = {"shell": f"until [ -e {told} ]; do sleep 0.1; done"}
    endpoint.play(wait, {"denied": True, "times": 20})

    def tell() -> None:
        runner.wait_for_step("shell")
        runner.ask("tell", "Greet", WORDS)
        told.touch()
        runner.wait_for_attempt(2)
        endpoint.play(WORK, DONE)

    ran = runner.run(meanwhile=tell)

    assert ran.code == 0, ran
    assert (ran.attempt["stage"], ran.attempt["number"] > 1) == ("done", True)
    first = next(asked for asked in endpoint.conversations if WORDS in asked and WORK["shell"] in asked)
    assert "# Task: Greet" in first


def use_subscription(runner: RunnerMachine, machine: Machine) -> None:
    """Log in as a subscriber does: only then does Claude Code say when a limit ends."""
    del machine.environment["ANTHROPIC_AUTH_TOKEN"]
    machine.environment["CLAUDE_CODE_OAUTH_TOKEN"] = f"sk-ant-oat01-{KEY}"
    names = ["ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"]
    runner.write_agents({"agents": {"worker": {"kind": "claude", "env": names, **PROFILES["claude"]}}})


def assert_went_on(endpoint: ModelEndpoint) -> None:
    """The last request has what was said and done before the interruption."""
    last = endpoint.conversations[-1]
    assert "# Task: Greet" in last
    assert WORK["shell"] in last
    assert "You were interrupted" in last
