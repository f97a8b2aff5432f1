"""Parses the output of `diff-tree -z --raw`, with or without `--numstat`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from deepwork.kernel.git.snapshot_types import FileChange, Rename, SnapshotDiff

_Counts = dict[str, tuple[int | None, int | None]]


def parse_raw_diff(output: bytes) -> SnapshotDiff:
    """Parse all changes by path; a rename becomes a deletion, an addition and a pair."""
    words = iter(os.fsdecode(output).split("\0")[:-1])
    changes: dict[str, FileChange] = {}
    renamed: list[Rename] = []
    counts: _Counts = {}
    for word in words:
        if word.startswith(":"):
            _parse_change(word, words, changes, renamed)
        else:
            _parse_counts(word, words, counts)
    files = (_add_counts(changes[path], counts) for path in sorted(changes))
    return SnapshotDiff(tuple(files), tuple(sorted(renamed, key=lambda pair: pair.target)))


def _parse_change(
    header: str, words: Iterator[str], changes: dict[str, FileChange], renamed: list[Rename]
) -> None:
    old_mode, new_mode, old_hash, new_hash, status = header[1:].split(" ")
    before = f"{old_mode} {old_hash}" if old_mode.strip("0") else None
    after = f"{new_mode} {new_hash}" if new_mode.strip("0") else None
    path = next(words)
    if status[0] != "R":
        changes[path] = FileChange(path, before, after)
        return
    target = next(words)
    changes[path] = FileChange(path, before, None)
    changes[target] = FileChange(target, None, after)
    renamed.append(Rename(path, target, int(status[1:])))


def _parse_counts(word: str, words: Iterator[str], counts: _Counts) -> None:
    added, removed, path = word.split("\t", 2)
    if not path:  # a rename: from and to follow
        next(words)
        path = next(words)
    counts[path] = (None, None) if added == "-" else (int(added), int(removed))


def _add_counts(change: FileChange, counts: _Counts) -> FileChange:
    if change.path not in counts:
        return change
    added, removed = counts[change.path]
    return replace(change, added=added, removed=removed, is_binary=added is None)
