from __future__ import annotations

import os
from pathlib import Path

from deepwork.edge.server.invocation import JobStackReader

OLD, OLDER = 1_000_000_000_000_000_000, 999_999_999_000_000_000


def set_time(folder: Path, ns: int) -> None:
    os.utime(folder, ns=(ns, ns))


def test_without_sessions_no_stack_is_read(tmp_path: Path):
    reader = JobStackReader(tmp_path / "tmp", lambda _: ["read"])

    assert reader.get_stack("local") == []
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "other.json").touch()
    assert reader.get_stack("local") == []


def test_a_stack_is_read_again_only_after_a_change(tmp_path: Path):
    (tmp_path / "session_1.json").touch()
    set_time(tmp_path, OLDER)
    stacks = iter([["a/b:one"], ["a/b:two"]])
    reader = JobStackReader(tmp_path, lambda _: next(stacks))

    assert reader.get_stack("local") == reader.get_stack("local") == ["a/b:one"]
    set_time(tmp_path, OLD)
    assert reader.get_stack("local") == reader.get_stack("local") == ["a/b:two"]


def test_a_change_that_may_share_its_time_with_the_next_is_not_remembered(tmp_path: Path):
    (tmp_path / "session_1.json").touch()
    set_time(tmp_path, 2**62)  # in the future
    stacks = iter([["a/b:one"], ["a/b:two"]])
    reader = JobStackReader(tmp_path, lambda _: next(stacks))

    assert [reader.get_stack("local"), reader.get_stack("local")] == [["a/b:one"], ["a/b:two"]]
