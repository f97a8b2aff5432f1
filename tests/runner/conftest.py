"""A project for runs of scripted agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.endings import check_nothing_is_left
from runner.run_project import RunProject


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[Callable[..., RunProject]]:
    """Creates a project with a configuration; after the test nothing of it runs, and the checkout is as it was."""
    made: list[RunProject] = []

    def make(config: str = "", checks: str = "") -> RunProject:
        made.append(RunProject(tmp_path, config=config, checks=checks))
        return made[-1]

    yield make
    for project in made:
        check_nothing_is_left(project)
        project.close()
