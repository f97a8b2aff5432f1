"""A task that changed many files: the cost grows with their number, the answer does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from application import call_tool
from call_counter import count_calls
from deepwork.edge.server.application import Application
from deepwork.kernel.git.history import HistoryCommit
from deepwork.kernel.git.snapshot_types import (
    FileChange,
    ListedFile,
    Rename,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
    add_listed_changes,
)
from deepwork.work.tracking.attribution_service import TaskChanges
from deepwork.work.tracking.models import AttributedChange, Attribution
from tracking.make import complete_task, create_task, create_workflow_and_phase


def change_files(app: Application, project: Path, count: int) -> tuple[Any, int]:
    """Complete a task that adds this many files; return the answer and the calls that it took."""
    task_id = create_task(app, create_workflow_and_phase(app))
    folder = project / f"{count} files"
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04}.txt").write_text(f"{number}\n")
    answers: list[Any] = []
    calls = count_calls(lambda: answers.append(complete_task(app, task_id)))
    return answers[0], calls


def test_the_cost_of_completing_a_task_grows_with_the_number_of_files(app: Application, project: Path):
    _, none = change_files(app, project, 1)
    _, some = change_files(app, project, 400)
    answer, twice = change_files(app, project, 800)

    assert answer["files_count"] == 800
    assert twice - none < 2.5 * (some - none)  # quadratic: 4


def test_long_lists_of_files_are_cut_and_say_so(app: Application, project: Path):
    answer, _ = change_files(app, project, 501)

    assert len(answer["files_changed"]["added"]) == 500
    assert answer["truncated"] == ["added", "attribution"]
    assert answer["counts"] == {"added": 501, "attribution": 501}
    assert answer["files_count"] == 501


def test_short_lists_are_not_said_to_be_cut(app: Application, project: Path):
    answer, _ = change_files(app, project, 3)

    assert not {"truncated", "counts"} & answer.keys()


def test_a_repeated_completion_has_the_same_marks(app: Application, project: Path):
    first, _ = change_files(app, project, 501)

    again = complete_task(app, first["task_id"])

    assert again == first | {"already_completed": True}


def test_a_diff_of_many_files_says_that_it_is_cut(app: Application, project: Path):
    answer, _ = change_files(app, project, 1001)

    diff = call_tool(app, "get_task_diff", task_id=answer["task_id"])

    assert (len(diff["files"]), diff["files_count"], diff["truncated"]) == (1000, 1001, True)


def test_the_size_of_a_result_is_limited_whatever_the_files_are_called():
    name = "ü" * 2000
    changed = tuple(
        AttributedChange(
            f"{name}{number}", None, "1", attribution=Attribution.SHARED, shared_with=("tt_1",) * 50
        )
        for number in range(600)
    )
    renamed = tuple(Rename(f"{name}{number}", name, 100) for number in range(600))
    commits = tuple(HistoryCommit("0" * 40, "1" * 40, (), 0, "a", "long " * 100_000) for _ in range(200))
    changes = TaskChanges(None, changed, renamed, commits, tuple(each.path for each in changed))

    result = changes.to_result([f"{name}/{number}" for number in range(10_000)])

    assert len(json.dumps(result, ensure_ascii=False).encode()) < 300 * 1024
    assert result["counts"] == {"added": 600, "modified": 0, "deleted": 0}
    assert result["cut"]["renamed"] == 600


def test_renames_are_not_compared_with_every_listed_file():
    renamed = tuple(Rename(f"old{number}", f"new{number}", 100) for number in range(300))
    files = tuple(FileChange(pair.source, "1", None) for pair in renamed)
    listed = tuple(ListedFile(CountedName(f"large{number}"), 1, 1) for number in range(300))
    before = Snapshot(SnapshotKind.GIT, "0", listed=listed)
    CountedName.hashed = 0

    found = add_listed_changes(before, before, SnapshotDiff(files, renamed))

    assert found.renamed == renamed
    assert CountedName.hashed < 20 * len(listed)


class CountedName(str):
    """A name that counts how often it is put into a set or searched there."""

    __slots__ = ()
    hashed = 0

    def __hash__(self) -> int:
        CountedName.hashed += 1
        return super().__hash__()
