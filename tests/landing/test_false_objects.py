"""Objects that are replaced while a landing reads them do not change what lands."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from checks.make import replace_object
from deepwork.kernel.errors import GitError
from deepwork.kernel.programs import run_bounded
from landing.make import LandingProject
from workspaces.make import commit, run_git

LINES = [f"{number}\n" for number in range(9)]


@contextmanager
def act_while(
    monkeypatch: pytest.MonkeyPatch, command: str, before: Callable[[], object], after: Callable[[], object]
) -> Iterator[None]:
    """Act right before git runs a command, and again when it has ended."""

    def run(argv: list[str], **more: Any) -> Any:
        if command not in argv:
            return run_bounded(argv, **more)
        before()
        try:
            return run_bounded(argv, **more)
        finally:
            after()

    with monkeypatch.context() as patched:
        patched.setattr("deepwork.kernel.git.command.run_bounded", run)
        yield


def swap(folder: Path, name: str, other: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what stores the content of another object under a name, and what undoes it."""
    place = folder / ".git/objects" / name[:2] / name[2:]
    content = place.read_bytes()

    def restore() -> None:
        place.unlink()
        place.write_bytes(content)

    return lambda: replace_object(folder, name, other), restore


def test_a_tree_that_is_replaced_while_git_merges_lands_nothing(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what the first task did would vanish when the second one lands."""
    plan = project.plan_done({"first": {"x_txt": "x\n"}, "second": {"y_txt": "y\n"}})
    evil = project.commit_on("desk", evil_txt="evil\n")
    tree = project.git("rev-parse", f"{plan.get_branch('second')}^{{tree}}")
    replace, restore = swap(project.folder, tree, f"{evil}^{{tree}}")

    with act_while(monkeypatch, "merge-tree", replace, restore), pytest.raises(GitError, match="otherwise"):
        project.land(workflow_id=plan.id)

    assert project.list_landed() == []
    assert project.land(workflow_id=plan.id)["exit_code"] == 0
    assert project.git("ls-tree", "-r", "--name-only", "main").split()[-2:] == ["x.txt", "y.txt"]


def prepare_both_sides(project: LandingProject, *, rename: bool = False) -> Any:
    """Let two tasks change one file, so that git has to merge its contents."""
    project.git("checkout", "-q", "main")
    commit(project.folder, long_txt="".join(LINES))
    first, last = "".join(["first\n", *LINES[1:]]), "".join([*LINES[:-1], "last\n"])
    plan = project.plan({"first": None, "last": None})
    tree = Path(plan.claim("first")["workspace_path"])
    if rename:
        (tree / "long.txt").rename(tree / "other.txt")
    commit(tree, **{"other_txt" if rename else "long_txt": first})
    plan.complete("first")
    project.do(plan, "last", long_txt=last)
    return plan


@pytest.mark.parametrize("rename", [False, True], ids=["same_file", "renamed"])
def test_contents_that_both_sides_changed_are_merged(project: LandingProject, *, rename: bool) -> None:
    plan = prepare_both_sides(project, rename=rename)

    answer = project.land(workflow_id=plan.id)

    assert (answer["exit_code"], project.list_landed()) == (0, ["first", "last"])
    merged = ["first", *(line.strip() for line in LINES[1:-1]), "last"]
    assert project.read("other.txt" if rename else "long.txt").split() == merged
    assert rename == ("long.txt" not in project.git("ls-tree", "--name-only", "main").split())


def test_a_file_that_is_replaced_while_git_merges_it_lands_nothing(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepare_both_sides(project)
    evil = project.commit_on("desk", evil_txt="".join([*LINES[:4], "evil\n", *LINES[5:-1], "last\n"]))
    blob = project.git("rev-parse", f"{plan.get_branch('last')}:long.txt")
    replace, restore = swap(project.folder, blob, f"{evil}:evil.txt")

    with act_while(monkeypatch, "merge-tree", replace, restore), pytest.raises(GitError, match="otherwise"):
        project.land(workflow_id=plan.id)

    assert project.list_landed() == []


def test_a_file_whose_content_does_not_fit_its_hash_does_not_land(project: LandingProject) -> None:
    """No check reads it, so nothing else would compare it; what reads the branch later would get it."""
    plan = project.plan_done({"only": {"a_txt": "good\n"}})
    evil = project.commit_on("desk", evil_txt="evil\n")
    blob = project.git("rev-parse", f"{plan.get_branch('only')}:a.txt")
    replace, restore = swap(project.folder, blob, f"{evil}:evil.txt")
    replace()

    with pytest.raises(GitError, match="damaged"):
        project.land(workflow_id=plan.id)

    assert project.list_landed() == []
    restore()
    assert project.land(workflow_id=plan.id)["exit_code"] == 0


@pytest.mark.parametrize("place", ["object", "commit_graph"])
def test_a_false_history_takes_nothing_away_from_the_target(
    project: LandingProject, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """With another merge base, git would take what the target got for something that the task removed."""
    plan = project.plan({"only": None})
    tree = Path(plan.claim("only")["workspace_path"])
    first, last = commit(tree, a_txt="a\n"), commit(tree, b_txt="b\n")
    plan.complete("only")
    added = project.commit_on("main", important_txt="important\n")
    old = project.git("rev-parse", f"{first}^")
    text = project.git("cat-file", "commit", first).replace(old, added)
    replace, restore = swap_commit(project.folder, first, text)
    if place == "commit_graph":
        replace()
        project.git("commit-graph", "write", "--reachable")
        restore()
        replace = restore = lambda: None
        assert project.git("merge-base", last, "main") == added

    with act_while(monkeypatch, "merge-tree", replace, restore), suppress(GitError):
        project.land(workflow_id=plan.id)
    project.land(workflow_id=plan.id)

    assert project.list_landed() == ["only"]
    assert project.read("important.txt") == "important"


def test_a_name_that_reads_like_a_parent_takes_nothing_away_from_the_target(project: LandingProject) -> None:
    """The name of an author may contain everything but a line feed; git takes none of it for a parent."""
    plan = project.plan({"only": None})
    tree = Path(plan.claim("only")["workspace_path"])
    added = project.commit_on("main", important_txt="important\n")
    commit(tree, a_txt="a\n")
    author = f"Ada\u2028parent {added}\u2028Ada <ada@example.org>"
    run_git(tree, "commit", "-q", "--amend", "--no-edit", f"--author={author}")
    plan.complete("only")

    project.land(workflow_id=plan.id)

    assert project.list_landed() == ["only"]
    assert project.read("important.txt") == "important"


def swap_commit(folder: Path, name: str, text: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return what stores a text under the name of a commit, and what undoes it."""
    place = folder / ".git/objects" / name[:2] / name[2:]
    content = place.read_bytes()

    def replace() -> None:
        place.unlink()
        place.write_bytes(zlib.compress(f"commit {len(text)}\0{text}".encode()))

    def restore() -> None:
        place.unlink()
        place.write_bytes(content)

    return replace, restore
