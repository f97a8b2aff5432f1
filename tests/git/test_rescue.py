"""Uncommitted work is saved completely, and its working tree stays unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.git.rescue import is_dirty, rescue
from git.changes_project import Project, create_project
from git.worktrees_project import (
    add_tree,
    create_started_project,
    list_branches,
    list_files_at,
    read_content_at,
    read_state,
)

ODD = [
    "sp ace.py",
    "new\nline.py",
    "é日本.py",
    os.fsdecode(b"\xff.py"),
    "-dash.py",
    ":(top)magic.py",
    "st*r[x]?.py",
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_started_project(tmp_path / "project")


@pytest.fixture
def tree(project: Project) -> Project:
    return add_tree(project)


def test_a_clean_tree_has_nothing_to_rescue(tree: Project) -> None:
    tree.write("ignored.log")

    assert not is_dirty(tree.safe_git)
    assert rescue(tree.safe_git, "task") is None
    assert list_branches(tree) == ["main", "task"]


def test_all_uncommitted_work_is_saved(tree: Project) -> None:
    tree.write("edited.py", "new.py", "new/folder.py", *ODD, content="written\n")
    tree.stage("staged.py")
    tree.write("ignored.log")
    tree.remove("removed.py")
    before = read_state(tree)

    assert is_dirty(tree.safe_git)
    saved = rescue(tree.safe_git, "task")

    assert saved == "deepwork/rescue/task-1"
    assert list_files_at(tree, saved) == sorted(
        [".gitignore", "edited.py", "kept.py", "new.py", "new/folder.py", "staged.py", *ODD]
    )
    assert read_content_at(tree, saved, "edited.py") == "written"
    assert tree.git("rev-parse", f"{saved}^") == tree.head()
    assert read_state(tree) == before


def test_the_commit_names_deepwork_as_its_author(tree: Project) -> None:
    tree.write("new.py")

    saved = rescue(tree.safe_git, "task")

    assert tree.git("log", "-1", "--format=%an <%ae> %cn: %s", str(saved)) == (
        "deepwork <deepwork@localhost> deepwork: Uncommitted work of task, saved by deepwork"
    )


def test_each_rescue_has_its_own_branch(tree: Project) -> None:
    tree.write("new.py", content="one\n")
    first = rescue(tree.safe_git, "task")
    tree.write("new.py", content="two\n")
    second = rescue(tree.safe_git, "task")

    assert (first, second) == ("deepwork/rescue/task-1", "deepwork/rescue/task-2")
    assert [read_content_at(tree, str(saved), "new.py") for saved in (first, second)] == ["one", "two"]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("deepwork", "deepwork-rescue/task-1"),
        ("deepwork/rescue", "deepwork-rescue/task-1"),
        ("deepwork/rescue/task-1/inner-1", "deepwork/rescue/task-2"),
    ],
)
def test_a_conflicting_branch_name_is_avoided(tree: Project, there: str, expected: str) -> None:
    tree.git("branch", there)
    tree.write("new.py")

    assert rescue(tree.safe_git, "task") == expected


def test_staged_work_that_differs_from_the_files_is_saved_too(tree: Project) -> None:
    tree.stage("edited.py", content="staged\n")
    tree.write("edited.py", content="written later\n")
    tree.stage("gone.py", content="staged, then deleted\n")
    tree.remove("gone.py")

    saved = str(rescue(tree.safe_git, "task"))

    assert read_content_at(tree, saved, "edited.py") == "written later"
    assert "gone.py" not in list_files_at(tree, saved)
    assert read_content_at(tree, f"{saved}^", "edited.py") == "staged"
    assert read_content_at(tree, f"{saved}^", "gone.py") == "staged, then deleted"
    assert tree.git("rev-parse", f"{saved}^^") == tree.head()


def test_staged_work_that_the_files_reverted_is_saved(tree: Project) -> None:
    tree.stage("edited.py", content="staged\n")
    tree.write("edited.py", content="before\n")

    saved = str(rescue(tree.safe_git, "task"))

    assert read_content_at(tree, f"{saved}^", "edited.py") == "staged"
    assert read_content_at(tree, saved, "edited.py") == "before"


def test_commits_of_a_detached_head_are_reachable(tree: Project) -> None:
    tree.git("checkout", "-q", "--detach")
    tree.commit("loose.py")
    loose = tree.head()

    only_commits = str(rescue(tree.safe_git, "task"))
    tree.write("new.py")
    with_files = str(rescue(tree.safe_git, "task"))

    assert tree.git("rev-parse", only_commits) == loose
    assert tree.git("rev-parse", f"{with_files}^") == loose
    assert tree.git("symbolic-ref", "HEAD", check=False) == ""


def test_a_detached_head_on_a_branch_needs_no_rescue(tree: Project) -> None:
    tree.git("checkout", "-q", "--detach")

    assert rescue(tree.safe_git, "task") is None


def test_a_merge_in_progress_is_saved_with_both_parents(project: Project, tree: Project) -> None:
    tree.commit("kept.py", content="theirs\n")
    project.commit("kept.py", content="ours\n")
    tree.git("merge", "main", check=False)
    before = read_state(tree)

    saved = str(rescue(tree.safe_git, "task"))

    assert "<<<<<<<" in read_content_at(tree, saved, "kept.py")
    assert tree.git("rev-parse", f"{saved}^1", f"{saved}^2").split() == [tree.head(), project.head()]
    assert read_state(tree) == before
    assert "Unmerged paths" in tree.git("status")


def test_a_rebase_in_progress_is_saved(project: Project, tree: Project) -> None:
    tree.commit("first.py")
    tree.commit("kept.py", content="theirs\n")
    project.commit("kept.py", content="ours\n")
    tree.git("rebase", "main", check=False)
    tree.write("new.py")

    saved = str(rescue(tree.safe_git, "task"))

    assert {"first.py", "new.py", "kept.py"} <= set(list_files_at(tree, saved))


def test_a_locked_index_does_not_prevent_a_rescue(tree: Project) -> None:
    tree.write("new.py")
    Path(tree.git("rev-parse", "--path-format=absolute", "--git-path", "index.lock")).touch()

    assert "new.py" in list_files_at(tree, str(rescue(tree.safe_git, "task")))


def test_work_before_the_first_commit_is_saved(tmp_path: Path) -> None:
    empty = create_project(tmp_path / "empty")
    assert rescue(empty.safe_git, "main") is None
    empty.write("new.py")

    saved = str(rescue(empty.safe_git, "main"))

    assert list_files_at(empty, saved) == ["new.py"]
    assert empty.git("rev-list", "--count", saved) == "1"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_changes_hidden_from_git_are_saved(tree: Project, flag: str) -> None:
    tree.git("update-index", flag, "edited.py")
    tree.write("edited.py", content="changed behind a flag\n")

    assert is_dirty(tree.safe_git)
    assert read_content_at(tree, str(rescue(tree.safe_git, "task")), "edited.py") == "changed behind a flag"
    assert tree.git("ls-files", "-v", "edited.py")[0] in "hS"


@pytest.mark.parametrize("sparse_index", ["--sparse-index", "--no-sparse-index"])
def test_files_not_checked_out_are_not_mistaken_for_deleted(project: Project, sparse_index: str) -> None:
    project.commit("in/file.py", "out/file.py", "out/other.py")
    tree = add_tree(project, "sparse")
    tree.git("sparse-checkout", "set", "--cone", sparse_index, "in")
    assert not is_dirty(tree.safe_git)
    tree.write("in/new.py", "out/new.py")

    saved = str(rescue(tree.safe_git, "sparse"))

    assert set(list_files_at(tree, saved)) - set(list_files_at(tree, "HEAD")) == {"in/new.py", "out/new.py"}
    assert set(list_files_at(tree, "HEAD")) <= set(list_files_at(tree, saved))


def test_a_split_index_stays_split(tree: Project) -> None:
    tree.git("update-index", "--split-index")
    tree.write("new.py", "edited.py")
    before = read_state(tree)

    saved = str(rescue(tree.safe_git, "task"))

    assert "new.py" in list_files_at(tree, saved)
    assert read_state(tree) == before


def test_line_endings_do_not_prevent_a_rescue(tree: Project) -> None:
    tree.git("config", "core.safecrlf", "true")
    tree.git("config", "core.autocrlf", "input")
    (tree.root / "windows.txt").write_bytes(b"one\r\ntwo\r\n")

    assert "windows.txt" in list_files_at(tree, str(rescue(tree.safe_git, "task")))


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_nested_repository_is_left_out(tree: Project, has_commit: bool) -> None:
    inner = create_project(tree.root / "inner")
    inner.write("work.py")
    if has_commit:
        inner.commit()
    tree.write("new.py")

    assert is_dirty(tree.safe_git)
    assert set(list_files_at(tree, str(rescue(tree.safe_git, "task")))) - set(
        list_files_at(tree, "HEAD")
    ) == {"new.py"}


def test_a_moved_submodule_is_saved_as_its_commit(project: Project, tmp_path: Path) -> None:
    inner = create_started_project(tmp_path / "inner")
    project.git("submodule", "--quiet", "add", str(inner.root), "sub")
    project.commit()
    sub = project.below("sub")
    sub.commit("more.py")

    saved = str(rescue(project.safe_git, "main"))

    assert sub.head() in project.git("ls-tree", saved, "sub")


def test_a_file_that_git_cannot_add_is_an_error(tree: Project) -> None:
    tree.write(".gitattributes", content="odd.txt working-tree-encoding=UTF-16\n")
    tree.write("odd.txt", "new.py")

    with pytest.raises(GitError, match=r"odd\.txt"):
        rescue(tree.safe_git, "task")

    assert list_branches(tree) == ["main", "task"]


def test_links_and_modes_are_saved(tree: Project) -> None:
    (tree.root / "link").symlink_to("/nowhere")
    tree.write("run.sh")
    (tree.root / "run.sh").chmod(0o755)

    listed = tree.git("ls-tree", str(rescue(tree.safe_git, "task")), "link", "run.sh")

    assert [line.split()[0] for line in listed.splitlines()] == ["120000", "100755"]


def test_a_folder_that_is_not_a_working_tree_has_no_work(project: Project) -> None:
    project.write("new.py", "folder/new.py")

    assert rescue(project.below("folder").safe_git, "task") is None
    assert is_dirty(project.below("folder").safe_git)


@pytest.mark.parametrize("branch", ["-x", "", "a..b"])
def test_a_rescue_needs_a_valid_branch_name(tree: Project, branch: str) -> None:
    tree.write("new.py")

    with pytest.raises(InvalidInput):
        rescue(tree.safe_git, branch)
