"""Commits are read once, as long as the repository has them and they are what their hashes say."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import CommitRecord, find_trees, get_tree, read_commits, resolve_commit
from git.changes_project import Project, create_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = create_project(tmp_path / "project")
    project.commit("a.py", content=str(tmp_path))  # a commit that no other test has
    project.commit("b.py")
    return project


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of git that ran."""
    ran: list[str] = []
    run = Git.run

    def noted(git: Git, *args: str, **given: object) -> bytes:
        ran.append(args[0])
        return run(git, *args, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", noted)
    return ran


def find_object(project: Project, hash: str) -> Path:
    return project.root / ".git/objects" / hash[:2] / hash[2:]


def test_a_commit_has_the_tree_and_the_parents_that_git_says(project: Project) -> None:
    head, parent = project.head(), project.git("rev-parse", "HEAD^")

    found = read_commits(project.safe_git, ["HEAD", "refs/heads/main", head, "HEAD^", "f" * 40, "missing"])

    record = CommitRecord(head, project.git("rev-parse", "HEAD^{tree}"), (parent,))
    assert found.pop("HEAD^").commit == parent
    assert found == {"HEAD": record, "refs/heads/main": record, head: record}
    assert find_trees(project.safe_git, [head]) == {head: record.tree}


@pytest.mark.parametrize("end", ["\v", "\f", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_name_adds_no_parent(project: Project, end: str) -> None:
    """Git takes every character but a line feed for a part of the name."""
    parent, false = project.git("rev-parse", "HEAD^"), project.head()
    text = project.git("cat-file", "commit", "HEAD").replace(
        "author ", f"author A{end}parent {false}{end}", 1
    )

    made = store_commit(project, text)

    assert read_commits(project.safe_git, [made])[made].parents == (parent,)
    assert project.git("log", "-1", "--format=%P", made) == parent


def test_a_parent_below_the_author_is_none(project: Project) -> None:
    text = project.git("cat-file", "commit", "HEAD")
    false = project.head()

    made = store_commit(project, text.replace("\n\n", f"\nparent {false}\n\n", 1))

    found = read_commits(project.safe_git, [made])[made].parents
    assert found == (project.git("log", "-1", "--format=%P", made),)


def store_commit(project: Project, text: str) -> str:
    """Store a commit as it is, also one that git would not make."""
    flags = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    done = subprocess.run(
        ["git", *flags], cwd=project.root, input=text.encode(), capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def test_a_commit_is_read_once(project: Project, programs: list[str]) -> None:
    head = project.head()

    for _ in range(3):
        get_tree(project.safe_git, head)
        resolve_commit(project.safe_git, head)

    assert programs == ["cat-file"]


def test_what_one_repository_has_is_not_taken_for_that_of_another(project: Project, tmp_path: Path) -> None:
    other = create_project(tmp_path / "other")
    other.commit("c.py")
    get_tree(project.safe_git, project.head())

    assert resolve_commit(other.safe_git, project.head()) is None


@pytest.mark.parametrize("is_packed", [False, True], ids=["loose", "packed"])
def test_a_commit_that_the_repository_lost_is_not_found(project: Project, is_packed: bool) -> None:
    if is_packed:
        project.git("repack", "-a", "-d", "-q")
    head = project.head()
    get_tree(project.safe_git, head)

    project.git("reset", "-q", "--hard", "HEAD^")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "-q", "--prune=now")

    assert resolve_commit(project.safe_git, head) is None


def test_a_forged_commit_is_noticed(project: Project) -> None:
    project.git("config", "core.looseCompression", "0")
    project.commit("c.py")
    place = find_object(project, project.head())
    content = zlib.decompress(place.read_bytes())
    other = project.git("rev-parse", "HEAD^^{tree}").encode()
    place.chmod(0o600)
    place.write_bytes(
        zlib.compress(content[: content.index(b"tree ") + 5] + other + content[content.index(b"\nparent") :])
    )

    with pytest.raises(GitError):
        get_tree(project.safe_git, project.git("rev-parse", "main"))
