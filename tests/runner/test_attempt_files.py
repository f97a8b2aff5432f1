"""Output is read line by line from a stored offset, whatever an agent writes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from deepwork.delivery.runner import attempt_files
from deepwork.delivery.runner.attempt_files import (
    CUT_MARK,
    MAX_LINE_BYTES,
    AttemptFiles,
    free_output,
    read_lines,
    read_record,
    read_tail,
)


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    files = AttemptFiles.locate(tmp_path, "att_1", 1)
    files.folder.mkdir(parents=True)
    return files


def read_all(files: AttemptFiles, max_bytes: int, offset: int = 0) -> tuple[list[str], int]:
    """Read until nothing more comes."""
    lines: list[str] = []
    while True:
        more, following = read_lines(files, offset, max_bytes)
        if following == offset:
            return lines, offset
        lines += more
        offset = following


def test_without_output_there_are_no_lines(files: AttemptFiles):
    assert read_lines(files, 0, 100) == ([], 0)

    files.stdout.write_text("")

    assert read_lines(files, 0, 100) == ([], 0)


@pytest.mark.parametrize("max_bytes", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_much_is_read_at_a_time(files: AttemptFiles, max_bytes: int):
    files.stdout.write_bytes("one\r\n\nzwölf\n".encode() + b"\xff\nhalf")

    assert read_all(files, max_bytes) == (["one", "", "zwölf", "\ufffd"], 15)


def test_half_a_line_waits_for_its_end(files: AttemptFiles):
    files.stdout.write_text("one\ntw")
    lines, offset = read_lines(files, 0, 100)
    with files.stdout.open("a") as file:
        file.write("o\n")

    assert lines == ["one"]
    assert read_lines(files, offset, 100) == (["two"], 8)


def test_half_a_line_is_read_when_the_agent_has_ended(files: AttemptFiles):
    files.stdout.write_text("one\ntw")
    assert read_lines(files, 4, 100, is_over=True) == (["tw"], 6)

    files.exit.write_text(json.dumps({"code": 0}))

    assert read_all(files, 100) == (["one", "tw"], 6)
    assert read_lines(files, 6, 100) == ([], 6)


@pytest.mark.parametrize("max_bytes", [65_536, 3_000_000, 20_000_000])
def test_a_line_of_nine_megabytes_is_cut(files: AttemptFiles, max_bytes: int):
    files.stdout.write_bytes(b"before\n" + b"x" * 9_000_000 + b"\nafter\n")

    lines, offset = read_all(files, max_bytes)

    assert lines == ["before", "x" * MAX_LINE_BYTES + CUT_MARK, "after"]
    assert offset == 9_000_014


def test_a_line_of_the_largest_size_is_not_cut(files: AttemptFiles):
    files.stdout.write_bytes(b"x" * MAX_LINE_BYTES + b"\n")

    assert read_all(files, 65_536) == (["x" * MAX_LINE_BYTES], MAX_LINE_BYTES + 1)


def test_an_endless_line_is_cut_before_it_ends_and_then_skipped(files: AttemptFiles):
    files.stdout.write_bytes(b"x" * 1_500_000)
    lines, offset = read_all(files, 65_536)
    with files.stdout.open("ab") as file:
        file.write(b"x" * 1_500_000 + b"\nafter\nhalf")

    assert lines == ["x" * MAX_LINE_BYTES + CUT_MARK]
    assert offset == 1_500_000
    assert read_all(files, 65_536, offset) == (["after"], 3_000_007)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="punches holes")
def test_what_was_read_is_freed_and_offsets_stay(files: AttemptFiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempt_files, "KEPT_OUTPUT_BYTES", 1_000_000)
    monkeypatch.setattr(attempt_files, "_FREED_STEP_BYTES", 100_000)
    files.stdout.write_bytes(b"".join(b"line %06d\n" % number for number in range(300_000)))
    os.sync()
    size = files.stdout.stat().st_size

    free_output(files, 2_400_000)

    status = files.stdout.stat()
    assert status.st_size == size
    if status.st_blocks * 512 >= size:
        pytest.skip("this file system has no holes")
    assert read_lines(files, 2_400_000, 24) == (["line 200000", "line 200001"], 2_400_024)
    lines, offset = read_lines(files, 0, 100)  # from the beginning: what is left
    assert lines[0].startswith("line 1")
    assert offset > 1_300_000


def test_little_output_is_kept(files: AttemptFiles):
    files.stdout.write_bytes(b"line\n" * 100_000)
    blocks = files.stdout.stat().st_blocks

    free_output(files, 500_000)

    assert files.stdout.stat().st_blocks == blocks
    assert read_lines(files, 0, 10) == (["line", "line"], 10)


def test_a_tail_starts_with_a_line(files: AttemptFiles):
    assert read_tail(files.stderr, 10) == ""

    files.stderr.write_text("first line\nsecond\n")

    assert read_tail(files.stderr, 10) == "second\n"
    assert read_tail(files.stderr, 3) == "nd\n"
    assert read_tail(files.stderr, 100) == "first line\nsecond\n"


def test_a_damaged_record_is_none(files: AttemptFiles):
    files.process.write_text('{"pid": ')

    assert read_record(files.process) is None
