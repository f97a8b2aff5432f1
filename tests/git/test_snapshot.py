"""Any two snapshots of a working tree can be compared, and taking one changes nothing."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import LARGEST_UNTRACKED, Rename, Snapshot, SnapshotKind
from git.changes_project import ENVIRONMENT, Project, create_project
from git.snapshot_project import Watched, count_loose_objects, group_paths, open_snapshots
from git.test_git_hostile import CASES, Trap
from git.worktrees_project import add_tree, create_started_project, list_objects, read_state

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
    project = create_started_project(tmp_path / "project")
    project.write(".gitignore", content="*.log\n.deepwork/\n")
    project.commit()
    return project


@pytest.fixture
def watched(project: Project) -> Watched:
    return Watched(project)


# --- what a snapshot contains


def test_without_any_work_nothing_changed(project: Project, watched: Watched) -> None:
    assert watched.diff_paths() == {}
    assert (watched.last.kind, watched.last.head, watched.last.branch) == (
        SnapshotKind.GIT,
        project.head(),
        "main",
    )


def test_every_change_is_listed_whether_committed_staged_or_neither(
    project: Project, watched: Watched
) -> None:
    project.commit("committed.py")
    project.stage("staged.py")
    project.write("edited.py", "new.py", "folder/new.py", *ODD)
    project.write("ignored.log")
    project.remove("removed.py")

    assert watched.diff_paths() == {
        "added": sorted(["committed.py", "folder/new.py", "new.py", "staged.py", *ODD]),
        "modified": ["edited.py"],
        "deleted": ["removed.py"],
    }
    assert watched.diff_paths() == {}


def test_earlier_changes_are_not_listed(project: Project) -> None:
    project.write("edited.py", "new.py")
    watched = Watched(project)
    project.write("kept.py")

    assert watched.diff_paths() == {"modified": ["kept.py"]}


def test_committing_recorded_changes_is_not_a_change(project: Project, watched: Watched) -> None:
    project.write("new.py", "edited.py")
    assert watched.diff_paths() == {"added": ["new.py"], "modified": ["edited.py"]}

    project.commit()

    assert watched.diff_paths() == {}


def test_git_does_not_read_files_that_the_caller_compared(project: Project) -> None:
    snapshots = open_snapshots(project)
    before = snapshots.take()
    project.write("edited.py", content="changed")
    project.write("new.txt", content="new")

    believing = snapshots.take(lambda tree: tree == before.tree)
    reading = snapshots.take(lambda _: False)

    assert [change.path for change in snapshots.diff(before, believing).files] == ["new.txt"]
    assert [change.path for change in snapshots.diff(believing, reading).files] == ["edited.py"]


def test_an_edit_of_the_same_size_and_time_is_detected(project: Project) -> None:
    project.write("edited.py", content="aaaa\n")
    project.git("add", "edited.py")
    watched = Watched(project)
    for content in ("bbbb\n", "cccc\n", "dddd\n"):
        project.write("edited.py", content=content)
        assert watched.diff_paths() == {"modified": ["edited.py"]}


def test_a_file_that_was_only_touched_did_not_change(project: Project, watched: Watched) -> None:
    os.utime(project.root / "kept.py", (1, 1))

    assert watched.diff_paths() == {}


def test_a_reverted_change_is_not_a_change(project: Project, watched: Watched) -> None:
    start = watched.last
    project.write("new.py", "edited.py")
    watched.diff_paths()
    project.remove("new.py")
    project.write("edited.py", content="before\n")

    assert group_paths(watched.snapshots.diff(start, watched.take())) == {}


def test_files_and_folders_may_replace_each_other(project: Project, watched: Watched) -> None:
    project.remove("kept.py")
    project.write("kept.py/inner.py")
    project.commit("folder/inner.py")
    assert watched.diff_paths() == {"added": ["folder/inner.py", "kept.py/inner.py"], "deleted": ["kept.py"]}

    shutil.rmtree(project.root / "folder")
    project.write("folder")
    shutil.rmtree(project.root / "kept.py")
    (project.root / "kept.py").symlink_to("/nowhere")
    assert watched.diff_paths() == {
        "added": ["folder", "kept.py"],
        "deleted": ["folder/inner.py", "kept.py/inner.py"],
    }


def test_files_behind_a_link_count_as_deleted(project: Project, tmp_path: Path) -> None:
    project.commit("folder/inner.py")
    watched = Watched(project)
    (project.root / "folder").rename(tmp_path / "elsewhere")
    (project.root / "folder").symlink_to(tmp_path / "elsewhere")

    assert watched.diff_paths() == {"added": ["folder"], "deleted": ["folder/inner.py"]}


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_changes_hidden_from_git_are_detected(project: Project, flag: str) -> None:
    project.git("update-index", flag, "edited.py")
    watched = Watched(project)
    project.write("edited.py", content="changed behind a flag\n")

    assert watched.diff_paths() == {"modified": ["edited.py"]}


@pytest.mark.parametrize(
    "setting",
    [
        "core.ignoreStat=true",
        "core.splitIndex=true",
        "core.autocrlf=true",
        "core.safecrlf=true",
        "core.untrackedCache=true",
        "index.version=4",
    ],
)
def test_settings_of_the_repository_hide_nothing(project: Project, setting: str) -> None:
    project.git("config", *setting.split("="))
    project.git("update-index", "--force-write-index")
    watched = Watched(project)
    for content in ("one\r\n", "two\n"):
        project.write("new.py", "edited.py", "kept.py", content=content)
        assert {path for paths in watched.diff_paths().values() for path in paths} == {
            "new.py",
            "edited.py",
            "kept.py",
        }


def test_an_ignored_but_tracked_file_is_included(project: Project, watched: Watched) -> None:
    project.write("known.log")
    project.git("add", "-f", "known.log")
    assert watched.diff_paths() == {"added": ["known.log"]}

    project.write("known.log", content="again\n")
    assert watched.diff_paths() == {"modified": ["known.log"]}


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude"])
def test_a_new_file_that_becomes_ignored_is_dropped(project: Project, watched: Watched, where: str) -> None:
    project.write("new.tmp", "other.tmp")
    watched.diff_paths()
    with_rule = (project.root / ".gitignore").read_text() + "*.tmp\n" if where == ".gitignore" else "*.tmp\n"
    project.write(where, content=with_rule)

    assert watched.diff_paths()["deleted"] == ["new.tmp", "other.tmp"]
    project.write("new.tmp", content="changed\n")
    assert watched.diff_paths() == {}


def test_a_mode_is_a_change(project: Project, watched: Watched) -> None:
    (project.root / "kept.py").chmod(0o755)

    assert watched.diff_paths() == {"modified": ["kept.py"]}


# --- large, odd and unreadable files


def test_a_large_new_file_is_listed_and_not_read(project: Project, watched: Watched) -> None:
    with (project.root / "large.bin").open("wb") as file:
        file.truncate(200 * 2**20)
    before = count_loose_objects(project.root)

    assert watched.diff_paths() == {"added": ["large.bin"]}
    assert [(each.path, each.size) for each in watched.last.listed] == [("large.bin", 200 * 2**20)]
    assert count_loose_objects(project.root) == before
    os.utime(project.root / "large.bin", (1, 1))
    assert watched.diff_paths() == {"modified": ["large.bin"]}
    project.remove("large.bin")
    assert watched.diff_paths() == {"deleted": ["large.bin"]}


def test_a_new_file_that_grows_large_and_small_again_is_modified(project: Project, watched: Watched) -> None:
    project.write("growing.bin")
    assert watched.diff_paths() == {"added": ["growing.bin"]}
    with (project.root / "growing.bin").open("r+b") as file:
        file.truncate(LARGEST_UNTRACKED + 1)
    assert watched.diff_paths() == {"modified": ["growing.bin"]}
    assert watched.last.listed
    project.write("growing.bin", content="small\n")
    assert watched.diff_paths() == {"modified": ["growing.bin"]}


def test_a_large_tracked_file_is_stored_completely(project: Project) -> None:
    project.commit("large.txt", content="x" * (LARGEST_UNTRACKED + 1))
    watched = Watched(project)
    project.write("large.txt", content="y" * (LARGEST_UNTRACKED + 1))

    assert watched.diff_paths() == {"modified": ["large.txt"]}
    assert watched.last.listed == ()


def test_a_file_that_git_cannot_add_does_not_affect_others(project: Project, watched: Watched) -> None:
    project.write(".gitattributes", content="odd.txt working-tree-encoding=UTF-16\n")
    project.write("odd.txt", *(f"new-{number}.py" for number in range(9)))
    os.mkfifo(project.root / "pipe")

    told = watched.diff_paths()

    assert told["added"] == [".gitattributes", *(f"new-{number}.py" for number in range(9))]
    assert watched.last.unreadable == ("odd.txt",)


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_nested_repository_is_one_path(project: Project, watched: Watched, has_commit: bool) -> None:
    inner = create_project(project.root / "inner")
    inner.write("work.py")
    if has_commit:
        inner.commit()

    assert watched.diff_paths() == {"added": ["inner"]}
    shutil.rmtree(project.root / "inner")
    assert watched.diff_paths() == {"deleted": ["inner"]}


def test_a_submodule_is_one_path_that_changes_with_its_commit(project: Project, tmp_path: Path) -> None:
    inner = create_started_project(tmp_path / "inner")
    project.git("submodule", "--quiet", "add", str(inner.root), "sub")
    project.commit()
    watched = Watched(project)
    sub = project.below("sub")
    sub.write("kept.py")
    assert watched.diff_paths() == {}

    sub.commit()

    assert watched.diff_paths() == {"modified": ["sub"]}


def test_a_snapshot_can_be_stored_and_read_again(project: Project, watched: Watched) -> None:
    project.write(".gitattributes", content="odd.txt working-tree-encoding=UTF-16\n")
    project.write("odd.txt")
    with (project.root / "large.bin").open("wb") as file:
        file.truncate(LARGEST_UNTRACKED + 1)
    snapshot = watched.take()

    assert snapshot.listed
    assert snapshot.unreadable
    assert Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict()))) == snapshot
    assert Snapshot.from_dict(json.loads(json.dumps(watched.last.to_dict()))) == watched.last


# --- odd states


def test_files_are_compared_before_the_first_commit(tmp_path: Path) -> None:
    project = create_project(tmp_path / "empty")
    project.write("there.py")
    watched = Watched(project)
    project.write("new.py", "there.py", content="changed\n")

    told = watched.diff_paths()

    assert told == {"added": ["new.py"], "modified": ["there.py"]}
    assert (watched.last.kind, watched.last.head, watched.last.branch) == ("git", None, "main")
    project.commit()
    assert watched.diff_paths() == {}
    assert watched.last.head == project.head()


def test_before_the_first_commit_a_file_may_be_called_head(tmp_path: Path) -> None:
    project = create_project(tmp_path / "empty")
    project.write("HEAD")

    snapshot = open_snapshots(project).take()

    assert (snapshot.head, snapshot.branch) == (None, "main")


def test_a_detached_head_has_no_branch(project: Project, watched: Watched) -> None:
    project.git("checkout", "-q", "--detach")
    project.write("new.py")

    assert watched.diff_paths() == {"added": ["new.py"]}
    assert (watched.last.head, watched.last.branch) == (project.head(), None)


def test_a_merge_in_progress_is_recorded_by_its_files(project: Project) -> None:
    project.git("switch", "-q", "-c", "theirs")
    project.commit("kept.py", "removed.py", content="theirs\n")
    project.git("switch", "-q", "main")
    project.commit("kept.py", content="ours\n")
    project.git("rm", "-q", "removed.py")
    project.commit()
    watched = Watched(project)
    project.git("merge", "theirs", check=False)
    assert project.git("ls-files", "--unmerged")
    before = read_state(project)

    assert watched.diff_paths() == {"added": ["removed.py"], "modified": ["kept.py"]}
    assert read_state(project) == before
    project.write("kept.py", content="resolved\n")
    project.remove("removed.py")
    assert watched.diff_paths() == {"modified": ["kept.py"], "deleted": ["removed.py"]}


def test_files_not_checked_out_are_not_mistaken_for_deleted(project: Project) -> None:
    project.commit("in/file.py", "out/file.py")
    watched = Watched(project)
    project.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert watched.diff_paths() == {}
    project.write("in/new.py", "out/new.py")

    assert watched.diff_paths() == {"added": ["in/new.py", "out/new.py"]}


def test_linked_working_trees_are_separate(project: Project) -> None:
    tree = add_tree(project)
    folder = project.root / ".deepwork" / "snapshots"
    here, there = SnapshotStore(project.safe_git, folder), SnapshotStore(tree.safe_git, folder)
    first = here.take(), there.take()
    tree.write("there.py")
    project.write("here.py")

    second = here.take(), there.take()

    assert group_paths(here.diff(first[0], second[0])) == {"added": ["here.py"]}
    assert group_paths(there.diff(first[1], second[1])) == {"added": ["there.py"]}
    assert group_paths(here.diff(second[0], second[1])) == {"added": ["there.py"], "deleted": ["here.py"]}


def test_a_subfolder_records_the_whole_tree(project: Project) -> None:
    project.commit("part/file.py")
    snapshots = SnapshotStore(project.below("part").safe_git, project.root / ".deepwork" / "snapshots")
    before = snapshots.take()
    project.write("part/new.py", "edited.py")

    assert group_paths(snapshots.diff(before, snapshots.take())) == {
        "added": ["part/new.py"],
        "modified": ["edited.py"],
    }


def test_the_snapshot_folder_is_never_included(tmp_path: Path) -> None:
    project = create_started_project(tmp_path / "project")
    watched = Watched(project)
    project.write("new.py")

    assert watched.diff_paths() == {"added": ["new.py"]}


# --- no side effects


def test_the_users_files_and_git_data_are_unchanged(project: Project) -> None:
    project.stage("staged.py")
    project.write("edited.py", "new.py")
    before = read_state(project), list_objects(project), project.git("for-each-ref")

    watched = Watched(project)
    project.write("more.py")
    watched.diff_paths()
    project.remove("more.py")

    assert (read_state(project), list_objects(project), project.git("for-each-ref")) == before


def test_many_snapshots_can_be_taken_concurrently(project: Project, watched: Watched) -> None:
    project.write("new.py", "edited.py")

    with ThreadPoolExecutor(6) as threads:
        taken = set(threads.map(lambda _: open_snapshots(project).take(), range(6)))

    assert len(taken) == 1
    assert group_paths(watched.snapshots.diff(watched.last, taken.pop())) == {
        "added": ["new.py"],
        "modified": ["edited.py"],
    }


def test_a_deleted_folder_is_recreated(project: Project, watched: Watched) -> None:
    shutil.rmtree(project.root / ".deepwork")
    before = watched.take()
    project.write("new.py")

    assert group_paths(watched.snapshots.diff(before, watched.take())) == {"added": ["new.py"]}


def test_missing_contents_do_not_hide_which_files_changed(project: Project) -> None:
    project.commit("lost.py", content="to be lost\n")
    watched = Watched(project)
    blob = project.git("rev-parse", "HEAD:lost.py")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    project.write("lost.py", "new.py")

    assert group_paths(watched.diff(counted=True)) == {"added": ["new.py"], "modified": ["lost.py"]}


def test_many_new_files_are_added_in_batches(project: Project, watched: Watched) -> None:
    names = [f"many/{number}.py" for number in range(5_001)]
    project.write(*names)

    assert watched.diff_paths() == {"added": sorted(names)}


@pytest.mark.parametrize("damage", ["state", "index", "lock", "all"])
def test_leftovers_of_a_crash_do_not_prevent_a_snapshot(
    project: Project, watched: Watched, damage: str
) -> None:
    folder = project.root / ".deepwork/snapshots"
    (index,) = folder.glob("*.index")
    if damage == "state":
        index.with_name(index.name.replace(".index", ".state.json")).write_text("{")
    elif damage == "index":
        index.write_bytes(b"half an ind")
    elif damage == "lock":
        index.with_name(f"{index.name}.lock").touch()
    else:
        for path in folder.glob("*.*"):
            path.unlink()
    project.write("new.py")

    assert watched.diff_paths() == {"added": ["new.py"]}


@pytest.mark.parametrize(
    "name",
    [
        "hooks",
        "fsmonitor",
        "clean filter",
        "filter process",
        "required filter",
        "filter by .gitattributes",
        "textconv",
        "diff driver",
        "external diff",
        "settings of the worktree",
        "submodule with a filter of its own",
        "submodule that insists on being looked into",
    ],
)
def test_nothing_that_the_repository_names_is_run(repository: Path, tmp_path: Path, name: str) -> None:
    marker, program = tmp_path / "marker", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    CASES[name](Trap(repository, program, marker))
    marker.unlink(missing_ok=True)
    snapshots = SnapshotStore(Git(repository, environment=ENVIRONMENT), repository / ".deepwork/snapshots")
    before = snapshots.take()
    (repository / "file.txt").write_text("changed\n")
    (repository / "another.txt").write_text("new\n")
    after = snapshots.take()

    told = group_paths(snapshots.diff(before, after, counted=True))
    patch = snapshots.get_patch(before, after, "file.txt")
    snapshots.get_progress(before, after)
    snapshots.prune({after.tree})

    assert told == {"added": ["another.txt"], "modified": ["file.txt"]}
    assert patch is not None
    assert "+changed" in patch.text
    assert not marker.exists()


# --- comparing


def test_a_rename_is_a_deletion_an_addition_and_a_pair(project: Project) -> None:
    project.commit("long.py", content="".join(f"line {number}\n" for number in range(50)))
    watched = Watched(project)
    (project.root / "long.py").rename(project.root / "moved.py")
    with (project.root / "moved.py").open("a") as file:
        file.write("and one\n")

    difference = watched.diff(counted=True)

    assert group_paths(difference) == {"added": ["moved.py"], "deleted": ["long.py"]}
    (pair,) = difference.renamed
    assert (pair.source, pair.target) == ("long.py", "moved.py")
    assert 90 < pair.similarity < 100
    counts = {file.path: (file.added, file.removed) for file in difference.files}
    assert counts == {"long.py": (0, 50), "moved.py": (51, 0)}


def test_renames_with_odd_names_are_pairs_too(project: Project) -> None:
    project.commit(*ODD, content="".join(f"line {number}\n" for number in range(50)))
    for name in ODD[1:]:
        project.write(name, content=f"{name!r} alone\n" * 50)
    project.commit()
    watched = Watched(project)
    for name in ODD:
        (project.root / name).rename(project.root / f"to {name}")

    assert watched.diff(counted=True).renamed == tuple(
        Rename(name, f"to {name}", 100) for name in sorted(ODD)
    )


def test_lines_are_counted_and_binary_files_are_marked(project: Project, watched: Watched) -> None:
    project.write("edited.py", content="before\nand after\n")
    (project.root / "image.bin").write_bytes(b"\0\1\2")

    files = {file.path: file for file in watched.diff(counted=True).files}

    assert (files["edited.py"].added, files["edited.py"].removed) == (1, 0)
    assert (files["image.bin"].is_binary, files["image.bin"].added) == (True, None)


@pytest.mark.parametrize("name", ["edited.py", *ODD])
def test_the_patch_of_one_file_is_only_of_that_file(project: Project, watched: Watched, name: str) -> None:
    before = watched.last
    project.write("kept.py", "ed*", content="another\n")
    project.write(name, content="after\n")

    patch = watched.snapshots.get_patch(before, watched.take(), name)

    assert patch is not None
    assert "+after" in patch.text
    assert "another" not in patch.text
    assert not patch.is_truncated


def test_a_long_patch_is_truncated_at_a_line(project: Project, watched: Watched) -> None:
    before = watched.last
    project.write("long.py", content="a line of é\n" * 10_000)

    patch = watched.snapshots.get_patch(before, watched.take(), "long.py", max_bytes=1000)

    assert patch is not None
    assert patch.is_truncated
    assert len(patch.text.encode()) <= 1000
    assert patch.text.endswith("+a line of é\n")


def test_the_patch_of_a_binary_file_is_marked_as_binary(project: Project, watched: Watched) -> None:
    before = watched.last
    (project.root / "image.bin").write_bytes(b"\0\1\2")

    patch = watched.snapshots.get_patch(before, watched.take(), "image.bin")

    assert patch is not None
    assert patch.is_binary


def test_commits_between_snapshots_are_listed_oldest_first(project: Project, watched: Watched) -> None:
    before = watched.last
    project.commit("one.py")
    one = project.head()
    project.git("commit", "-q", "--allow-empty", "-m", "second\n\nand more")

    progress = watched.snapshots.get_progress(before, watched.take())

    assert [(commit.hash, commit.subject) for commit in progress.commits] == [
        (one, "work"),
        (project.head(), "second"),
    ]
    assert (progress.is_switched, progress.is_rewritten) == (False, False)


def test_a_switch_and_a_reset_are_detected(project: Project, watched: Watched) -> None:
    first = watched.take()
    project.git("switch", "-q", "-c", "other")
    other = watched.take()
    project.commit("other.py")
    ahead = watched.take()
    project.git("reset", "-q", "--hard", "HEAD~2")
    behind = watched.take()

    steps = [
        watched.snapshots.get_progress(*pair)
        for pair in ((first, other), (other, ahead), (ahead, behind), (first, ahead))
    ]

    assert [(step.is_switched, step.is_rewritten, len(step.commits)) for step in steps] == [
        (True, False, 0), (False, False, 1), (False, True, 0), (True, False, 1)
    ]  # fmt: skip


def test_the_first_commits_are_listed(tmp_path: Path) -> None:
    project = create_project(tmp_path / "empty")
    watched = Watched(project)
    before = watched.last
    project.commit("first.py")

    progress = watched.snapshots.get_progress(before, watched.take())

    assert [commit.hash for commit in progress.commits] == [project.head()]
    assert not progress.is_rewritten


def test_uncommitted_files_of_a_snapshot_can_be_listed_later(project: Project) -> None:
    project.write("edited.py", "new.py")
    project.stage("staged.py")
    watched = Watched(project)
    project.commit()

    assert [change.path for change in watched.snapshots.list_uncommitted(watched.last)] == [
        "edited.py",
        "new.py",
        "staged.py",
    ]
    assert watched.snapshots.list_uncommitted(watched.take()) == ()


def test_before_the_first_commit_everything_is_uncommitted(tmp_path: Path) -> None:
    project = create_project(tmp_path / "empty")
    project.write("new.py")
    watched = Watched(project)

    assert [change.path for change in watched.snapshots.list_uncommitted(watched.last)] == ["new.py"]


def test_on_a_clean_tree_the_result_equals_two_plain_diffs(project: Project) -> None:
    project.commit("a/moved.py", "a/kept.py", "b.py", "c.py", content="once\nupon\na\ntime\n")
    start = project.head()
    watched = Watched(project)
    project.commit("committed.py", "b.py", content="committed\n")
    (project.root / "a/moved.py").rename(project.root / "a/there.py")
    project.remove("removed.py")
    project.write("c.py", "edited.py", "new é.py", content="changed\n")
    project.git("add", "-A")
    project.write("kept.py", content="unstaged\n")

    def plain(*versions: str) -> dict[str, str]:
        said = project.git("diff", "-z", "--no-renames", "--name-status", *versions).split("\0")[:-1]
        return dict(zip(said[1::2], said[::2], strict=True))

    expected = {**plain(start, "HEAD"), **plain("HEAD")}
    told = watched.diff_paths()
    letters = {path: status[0].upper() for status, paths in told.items() for path in paths}

    assert letters == expected
    assert len(letters) == 9


# --- pruning


def test_prune_removes_unneeded_snapshots(project: Project, watched: Watched) -> None:
    taken = [watched.last]
    for number in range(5):
        project.write(f"new-{number}.py", "edited.py", content=f"version {number}\n")
        taken.append(watched.take())
    before = count_loose_objects(project.root)

    removed = watched.snapshots.prune({taken[2].tree, taken[4].tree})

    assert removed > 0
    assert count_loose_objects(project.root) == before - removed
    patch = watched.snapshots.get_patch(taken[2], taken[4], "edited.py")
    assert patch is not None
    assert "+version 3" in patch.text
    with pytest.raises(GitError):
        watched.snapshots.diff(taken[1], taken[3])


def test_snapshots_work_after_pruning_everything(project: Project, watched: Watched) -> None:
    project.write("new.py")
    watched.diff_paths()
    watched.snapshots.prune(set())
    project.write("newer.py")

    assert watched.diff_paths() == {"added": ["newer.py"]}
    assert watched.snapshots.prune({"not a hash", "f" * 40, "-x"}) >= 0


# --- without a repository


@pytest.fixture
def plain(tmp_path: Path) -> Project:
    project = Project(tmp_path / "plain")
    project.write("kept.py", "edited.py", "removed.py", "moved.py", "folder/file.py", content="before\n")
    project.write("moved.py", content="unlike any other\n")
    return project


@pytest.fixture(params=["no repository", "no git", "bare"])
def without(request: pytest.FixtureRequest, plain: Project, tmp_path: Path) -> SnapshotStore:
    environment = {**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    if request.param == "no git":
        environment["PATH"] = str(tmp_path / "nowhere")
    if request.param == "bare":
        plain.git("init", "-q", "--bare", ".")
    return SnapshotStore(Git(plain.root, environment=environment), plain.root / ".deepwork/snapshots")


def test_without_git_checksums_are_compared(plain: Project, without: SnapshotStore) -> None:
    before = without.take()
    plain.write("edited.py", "new.py", "folder/new é.py")
    plain.write("node_modules/x.js", ".deepwork/state.json")
    plain.remove("removed.py")
    (plain.root / "moved.py").rename(plain.root / "there.py")

    after = without.take()
    difference = without.diff(before, after)

    assert (before.kind, before.head, before.branch) == (SnapshotKind.CHECKSUM, None, None)
    assert group_paths(difference) == {
        "added": ["folder/new é.py", "new.py", "there.py"],
        "modified": ["edited.py"],
        "deleted": ["moved.py", "removed.py"],
    }
    assert difference.renamed == (Rename("moved.py", "there.py", 100),)
    assert without.get_patch(before, after, "edited.py") is None
    assert without.get_progress(before, after).commits == ()


def test_without_git_edits_at_the_same_time_are_detected(plain: Project, without: SnapshotStore) -> None:
    for content in ("aaaa\n", "bbbb\n", "cccc\n"):
        before = without.take()
        plain.write("edited.py", content=content)
        assert group_paths(without.diff(before, without.take())) == {"modified": ["edited.py"]}


def test_without_git_large_files_are_listed(plain: Project, without: SnapshotStore) -> None:
    before = without.take()
    with (plain.root / "large.bin").open("wb") as file:
        file.truncate(200 * 2**20)

    after = without.take()

    assert group_paths(without.diff(before, after)) == {"added": ["large.bin"]}
    assert [each.path for each in after.listed] == ["large.bin"]


def test_without_git_prune_removes_unneeded_snapshots(plain: Project, without: SnapshotStore) -> None:
    first = without.take()
    plain.write("new.py")
    second = without.take()

    assert without.prune({second.tree}) == 1
    with pytest.raises(GitError, match="no longer exists"):
        without.diff(first, second)


def test_a_folder_that_became_a_repository_starts_over(plain: Project, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    snapshots = SnapshotStore(Git(plain.root, environment=environment), plain.root / ".deepwork/snapshots")
    before = snapshots.take()
    plain.git("init", "-q", "-b", "main")

    after = snapshots.take()

    assert (before.kind, after.kind) == ("checksum", "git")
    with pytest.raises(NotAllowed, match="cannot be compared"):
        snapshots.diff(before, after)
