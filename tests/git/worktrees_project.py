"""A repository with additional working trees, worked on as a person would."""

from __future__ import annotations

from pathlib import Path

from deepwork.git.worktrees import add_worktree
from git.changes_project import Project, new_project


def started_project(root: Path) -> Project:
    """A repository with one commit, on main."""
    project = new_project(root)
    project.write(".gitignore", content="*.log\n")
    project.commit("kept.py", "edited.py", "removed.py", content="before\n")
    return project


def tree_of(project: Project, branch: str = "task", *, base: str | None = None) -> Project:
    """A new working tree next to the project."""
    path = project.root.parent / f"tree of {branch.replace('/', '-')}"
    add_worktree(project.asked, path, branch, base)
    return Project(path)


def branches(project: Project) -> list[str]:
    return project.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()


def files_at(project: Project, commit: str) -> list[str]:
    listed = project.git("ls-tree", "-r", "-z", "--name-only", commit)
    return sorted(listed.split("\0")[:-1])


def content_at(project: Project, commit: str, path: str) -> str:
    return project.git("cat-file", "blob", f"{commit}:{path}")


def objects(project: Project) -> list[Path]:
    """All that git keeps of the project; not `count-objects`, for a disk says only later how much they take."""
    return sorted(path for path in (project.root / ".git/objects").rglob("*") if path.is_file())


def state_of(tree: Project) -> tuple[bytes, str, str]:
    """What must not change behind the user's back: the index, HEAD and every file's status."""
    index = Path(tree.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
    head = tree.git("rev-parse", "--symbolic-full-name", "HEAD") + tree.git("rev-parse", "HEAD")
    return index.read_bytes(), head, tree.git("--no-optional-locks", "status", "--porcelain", "-z")
