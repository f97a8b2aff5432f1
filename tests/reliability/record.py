"""The record of the long runs: batches and runs of `make test-all`, one JSON object per line of a file in git."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("record.json")
KINDS = ("batches", "test_runs")

Record = dict[str, list[dict[str, Any]]]


def load_record(file: Path = FILE) -> Record:
    """Load all entries, oldest first."""
    found: Record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {kind: found.get(kind, []) for kind in KINDS}


def append_entry(kind: str, entry: dict[str, Any], file: Path = FILE) -> None:
    """Add an entry; a reader, or a crash, sees the file with it or without it."""
    with _lock(file):
        record = load_record(file)
        record[kind].append(entry)
        new = file.with_suffix(".new")
        new.write_text(_format_record(record), encoding="utf-8")
        new.replace(file)


def select_batches(record: Record, part: str, version: str) -> list[dict[str, Any]]:
    """Select the batches of a part that were run with this version."""
    return [each for each in record["batches"] if each["part"] == part and each["version"] == version]


def sum_counts(batches: Iterable[dict[str, Any]]) -> Counter[str]:
    """Add up what the batches counted."""
    total: Counter[str] = Counter()
    for batch in batches:
        total.update(batch["counts"])
    return total


def describe_now() -> dict[str, str]:
    """Describe what is tested, and when."""
    from deepwork import __version__  # pages are generated without it

    return {
        "version": __version__,
        "commit": find_commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def find_commit() -> str:
    """Return the commit that is checked out; marked if `src` differs from it."""
    commit = _run_git("rev-parse", "--short=10", "HEAD")
    return f"{commit}+changes" if _run_git("status", "--porcelain", "--", "src") else commit


def _run_git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _format_record(record: Record) -> str:
    parts = [f' "{kind}": [\n{_format_lines(record[kind])}\n ]' for kind in KINDS]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _format_lines(entries: list[dict[str, Any]]) -> str:
    return ",\n".join(f"  {json.dumps(entry, ensure_ascii=False)}" for entry in entries)


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Lock the folder: the file itself is replaced."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
