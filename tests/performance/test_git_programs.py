"""How many git programs a request starts: that does not depend on the machine, and most of its time goes there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from application import Clock, make_app
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.errors import GateClosed
from deepwork.kernel.programs import run_bounded
from landing.make import LandingProject
from workspaces.make import Plan, commit, create_repository

CHECKS = 'checks:\n  right: {run: ["true"], needs: ["*.txt"]}\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[LandingProject]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    app: Application = make_app(tmp_path, str(tmp_path / "deepwork.db"), clock)
    yield LandingProject(create_repository(tmp_path), app, clock)
    app.close()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git programs that were started, by their commands."""
    started: list[str] = []

    def count(argv: list[str], **given: Any) -> Any:
        named = [word for word in argv[1:] if not word.startswith(("-", "/")) and "=" not in word]
        started.append(named[0])
        return run_bounded(argv, **given)

    monkeypatch.setattr("deepwork.kernel.git.command.run_bounded", count)
    return started


@contextmanager
def at_most(limit: int, programs: list[str]) -> Iterator[None]:
    programs.clear()
    yield
    assert len(programs) <= limit, programs


def work(plan: Plan, name: str) -> None:
    commit(Path(plan.claim(name)["workspace_path"]), name, **{f"{name}_txt": "done\n"})


def test_a_claim_with_a_worktree(project: LandingProject, programs: list[str]) -> None:
    plan = project.plan({"first": None, "second": None})
    plan.claim("first")

    with at_most(2, programs):
        plan.claim("second")


def test_a_completion(project: LandingProject, programs: list[str]) -> None:
    plan = project.plan({"first": None, "second": None})
    work(plan, "first")
    plan.complete("first")
    work(plan, "second")

    with at_most(4, programs):
        plan.complete("second")


def test_a_landing_with_a_check(project: LandingProject, programs: list[str]) -> None:
    project.define_checks(CHECKS)
    plan = project.plan_done({"first": {"a_txt": "a\n"}}, checks=["right"])

    with at_most(12, programs):
        landed = project.land(workflow_id=plan.id)

    assert [each["status"] for each in landed["landings"]] == ["landed"]


def test_an_approval_of_finished_work(project: LandingProject, programs: list[str]) -> None:
    plan = project.plan({"first": None}, approval="after")
    work(plan, "first")
    with pytest.raises(GateClosed):
        plan.complete("first")
    with project.app.database.reading() as tx:
        [asked] = ApprovalStore(tx).list_of_kind(ApprovalKind.TASK)

    with at_most(3, programs):
        project.act("give_approval", approval_id=asked.id)

    assert project.call("task_get", id=plan.ids["first"])["status"] == "completed"
