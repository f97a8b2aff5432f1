"""One application for all tests of a module, on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from application import Clock, empty_database, make_app
from conftest import KINDS
from gated_project import any_gated, gated, own_trust  # noqa: F401 - fixtures
from plans.world import World


@pytest.fixture(scope="module", params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An application shared by the tests of a module; its clock continues from test to test."""
    folder, clock = tmp_path_factory.mktemp("world"), Clock()
    location = str(folder / "deepwork.db")
    if request.param == "postgres":
        location = request.getfixturevalue("postgres_url")
        empty_database(location)
    app = make_app(folder, location, clock)
    yield World(app, clock)
    app.close()
