"""Places for stores, and stores to copy from that are made only once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from application import ask
from database.stores import fill, large_plan, open_store

TASKS = 10_000

Place = Callable[[str], str]


@pytest.fixture(scope="module")
def module_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """As `place`, for stores that the tests of a module share."""
    yield from _places(request, tmp_path_factory.mktemp("stores"))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Gives places for stores of either kind that nobody has opened yet."""
    yield from _places(request, tmp_path)


@pytest.fixture(scope="module")
def filled(module_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A store of either kind with something of everything in it; only to be read."""
    made: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in made:
            folder, location = tmp_path_factory.mktemp("project"), module_place(kind)
            app = open_store(folder, location)
            fill(app, folder)
            app.close()
            made[kind] = location
        return made[kind]

    return of


@pytest.fixture(scope="module")
def large(module_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """A store of either kind with a plan of 10,000 tasks, some of them under way; only to be read."""
    made: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in made:
            folder, location = tmp_path_factory.mktemp("project"), module_place(kind)
            app = open_store(folder, location)
            workflow = large_plan(app, TASKS)
            agent = ask(app, "agent_register", name="Ada", runtime="custom")["id"]
            for task in ask(app, "workflow_next_tasks", workflow_id=workflow)["tasks"]:
                ask(app, "task_claim", task_id=task["id"], agent_id=agent)
            app.close()
            made[kind] = location
        return made[kind]

    return of


def _places(request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
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
