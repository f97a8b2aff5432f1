"""A project whose work counts as done only if its check passes: a real repository and real commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, make_app
from checks.make import COUNT, Project, run_git, shell
from deepwork.kernel.errors import DeepworkError, GateClosed

CHECK = shell(f"{COUNT}; test -e good || {{ echo there is no good; exit 1; }}")
"""Passes if the file `good` exists."""


class GatedProject(Project):
    """Its check `tests` passes as soon as the file `good` exists; `guarded/**` is guarded."""

    def call(self, tool: str, **arguments: Any) -> Any:
        return call_tool(self.app, tool, **arguments)

    def refuse(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must fail, and return its error as clients see it."""
        with pytest.raises(DeepworkError) as refused:
            self.call(tool, **arguments)
        return refused.value.to_dict()

    def close(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that meets a closed gate, and return its error as clients see it."""
        with pytest.raises(GateClosed) as refused:
            self.call(tool, **arguments)
        return refused.value.to_dict()

    def fix(self) -> None:
        """Let the check pass from now on."""
        self.write("good", "")


@pytest.fixture
def own_trust(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test trusts nothing at first."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture
def gated(own_trust: None, tmp_path: Path, clock: Clock) -> Iterator[GatedProject]:
    """A gated project on SQLite, for what does not depend on storage."""
    yield from make_gated(tmp_path / "project", str(tmp_path / "deepwork.db"), clock)


@pytest.fixture
def any_gated(own_trust: None, tmp_path: Path, location: str, clock: Clock) -> Iterator[GatedProject]:
    """A gated project on each kind of database."""
    yield from make_gated(tmp_path / "project", location, clock)


def make_gated(folder: Path, location: str, clock: Clock) -> Iterator[GatedProject]:
    folder.mkdir()
    app = make_app(folder, location, clock)
    project = GatedProject(folder, app)
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        run_git(folder, "config", name, value)
    project.define_check(CHECK, guarded="['guarded/**']")
    yield project
    app.close()
