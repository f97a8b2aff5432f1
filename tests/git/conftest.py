"""A repository with two branches, a change and a new file; created once and copied for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deepwork.kernel.git.command import Git

PLAIN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def run_git(directory: Path, *args: str, env: dict[str, str] | None = None, check: bool = True) -> bytes:
    """Run plain git."""
    done = subprocess.run(
        ["git", *args],
        cwd=directory,
        env={**PLAIN, **(env or {})},
        capture_output=True,
        check=check,
        timeout=100,
    )
    return done.stdout


def commit(directory: Path, message: str) -> None:
    run_git(directory, "add", "-A")
    run_git(directory, "commit", "-q", "-m", message)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("template") / "repository"
    repository.mkdir()
    run_git(repository, "init", "-q", "-b", "main")
    (repository / "file.txt").write_text("one\ntwo\nthree\n")
    commit(repository, "base")
    run_git(repository, "switch", "-q", "-c", "theirs")
    (repository / "file.txt").write_text("one\nthey\nthree\n")
    commit(repository, "theirs")
    run_git(repository, "switch", "-q", "main")
    (repository / "file.txt").write_text("one\nwe\nthree\n")
    commit(repository, "ours")
    return repository


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    repository = tmp_path / "repository"
    shutil.copytree(template, repository, symlinks=True)
    (repository / "file.txt").write_text("one\nus\nthree\n")
    (repository / "new.txt").write_text("new\n")
    return repository


@pytest.fixture
def git(repository: Path) -> Git:
    return Git(repository, environment=PLAIN)
