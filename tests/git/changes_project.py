"""A git repository for tests; `git` runs plain git, `safe_git` is the code under test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deepwork.kernel.git.changes import ChangedFiles, FileListing, find_changed_files, list_files
from deepwork.kernel.git.command import Git

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.safe_git = Git(root, environment=ENVIRONMENT)

    def git(self, *args: str, input: bytes | None = None, check: bool = True) -> str:
        """Run plain git."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.root,
            env=ENVIRONMENT,
            input=input,
            capture_output=True,
            check=check,
            timeout=100,
        )
        return os.fsdecode(done.stdout).strip()

    def write(self, *names: str, content: str = "written\n") -> None:
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def stage(self, *names: str, content: str = "staged\n") -> None:
        self.write(*names, content=content)
        self.git("add", "-A", "--", *(f":(literal){name}" for name in names))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.root / name).unlink()

    def commit(self, *names: str, content: str = "committed\n") -> None:
        """Commit these files and all other changes."""
        self.write(*names, content=content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "work")

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def changes(self, base_ref: str | None = None) -> ChangedFiles:
        return find_changed_files(self.safe_git, base_ref)

    def changed(self, base_ref: str | None = None) -> list[str]:
        return list(self.changes(base_ref).files)

    def listing(self) -> FileListing:
        return list_files(self.safe_git)

    def below(self, name: str) -> Project:
        return Project(self.root / name)


def create_project(root: Path, *options: str) -> Project:
    """Create a repository without a commit."""
    root.mkdir(parents=True, exist_ok=True)
    project = Project(root)
    project.git("init", "-q", "-b", "main", "--template=", *options)
    return project
