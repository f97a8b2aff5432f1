"""The recipes under deploy/ that start workers: their commands run on real stores, the rest is parsed."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

import quick
from application import call_tool, make_app
from deepwork.edge.server.application import Application
from runner.endings import check_nothing_is_left, finish, plan
from runner.run_project import RunProject

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "howto" / "run-on-kubernetes-systemd-and-ci.md"
UNITS = ["deepwork-work.service", "deepwork-work.timer", "deepwork-run@.service"]
WORKED, FAILED, NOTHING = 0, 1, 75
FAIL = [{"do": "exit", "code": 1, "is_error": True}]


@dataclass(frozen=True)
class Recipe:
    """A command as a platform runs it, and the exit codes that it reports."""

    argv: list[str]
    nothing: int = 0
    """What it reports if there is nothing to do."""


def read_kubernetes() -> dict[str, Any]:
    [job] = [
        each
        for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
        if each["kind"] == "ScaledJob"
    ]
    return dict(job["spec"])


def read_container() -> dict[str, Any]:
    [container] = read_kubernetes()["jobTargetRef"]["template"]["spec"]["containers"]
    return dict(container)


def read_unit(name: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(DEPLOY / name)
    return parsed


def read_actions_step() -> dict[str, Any]:
    [step] = yaml.safe_load((DEPLOY / "github-actions.yml").read_text())["jobs"]["work"]["steps"]
    return dict(step)


def build_recipes() -> dict[str, Recipe]:
    container = read_container()
    unit = read_unit("deepwork-work.service")["Service"]
    return {
        "kubernetes": Recipe([*container["command"], *container["args"]]),
        "systemd": Recipe(shlex.split(unit["ExecStart"]), nothing=NOTHING),
        # How GitHub starts a script: https://docs.github.com/actions, `defaults.run.shell`.
        "actions": Recipe(["bash", "-e", "-c", read_actions_step()["run"]]),
    }


@pytest.fixture
def project(tmp_path: Path, location: str) -> Iterator[RunProject]:
    made = RunProject(tmp_path, location)
    yield made
    check_nothing_is_left(made)
    made.close()


def run_command(project: RunProject, argv: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a recipe's command with this project in the place of its own."""
    program = project.home / "deepwork"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(quick.build_command())} "$@"\n')
    program.chmod(0o755)
    places = {
        "/opt/deepwork/bin/deepwork": str(program),
        "/srv/deepwork": str(project.folder),
        "/project": str(project.folder),
    }
    for place, real in places.items():
        argv = [re.sub(rf"(?<![\w/]){place}\b", real, word) for word in argv]
    path = f"{project.home}:{project.variables['PATH']}"
    return subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=300,
        env={**project.variables, "PATH": path, **variables},
    )  # fmt: skip


@pytest.mark.parametrize("name", ["kubernetes", "systemd", "actions"])
def test_the_command_works_on_a_task(project: RunProject, name: str):
    plan(project, "one", finish("one"))

    worked = run_command(project, build_recipes()[name].argv)

    assert worked.returncode == WORKED, worked.stderr
    assert [task["status"] for task in project.list_tasks()] == ["completed"]


@pytest.mark.parametrize("name", ["kubernetes", "systemd", "actions"])
def test_nothing_to_do_and_failed_attempts_are_told_apart(tmp_path: Path, name: str):
    project, recipe = RunProject(tmp_path), build_recipes()[name]
    assert run_command(project, recipe.argv, DEEPWORK_DATABASE_URL="").returncode == recipe.nothing
    plan(project, "one", FAIL, max_attempts=1)

    failed = run_command(project, recipe.argv, DEEPWORK_DATABASE_URL="")

    assert failed.returncode == FAILED, failed.stderr
    project.close()


def test_the_service_runs_a_plan_to_its_end(tmp_path: Path):
    project = RunProject(tmp_path)
    plan(project, "one", finish("one"))
    argv = shlex.split(read_unit("deepwork-run@.service")["Service"]["ExecStart"])

    ended = run_command(project, [word.replace("%i", project.plan) for word in argv])

    assert ended.returncode == 0, ended.stderr
    assert [task["status"] for task in project.list_tasks()] == ["completed"]
    check_nothing_is_left(project)
    project.close()


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path, name: str):
    for unit in UNITS:
        text = (DEPLOY / unit).read_text().replace("/opt/deepwork/bin/deepwork", sys.executable)
        (tmp_path / unit).write_text(text)
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
         tmp_path / name.replace("@", "@wf_1")],
        check=False, capture_output=True, text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )  # fmt: skip

    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_the_units_say_which_exit_codes_are_no_failures():
    assert read_unit("deepwork-work.service")["Service"]["SuccessExitStatus"] == "75 76"
    assert read_unit("deepwork-run@.service")["Service"]["SuccessExitStatus"] == "3"
    assert {read_unit(name)["Service"]["KillMode"] for name in UNITS if name.endswith("service")} == {
        "process"
    }


def test_the_pods_share_one_name_and_one_volume():
    pod = read_kubernetes()["jobTargetRef"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["subPath"] for mount in read_container()["volumeMounts"]}

    assert pod["hostname"] == "deepwork"
    assert mounts == {"/project": "project", "/home/deepwork": "home"}
    assert "/project" in " ".join(read_container()["args"])


# The query that KEDA scales by


def read_query() -> str:
    [trigger] = read_kubernetes()["triggers"]
    return str(trigger["metadata"]["query"])


def strip_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.startswith("--"))


def test_the_recipe_has_the_documented_query():
    assert read_query().strip() == strip_comments((DEPLOY / "ready-tasks.sql").read_text()).strip()


def test_the_query_counts_the_tasks_that_workers_could_start(postgres_url: str, tmp_path: Path):
    from application import empty_database

    empty_database(postgres_url)
    app = make_app(tmp_path, postgres_url)
    assert count(postgres_url) == 0
    wf = call_tool(
        app, "workflow_create", name="p", source_type="prompt", source_content="x", max_parallel_tasks=3
    )["id"]
    names = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("last", 2)]
    tasks = [{"name": name, "sequence": sequence} for name, sequence in names]
    tasks.append({"name": "after a", "sequence": 1, "depends_on": ["a"]})
    call_tool(app, "workflow_set_plan", id=wf, plan={"summary": "s", "tasks": tasks})
    assert count(postgres_url) == recommend(app, wf) == 3

    agent = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
    first = call_tool(app, "workflow_next_tasks", workflow_id=wf)["tasks"][0]["id"]
    call_tool(app, "task_claim", task_id=first, agent_id=agent, start=True)
    assert count(postgres_url) == recommend(app, wf) == 2

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE leases SET until = 1")
    assert count(postgres_url) == recommend(app, wf) == 3

    call_tool(app, "task_claim", task_id=first, agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=first, agent_id=agent, status="completed", outcome="Done.")
    assert count(postgres_url) == recommend(app, wf) == 3

    call_tool(app, "workflow_update_status", id=wf, status="paused")
    assert count(postgres_url) == 0
    app.close()


def count(url: str) -> int:
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path TO deepwork, public")
        row = connection.execute(read_query()).fetchone()
    assert row is not None
    return int(row[0])


def recommend(app: Application, workflow_id: str) -> int:
    return int(call_tool(app, "workflow_next_tasks", workflow_id=workflow_id)["recommended_count"])


def test_the_page_names_every_recipe():
    text = PAGE.read_text()
    mentioned = set(re.findall(r"deploy/([\w@.-]+\w)", text))

    assert {*UNITS, "kubernetes.yaml", "github-actions.yml", "ready-tasks.sql"} <= mentioned
