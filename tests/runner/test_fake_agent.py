"""The scripted agent does what its script says, and its ledger tells the truth."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.stream_state import StreamState, apply, begin_start
from patience import wait_until
from runner.fake_streams import STREAMS, Used
from runner.scripted import ScriptedAgents, Steps, list_possible_sums

VENDORS = sorted(STREAMS)
RESUME = {
    "claude": ["-p", "--resume={}"],
    "codex": ["exec", "--json", "resume", "{}", "-"],
    "gemini": ["--resume", "{}"],
    "opencode": ["run", "--session", "{}"],
}
WORK: Steps = [
    {"do": "say", "text": "I look."},
    {"do": "tool", "detail": "ls"},
    {"do": "usage", "input": 100, "cached": 20, "output": 7, "usd_micros": 1500},
    {"do": "append", "file": "a.txt", "line": "one"},
]


@pytest.fixture
def agents(tmp_path: Path) -> ScriptedAgents:
    (tmp_path / "tree").mkdir()
    return ScriptedAgents(tmp_path / "agents")


def run(agents: ScriptedAgents, vendor: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(agents.bin / vendor), *arguments],
        cwd=agents.folder.parent / "tree",
        input="Do it.",
        env={"PATH": "/usr/bin:/bin", "DEEPWORK_TASK": "tk_1", "DEEPWORK_ATTEMPT": "at_1"},
        capture_output=True,
        text=True,
        check=False,
    )


def write(agents: ScriptedAgents, *starts: Steps) -> None:
    agents.write_script({"build": list(starts)}, {"tk_1": "build"})


def read_lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("vendor", VENDORS)
def test_it_works_and_writes_down_what_it_reported(agents: ScriptedAgents, vendor: str):
    write(agents, WORK)

    done = run(agents, vendor)

    assert (done.returncode, done.stderr) == (0, "")
    assert (agents.folder.parent / "tree" / "a.txt").read_text() == "one\n"
    [process] = agents.read_ledger()
    assert (process.name, process.code, process.start["attempt"]) == ("build", 0, "at_1")
    used = Used(100, 20, 7, 1500)
    stream = STREAMS[vendor]
    assert list_possible_sums([process]) == [used.pick(stream.reports + stream.reports_at_end)]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_adapters_read_from_its_stream_what_its_ledger_says(agents: ScriptedAgents, vendor: str):
    write(agents, [*WORK, WORK[2], {"do": "exit", "text": "Did it."}])

    state = read_stream(vendor, run(agents, vendor).stdout, 0)

    [process] = agents.read_ledger()
    read = Used(state.input_tokens, state.cached_tokens, state.output_tokens, state.usd_micros)
    assert [read] == list_possible_sums([process])
    assert (state.last_message, state.open_tools) == ("Did it.", {})
    assert state.ended is not None
    assert not state.ended.is_error
    if vendor in RESUME:
        assert state.session_id == process.start["session"]


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_adapters_see_its_limits_and_overloads(agents: ScriptedAgents, vendor: str):
    write(agents, [{"do": "limit", "resets_in": 600}], [{"do": "limit"}], [{"do": "transient"}])

    states = [read_stream(vendor, run(agents, vendor).stdout, 1) for _ in range(3)]

    assert [state.limit is not None for state in states] == [True, True, False]
    assert [bool(state.limit and state.limit.resets_at) for state in states] == [True, False, False]
    assert states[2].transient is not None


def read_stream(vendor: str, output: str, code: int) -> StreamState:
    adapter = get_adapter(vendor)
    state = begin_start(StreamState())
    for line in output.splitlines():
        state = apply(state, adapter.read_line(line))
    return adapter.finish(state, code, "")


@pytest.mark.parametrize("vendor", sorted(RESUME))
def test_a_resumed_session_goes_on_where_it_met_a_limit(agents: ScriptedAgents, vendor: str):
    write(agents, [*WORK, {"do": "limit", "resets_in": 60}, {"do": "append", "file": "b.txt", "line": "two"}])

    first = run(agents, vendor)
    session = agents.read_ledger()[0].start["session"]
    second = run(agents, vendor, *(word.format(session) for word in RESUME[vendor]))

    assert (first.returncode, second.returncode) == (1, 0)
    assert "I look" not in second.stdout
    assert (agents.folder.parent / "tree" / "b.txt").read_text() == "two\n"
    assert [each.start["resumed"] for each in agents.read_ledger()] == [False, True]


def test_the_totals_of_codex_go_on_after_a_resume(agents: ScriptedAgents):
    write(agents, [WORK[2], {"do": "transient"}, WORK[2]])

    run(agents, "codex")
    session = agents.read_ledger()[0].start["session"]
    second = run(agents, "codex", "exec", "resume", session, "-")

    [usage] = [line["usage"] for line in read_lines(second.stdout) if line["type"] == "turn.completed"]
    assert (usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"]) == (240, 40, 14)
    assert list_possible_sums(agents.read_ledger()[:1]) == [Used()]
    assert list_possible_sums(agents.read_ledger()) == [Used(200, 40, 14)]


def test_a_session_that_is_gone_cannot_be_resumed(agents: ScriptedAgents):
    write(agents, WORK)
    run(agents, "claude", "--session-id=s1")
    agents.forget_sessions()

    done = run(agents, "claude", "--resume=s1")

    assert done.returncode == 1
    assert "No conversation found" in done.stderr


def test_a_second_start_can_behave_differently(agents: ScriptedAgents):
    write(agents, [{"do": "leave_silently"}], WORK)

    outputs = [run(agents, "command").stdout for _ in range(3)]

    assert [bool(output) for output in outputs] == [False, True, True]
    assert [each.start["number"] for each in agents.read_ledger()] == [1, 2, 3]


def test_two_processes_on_one_task_are_written_down(agents: ScriptedAgents, tmp_path: Path):
    write(
        agents,
        [{"do": "touch", "file": str(tmp_path / "up")}, {"do": "wait_for", "file": str(tmp_path / "go")}],
        WORK,
    )
    with subprocess.Popen(agents.get_command(), cwd=tmp_path, stdin=subprocess.DEVNULL, env={"DEEPWORK_TASK": "tk_1"}) as first:  # fmt: skip
        wait_for(tmp_path / "up")

        run(agents, "command")
        (tmp_path / "go").touch()

    assert [each.overlaps for each in agents.read_ledger()] == [[], [str(first.pid)]]


def test_a_report_that_a_kill_interrupts_is_in_doubt(agents: ScriptedAgents):
    write(agents, [WORK[2], WORK[2], {"do": "die"}])
    assert run(agents, "opencode").returncode == -signal.SIGKILL
    lines = agents.ledger.read_text().splitlines(keepends=True)
    agents.ledger.write_text("".join(lines[:-1]))  # the last one says that the second report was written

    sums = list_possible_sums(agents.read_ledger())

    assert sums == [Used(100, 20, 7, 1500), Used(200, 40, 14, 3000)]


def test_broken_output_is_as_broken_as_the_script_says(agents: ScriptedAgents):
    write(
        agents,
        [{"do": "long_line", "bytes": 9_000_000}, {"do": "half_line"}, {"do": "noise", "text": "warn"}],
    )

    lines = run(agents, "claude").stdout.splitlines()

    assert max(map(len, lines)) > 9_000_000
    assert any(line.endswith("warn") and line.startswith("{") for line in lines)


def wait_for(path: Path) -> None:
    wait_until(path.exists, path.name)
