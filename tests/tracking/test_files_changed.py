"""Which files are attributed to a task, on every database and with real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code
from tracking.make import (
    complete_task,
    create_phase,
    create_task,
    create_workflow,
    create_workflow_and_phase,
    expect_error,
    get_changed_files,
    start_task,
    write_files,
)
from workspaces.make import commit, create_repository, run_git


@pytest.fixture
def shop(project: Path) -> Path:
    """The project with some files in its history."""
    write_files(project, src__cart_py="cart\n" * 20, src__pay_py="pay\n", docs__guide_md="guide\n")
    commit(project, "shop", b_txt="two\n")
    return project


def list_files_from_git(folder: Path, start: str) -> dict[str, list[str]]:
    """The union of two plain diffs: what was committed since, and what was not."""
    found: dict[str, str] = {}
    for ends in ([start, "HEAD"], ["HEAD"]):
        for line in run_git(folder, "diff", "--no-renames", "--name-status", *ends).splitlines():
            letter, _, path = line.partition("\t")
            found[path] = {"A": "added", "M": "modified", "D": "deleted"}[letter]
    return {
        what: sorted(path for path in found if found[path] == what) for what in sorted(set(found.values()))
    }


def test_changed_files_are_the_union_of_committed_and_staged_changes(app: Application, shop: Path):
    start = start_task(app, create_workflow_and_phase(app))

    commit(shop, "in between", c_txt="three\n", b_txt="changed\n")
    write_files(shop, src__new_py="new\n", src__pay_py="paid\n")
    (shop / "docs/guide.md").unlink()
    run_git(shop, "add", "-A")
    answer = complete_task(app, start["task_id"])

    expected = list_files_from_git(shop, start["snapshot_id"])
    assert get_changed_files(answer) == expected
    assert expected == {
        "added": ["c.txt", "src/new.py"],
        "deleted": ["docs/guide.md"],
        "modified": ["b.txt", "src/pay.py"],
    }
    assert answer["files_count"] == 5


def test_the_snapshot_id_is_the_head_commit(app: Application, shop: Path):
    start = start_task(app, create_workflow_and_phase(app))

    assert start["snapshot_type"] == "git"
    assert start["snapshot_id"] == run_git(shop, "rev-parse", "HEAD")


def test_before_the_first_commit_the_snapshot_has_its_own_id(app: Application, tmp_path: Path):
    run_git(tmp_path, "init", "-q")
    write_files(tmp_path, a_txt="one\n", _gitignore="/.deepwork/\n/deepwork.db*\n")
    start = start_task(app, create_workflow_and_phase(app))
    write_files(tmp_path, a_txt="two\n", b_txt="new\n")

    answer = complete_task(app, start["task_id"])

    assert start["snapshot_type"] == "git"
    assert start["snapshot_id"].startswith("git-")
    assert get_changed_files(answer) == {"added": ["b.txt"], "modified": ["a.txt"]}


def test_an_untracked_file_counts_as_changed(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, src__new_py="new\n")

    assert get_changed_files(complete_task(app, id)) == {"added": ["src/new.py"]}


def test_an_ignored_file_does_not_count_as_changed(app: Application, shop: Path):
    commit(shop, ".gitignore", _gitignore="/.deepwork/\n/deepwork.db*\n*.log\n")
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, build_log="noise\n")

    assert get_changed_files(complete_task(app, id)) == {}


def test_a_rename_is_a_deletion_an_addition_and_a_pair(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    run_git(shop, "mv", "src/cart.py", "src/basket.py")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {"added": ["src/basket.py"], "deleted": ["src/cart.py"]}
    assert answer["renamed"] == [{"from": "src/cart.py", "to": "src/basket.py", "similarity": 100}]
    shown = call_tool(app, "get_task_diff", task_id=id)["files"]
    assert {each["path"]: (each["added"], each["removed"]) for each in shown} == {
        "src/basket.py": (20, 0), "src/cart.py": (0, 20),
    }  # fmt: skip


def test_the_ignore_file_of_deepwork_is_not_a_change_of_the_project(app: Application, shop: Path):
    commit(shop, "track the state folder", **{".gitignore": "/deepwork.db*\n"})
    (shop / ".deepwork").mkdir(exist_ok=True)
    (shop / ".deepwork" / ".gitignore").write_text("# Changed by a person.\n*\n!.gitignore\n")
    write_files(shop, note_txt="mine\n")
    assert ".deepwork/.gitignore" in run_git(shop, "ls-files", "--others", "--exclude-standard")
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="changed\n")

    answer = complete_task(app, id)

    assert answer["preexisting"] == ["note.txt"]
    assert get_changed_files(answer) == {"modified": ["b.txt"]}


def test_a_binary_file_is_listed_and_marked_in_the_diff(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    (shop / "logo.png").write_bytes(bytes(range(256)))

    assert get_changed_files(complete_task(app, id)) == {"added": ["logo.png"]}
    [shown] = call_tool(app, "get_task_diff", task_id=id, path="logo.png")["files"]
    assert shown["is_binary"] is True


def test_a_reverted_file_is_not_attributed(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    id = create_task(app, where)
    write_files(shop, b_txt="changed\n")
    call_tool(app, "abandon_task", task_id=create_task(app, where, "other"), reason="A look in between.")
    write_files(shop, b_txt="two\n")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    assert "attribution" not in answer


def test_unusual_file_names_are_returned_unchanged(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    for name in ("fichier é.txt", "tab\there.txt", "new\nline.txt", '"quoted".txt', "-dash.txt"):
        (shop / name).write_text("x\n")

    assert get_changed_files(complete_task(app, id)) == {
        "added": sorted(["fichier é.txt", "tab\there.txt", "new\nline.txt", '"quoted".txt', "-dash.txt"])
    }


def test_a_file_name_that_is_not_utf8_does_not_block_completion(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    try:
        (Path(os.fsdecode(os.fsencode(shop) + b"/caf\xe9.txt"))).write_text("x\n")
    except OSError:  # a file system that takes only text has no such name to worry about
        return

    answer = complete_task(app, id)

    [path] = answer["files_changed"]["added"]
    assert path.encode()
    assert path.startswith("caf")
    assert call_tool(app, "get_task_diff", task_id=id)["files"][0]["path"] == path


def test_commits_made_during_a_task_are_reported(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    first = commit(shop, "first step", c_txt="c\n")
    second = commit(shop, "second step", d_txt="d\n")

    answer = complete_task(app, id)

    assert answer["commits"] == [
        {"sha": first, "subject": "first step"},
        {"sha": second, "subject": "second step"},
    ]
    assert get_changed_files(answer) == {"added": ["c.txt", "d.txt"]}
    assert answer["verification"]["warnings"] == []


def test_files_dirty_before_the_task_are_reported_separately(app: Application, shop: Path):
    write_files(shop, b_txt="mine\n", note_txt="mine\n", src__pay_py="mine\n")
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, src__pay_py="theirs\n")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {"modified": ["src/pay.py"]}
    assert answer["preexisting"] == ["b.txt", "note.txt"]


def test_a_switched_branch_is_a_warning(app: Application, shop: Path):
    run_git(shop, "switch", "-qc", "other")
    commit(shop, "elsewhere", c_txt="c\n")
    run_git(shop, "switch", "-q", "main")
    id = create_task(app, create_workflow_and_phase(app))
    run_git(shop, "switch", "-q", "other")

    answer = complete_task(app, id)

    assert answer["verification"]["warnings"] == [
        "The branch was switched during the task: files of the other branch count as changed"
    ]


def test_rewritten_history_is_a_warning(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    run_git(shop, "commit", "-q", "--amend", "-m", "reworded")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    assert answer["verification"]["warnings"] == [
        "History was rewritten during the task: older commits may be included"
    ]


def test_a_large_untracked_file_is_listed_without_its_content(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    (shop / "dump.bin").write_bytes(bytes(5 * 2**20 + 1))

    assert get_changed_files(complete_task(app, id)) == {"added": ["dump.bin"]}
    [shown] = call_tool(app, "get_task_diff", task_id=id, path="dump.bin")["files"]
    assert not shown.get("diff")


# Areas


def test_files_outside_the_areas_are_reported(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app), areas=["src", "*.md"])
    write_files(shop, src__new_py="n\n", README_md="r\n", b_txt="changed\n", z_txt="z\n")

    answer = complete_task(app, id)

    assert answer["verification"] == {
        "scope_match": False,
        "unexpected_files": ["z.txt", "b.txt"],
        "warnings": ["2 file(s) modified outside declared scope (src, *.md)"],
    }


def test_without_areas_everything_is_in_scope(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, z_txt="z\n")

    assert complete_task(app, id)["verification"] == {
        "scope_match": True, "unexpected_files": [], "warnings": [],
    }  # fmt: skip


# Where


def test_a_folder_without_git_is_compared_by_checksums(app: Application, tmp_path: Path):
    write_files(tmp_path, a_txt="one\n", b_txt="two\n", c_txt="three\n", same_txt="same\n")
    start = start_task(app, create_workflow_and_phase(app))
    write_files(tmp_path, a_txt="changed\n", new_txt="new\n")
    (tmp_path / "b.txt").unlink()
    (tmp_path / "c.txt").rename(tmp_path / "d.txt")

    answer = complete_task(app, start["task_id"])

    assert start["snapshot_type"] == "checksum"
    assert start["snapshot_id"].startswith("checksum-")
    own = {
        path
        for paths in get_changed_files(answer).values()
        for path in paths
        if path.startswith("deepwork.db")
    }
    assert {what: sorted(set(paths) - own) for what, paths in answer["files_changed"].items()} == {
        "added": ["d.txt", "new.txt"], "modified": ["a.txt"], "deleted": ["b.txt", "c.txt"],
    }  # fmt: skip
    assert answer["renamed"] == [{"from": "c.txt", "to": "d.txt", "similarity": 100}]
    [shown] = call_tool(app, "get_task_diff", task_id=start["task_id"], path="a.txt")["files"]
    assert "diff" not in shown


def test_the_cwd_selects_the_worktree(app: Application, shop: Path, tmp_path_factory: pytest.TempPathFactory):
    tree = tmp_path_factory.mktemp("trees") / "tree"
    run_git(shop, "worktree", "add", "-q", "-b", "feature", str(tree))
    start = start_task(app, create_workflow_and_phase(app), cwd=str(tree / "src"))
    write_files(tree, src__pay_py="paid\n")
    write_files(shop, b_txt="somebody else\n")

    answer = complete_task(app, start["task_id"])

    assert get_changed_files(answer) == {"modified": ["src/pay.py"]}
    assert answer["attribution"] == {"src/pay.py": "exclusive"}


def test_a_cwd_in_a_subfolder_selects_the_whole_tree(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    one = create_task(app, where, cwd="src")
    two = create_task(app, where, "other")
    write_files(shop, b_txt="changed\n")

    assert get_changed_files(complete_task(app, one)) == {"modified": ["b.txt"]}
    assert complete_task(app, two)["shared_with"] == {"b.txt": [one]}


@pytest.mark.parametrize("name", ["src", "link"])
def test_a_project_in_a_subfolder_tracks_the_whole_repository(
    shop: Path, location: str, name: str, tmp_path_factory: pytest.TempPathFactory
):
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(shop / "src")
    app = make_app(link if name == "link" else shop / "src", location)
    where = create_workflow_and_phase(app)
    one, two = create_task(app, where), create_task(app, where, "other", cwd=".")
    write_files(shop, b_txt="changed\n")

    answers = complete_task(app, one), complete_task(app, two)
    app.close()

    assert [get_changed_files(answer) for answer in answers] == [{"modified": ["b.txt"]}] * 2
    assert [answer["shared_with"]["b.txt"] for answer in answers] == [[two], [one]]


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "not/there", "a.txt"])
def test_a_cwd_outside_the_repository_is_refused(app: Application, shop: Path, cwd: str):
    where = create_workflow_and_phase(app)

    error = expect_error(
        app, "start_task", workflow_id=where[0], phase_id=where[1], caller_type="orchestrator", name="n",
        goal="g", cwd=cwd,
    )  # fmt: skip

    assert error.code is Code.PATH_OUTSIDE_PROJECT
    assert call_tool(app, "get_context", workflow_id=where[0], include=["tasks"])["tasks"] == []


def test_another_repository_is_refused(
    app: Application, shop: Path, tmp_path_factory: pytest.TempPathFactory
):
    stranger = create_repository(tmp_path_factory.mktemp("stranger"))
    where = create_workflow_and_phase(app)

    error = expect_error(
        app, "start_task", workflow_id=where[0], phase_id=where[1], caller_type="orchestrator", name="n",
        goal="g", cwd=str(stranger),
    )  # fmt: skip

    assert error.code is Code.PATH_OUTSIDE_PROJECT


@pytest.mark.parametrize("inside", [True, False])
def test_a_removed_worktree_is_a_warning_and_no_other_files_are_attributed(
    app: Application, shop: Path, tmp_path_factory: pytest.TempPathFactory, inside: bool
):
    tree = shop / ".deepwork/worktrees/gone" if inside else tmp_path_factory.mktemp("trees") / "gone"
    run_git(shop, "worktree", "add", "-q", "-b", "gone", str(tree))
    id = create_task(app, create_workflow_and_phase(app), cwd=str(tree))
    run_git(shop, "worktree", "remove", "--force", str(tree))
    write_files(shop, b_txt="somebody else\n")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    [warning] = answer["verification"]["warnings"]
    assert warning.startswith("Its changes are unknown")


def test_a_worktree_that_became_a_plain_folder_is_not_compared_with_its_parent(app: Application, shop: Path):
    tree = shop / ".deepwork/worktrees/plain"
    run_git(shop, "worktree", "add", "-q", "-b", "plain", str(tree))
    id = create_task(app, create_workflow_and_phase(app), cwd=str(tree))
    (tree / ".git").unlink()
    write_files(shop, b_txt="somebody else\n")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    assert answer["verification"]["warnings"][0].startswith("Its changes are unknown")


def test_a_repository_created_during_a_task_is_a_warning(app: Application, tmp_path: Path):
    write_files(tmp_path, a_txt="one\n")
    id = create_task(app, create_workflow_and_phase(app))
    create_repository(tmp_path)

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    assert answer["verification"]["warnings"][0].startswith("Its changes are unknown")


def test_a_tree_on_another_host_is_not_compared(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    _move_to(app, "elsewhere")
    write_files(shop, b_txt="changed\n")

    answer = complete_task(app, id)

    assert get_changed_files(answer) == {}
    assert answer["verification"]["warnings"] == ["Its tree is on elsewhere, so its changes are unknown"]
    diff = call_tool(app, "get_task_diff", task_id=id)
    assert diff == {"task_id": id, "files": [], "files_count": 0}


def test_a_task_that_ended_on_another_host_does_not_share_later_changes(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    gone = create_task(app, where, "gone")
    _move_to(app, "elsewhere")
    complete_task(app, gone)
    _move_to(app, app._host)
    later = create_task(app, where, "later")
    write_files(shop, b_txt="changed\n")

    assert complete_task(app, later)["attribution"] == {"b.txt": "exclusive"}


def _move_to(app: Application, host: str) -> None:
    with app.database.transaction() as tx:
        tx.execute("UPDATE watches SET host = :host", host=host)


# Who


def test_a_single_task_gets_every_change(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app), areas=["docs"])
    write_files(shop, b_txt="changed\n")

    assert complete_task(app, id)["attribution"] == {"b.txt": "exclusive"}


def test_areas_attribute_files_of_two_concurrent_tasks(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    code, docs = (
        create_task(app, where, "code", areas=["src"]),
        create_task(app, where, "docs", areas=["docs"]),
    )
    write_files(shop, src__new_py="n\n", docs__new_md="n\n", z_txt="z\n")

    first, second = complete_task(app, code), complete_task(app, docs)

    assert first["attribution"] == {"src/new.py": "area", "z.txt": "shared"}
    assert first["shared_with"] == {"z.txt": [docs]}
    assert get_changed_files(second) == {"added": ["docs/new.md", "z.txt"]}
    assert second["shared_with"] == {"z.txt": [code]}


def test_changes_while_no_other_task_runs_are_exclusive(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    long = create_task(app, where, "long")
    write_files(shop, one_txt="1\n")
    short = create_task(app, where, "short")
    write_files(shop, two_txt="2\n")
    shared = complete_task(app, short)
    write_files(shop, three_txt="3\n")

    answer = complete_task(app, long)

    assert get_changed_files(shared) == {"added": ["two.txt"]}
    assert answer["attribution"] == {
        "one.txt": "exclusive", "two.txt": "shared", "three.txt": "exclusive",
    }  # fmt: skip


def test_changes_before_and_after_a_task_are_not_attributed_to_it(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    write_files(shop, before_txt="b\n")
    id = create_task(app, where)
    write_files(shop, mine_txt="m\n")
    complete_task(app, id)
    write_files(shop, after_txt="a\n")

    assert [file["path"] for file in call_tool(app, "get_task_diff", task_id=id)["files"]] == ["mine.txt"]


def test_changes_are_attributed_to_a_child_and_not_to_its_parent(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    parent = create_task(app, where, "parent")
    write_files(shop, before_txt="b\n")
    child = create_task(app, where, "child", parent_task_id=parent)
    write_files(shop, child_txt="c\n")
    done = complete_task(app, child)
    write_files(shop, after_txt="a\n")

    answer = complete_task(app, parent)

    assert done["attribution"] == {"child.txt": "exclusive"}
    assert get_changed_files(answer) == {"added": ["after.txt", "before.txt"]}


def test_tasks_in_different_trees_do_not_share_changes(
    app: Application, shop: Path, tmp_path_factory: pytest.TempPathFactory
):
    tree = tmp_path_factory.mktemp("trees") / "tree"
    run_git(shop, "worktree", "add", "-q", "-b", "feature", str(tree))
    where = create_workflow_and_phase(app)
    here, there = create_task(app, where, "here"), create_task(app, where, "there", cwd=str(tree))
    write_files(shop, here_txt="h\n")
    write_files(tree, there_txt="t\n")

    assert complete_task(app, here)["attribution"] == {"here.txt": "exclusive"}
    assert complete_task(app, there)["attribution"] == {"there.txt": "exclusive"}


def test_an_abandoned_task_gets_its_changes_and_ends(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    lost = create_task(app, where, "lost")
    write_files(shop, lost_txt="l\n")

    assert get_changed_files(call_tool(app, "abandon_task", task_id=lost, reason="gone")) == {
        "added": ["lost.txt"]
    }

    later = create_task(app, where, "later")
    write_files(shop, later_txt="l\n")
    assert complete_task(app, later)["attribution"] == {"later.txt": "exclusive"}


def test_a_workflow_counts_each_file_once(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    for text in ("one\n", "two\n"):
        id = create_task(app, where)
        write_files(shop, b_txt=f"changed {text}", new_txt=text)
        complete_task(app, id)

    ended = call_tool(app, "complete_workflow", workflow_id=where[0], status="completed", summary="s")

    assert ended["metrics"]["files_changed"] == 2


# get_task_diff


def test_the_diff_of_a_task_lists_its_files(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="two\nthree\n", new_txt="n\n")
    (shop / "src/pay.py").unlink()
    complete_task(app, id)

    assert call_tool(app, "get_task_diff", task_id=id) == {
        "task_id": id,
        "files": [
            {"path": "b.txt", "status": "modified", "attribution": "exclusive", "added": 1, "removed": 0},
            {"path": "new.txt", "status": "added", "attribution": "exclusive", "added": 1, "removed": 0},
            {"path": "src/pay.py", "status": "deleted", "attribution": "exclusive", "added": 0, "removed": 1},
        ],
        "files_count": 3,
    }


def test_the_diff_of_a_file_is_not_affected_by_later_changes(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="two\nthree\n")
    complete_task(app, id)
    commit(shop, "later", b_txt="quite another\n")

    [shown] = call_tool(app, "get_task_diff", task_id=id, path="b.txt")["files"]

    assert shown["diff"].endswith("@@ -1 +1,2 @@\n two\n+three\n")
    assert "truncated" not in shown


def test_a_diff_can_be_applied(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="two\nthree\n")
    complete_task(app, id)
    run_git(shop, "checkout", "-q", "b.txt")

    [shown] = call_tool(app, "get_task_diff", task_id=id, path="b.txt")["files"]
    subprocess.run(["git", "apply"], cwd=shop, input=shown["diff"], text=True, check=True)

    assert (shop / "b.txt").read_text() == "two\nthree\n"


def test_a_long_diff_is_truncated(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, new_txt="a line of it\n" * 200)
    complete_task(app, id)

    [shown] = call_tool(app, "get_task_diff", task_id=id, path="new.txt", max_bytes=500)["files"]

    assert shown["truncated"] is True
    assert 400 < len(shown["diff"].encode()) <= 500


@pytest.mark.parametrize("max_bytes", [0, 1_000_001])
def test_a_diff_size_out_of_range_is_an_input_error(app: Application, max_bytes: int):
    error = expect_error(app, "get_task_diff", task_id="tt_0", max_bytes=max_bytes)

    assert error.code is Code.INVALID_INPUT


def test_the_diff_of_a_file_that_the_task_did_not_change_is_refused(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="changed\n")
    complete_task(app, id)

    error = expect_error(app, "get_task_diff", task_id=id, path="a.txt")

    assert error.code is Code.INVALID_INPUT
    assert "'a.txt'" in error.message


def test_the_diff_of_an_unknown_task_is_refused(app: Application):
    assert expect_error(app, "get_task_diff", task_id="tt_0").code is Code.TASK_NOT_FOUND


def test_the_diff_of_a_running_task_is_empty_with_a_warning(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))

    assert call_tool(app, "get_task_diff", task_id=id) == {
        "task_id": id,
        "files": [],
        "files_count": 0,
        "warning": "The task is still running; its files are listed when it ends.",
    }


def test_the_diff_of_a_task_without_a_start_snapshot_is_empty_with_a_warning(app: Application, shop: Path):
    (shop / ".git/index").write_bytes(b"nonsense")
    start = start_task(app, create_workflow_and_phase(app))

    answer = call_tool(app, "get_task_diff", task_id=start["task_id"])
    ended = complete_task(app, start["task_id"])

    assert start["snapshot_type"] == "none"
    assert ended["verification"]["warnings"] == [
        "No snapshot was taken when it started, so its changes are unknown"
    ]
    assert start["snapshot_id"] is None
    assert start["warnings"][0].startswith("Its changes cannot be tracked")
    assert answer["files"] == []
    assert answer["warning"] == "No snapshot was taken when it started, so its changes are unknown."


def test_an_unwritable_snapshot_folder_does_not_block_tasks(app: Application, shop: Path):
    where = create_workflow_and_phase(app)
    shutil.rmtree(shop / ".deepwork", ignore_errors=True)
    write_files(shop, _deepwork__snapshots="a file in the way\n")

    start = start_task(app, where)

    assert start["snapshot_type"] == "none"
    assert complete_task(app, start["task_id"])["status"] == "success"


def test_files_are_still_reported_after_the_tree_was_removed(app: Application, shop: Path):
    tree = shop / ".deepwork/worktrees/done"
    run_git(shop, "worktree", "add", "-q", "-b", "done", str(tree))
    id = create_task(app, create_workflow_and_phase(app), cwd=str(tree))
    write_files(tree, b_txt="two\nthree\n")
    complete_task(app, id)
    run_git(shop, "worktree", "remove", "--force", str(tree))

    answer = call_tool(app, "get_task_diff", task_id=id, path="b.txt")

    assert [file["path"] for file in answer["files"]] == ["b.txt"]
    assert answer["files"][0]["diff"].endswith("+three\n")


def test_changed_files_are_still_listed_after_the_repository_was_removed(app: Application, shop: Path):
    id = create_task(app, create_workflow_and_phase(app))
    write_files(shop, b_txt="changed\n")
    complete_task(app, id)
    shutil.rmtree(shop / ".git")

    assert [file["path"] for file in call_tool(app, "get_task_diff", task_id=id)["files"]] == ["b.txt"]


def test_tasks_of_concurrent_phases_share_changes(app: Application, shop: Path):
    id = create_workflow(app)
    one, two = create_phase(app, id, 1), create_phase(app, id, 2)
    first, second = create_task(app, (id, one)), create_task(app, (id, two))
    write_files(shop, b_txt="changed\n")

    assert complete_task(app, first)["shared_with"] == {"b.txt": [second]}
