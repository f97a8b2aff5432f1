"""Simulates programs that take too long, without waiting for them."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

DAY = 24 * 3600


def pass_time_after(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock of `deepwork.kernel.programs` by a day as soon as the file contains a line.

    On a busy machine a program can take longer to start than any short limit. So the limit is long, and it
    expires when the program has reached the point that the test needs.
    """

    def monotonic() -> float:
        return time.monotonic() + (DAY if _has_a_line(note) else 0)

    monkeypatch.setattr(
        "deepwork.kernel.programs.time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep)
    )


def _has_a_line(note: Path) -> bool:
    return note.exists() and note.read_text().endswith("\n")
