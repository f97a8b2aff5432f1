"""Programs that take too long, without anybody waiting for them."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

DAY = 24 * 3600


def let_time_pass_after(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a day pass for whoever runs programs within bounds, as soon as a line is in this file.

    A bound of half a second is shorter than the start of a program can take on a busy machine. So the bound is
    long, and it is over when the program has come to where the test wants it.
    """

    def monotonic() -> float:
        return time.monotonic() + (DAY if _has_a_line(note) else 0)

    monkeypatch.setattr("deepwork.programs.time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))


def _has_a_line(note: Path) -> bool:
    return note.exists() and note.read_text().endswith("\n")
