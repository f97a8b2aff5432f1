"""Locations for stores, and stores to copy from that are created only once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from application import call_tool
from store_admin.stores import create_large_plan, fill_store, open_store

TASKS = 10_000
SOME_TASKS = 2000
some_or_all = pytest.mark.parametrize("tasks", [SOME_TASKS, pytest.param(TASKS, marks=pytest.mark.thorough)])
"""For tests of kills: what a kill leaves does not depend on the size, once there are several batches of rows."""

Place = Callable[[str], str]


@pytest.fixture(scope="module")
def module_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Like `place`, for stores that the tests of a module share."""
    yield from _open_locations(request, tmp_path_factory.mktemp("stores"))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Creates locations for new stores of either kind."""
    yield from _open_locations(request, tmp_path)


@pytest.fixture(scope="module")
def filled(module_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A read-only store of either kind with every kind of data."""
    made: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in made:
            folder, location = tmp_path_factory.mktemp("project"), module_place(kind)
            app = open_store(folder, location)
            fill_store(app, folder)
            app.close()
            made[kind] = location
        return made[kind]

    return of


@pytest.fixture(scope="module")
def large(module_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """A read-only store of either kind with a plan of many tasks, some of them claimed."""
    made: dict[tuple[str, int], str] = {}

    def of(kind: str, tasks: int = TASKS) -> str:
        if (kind, tasks) not in made:
            folder, location = tmp_path_factory.mktemp("project"), module_place(kind)
            app = open_store(folder, location)
            workflow = create_large_plan(app, tasks)
            agent = call_tool(app, "agent_register", name="Ada", runtime="custom")["id"]
            for task in call_tool(app, "workflow_next_tasks", workflow_id=workflow)["tasks"]:
                call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)
            app.close()
            made[kind, tasks] = location
        return made[kind, tasks]

    return of


def _open_locations(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    made: list[str] = []

    def make(kind: str) -> str:
        name = f"copies_{os.getpid()}_{random.SystemRandom().randrange(10**9)}"
        if kind == "sqlite":
            return str(folder / name / "deepwork.db")
        url: str = request.getfixturevalue("postgres_url")
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return url.replace("/postgres?", f"/{name}?")

    yield make
    if made:
        with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as server:
            for name in made:
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")
