"""Lists exactly the files that changed since the branch left its base."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.git.changes import find_changed_files, list_files
from deepwork.kernel.git.command import Git
from git.changes_project import ENVIRONMENT, Project, create_project

GitQuery = Callable[[Git], object]

BEFORE = ("docs/guide.md", "edited.py", "kept.py", "moved.py", "removed.py")
ODD = [
    "sp ace.py",
    'q"uote.py',
    "apo'strophe.py",
    "new\nline.py",
    "ta\tb.py",
    "back\\slash.py",
    "é日本.py",
    os.fsdecode(b"not-utf-8-\xff.py"),
    "-dash.py",
    "--output=stolen",
    ":(top)magic.py",
    "st*r[x]?.py",
    " ",
    "H looks like a tag",
    "odd folder/\u2028\u202e.py",
]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = create_project(tmp_path_factory.mktemp("started") / "project")
    project.write(".gitignore", content="*.log\n/ignored/\n")
    project.commit(*BEFORE, content="before\n")
    project.git("switch", "-q", "-c", "feature")
    return project.root


@pytest.fixture
def project(started: Path, tmp_path: Path) -> Project:
    """A repository on a new branch without work."""
    shutil.copytree(started, tmp_path / "project", symlinks=True)
    project = Project(tmp_path / "project")
    project.git("update-index", "-q", "--refresh")
    return project


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    return create_project(tmp_path / "empty")


# --- what counts as a change


def test_without_any_work_nothing_changed(project: Project) -> None:
    changes = project.changes()

    assert (changes.files, changes.base) == ((), "main")
    assert changes.listing.files == (".gitignore", *BEFORE)


def test_committed_staged_unstaged_and_new_files_are_changes(project: Project) -> None:
    project.commit("committed.py", "kept.py")
    project.stage("staged.py", "moved.py")
    project.write("edited.py", "docs/new.md")

    assert project.changed() == [
        "committed.py", "docs/new.md", "edited.py", "kept.py", "moved.py", "staged.py"
    ]  # fmt: skip


def test_the_listing_separates_untracked_from_tracked_files(project: Project) -> None:
    project.stage("staged.py")
    project.write("new.py", "docs/new.md")

    listing = project.listing()

    assert listing.files == tuple(sorted([".gitignore", *BEFORE, "staged.py", "new.py", "docs/new.md"]))
    assert listing.untracked == {"new.py", "docs/new.md"}
    assert project.changes().listing == listing


def test_ignored_files_are_neither_listed_nor_changed_unless_tracked(project: Project) -> None:
    project.write("build.log", "ignored/by/folder.py", "tracked.log")
    project.git("add", "--force", "tracked.log")

    assert project.changed() == ["tracked.log"]
    assert not {"build.log", "ignored/by/folder.py"} & set(project.listing().files)


def test_deleted_files_are_left_out_however_they_were_deleted(project: Project) -> None:
    project.remove("removed.py")
    project.commit("soon-gone.py", "edited.py")
    project.stage("staged-then-gone.py")
    project.git("rm", "-q", "kept.py")
    project.remove("moved.py", "soon-gone.py", "staged-then-gone.py")

    assert project.changed() == ["edited.py"]
    assert project.listing().files == (".gitignore", "docs/guide.md", "edited.py")


def test_a_file_removed_only_from_the_index_is_untracked(project: Project) -> None:
    project.git("rm", "-q", "--cached", "kept.py")

    assert project.changed() == ["kept.py"]
    assert project.listing().untracked == {"kept.py"}


@pytest.mark.parametrize("how", ["committed", "staged", "neither"])
def test_a_rename_counts_as_its_new_name(project: Project, how: str) -> None:
    (project.root / "moved.py").rename(project.root / "there.py")
    if how != "neither":
        project.git("add", "-A")
    if how == "committed":
        project.commit()

    assert project.changed() == ["there.py"]


def test_a_file_staged_and_then_restored_is_still_a_change(project: Project) -> None:
    project.stage("kept.py", content="other\n")
    project.write("kept.py", content="before\n")

    assert project.changed() == ["kept.py"]


def test_a_file_that_was_only_touched_did_not_change(project: Project) -> None:
    project.write("kept.py", content="other\n")
    project.write("kept.py", content="before\n")
    os.utime(project.root / "edited.py", (1, 1))

    assert project.changed() == []


def test_work_reverted_by_a_commit_is_not_a_change(project: Project) -> None:
    project.commit("kept.py", content="other\n")
    project.commit("kept.py", content="before\n")

    assert project.changed() == []


def test_a_file_that_became_executable_changed(project: Project) -> None:
    (project.root / "kept.py").chmod(0o755)

    assert project.changed() == ["kept.py"]


def test_later_commits_on_the_base_are_not_changes(project: Project) -> None:
    project.commit("ours.py")
    project.git("switch", "-q", "main")
    project.commit("theirs.py", "kept.py")
    project.git("switch", "-q", "feature")

    assert project.changed() == ["ours.py"]


def test_intent_to_add_files_are_changes(project: Project) -> None:
    project.write("announced.py")
    project.git("add", "--intent-to-add", "announced.py")

    assert project.changed() == ["announced.py"]
    assert project.listing().untracked == frozenset()


def test_an_assume_unchanged_file_is_listed_while_it_exists(project: Project) -> None:
    project.git("update-index", "--assume-unchanged", "kept.py", "edited.py")
    project.write("kept.py")
    project.remove("edited.py")

    assert project.changed() == []
    assert "kept.py" in project.listing().files
    assert "edited.py" not in project.listing().files


# --- names and locations: the faults W21 and W22


def test_odd_names_are_returned_unchanged(project: Project) -> None:
    project.commit(*ODD[::3])
    project.stage(*ODD[1::3])
    project.write(*ODD[2::3])

    assert project.changed() == sorted(ODD)
    assert project.listing().untracked == set(ODD[2::3])
    assert not (project.root / "stolen").exists()


def test_odd_names_that_did_not_change_are_only_listed(project: Project) -> None:
    project.commit(*ODD)

    assert project.changed("HEAD") == []
    assert set(ODD) < set(project.listing().files)


def test_below_the_repository_root_paths_are_relative_to_the_project(project: Project) -> None:
    project.commit("docs/committed.md", "kept.py")
    project.stage("docs/deep/staged.md", "edited.py")
    project.write("docs/new.md", "docs/guide.md", "new.py")

    changes = project.below("docs").changes()

    assert changes.files == ("committed.md", "deep/staged.md", "guide.md", "new.md")
    assert changes.listing.files == changes.files
    assert changes.listing.untracked == {"new.md"}


def test_a_file_moved_into_the_project_from_elsewhere_in_the_repository_is_a_change(project: Project) -> None:
    project.git("mv", "kept.py", "docs/kept.py")

    assert project.below("docs").changed() == ["kept.py"]


def test_a_project_that_the_repository_ignores_has_no_files(project: Project) -> None:
    project.write("ignored/project/file.py")

    assert project.below("ignored/project").changes().listing.files == ()


# --- links, submodules and other kinds of files


def test_a_link_is_itself_a_file_and_is_never_followed(project: Project) -> None:
    (project.root / "here").symlink_to(".")
    (project.root / "outside").symlink_to("/etc")
    (project.root / "dangling").symlink_to("nowhere")
    (project.root / "kept.py").unlink()
    (project.root / "kept.py").symlink_to("edited.py")
    project.git("add", "outside")

    assert project.changed() == ["dangling", "here", "kept.py", "outside"]


def test_a_retargeted_link_changed_and_its_target_did_not(project: Project) -> None:
    (project.root / "link").symlink_to("kept.py")
    project.commit()
    (project.root / "link").unlink()
    (project.root / "link").symlink_to("edited.py")

    assert project.changed("HEAD") == ["link"]


@pytest.mark.parametrize("ignored", [False, True])
def test_files_behind_a_link_that_replaced_their_folder_are_gone(
    project: Project, tmp_path: Path, ignored: bool
) -> None:
    project.commit("docs/deep/page.md")
    (project.root / "docs").rename(tmp_path / "elsewhere")
    (project.root / "docs").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "guide.md").write_text("changed")
    if ignored:
        project.write(".gitignore", content="/docs\n")

    changes = project.changes()

    assert changes.files == ((".gitignore",) if ignored else ("docs",))
    assert not [path for path in changes.listing.files if path.startswith("docs/")]


def test_a_link_may_be_several_folders_above_a_file(project: Project, tmp_path: Path) -> None:
    project.commit("one/two/three/file.py")
    (project.root / "one").rename(tmp_path / "elsewhere")
    (project.root / "one").symlink_to(tmp_path / "elsewhere")

    assert project.changed() == ["one"]


def test_a_file_that_became_a_folder_is_gone_and_its_content_is_new(project: Project) -> None:
    project.remove("kept.py")
    project.write("kept.py/inside.py")

    assert project.changed() == ["kept.py/inside.py"]
    assert "kept.py" not in project.listing().files


def test_a_folder_that_became_a_file_is_that_file(project: Project) -> None:
    shutil.rmtree(project.root / "docs")
    project.write("docs")

    assert project.changed() == ["docs"]


def test_a_pipe_in_place_of_a_file_is_not_listed(project: Project) -> None:
    project.remove("kept.py")
    os.mkfifo(project.root / "kept.py")
    os.mkfifo(project.root / "new-pipe")

    assert project.changed() == []
    assert not {"kept.py", "new-pipe"} & set(project.listing().files)


@pytest.fixture
def with_submodule(project: Project, tmp_path: Path) -> Project:
    library = create_project(tmp_path / "library")
    library.commit("inside.py")
    project.git("switch", "-q", "main")
    project.git("submodule", "--quiet", "add", str(library.root), "sub")
    project.commit()
    project.git("switch", "-q", "-c", "with-submodule")
    return project


def test_a_submodule_is_one_path_that_changes_with_its_commit(with_submodule: Project) -> None:
    project, inside = with_submodule, with_submodule.below("sub")
    assert "sub" in project.listing().files

    inside.write("inside.py", "new.py")
    untouched = project.changed()
    inside.commit()
    moved = project.changed()
    project.git("add", "sub")
    staged = project.changed()

    assert (untouched, moved, staged) == ([], ["sub"], ["sub"])
    assert not [path for path in project.listing().files if path.startswith("sub/")]


def test_a_submodule_that_was_not_fetched_is_still_one_path(with_submodule: Project) -> None:
    with_submodule.git("submodule", "--quiet", "deinit", "--force", "sub")
    with_submodule.write("sub/stray.py")

    changes = with_submodule.changes()

    assert changes.files == ()
    assert "sub" in changes.listing.files
    assert "sub/stray.py" not in changes.listing.files


def test_a_submodule_that_was_removed_is_gone(with_submodule: Project) -> None:
    shutil.rmtree(with_submodule.root / "sub")

    assert with_submodule.changed() == []
    assert "sub" not in with_submodule.listing().files


def test_untracked_nested_repositories_are_left_out(project: Project) -> None:
    create_project(project.root / "unborn").write("file.py")
    create_project(project.root / "with-commit").commit("file.py")
    project.git("worktree", "add", "-q", "worktree", "-b", "other")
    project.write("new.py")

    assert project.changed() == ["new.py"]


# --- states of the repository: the fault W23


def test_before_the_first_commit_everything_is_a_change(empty: Project) -> None:
    empty.write(".gitignore", content="*.log\n")
    empty.stage("staged.py", "gone.py")
    empty.write("new.py", "build.log")
    empty.remove("gone.py")

    changes = empty.changes()

    assert changes.files == (".gitignore", "new.py", "staged.py")
    assert changes.base is None
    assert changes.listing.files == changes.files


def test_a_repository_with_nothing_in_it_has_no_changes(empty: Project) -> None:
    assert (empty.changed(), empty.listing().files) == ([], ())


def test_before_the_first_commit_only_head_can_be_the_base(empty: Project) -> None:
    empty.write("new.py")

    assert empty.changes("HEAD").base is None
    assert empty.changed("HEAD") == ["new.py"]
    with pytest.raises(InvalidInput, match="no branch, tag or commit 'main'"):
        empty.changed("main")


@pytest.mark.parametrize("base_ref", [None, "main", "v1"])
def test_on_a_branch_without_commits_everything_is_a_change(project: Project, base_ref: str | None) -> None:
    project.git("tag", "-a", "v1", "-m", "before")
    project.git("switch", "-q", "--orphan", "fresh")
    project.write("new.py")
    project.stage("staged.py")

    changes = project.changes(base_ref)

    assert (changes.files, changes.base) == (("new.py", "staged.py"), None)


@pytest.mark.parametrize("ask", [list_files, find_changed_files])
def test_outside_a_repository_the_error_says_so(tmp_path: Path, ask: GitQuery) -> None:
    with pytest.raises(GitError, match="is not a git repository") as refused:
        ask(Git(tmp_path, environment=ENVIRONMENT))

    assert "git init" in refused.value.suggestion


def test_outside_a_repository_the_error_does_not_blame_the_given_base(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="is not a git repository"):
        Project(tmp_path).changes("main")


@pytest.mark.parametrize("ask", [list_files, find_changed_files])
@pytest.mark.parametrize("place", ["project/.git", "project/.git/refs", "bare", "called-bare"])
def test_where_there_is_no_working_tree_the_error_says_so(
    project: Project, place: str, ask: GitQuery
) -> None:
    root = project.root.parent / place
    if place == "bare":
        create_project(root, "--bare")
    elif place == "called-bare":
        create_project(root).git("config", "core.bare", "true")

    with pytest.raises(GitError, match=r"bare repository or inside \.git") as refused:
        ask(Git(root, environment=ENVIRONMENT))

    assert "contains the project's files" in refused.value.suggestion


def test_a_damaged_branch_is_not_mistaken_for_one_without_commits(project: Project) -> None:
    (project.root / ".git/refs/heads/feature").write_text("")

    with pytest.raises(GitError, match="HEAD"):
        project.changes()


def test_in_a_linked_worktree_its_own_files_count(project: Project, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    project.write("elsewhere.py")
    linked = Project(tmp_path / "linked")
    linked.commit("committed.py")
    linked.stage("staged.py")
    linked.write("new.py")

    assert linked.changed() == ["committed.py", "new.py", "staged.py"]
    assert linked.changes().base == "main"


def test_a_detached_head_works_like_a_branch(project: Project) -> None:
    project.commit("committed.py")
    project.git("switch", "-q", "--detach")
    project.commit("detached.py")

    assert project.changed() == ["committed.py", "detached.py"]


def test_files_outside_a_sparse_checkout_are_neither_listed_nor_changed(project: Project) -> None:
    project.commit("docs/changed.md", "src/changed.py")
    project.git("sparse-checkout", "set", "--no-cone", "/docs/", "/*.py")

    assert project.changed() == ["docs/changed.md"]
    assert project.listing().files == ("docs/changed.md", *BEFORE)


def test_a_skip_worktree_file_is_listed_if_it_exists(project: Project) -> None:
    project.commit("edited.py", "removed.py")
    project.git("update-index", "--skip-worktree", "kept.py", "edited.py", "removed.py")
    project.write("kept.py")
    project.remove("removed.py")

    assert project.changed() == ["edited.py"]
    assert {"kept.py", "edited.py"} < set(project.listing().files)
    assert "removed.py" not in project.listing().files


def test_a_file_in_conflict_appears_once(project: Project) -> None:
    project.commit("kept.py", "both-added.py", "deleted-there.py", content="ours\n")
    project.git("switch", "-q", "main")
    project.remove("edited.py")
    project.commit("kept.py", "both-added.py", content="theirs\n")
    project.git("switch", "-q", "feature")
    project.commit("edited.py", content="ours\n")
    project.git("merge", "-q", "main", check=False)

    assert project.changed() == ["both-added.py", "deleted-there.py", "edited.py", "kept.py"]
    assert len(project.listing().files) == len(set(project.listing().files))
    assert project.changed("HEAD") == ["both-added.py", "edited.py", "kept.py"]


def test_a_file_in_conflict_that_was_deleted_is_left_out(project: Project) -> None:
    project.commit("kept.py", content="ours\n")
    project.git("switch", "-q", "main")
    project.commit("kept.py", content="theirs\n")
    project.git("switch", "-q", "feature")
    project.git("merge", "-q", "main", check=False)
    project.remove("kept.py")

    assert project.changed() == []


def test_a_link_in_conflict_with_a_folder_is_a_change(project: Project) -> None:
    base = project.head()
    blob = project.git("hash-object", "-w", "--stdin", input=b"elsewhere")
    stages = f"120000 {blob} 2\tpages\n100644 {blob} 3\tpages/one.md\n"
    project.git("update-index", "--index-info", input=stages.encode())
    (project.root / "pages").symlink_to("docs")

    assert project.changed(base) == ["pages"]


def test_sha256_repositories_are_supported(tmp_path: Path) -> None:
    project = create_project(tmp_path / "newer", "--object-format=sha256")
    project.commit("kept.py")
    project.git("switch", "-q", "-c", "feature")
    project.commit("committed.py")

    assert project.changed() == ["committed.py"]


# --- the base


def remember(project: Project, *refs: str) -> None:
    for ref in refs:
        project.git("update-ref", f"refs/{ref}", "main")


@pytest.mark.parametrize(
    ("refs", "head", "base"),
    [
        (["remotes/origin/trunk", "remotes/origin/main"], "remotes/origin/trunk", "origin/trunk"),
        (["remotes/origin/main", "remotes/origin/master"], "remotes/origin/gone", "origin/main"),
        (["remotes/origin/main", "remotes/origin/master", "heads/master"], None, "origin/main"),
        (["remotes/origin/master", "heads/master"], None, "origin/master"),
        (["remotes/upstream/main", "heads/master"], None, "main"),
    ],
)
def test_the_base_is_the_default_branch_if_known(
    project: Project, refs: list[str], head: str | None, base: str
) -> None:
    remember(project, *refs)
    if head:
        project.git("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/{head}")
    project.commit("committed.py")

    changes = project.changes()

    assert (changes.base, changes.files) == (base, ("committed.py",))


def test_a_detached_remote_head_keeps_its_name(project: Project) -> None:
    remember(project, "remotes/origin/HEAD", "remotes/origin/main")

    assert project.changes().base == "origin/HEAD"


def test_master_is_recognised_as_the_default_branch(project: Project) -> None:
    project.git("branch", "-m", "main", "master")
    project.commit("committed.py")

    assert (project.changes().base, project.changed()) == ("master", ["committed.py"])


def test_without_a_default_branch_only_uncommitted_files_changed(project: Project) -> None:
    project.git("branch", "-m", "main", "main/line")
    project.commit("committed.py")
    project.write("new.py", "kept.py")

    assert (project.changes().base, project.changed()) == ("HEAD", ["kept.py", "new.py"])


def test_on_the_default_branch_only_uncommitted_files_changed(project: Project) -> None:
    project.git("switch", "-q", "main")
    project.commit("committed.py")
    project.write("new.py")

    assert (project.changes().base, project.changed()) == ("main", ["new.py"])


def test_a_tag_is_not_mistaken_for_the_branch_of_the_same_name(project: Project) -> None:
    project.commit("committed.py")
    project.git("tag", "main", "feature")

    assert project.changed() == ["committed.py"]


def test_a_file_is_not_mistaken_for_the_base_of_the_same_name(project: Project) -> None:
    names = sorted([project.head(), "main", "HEAD"])
    project.write(*names)

    assert project.changed() == project.changed("main") == project.changed("HEAD") == names


def test_any_name_of_a_commit_can_be_the_base(project: Project) -> None:
    project.commit("first.py")
    first = project.head()
    project.git("tag", "-a", "v1", "-m", "first")
    project.commit("second.py")

    for name in (first, first[:12], "v1", "HEAD~1", "feature@{1}", "HEAD^{/work}~1"):
        changes = project.changes(name)
        assert (changes.files, changes.base) == (("second.py",), name)
    assert project.changed("HEAD") == []


@pytest.mark.parametrize(
    "name",
    [
        "nowhere", "", " ", "-x", "--all", "--output=stolen", "main..feature", "^main", "HEAD:kept.py", "HEAD~99",
        "tree", "0" * 40, "a" * 40, "line\nbreak", "nul\0", "\ud800", "é", os.fsdecode(b"\xff"), "x" * 200_000,
    ],
)  # fmt: skip
def test_a_missing_base_is_named_in_the_error(project: Project, name: str) -> None:
    project.git("tag", "tree", "HEAD^{tree}")

    with pytest.raises(InvalidInput, match="There is no branch, tag or commit") as refused:
        project.changes(name)

    assert repr(name[:200]) in refused.value.message
    assert refused.value.message.endswith("in this repository.")
    assert not (project.root / "stolen").exists()


def test_histories_without_a_common_ancestor_cannot_be_compared(project: Project) -> None:
    project.git("switch", "-q", "--orphan", "island")
    project.commit("island.py")

    with pytest.raises(GitError, match="HEAD and 'main' have no common ancestor") as refused:
        project.changes()

    assert "git fetch --unshallow" in refused.value.suggestion
    assert "name another base" in refused.value.suggestion


def test_a_shallow_clone_may_lack_the_common_ancestor(project: Project, tmp_path: Path) -> None:
    project.commit("first.py")
    project.commit("second.py")
    origin = f"file://{project.root}"
    project.git("clone", "-q", "--depth=1", "--no-single-branch", origin, str(tmp_path / "shallow"))
    shallow = Project(tmp_path / "shallow")

    with pytest.raises(GitError, match="no common ancestor in the local history"):
        shallow.changes("origin/main")
    shallow.git("fetch", "-q", "--unshallow")

    assert shallow.changed("origin/main") == ["first.py", "second.py"]


def test_one_of_several_common_ancestors_is_used(project: Project) -> None:
    project.commit("ours.py")
    project.git("switch", "-q", "main")
    project.commit("theirs.py")
    project.git("merge", "-q", "--no-edit", "feature")
    project.git("switch", "-q", "feature")
    project.git("merge", "-q", "--no-edit", "main~1")
    project.commit("since.py")
    assert len(project.git("merge-base", "--all", "HEAD", "main").split()) == 2

    assert project.changed() in (["ours.py", "since.py"], ["since.py", "theirs.py"])


# --- how git is run


def counting(project: Project, calls: Path) -> Git:
    program = calls.with_name("counting-git")
    program.write_text(f'#!/bin/sh\necho >> {calls}\nexec git "$@"\n')
    program.chmod(0o755)
    return Git(project.root, environment=ENVIRONMENT, program=str(program))


def test_finding_changes_runs_at_most_five_git_commands(project: Project, tmp_path: Path) -> None:
    project.commit("committed.py")
    calls = tmp_path / "calls"
    git = counting(project, calls)
    find_changed_files(git)

    def calls_for(base_ref: str | None) -> int:
        calls.write_text("")
        find_changed_files(git, base_ref)
        return calls.read_text().count("\n")

    assert (calls_for(None), calls_for("main")) == (5, 4)


def test_listing_leaves_the_repository_unchanged(project: Project) -> None:
    os.utime(project.root / "kept.py", (1, 1))
    index = project.root / ".git" / "index"
    before = index.read_bytes(), index.stat().st_ino

    project.changes()

    assert (index.read_bytes(), index.stat().st_ino) == before


def test_listing_runs_no_program_that_the_repository_names(project: Project, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for key in ("filter.evil.clean", "core.fsmonitor", "diff.external"):
        project.git("config", key, f"touch {marker}; cat")
    project.write(".gitattributes", content="* filter=evil\n")
    os.utime(project.root / "kept.py", (1, 1))

    assert project.changed() == [".gitattributes"]
    assert not marker.exists()


def test_too_many_files_are_an_error_and_not_truncated(project: Project) -> None:
    git = Git(project.root, environment=ENVIRONMENT, max_output=60)

    with pytest.raises(GitError, match="wrote more than 60 bytes"):
        list_files(git)
