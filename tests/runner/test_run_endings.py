"""How attempts end: each ending of an agent leads to the right next step, and loses nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from cli.run import run_deepwork
from runner.endings import LIMIT_LOG, Ended, check_nothing_is_left, finish, plan, write, write_profiles
from runner.run_project import RunProject
from runner.scripted import Process, Steps

USAGE = {"do": "usage", "input": 70, "cached": 20, "output": 10, "usd_micros": 900}

PORTS = 3

MakeProject = Callable[..., RunProject]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


# --- one run with agents that end in many ways


MANY: dict[str, list[Steps]] = {
    "plain": [[USAGE, *finish("plain")]],
    "committed": [[write("committed"), {"do": "commit", "message": "mine"}]],
    "nothing": [[{"do": "exit", "text": "I think that it is done."}]],
    "unneeded": [[USAGE]],
    "limited": [[USAGE, {"do": "limit", "resets_in": 2}, USAGE, *finish("limited")]],
    "overloaded": [[USAGE, {"do": "transient"}, USAGE, *finish("overloaded")]],
    "forgetful": [[{"do": "forget"}, {"do": "transient"}], [USAGE, *finish("forgetful")]],
    "broken": [
        [
            {"do": "noise"},
            {"do": "raw", "line": {"type": "never_heard_of", "usage": 3}},
            {"do": "long_line"},
            USAGE,
            {"do": "half_line"},
            {"do": "noise", "text": ""},
            *finish("broken"),
        ]
    ],
    "forking": [[{"do": "fork"}, USAGE, *finish("forking")]],
    "wrong": [[USAGE, {"do": "exit", "text": "I give up.", "is_error": True}], finish("wrong")],
    "crashing": [[USAGE, write("crashing"), {"do": "die"}], finish("crashing")],
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    project = RunProject(tmp_path_factory.mktemp("many"), config=f"workspace: {{ports: {PORTS}}}\n")
    tasks = [{"name": name, "depends_on": [], "max_attempts": 2} for name in MANY]
    tasks = [task | ({"changes": "none"} if task["name"] == "unneeded" else {}) for task in tasks]
    project.set_plan(tasks, MANY)
    ended = Ended(project, "--agents", "4", "--agent", "claude")
    check_nothing_is_left(project)
    yield ended
    project.close()


@pytest.mark.parametrize("name", ["plain", "committed", "broken", "forking"])
def test_work_that_changed_the_tree_is_done(many: Ended, name: str):
    many.check_done(name)


def test_an_agent_that_did_nothing_has_failed_whatever_it_says(many: Ended):
    assert many.get_status("nothing") == "failed"
    assert set(many.list_stages("nothing")) == {"failed"}
    assert len(many.list_stages("nothing")) == 2
    assert "changed" in many.list_attempts("nothing")[0]["reason"]


def test_a_task_that_changes_nothing_on_purpose_is_done(many: Ended):
    assert many.get_status("unneeded") == "completed"
    assert many.list_stages("unneeded") == ["done"]


def test_the_agents_of_each_tree_have_ports_of_their_own(many: Ended):
    first = {name: {_read_port(each) for each in many.list_processes(name)} for name in MANY}

    assert {len(ports) for ports in first.values()} == {1}
    ordered = sorted(port for ports in first.values() for port in ports)
    assert all(after - before >= PORTS for before, after in pairwise(ordered))


def _read_port(process: Process) -> int:
    return int(process.start["deepwork"]["DEEPWORK_WORKSPACE_PORT"])


def test_the_run_says_that_a_person_is_needed(many: Ended):
    assert many.code == 3


@pytest.mark.parametrize("name", ["limited", "overloaded", "crashing"])
def test_after_a_limit_an_overload_or_a_crash_the_same_session_goes_on(many: Ended, name: str):
    many.check_done(name)
    first, second = many.list_processes(name)
    assert first.start["session"] == second.start["session"]
    assert (first.start["resumed"], second.start["resumed"]) == (False, True)
    assert many.list_attempts(name)[0]["resumes"] == 1


def test_a_session_that_the_vendor_forgot_is_replaced_by_a_new_one(many: Ended):
    many.check_done("forgetful", many.list_stages("forgetful"))
    last = many.list_processes("forgetful")[-1]
    assert not last.start["resumed"]


def test_after_an_error_the_next_attempt_works_in_the_same_tree(many: Ended):
    many.check_done("wrong", ["failed", "done"])
    first, second = many.list_processes("wrong")
    assert first.start["cwd"] == second.start["cwd"]
    assert first.start["session"] != second.start["session"]


def test_agents_get_no_variable_that_nobody_listed(many: Ended):
    [process] = many.list_processes("plain")

    assert "SECRET_OF_THE_PERSON" not in process.start["variables"]
    assert {"DEEPWORK_RUN", "DEEPWORK_ATTEMPT", "DEEPWORK_TASK"} <= set(process.start["deepwork"])
    assert "DEEPWORK_DATABASE_URL" not in process.start["deepwork"]


# --- chains


CHAIN = "chains: {default: [claude, codex]}\n"


def test_at_a_limit_that_lasts_too_long_the_next_agent_of_the_chain_takes_over(make_project: MakeProject):
    project = make_project("run: {wait_at_limit: 1}\n")
    write_profiles(project, CHAIN)
    plan(project, "chained", [USAGE, {"do": "limit"}], finish("chained"))

    ended = Ended(project)

    assert ended.code == 0, ended.output
    ended.check_done("chained", ["handed_over", "done"])
    assert [each.start["vendor"] for each in ended.list_processes("chained")] == ["claude", "codex"]


def test_after_its_attempts_an_agent_is_replaced_by_the_next_of_the_chain(make_project: MakeProject):
    project = make_project()
    write_profiles(project, CHAIN)
    failure = [{"do": "exit", "code": 1, "text": "no", "is_error": True}]
    plan(project, "chained", failure, failure, finish("chained"), max_attempts=2)

    ended = Ended(project)

    assert ended.code == 0, ended.output
    ended.check_done("chained", ["failed", "failed", "done"])
    assert [each.start["vendor"] for each in ended.list_processes("chained")] == ["claude", "claude", "codex"]


# --- stalls


def test_an_agent_without_output_cpu_and_tool_has_stalled(make_project: MakeProject):
    project = make_project("run: {stall_minutes: 0.02}\n")
    plan(project, "silent", [{"do": "ignore_sigterm"}, {"do": "sleep", "seconds": 600}], finish("silent"))

    ended = Ended(project, "--agent", "claude")

    assert ended.code == 0, ended.output
    assert ended.list_stages("silent")[-1] == "done"
    assert len(ended.list_processes("silent")) == 2


@pytest.mark.parametrize(
    "busy", [[{"do": "open_tool"}, {"do": "sleep", "seconds": 4}], [{"do": "spin", "seconds": 4}]]
)
def test_an_agent_with_an_open_tool_or_with_cpu_has_not_stalled(make_project: MakeProject, busy: Steps):
    project = make_project("run: {stall_minutes: 0.03}\n")
    plan(project, "busy", [*busy, *finish("busy")])

    ended = Ended(project, "--agent", "claude")

    ended.check_done("busy")
    assert len(ended.list_processes("busy")) == 1


def test_an_agent_that_stalls_at_a_limit_that_only_its_log_names_is_parked(make_project: MakeProject):
    project = make_project("run: {stall_minutes: 0.02}\n")
    waiting: Steps = [{"do": "complain", "text": LIMIT_LOG}, {"do": "sleep", "seconds": 600}]
    plan(project, "limited", [write("limited"), *waiting])
    words = ("work", "--once", "--agent", "opencode", "--json")

    worked = run_deepwork(project.folder, *words, environment=project.variables)

    assert worked.code == 76, worked.out
    assert worked.json["attempt"]["parked_for"] == "limit"
    assert "Rate limit reached" in worked.json["attempt"]["reason"]


# --- budgets


def test_an_agent_that_used_up_its_budget_is_ended_and_everything_that_it_spent_counts(
    make_project: MakeProject,
):
    project = make_project()
    spending: Steps = [step for _ in range(200) for step in (USAGE, {"do": "sleep", "seconds": 0.1})]
    plan(project, "costly", [write("costly"), *spending], budget={"tokens": 250})

    ended = Ended(project, "--agent", "opencode")

    assert ended.code == 3, ended.output
    [attempt] = ended.list_attempts("costly")
    assert (attempt["stage"], attempt["parked_for"]) == ("parked", "budget")
    assert "budget" in attempt["reason"]
    ended.check_spend("costly")
