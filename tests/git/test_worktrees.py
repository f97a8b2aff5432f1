"""Each worktree gets its own branch, and no work is lost when it is removed."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepwork.kernel.errors import DeepworkError, GitError, InvalidInput, NotAllowed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.rescue import rescue
from deepwork.kernel.git.worktrees import (
    add_worktree,
    find_worktree,
    get_main_root,
    list_worktrees,
    remove_worktree,
)
from git.changes_project import ENVIRONMENT, Project, create_project
from git.conftest import run_git
from git.test_git_hostile import CASES, Trap
from git.waiting import pass_time_after
from git.worktrees_project import add_tree, create_started_project, list_branches, list_files_at


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create_started_project(tmp_path / "project")


def list_paths(project: Project) -> list[Path]:
    return [tree.path for tree in list_worktrees(project.safe_git)]


# --- adding


def test_a_tree_has_a_new_branch_that_starts_at_head(project: Project, tmp_path: Path) -> None:
    began = add_worktree(project.safe_git, tmp_path / "tree", "task")

    tree = Project(tmp_path / "tree")
    assert began == project.head() == tree.head()
    assert tree.git("branch", "--show-current") == "task"
    assert (tree.root / "kept.py").read_text() == "before\n"


@pytest.mark.parametrize("base", ["old", "v1", "refs/tags/v1", "HEAD~1", "a hash"])
def test_a_tree_may_start_at_another_commit(project: Project, tmp_path: Path, base: str) -> None:
    first = project.head()
    project.git("branch", "old")
    project.git("tag", "-a", "-m", "one", "v1")
    project.commit("later.py")

    began = add_worktree(project.safe_git, tmp_path / "tree", "task", first if base == "a hash" else base)

    assert began == first
    assert not (tmp_path / "tree" / "later.py").exists()


def test_the_branch_tracks_no_other(project: Project, tmp_path: Path) -> None:
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("config", "branch.autoSetupMerge", "always")

    add_worktree(project.safe_git, tmp_path / "tree", "task", "origin/main")

    assert "branch.task" not in project.git("config", "--list")


def test_before_the_first_commit_there_is_no_start(tmp_path: Path) -> None:
    empty = create_project(tmp_path / "empty")

    with pytest.raises(NotAllowed, match="no commit yet"):
        add_worktree(empty.safe_git, tmp_path / "tree", "task")

    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize(
    "base", ["missing", "-x", "--all", "a..b", "new\nline", "nul\0", "HEAD:kept.py", "\ud800"]
)
def test_a_base_that_is_not_a_commit_is_named_in_the_error(
    project: Project, tmp_path: Path, base: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        add_worktree(project.safe_git, tmp_path / "tree", "task", base)

    assert repr(base) in refused.value.message
    assert list_branches(project) == ["main"]


@pytest.mark.parametrize(
    "branch",
    ["", "-x", "--force", "a b", "a..b", "a@{1}", "@{-1}", "@", "HEAD", "a.lock", "a/", "/a", "a//b", "a~1", "a:b",
     "a?", "a*", "a[b", "a\\b", "new\nline", "nul\0", "del\x7f", ".a", "a.", "x" * 201, "é" * 150, "\ud800",
     "0123456789012345678901234567890123456789"],
)  # fmt: skip
def test_a_name_that_git_rejects_is_refused(project: Project, tmp_path: Path, branch: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        add_worktree(project.safe_git, tmp_path / "tree", branch)

    assert repr(branch[:200]) in refused.value.message
    assert (list_branches(project), list_paths(project)) == (["main"], [project.root])


@pytest.mark.parametrize("branch", ["deepwork/fix-login", "é日本", "a@b", "x" * 200, "refs/heads/x", "tag"])
def test_other_names_are_accepted(project: Project, tmp_path: Path, branch: str) -> None:
    project.git("tag", "tag")
    project.commit("after.py")

    add_worktree(project.safe_git, tmp_path / "tree", branch)

    assert find_worktree(project.safe_git, tmp_path / "tree").branch == branch  # type: ignore[union-attr]
    assert Project(tmp_path / "tree").head() == project.head()


@pytest.mark.parametrize(
    "name", ["é日本", "new\nline", "-dash", " ", 'quote"', "co:lon", os.fsdecode(b"\xff")]
)
def test_a_tree_may_have_any_path(project: Project, tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "tree"

    add_worktree(project.safe_git, path, "task")

    found = find_worktree(project.safe_git, path)
    assert found is not None
    assert (found.path, found.branch) == (path, "task")
    assert remove_worktree(project.safe_git, path) is None
    assert list_paths(project) == [project.root]


def test_a_relative_path_is_below_the_project(project: Project) -> None:
    project.write(".gitignore", content="trees/\n")

    add_worktree(project.safe_git.at(project.root), Path("trees/one"), "task")

    assert list_paths(project)[1] == project.root / "trees/one"


def test_an_existing_branch_is_used_only_on_request(project: Project, tmp_path: Path) -> None:
    first = project.head()
    project.git("switch", "-q", "-c", "task")
    project.commit("work.py")
    work = project.head()
    project.git("switch", "-q", "main")
    project.commit("meanwhile.py")

    with pytest.raises(InvalidInput, match="branch 'task' already"):
        add_worktree(project.safe_git, tmp_path / "tree", "task")
    began = add_worktree(project.safe_git, tmp_path / "tree", "task", existing=True)

    assert began == first
    assert Project(tmp_path / "tree").head() == work


def test_a_branch_in_use_is_refused_with_its_location(project: Project, tmp_path: Path) -> None:
    tree = add_tree(project)

    for branch, place in (("main", project.root), ("task", tree.root)):
        with pytest.raises(InvalidInput) as refused:
            add_worktree(project.safe_git, tmp_path / "another", branch, existing=True)
        assert str(place) in refused.value.message


def test_a_branch_of_another_history_has_no_start(project: Project, tmp_path: Path) -> None:
    project.git("branch", "other", project.git("commit-tree", "-m", "other", "HEAD^{tree}"))

    with pytest.raises(InvalidInput, match="no commit in common"):
        add_worktree(project.safe_git, tmp_path / "tree", "other", existing=True)


@pytest.mark.parametrize(("there", "wanted"), [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")])
def test_a_branch_cannot_be_a_folder_of_branches(
    project: Project, tmp_path: Path, there: str, wanted: str
) -> None:
    project.git("branch", there)

    with pytest.raises(InvalidInput, match=f"'{wanted}' cannot exist beside the branch '{there}'"):
        add_worktree(project.safe_git, tmp_path / "tree", wanted)


def test_an_occupied_path_is_not_changed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    for name in ("full", "file"):
        with pytest.raises(InvalidInput, match="not an empty folder"):
            add_worktree(project.safe_git, tmp_path / name, "task")

    assert (tmp_path / "full" / "mine.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    assert list_branches(project) == ["main"]


def test_an_empty_folder_can_be_used(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    add_worktree(project.safe_git, tmp_path / "empty", "task")

    assert (tmp_path / "empty" / "kept.py").exists()


@pytest.mark.parametrize("inside", [".git", ".git/tree", ".git/worktrees/x", "../link/tree"])
def test_no_tree_is_created_inside_git(project: Project, inside: str) -> None:
    (project.root.parent / "link").symlink_to(project.root / ".git")

    with pytest.raises(InvalidInput, match="git directory"):
        add_worktree(project.safe_git, project.root / inside, "task")


def test_a_tree_that_cannot_be_finished_leaves_nothing(project: Project, tmp_path: Path) -> None:
    project.commit("damaged.py", content="to be lost\n")
    blob = project.git("rev-parse", "HEAD:damaged.py")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(GitError):
        add_worktree(project.safe_git, tmp_path / "new" / "folder" / "tree", "task")

    assert (list_branches(project), list_paths(project)) == (["main"], [project.root])
    assert not (tmp_path / "new").exists()


def test_a_tree_that_took_too_long_leaves_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, made = tmp_path / "slow", tmp_path / "made"
    slow.write_text(
        f'#!/bin/sh\ngit "$@"\ncase "$*" in *"worktree add"*) echo it is > {made}; sleep 600;; esac\n'
    )
    slow.chmod(0o755)
    pass_time_after(made, monkeypatch)
    git = Git(project.root, environment=ENVIRONMENT, program=str(slow), timeout=600)

    with pytest.raises(GitError, match="took longer"):
        add_worktree(git, tmp_path / "tree", "task")

    assert (list_branches(project), list_paths(project)) == (["main"], [project.root])
    assert not (tmp_path / "tree").exists()


def test_an_existing_branch_survives_a_failure(project: Project, tmp_path: Path) -> None:
    project.commit("damaged.py", content="to be lost\n")
    project.git("branch", "task")
    blob = project.git("rev-parse", "HEAD:damaged.py")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(GitError):
        add_worktree(project.safe_git, tmp_path / "tree", "task", existing=True)

    assert list_branches(project) == ["main", "task"]


def test_only_one_of_many_concurrent_additions_of_a_path_succeeds(project: Project, tmp_path: Path) -> None:
    def attempt(number: int) -> str:
        try:
            add_worktree(project.safe_git.at(project.root), tmp_path / "tree", f"task-{number}")
        except DeepworkError:
            return ""
        return f"task-{number}"

    with ThreadPoolExecutor(6) as threads:
        won = [name for name in threads.map(attempt, range(6)) if name]

    assert len(won) == 1
    assert list_branches(project) == ["main", *won]
    assert (tmp_path / "tree" / "kept.py").exists()


def test_a_tree_deleted_by_hand_makes_room_for_a_new_one(project: Project) -> None:
    tree = add_tree(project)
    shutil.rmtree(tree.root)

    add_worktree(project.safe_git, tree.root, "another")
    add_worktree(project.safe_git, tree.root.parent / "again", "task", existing=True)

    assert {found.branch for found in list_worktrees(project.safe_git)} == {"main", "task", "another"}


# --- listing


def test_the_list_shows_the_branch_and_commit_of_each_tree(project: Project) -> None:
    tree, detached = add_tree(project), add_tree(project, "loose")
    detached.git("checkout", "-q", "--detach")
    tree.git("worktree", "lock", "--reason", "on a\nstick", str(tree.root))

    main, *others = list_worktrees(project.safe_git)

    assert (main.path, main.branch, main.is_main, main.is_locked) == (project.root, "main", True, False)
    found = {other.path: other for other in others}
    assert found[detached.root].branch is None
    assert found[detached.root].head == project.head()
    assert (found[tree.root].branch, found[tree.root].is_main) == ("task", False)
    assert (found[tree.root].is_locked, found[tree.root].lock_reason) == (True, "on a\nstick")


def test_a_branch_without_a_commit_has_no_head(tmp_path: Path) -> None:
    empty = create_project(tmp_path / "empty")

    (main,) = list_worktrees(empty.safe_git)

    assert (main.branch, main.head) == ("main", None)


def test_the_main_tree_is_found_from_anywhere(project: Project) -> None:
    tree = add_tree(project)
    tree.write("deep/down/file.py")

    for place in (project.root, tree.root, tree.root / "deep/down"):
        assert get_main_root(project.safe_git.at(place)) == project.root


def test_the_main_tree_of_a_submodule_is_where_its_files_are(project: Project, tmp_path: Path) -> None:
    inner = create_started_project(tmp_path / "inner")
    project.git("submodule", "--quiet", "add", str(inner.root), "sub")
    sub = project.below("sub")
    tree = add_tree(sub)

    assert get_main_root(sub.safe_git) == get_main_root(tree.safe_git) == sub.root


def test_a_bare_repository_has_no_main_tree(project: Project, tmp_path: Path) -> None:
    project.git("clone", "-q", "--bare", str(project.root), str(tmp_path / "bare"))
    bare = Project(tmp_path / "bare")
    bare.git("worktree", "add", "-q", str(tmp_path / "tree"), "main")

    with pytest.raises(GitError, match="bare"):
        get_main_root(bare.safe_git.at(tmp_path / "tree"))


def test_a_path_that_is_not_a_tree_is_not_found(project: Project) -> None:
    tree = add_tree(project)

    assert find_worktree(project.safe_git, tree.root / "below") is None
    assert find_worktree(project.safe_git, project.root.parent) is None


def link_head(project: Project) -> None:
    """Let HEAD be a link, as it was long ago: only git reads it."""
    head = project.root / ".git/HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")


def test_git_lists_the_trees_as_their_files_do(project: Project, tmp_path: Path) -> None:
    add_tree(project)
    gone, loose = add_tree(project, "gone"), add_tree(project, "loose")
    loose.git("checkout", "-q", "--detach")
    loose.git("worktree", "lock", "--reason", "because", str(loose.root))
    shutil.rmtree(gone.root)
    run_git(project.root, "worktree", "add", "-q", "--orphan", "-b", "x", str(tmp_path / "x"), check=False)
    listed = list_worktrees(project.safe_git)

    link_head(project)

    asked = list_worktrees(project.safe_git)
    assert asked[0] == listed[0]
    assert sorted(asked, key=str) == sorted(listed, key=str)
    assert len(listed) >= 4


def test_an_old_git_is_reported(project: Project, tmp_path: Path) -> None:
    link_head(project)
    old = tmp_path / "old-git"
    old.write_text(
        '#!/bin/sh\ncase "$*" in *version*) echo git version 2.31.1;; *"list --porcelain -z"*) exit 129;; *) exec git "$@";; esac\n'
    )
    old.chmod(0o755)

    with pytest.raises(GitError, match=r"needs git 2\.36 or newer; this is git 2\.31\.1"):
        list_worktrees(Git(project.root, environment=ENVIRONMENT, program=str(old)))


# --- removing


def test_a_clean_tree_is_removed_and_its_branch_stays(project: Project) -> None:
    tree = add_tree(project)
    tree.commit("work.py")
    tree.write("ignored.log")

    assert remove_worktree(project.safe_git, tree.root) is None

    assert not tree.root.exists()
    assert list_paths(project) == [project.root]
    assert "work.py" in list_files_at(project, "task")


def test_a_tree_can_be_removed_from_within(project: Project) -> None:
    tree = add_tree(project)

    remove_worktree(tree.safe_git, tree.root)

    assert not tree.root.exists()


@pytest.mark.parametrize(
    "kind", ["changed", "staged", "new", "deleted", "new folder", "hidden", "skipped", "merging"]
)
def test_a_tree_with_uncommitted_work_is_not_removed(project: Project, kind: str) -> None:
    tree = add_tree(project)
    if kind == "merging":
        tree.commit("kept.py", content="theirs\n")
        project.commit("kept.py", content="ours\n")
        tree.git("merge", "main", check=False)
    elif kind in ("hidden", "skipped"):
        flag = "--assume-unchanged" if kind == "hidden" else "--skip-worktree"
        tree.git("update-index", flag, "edited.py")
        tree.write("edited.py", content="changed behind a flag\n")
    elif kind == "deleted":
        tree.remove("removed.py")
    else:
        {"changed": tree.write, "staged": tree.stage, "new": tree.write, "new folder": tree.write}[kind](
            {"new": "new.py", "new folder": "new/folder.py"}.get(kind, "edited.py")
        )

    with pytest.raises(NotAllowed, match="on no branch"):
        remove_worktree(project.safe_git, tree.root)

    assert tree.root.exists()
    assert len(list_paths(project)) == 2


def test_a_tree_whose_work_was_rescued_is_removed(project: Project) -> None:
    tree = add_tree(project)
    tree.write("new.py", "edited.py")
    tree.remove("removed.py")

    saved = rescue(tree.safe_git, "task")
    remove_worktree(project.safe_git, tree.root, rescued=saved)

    assert saved is not None
    assert {"new.py", "edited.py"} <= set(list_files_at(project, saved))
    assert not tree.root.exists()


def test_a_tree_that_changed_after_its_rescue_is_not_removed(project: Project) -> None:
    tree = add_tree(project)
    tree.write("new.py")
    saved = rescue(tree.safe_git, "task")
    tree.write("newer.py")

    for name in (saved, "main", "missing"):
        with pytest.raises(NotAllowed, match="on no branch"):
            remove_worktree(project.safe_git, tree.root, rescued=name)

    assert (tree.root / "newer.py").exists()


def test_a_branch_with_the_same_files_but_without_the_commits_is_not_a_rescue(project: Project) -> None:
    tree = add_tree(project)
    tree.git("checkout", "-q", "--detach")
    tree.commit("loose.py")
    project.git("branch", "same-files", tree.git("commit-tree", "-m", "other", "HEAD^{tree}"))

    with pytest.raises(NotAllowed, match="on no branch"):
        remove_worktree(project.safe_git, tree.root, rescued="same-files")


def test_a_tree_whose_detached_head_holds_unreferenced_commits_is_not_removed(project: Project) -> None:
    tree = add_tree(project)
    tree.git("checkout", "-q", "--detach")
    tree.commit("loose.py")

    with pytest.raises(NotAllowed, match="on no branch"):
        remove_worktree(project.safe_git, tree.root)
    saved = rescue(tree.safe_git, "task")
    remove_worktree(project.safe_git, tree.root)

    assert saved == "deepwork/rescue/task-1"
    assert "loose.py" in list_files_at(project, saved)


def test_only_the_record_is_removed_for_a_tree_deleted_by_hand(project: Project) -> None:
    tree, kept = add_tree(project), add_tree(project, "kept")
    elsewhere = add_tree(project, "elsewhere")
    shutil.rmtree(tree.root)
    shutil.rmtree(elsewhere.root)  # perhaps on a disk that is only unmounted

    assert remove_worktree(project.safe_git, tree.root) is None

    assert set(list_paths(project)) == {project.root, kept.root, elsewhere.root}
    assert "task" in list_branches(project)


def test_unreferenced_commits_of_a_deleted_tree_are_saved(project: Project) -> None:
    tree = add_tree(project)
    tree.git("checkout", "-q", "--detach")
    tree.commit("loose.py")
    shutil.rmtree(tree.root)

    saved = remove_worktree(project.safe_git, tree.root)

    assert saved is not None
    assert "loose.py" in list_files_at(project, saved)


def test_an_emptied_folder_counts_as_deleted(project: Project) -> None:
    tree = add_tree(project)
    shutil.rmtree(tree.root)
    tree.root.mkdir()

    remove_worktree(project.safe_git, tree.root)

    assert list_paths(project) == [project.root]
    assert not tree.root.exists()


def test_a_tree_without_its_git_file_is_not_touched(project: Project) -> None:
    tree = add_tree(project)
    (tree.root / ".git").unlink()

    with pytest.raises(NotAllowed, match=r"lost its \.git"):
        remove_worktree(project.safe_git, tree.root)

    assert (tree.root / "kept.py").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_locked_tree_is_not_removed(project: Project, is_there: bool) -> None:
    tree = add_tree(project)
    project.git("worktree", "lock", "--reason", "on a stick", str(tree.root))
    if not is_there:
        shutil.rmtree(tree.root)

    with pytest.raises(NotAllowed, match="locked: on a stick"):
        remove_worktree(project.safe_git, tree.root)

    assert len(list_paths(project)) == 2


def test_the_main_tree_is_never_removed(project: Project) -> None:
    tree = add_tree(project)

    with pytest.raises(NotAllowed, match="main working tree"):
        remove_worktree(tree.safe_git, project.root)

    assert (project.root / "kept.py").exists()


def test_a_path_that_is_not_a_tree_is_not_removed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(InvalidInput, match="not a worktree"):
        remove_worktree(project.safe_git, tmp_path / "folder")

    assert (tmp_path / "folder").exists()


def test_a_tree_is_removed_with_an_unfetched_submodule_but_not_with_a_fetched_one(
    project: Project, tmp_path: Path
) -> None:
    inner = create_started_project(tmp_path / "inner")
    project.git("submodule", "--quiet", "add", str(inner.root), "sub")
    project.commit()
    fetched, unfetched = add_tree(project, "fetched"), add_tree(project, "unfetched")
    fetched.git("submodule", "--quiet", "update", "--init")

    with pytest.raises(NotAllowed, match="nested repositories: sub"):
        remove_worktree(project.safe_git, fetched.root)
    remove_worktree(project.safe_git, unfetched.root)

    assert (fetched.root / "sub/kept.py").exists()
    assert not unfetched.root.exists()


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_tree_with_a_nested_repository_is_not_removed(project: Project, has_commit: bool) -> None:
    tree = add_tree(project)
    inner = create_project(tree.root / "inner")
    if has_commit:
        inner.commit("work.py")

    with pytest.raises(NotAllowed, match="nested repositories: inner"):
        remove_worktree(project.safe_git, tree.root)


def test_a_tree_that_contains_another_tree_is_not_removed(project: Project) -> None:
    tree = add_tree(project)
    tree.write(".git-is-a-file", content="")
    tree.write(".gitignore", content="inside/\n*.log\n")
    tree.commit()
    add_worktree(tree.safe_git, tree.root / "inside" / "tree", "other")

    with pytest.raises(NotAllowed, match="inside/tree"):
        remove_worktree(project.safe_git, tree.root)


# --- hostile repositories


@pytest.fixture
def trap(repository: Path, tmp_path: Path) -> Trap:
    marker, program = tmp_path / "marker", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    return Trap(repository, program, marker)


@pytest.mark.parametrize(
    "name",
    [
        "hooks",
        "hooks in a directory of the project",
        "only the hook after a checkout",
        "fsmonitor",
        "clean filter",
        "smudge filter",
        "filter process",
        "required filter",
        "filter by .gitattributes",
        "included only in the worktree that is being made",
        "included only on the branch that is being made",
        "settings of the worktree",
        "submodule with a filter of its own",
        "merge driver",
    ],
)
def test_adding_and_removing_a_tree_runs_no_program_of_the_repository(
    trap: Trap, tmp_path: Path, name: str
) -> None:
    CASES[name](trap)
    trap.marker.unlink(missing_ok=True)
    git = Git(trap.repository, environment=ENVIRONMENT)
    path = tmp_path / "tree"

    add_worktree(git, path, "deepwork/task", "main")
    (path / "file.txt").write_text("changed\n")
    (path / "new.txt").write_text("new\n")
    saved = rescue(git.at(path), "deepwork/task")
    (path / "file.txt").write_bytes(git.run("cat-file", "blob", "main:file.txt"))
    (path / "new.txt").unlink()
    remove_worktree(git, path)

    assert saved == "deepwork/rescue/deepwork/task-1"
    assert git.run("cat-file", "blob", f"{saved}:file.txt") == b"changed\n"
    assert not path.exists()
    assert not trap.marker.exists()
