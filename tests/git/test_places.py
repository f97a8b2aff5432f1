"""Where the parts of a repository are: our answers from its files, with git as the judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.git.command import Git
from git.conftest import PLAIN, commit, run_git

NAMES = (
    "index", "HEAD", "config", "config.worktree", "objects", "shallow", "packed-refs", "info/exclude",
    "info/attributes", "info/sparse-checkout", "logs/HEAD", "logs/refs/heads/main", "refs/heads/main",
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply/head-name", "worktrees",
)  # fmt: skip


def make_main(folder: Path, *flags: str) -> Path:
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q", "-b", "main", *flags)
    (folder / "file.txt").write_text("one\n")
    commit(folder, "base")
    return folder


def add_tree(main: Path, folder: Path) -> Path:
    run_git(main, "worktree", "add", "-q", "--detach", str(folder))
    return folder


def make_plain(tmp_path: Path) -> Path:
    return make_main(tmp_path / "main")


def make_folder_below(tmp_path: Path) -> Path:
    below = make_plain(tmp_path) / "docs" / "deep"
    below.mkdir(parents=True)
    return below


def make_linked(tmp_path: Path) -> Path:
    return add_tree(make_plain(tmp_path), tmp_path / "linked")


def make_linked_inside(tmp_path: Path) -> Path:
    return add_tree(make_plain(tmp_path), tmp_path / "main" / ".deepwork" / "trees" / "one")


def make_linked_to_bare(tmp_path: Path) -> Path:
    run_git(make_plain(tmp_path), "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    return add_tree(tmp_path / "bare.git", tmp_path / "linked")


def make_submodule(tmp_path: Path) -> Path:
    part, main = make_main(tmp_path / "part"), make_plain(tmp_path)
    run_git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "sub")
    return main / "sub"


def make_linked_to_submodule(tmp_path: Path) -> Path:
    return add_tree(make_submodule(tmp_path), tmp_path / "linked")


def make_separate(tmp_path: Path) -> Path:
    return make_main(tmp_path / "main", f"--separate-git-dir={tmp_path}/elsewhere")


def make_moved_by_link(tmp_path: Path) -> Path:
    main = make_plain(tmp_path)
    (main / ".git").rename(tmp_path / "elsewhere")
    (main / ".git").symlink_to("../elsewhere")
    return main


def make_linked_by_link(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(make_linked(tmp_path))
    return tmp_path / "link"


def make_sha256(tmp_path: Path) -> Path:
    return add_tree(make_main(tmp_path / "main", "--object-format=sha256"), tmp_path / "linked")


def make_odd_name(tmp_path: Path) -> Path:
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/a \xff\n'\"$:"))
    return add_tree(make_main(odd / "main"), odd / "linked ")


def make_pointer_with_more_line_ends(tmp_path: Path) -> Path:
    linked = make_linked(tmp_path)
    for file in (linked / ".git", tmp_path / "main/.git/worktrees/linked/commondir"):
        file.write_bytes(file.read_bytes().rstrip(b"\n") + b"\r\n\n")
    return linked


@pytest.mark.parametrize(
    "make",
    [
        make_plain, make_folder_below, make_linked, make_linked_inside, make_linked_to_bare, make_submodule,
        make_linked_to_submodule, make_separate, make_moved_by_link, make_linked_by_link, make_sha256,
        make_odd_name, make_pointer_with_more_line_ends,
    ],
)  # fmt: skip
def test_places_are_where_git_says(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    folder = make(tmp_path)

    def ask(*question: str) -> Path:
        answer = run_git(folder, "rev-parse", "--path-format=absolute", *question)
        return Path(os.fsdecode(answer.removesuffix(b"\n")))

    git = Git(folder, environment=PLAIN)
    places = git.find_places()

    assert places.top == ask("--show-toplevel")
    assert places.git_dir == ask("--absolute-git-dir")
    assert places.common_dir == ask("--git-common-dir")
    assert {name: places.find(name) for name in NAMES} == {name: ask("--git-path", name) for name in NAMES}
    assert git.is_repository()


def test_an_empty_git_folder_is_no_repository(tmp_path: Path) -> None:
    inside = make_plain(tmp_path) / "inside"
    (inside / ".git").mkdir(parents=True)

    assert not Git(inside, environment=PLAIN).is_repository()


def test_a_pipe_in_place_of_a_file_stops_nothing(tmp_path: Path) -> None:
    linked = make_linked(tmp_path)
    (linked / ".git").unlink()
    os.mkfifo(linked / ".git")

    assert not Git(linked, environment=PLAIN).is_repository()


def test_a_tree_that_is_moved_to_another_repository_is_seen_there(tmp_path: Path) -> None:
    linked, other = make_linked(tmp_path), make_main(tmp_path / "other")
    git = Git(linked, environment=PLAIN)
    assert git.find_places().common_dir == tmp_path / "main/.git"

    (linked / ".git").write_text(f"gitdir: {other}/.git\n")

    assert git.find_places().common_dir == other / ".git"
