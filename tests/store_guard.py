"""Notices when the product opens a file of a store that SQLite has open in the same process.

Closing it would drop SQLite's locks: see `kernel/database/store_file.py`, the only module that may open these files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import deepwork
from deepwork.kernel.database import store_file
from deepwork.kernel.files.lock import is_locked, locked_files

violations: list[str] = []
"""What was opened, and where; a fixture of `conftest.py` fails the test in which that happened."""

_PRODUCT = str(Path(deepwork.__file__).parent)
_TESTS = str(Path(__file__).parent)


def watch_opened_files() -> None:
    """Watch every file that this process opens from now on; SQLite itself opens files without an audit event."""
    sys.addaudithook(_note_opened_file)


def _note_opened_file(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not locked_files:
        return
    path = arguments[0]
    if isinstance(path, str | bytes) and _is_of_store(path) and (opener := _find_opener()):
        violations.append(f"{os.fsdecode(path)}, opened by {opener}")


def _is_of_store(path: str | bytes) -> bool:
    try:
        return is_locked(Path(os.fsdecode(path)).stat())
    except (OSError, ValueError):
        return False


def _find_opener() -> str | None:
    """Find the product's line that opens the file; None if a test does, or the module that may."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == store_file.__file__ or file.startswith(_TESTS):
            return None
        if file.startswith(_PRODUCT):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return None
