"""One repository with the work of two tasks, shared by all tests of a module: each works on its own branch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from application import make_app
from deepwork.edge.server.application import Application
from provenance.make import Made, commit_all, edit_lines, make_work
from workspaces.make import create_repository


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = create_repository(tmp_path_factory.mktemp("project"))
    edit_lines(folder)
    commit_all(folder, "Write the book")
    return folder


@pytest.fixture(scope="module")
def shared_app(project: Path) -> Iterator[Application]:
    made = make_app(project, str(project / "deepwork.db"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def work(shared_app: Application, project: Path) -> Made:
    """An attempt that made two commits."""
    return make_work(shared_app, project, "dragons", {"l5": "dragons"}, {"l20": "more dragons"})


@pytest.fixture(scope="module")
def other(shared_app: Application, project: Path) -> Made:
    """An attempt at another task that made one commit."""
    return make_work(shared_app, project, "knights", {"l30": "knights"})
