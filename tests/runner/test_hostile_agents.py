"""Whatever an agent writes or does, only its own attempt ends: the runner, the other attempts and later commands go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.run import run_deepwork
from runner.endings import Ended, check_nothing_is_left, finish, write
from runner.run_project import RunProject
from runner.scripted import Steps

MakeProject = Callable[..., RunProject]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

DIGITS = "9" * 400
FOLDER = 'cd "$(dirname "$(readlink /proc/$PPID/fd/0)")" && '
"""The folder of the agent's own start: its standard input is the prompt in it."""

NEW_LINE = {"do": "noise", "text": ""}


def shell(script: str) -> dict[str, Any]:
    return {"do": "run", "argv": ["sh", "-c", script]}


def fail(text: str) -> Steps:
    """Fail with this on standard error."""
    return [{"do": "complain", "text": text}, {"do": "leave_silently", "code": 1}]


def say_wrong_numbers(number: object) -> Steps:
    """Report this number wherever the vendor reports one, then go on."""
    usage = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_input_tokens"), number)
    limit = {"status": "rejected", "resetsAt": number, "rateLimitType": "five_hour"}
    retry = {"attempt": number, "max_retries": number, "error_status": number}
    lines = [
        {
            "type": "assistant",
            "message": {"id": "m1", "model": "claude-opus-4-8", "usage": usage, "content": []},
        },
        {"type": "system", "subtype": "api_retry", **retry},
        {"type": "rate_limit_event", "rate_limit_info": limit},
        {"type": "result", "subtype": "success", "total_cost_usd": number, "modelUsage": {"m": usage}},
    ]
    return [{"do": "raw", "line": line} for line in lines]


NUMBERS = (10**400, 2**63, -1, float("inf"), float("nan"), True, "1e999", [7])

DONE: dict[str, Steps] = {
    "numbers": [step for number in NUMBERS for step in say_wrong_numbers(number)],
    "lines": [
        shell("printf '%0100000d' 0 | tr 0 '['"),
        NEW_LINE,
        shell(r"printf '\377\376\n{\"type\":\"result\",\"result\":\"\300\"}\n'"),
        shell("head -c 3000000 /dev/zero"),
        NEW_LINE,
    ],
    "sparse": [shell("head -c 1100000 /dev/zero | tr '\\0' x; truncate -s 900G /proc/self/fd/1"), NEW_LINE],
    "closed": [shell("exec >&- 2>&-"), shell("sleep 600 & exit 7")],
    "worded": [
        write("worded"),
        {"do": "exit", "text": "You have reached your weekly limit, resets in 5 hours"},
    ],
    "folders": [
        shell(
            FOLDER
            + "mkdir ../² ../99999999999999999999 && mkfifo ../7 && rm ../driver.lock && mkdir ../driver.lock"
        )
    ],
    "names": [
        shell(r"""mkfifo pipe; ln -s loop loop; touch -- -rf 'new
line' "$(printf 'wrong\377')"; mkdir -p a/.git""")
    ],
    "honest": [],
}
"""What agents write and do before they do their work."""

ENDED: dict[str, Steps] = {
    "wait": fail(f"usage limit reached, try again in {DIGITS} minutes"),
    "header": fail(f"429 rate limited, retry-after: {DIGITS}"),
    "date": fail("usage limit reached, try again after 0001-01-01T00:00:00+14:00"),
    "stdout_is_a_folder": [
        shell(FOLDER + "mv stdout old && mkdir stdout"),
        {"do": "leave_silently", "code": 1},
    ],
    "stdout_is_a_pipe": [
        shell(FOLDER + "mv stdout old && mkfifo stdout"),
        {"do": "leave_silently", "code": 1},
    ],
    "stderr_is_a_pipe": [
        shell(FOLDER + "mv stderr old && mkfifo stderr"),
        {"do": "leave_silently", "code": 1},
    ],
    "exit_is_nonsense": [
        shell(
            FOLDER
            + """echo '{"code": "0", "ended_at": 1e300, "left": -1, "cpu_ms": [], "reason": {}}' > exit; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"""
        )
    ],
    "exit_is_deep": [
        shell(
            FOLDER
            + "head -c 200000 /dev/zero | tr '\\0' '[' > exit; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)"
        )
    ],
    "process_is_nonsense": [
        shell(FOLDER + """echo '{"pid": -1, "start_time": 7}' > process"""),
        {"do": "leave_silently", "code": 1},
    ],
    "tree_is_gone": [shell('rm -rf "$PWD"'), {"do": "leave_silently", "code": 0}],
    "aborted": [{"do": "die", "number": 6}],
    "git_is_gone": [shell("rm .git && mkdir .git"), write("git_is_gone")],
}
"""Agents that do not get their work done, in many ways."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    project = RunProject(
        tmp_path_factory.mktemp("hostile"), config="run: {resumes: 1, wait_at_limit: 0.01}\n"
    )
    tasks = [{"name": name, "depends_on": [], "max_attempts": 1} for name in (*ENDED, *DONE)]
    project.set_plan(
        tasks,
        {name: [steps] for name, steps in ENDED.items()}
        | {name: [[*steps, *finish(name)]] for name, steps in DONE.items()},
    )
    ended = Ended(project, "--agents", "8", "--agent", "claude")
    check_nothing_is_left(project)
    yield ended
    project.close()


def test_a_run_with_hostile_agents_ends_and_says_that_a_person_is_needed(hostile: Ended):
    assert hostile.code == 3, hostile.output
    assert "Traceback" not in hostile.output


@pytest.mark.parametrize("name", DONE)
def test_an_agent_that_writes_nonsense_and_does_its_work_is_done(hostile: Ended, name: str):
    assert hostile.get_status(name) == "completed", hostile.list_attempts(name)
    assert hostile.list_stages(name) == ["done"]


@pytest.mark.parametrize("name", ENDED)
def test_the_attempt_of_a_hostile_agent_ends_with_its_cause(hostile: Ended, name: str):
    [attempt] = hostile.list_attempts(name)

    assert attempt["stage"] in ("failed", "handed_over"), attempt
    assert attempt["reason"]
    assert hostile.get_status(name) == "failed"


@pytest.mark.parametrize("command", [("show",), ("attach", "--json"), ("stop", "--now")])
def test_later_commands_about_a_run_with_hostile_agents_work(hostile: Ended, command: tuple[str, ...]):
    run = hostile.list_attempts("honest")[0]["run_id"]
    verb, *options = command

    done = run_deepwork(
        hostile.project.folder, "runs", verb, run, *options, environment=hostile.project.variables
    )

    assert done.code in (0, 1, 3), done.err  # the run has ended, and says so
    assert "Traceback" not in done.err
    assert "INTERNAL_ERROR" not in done.err


def test_the_same_plan_can_be_run_again(hostile: Ended):
    again = hostile.project.run("--agent", "claude")

    assert again.code == 3, again.err
    assert hostile.get_status("honest") == "completed"


@pytest.mark.parametrize("name", ["stdout_is_a_folder", "stdout_is_a_pipe", "lines", "sparse"])
def test_what_a_hostile_agent_wrote_can_be_read(hostile: Ended, name: str):
    attempt = hostile.list_attempts(name)[0]["id"]

    done = run_deepwork(
        hostile.project.folder, "runs", "logs", attempt, "--json", environment=hostile.project.variables
    )

    assert done.code in (0, 1), done.err
    assert "INTERNAL_ERROR" not in done.err
    for line in done.out.splitlines():
        json.loads(line)
