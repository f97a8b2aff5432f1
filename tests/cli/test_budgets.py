"""`deepwork budget` and `deepwork spend`, as a person uses them, in-process."""

from __future__ import annotations

import getpass
import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from application import call_tool, make_app
from budgets.make import claim, create_plan, report
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotFound

Run = Callable[..., Result]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    made = make_app(tmp_path, str(tmp_path / "deepwork.db"))
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path, app: Application) -> Run:
    def run(*words: str) -> Result:
        place = ["--path", str(tmp_path), "--db", str(tmp_path / "deepwork.db")]
        return CliRunner().invoke(deepwork, [*words, *place], standalone_mode=False)

    return run


def test_a_budget_is_shown_and_raised_in_the_name_of_the_person(app: Application, run: Run):
    plan, task = create_plan(app, {"name": "a", "budget": {"tokens": 500}}, budget={"usd": 1})
    report(app, task, usd=0.25, tokens=40)

    shown = run("budget", "show", plan)
    raised = json.loads(run("budget", "set", plan, "--usd", "2.5", "--json").output)
    removed = run("budget", "set", task, "--remove-others")

    assert "$1.00" in shown.output
    assert "$0.25, 40 tokens, 0 minutes" in shown.output
    assert (raised["budget"], raised["raised"]) == ({"usd": 2.5}, True)
    assert removed.output == "a: no budget (before: 500 tokens)\n"
    history = call_tool(app, "workflow_get", id=plan, include_history=True)["history"]
    assert {line["by_whom"] for line in history if line["what"] == "budget"} == {f"human:{getpass.getuser()}"}


def test_spending_is_listed_and_added_up(app: Application, run: Run):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"})
    report(app, first, usd=1)
    report(app, second, usd=2)

    by_task = json.loads(run("spend", "--by", "task", "--plan", plan, "--json").output)
    lines = run("spend").output

    assert [(line["name"], line["usd"]) for line in by_task["spending"]] == [("b", 2.0), ("a", 1.0)]
    assert "unverified" in lines


def test_nothing_to_show_and_nothing_to_change_is_said(app: Application, run: Run):
    create_plan(app, {"name": "a"})

    assert run("spend").output == "Nothing was reported.\n"
    assert isinstance(run("budget", "set", "nothing", "--usd", "1").exception, NotFound)


@pytest.mark.parametrize(("unit", "amount"), [("usd", 1), ("tokens", 100)])
def test_the_command_in_a_refusal_raises_the_limit_that_was_reached(
    app: Application, run: Run, unit: str, amount: int
):
    _, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={unit: amount, "minutes": 600})
    agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
    claim(app, first, agent)
    given: dict[str, Any] = {unit: amount}
    report(app, first, **given)
    [(program, *words)] = [
        shlex.split(each) for each in claim(app, second, agent)["message"].split("`")[1::2]
    ]

    raised = run(*words[:-1], "1000")

    assert (program, words[-2:]) == ("deepwork", [f"--{unit}", "N"])
    assert raised.exit_code == 0, raised.output
    assert claim(app, second, agent)["success"]
