"""No sequence of acts of an agent gets work completed or landed that does not pass its checks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import make_app
from landing.attacks import KNOWN_ATTACKS, attack, draw_acts
from landing.make import LandingProject
from workspaces.make import create_repository

DRAWN = 17
QUICK = 4
"""So many of the drawn ones are part of `make test`; `make chaos` draws new ones."""

SEEDS = [seed if seed < QUICK else pytest.param(seed, marks=pytest.mark.thorough) for seed in range(DRAWN)]


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[LandingProject]:
    """A project on SQLite: what is attacked does not depend on storage."""
    folder = create_repository(tmp_path / "project")
    app = make_app(folder, str(tmp_path / "deepwork.db"))
    yield LandingProject(folder, app)
    app.close()


def test_honest_work_is_completed_and_lands(attacked: LandingProject) -> None:
    broken = attack(attacked, ("write_right", "commit_all", "report"))

    assert broken == []
    assert attacked.list_landed() == ["work"]
    assert attacked.read("solution.txt") == "right"


@pytest.mark.parametrize("name", KNOWN_ATTACKS)
def test_a_known_attack_gets_nothing(name: str, attacked: LandingProject) -> None:
    assert attack(attacked, KNOWN_ATTACKS[name]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_attack_gets_nothing(seed: int, attacked: LandingProject) -> None:
    acts = draw_acts(random.Random(seed))

    assert attack(attacked, acts) == [], acts
