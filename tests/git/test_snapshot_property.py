"""After any operations, a snapshot contains what `git add --all` would commit."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from deepwork.kernel.git.snapshot import SnapshotStore
from git.changes_project import Project, create_project
from git.snapshot_project import open_snapshots

NAMES = ["a.py", "b.py", "d", "d/a.py", "d/e/b.py", "d/é.py", "x.log", "d/x.log", "y.tmp", "new\nline"]
CONTENTS = ["one\n", "two\n", "same\n", "longer than the others\n"]
RULES = ["*.log\n.deepwork/\n", "*.log\n*.tmp\n.deepwork/\n", ".deepwork/\nd/\n", ".deepwork/\n"]


class Worker:
    """Performs random operations on a working tree."""

    def __init__(self, project: Project, chance: random.Random) -> None:
        self.project = project
        self.chance = chance

    def work(self) -> None:
        doings = [self.write] * 4 + [
            self.delete,
            self.rename,
            self.link,
            self.ignore,
            self.touch,
            self.chmod,
            self.git,
        ]
        self.chance.choice(doings)()

    def write(self) -> None:
        path = self._path()
        self._clear(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.chance.choice(CONTENTS))

    def delete(self) -> None:
        path = self._path()
        if self._is_there(path):
            self._remove(path)

    def rename(self) -> None:
        source, target = self._path(), self._path()
        if self._is_there(source) and not target.is_relative_to(source) and not source.is_relative_to(target):
            self._clear(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)

    def link(self) -> None:
        path = self._path()
        self._clear(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.chance.choice(["a.py", "/nowhere", ".."]))

    def ignore(self) -> None:
        (self.project.root / ".gitignore").write_text(self.chance.choice(RULES))

    def touch(self) -> None:
        path = self._path()
        if self._is_there(path) and path.is_file():
            os.utime(path, (1, 1))

    def chmod(self) -> None:
        path = self._path()
        if self._is_there(path) and path.is_file() and not path.is_symlink():
            path.chmod(self.chance.choice([0o755, 0o644]))

    def git(self) -> None:
        commands = [
            ("add", "-A"), ("commit", "-q", "-m", "work"), ("commit", "-q", "-a", "-m", "work"), ("stash", "-q"),
            ("stash", "pop", "-q"), ("switch", "-q", "-C", "other"), ("switch", "-q", "main"), ("reset", "-q"),
            ("reset", "-q", "--hard", "HEAD~1"), ("merge", "-q", "other"), ("merge", "--abort"), ("rm", "-q", "--cached", "a.py"),
            ("add", "-f", "x.log"), ("add", "-N", "y.tmp"), ("update-index", "--assume-unchanged", "b.py"),
            ("rm", "-q", "--cached", "-r", "d"), ("gc", "-q", "--prune=now"),
        ]  # fmt: skip
        self.project.git(*self.chance.choice(commands), check=False)

    def _path(self) -> Path:
        return self.project.root / self.chance.choice(NAMES)

    def _clear(self, path: Path) -> None:
        """Remove whatever prevents a file of that name or the folders above it."""
        for place in (
            *reversed(path.relative_to(self.project.root).parents),
            path.relative_to(self.project.root),
        ):
            found = self.project.root / place
            if place.parts and (found == path or found.is_symlink() or found.is_file()):
                self._remove(found)

    def _remove(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _is_there(self, path: Path) -> bool:
        """Return whether it exists, and not behind a link."""
        return os.path.lexists(path) and path.parent.resolve() == path.parent


def list_all_files(project: Project, tmp_path: Path) -> list[str]:
    """Return what git itself would commit, using a copy of everything."""
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(project.root, copy, symlinks=True)
    there = Project(copy)
    there.git("update-index", "--no-assume-unchanged", "b.py", check=False)
    there.git("add", "-A")
    return there.git("ls-tree", "-r", "-z", there.git("write-tree")).split("\0")


def list_tree(project: Project, snapshots: SnapshotStore) -> list[str]:
    tree = snapshots.take().tree
    list_objects = {
        "GIT_OBJECT_DIRECTORY": str(project.root / ".deepwork/snapshots/objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(project.root / ".git/objects"),
    }
    shown = project.safe_git.run("ls-tree", "-r", "-z", tree, env=list_objects)
    return os.fsdecode(shown).strip().split("\0")


@pytest.mark.parametrize("seed", [3, 5, 18, 23])
def test_a_snapshot_is_what_git_would_commit(tmp_path: Path, seed: int) -> None:
    project = create_project(tmp_path / "project")
    project.write(".gitignore", content=RULES[0])
    project.commit("a.py", "d/a.py", "d/e/b.py", content="one\n")
    worker = Worker(project, random.Random(seed))
    snapshots = open_snapshots(project)

    for step in range(25):
        for _ in range(worker.chance.randint(1, 4)):
            worker.work()

        assert list_tree(project, snapshots) == list_all_files(project, tmp_path), f"after step {step}"
