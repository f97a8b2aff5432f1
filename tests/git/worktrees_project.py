"""A repository with additional worktrees, for tests."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.git.worktrees import add_worktree
from git.changes_project import Project, create_project


def create_started_project(root: Path) -> Project:
    """Create a repository with one commit on main."""
    project = create_project(root)
    project.write(".gitignore", content="*.log\n")
    project.commit("kept.py", "edited.py", "removed.py", content="before\n")
    return project


def add_tree(project: Project, branch: str = "task", *, base: str | None = None) -> Project:
    """Add a worktree next to the project."""
    path = project.root.parent / f"tree of {branch.replace('/', '-')}"
    add_worktree(project.safe_git, path, branch, base)
    return Project(path)


def list_branches(project: Project) -> list[str]:
    return project.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()


def list_files_at(project: Project, commit: str) -> list[str]:
    listed = project.git("ls-tree", "-r", "-z", "--name-only", commit)
    return sorted(listed.split("\0")[:-1])


def read_content_at(project: Project, commit: str, path: str) -> str:
    return project.git("cat-file", "blob", f"{commit}:{path}")


def list_objects(project: Project) -> list[Path]:
    """List all git object files; not `count-objects`, because disk usage is reported with a delay."""
    return sorted(path for path in (project.root / ".git/objects").rglob("*") if path.is_file())


def read_state(tree: Project) -> tuple[bytes, str, str]:
    """Read the user's state that must not change: the index, HEAD and the status of every file."""
    index = Path(tree.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
    head = tree.git("rev-parse", "--symbolic-full-name", "HEAD") + tree.git("rev-parse", "HEAD")
    return index.read_bytes(), head, tree.git("--no-optional-locks", "status", "--porcelain", "-z")
