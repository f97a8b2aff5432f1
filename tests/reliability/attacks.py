"""Drawn sequences of acts of an agent that wants "done" without the work: nothing passes that should not."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from application import make_app
from landing.attacks import attack, draw_acts
from landing.make import LandingProject
from reliability.result import Result
from workspaces.make import create_repository


def attack_often(folder: Path, count: int, seed: int) -> Result:
    """Let this many agents attack, each in a project of its own."""
    result = Result()
    for number in range(count):
        acts = draw_acts(random.Random(seed + number))
        result.report("lost", _attack_once(folder / f"project-{number}", acts))
        result.count(sequences=1)
    return result


def _attack_once(folder: Path, acts: tuple[str, ...]) -> list[str]:
    project = create_repository(folder / "project")
    app = make_app(project, str(folder / "deepwork.db"))
    try:
        broken = attack(LandingProject(project, app), acts)
    finally:
        app.close()
    shutil.rmtree(folder)
    return [f"{promise}, after {', '.join(acts)}" for promise in broken]
