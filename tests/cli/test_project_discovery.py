"""A command in a subfolder finds the project that contains it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.run import run_deepwork
from deepwork.kernel.config import find_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src/deep").mkdir(parents=True)
    assert run_deepwork(root, "init").code == 0
    return root


def test_a_subfolder_belongs_to_the_project(project: Path):
    below = project / "src/deep"
    run_deepwork(below, "agents", "register", "Ada", "custom")

    assert run_deepwork(project, "agents", "list", "--json").json["total"] == 1
    assert run_deepwork(below, "init").code == 0
    assert not (below / ".deepwork").exists()


def test_a_named_folder_is_used_unchanged(project: Path):
    below = project / "src"

    assert run_deepwork(below, "agents", "register", "Ada", "codex", "--path", str(below)).code == 0
    assert (below / ".deepwork").is_dir()


def test_a_nested_repository_is_a_separate_project(project: Path):
    inside = project / "vendor"
    subprocess.run(["git", "init", "--quiet", inside], check=True)
    (inside / "lib").mkdir()

    assert find_project(inside / "lib") == inside / "lib"
    assert find_project(project / "src/deep") == project


def test_the_global_store_does_not_make_the_home_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / "work").mkdir()

    assert find_project(tmp_path / "work") == tmp_path / "work"
