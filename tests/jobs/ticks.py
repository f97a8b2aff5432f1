"""Two writes that a file system can tell apart."""

from __future__ import annotations

import time
from pathlib import Path


def wait_for_a_tick(file: Path) -> None:
    """Wait until a file that is written now gets another time than this one has."""
    probe = file.with_name(f".{file.name}.probe")
    while True:
        probe.write_text("")
        is_later = probe.stat().st_mtime_ns > file.stat().st_mtime_ns
        probe.unlink()
        if is_later:
            return
        time.sleep(0.001)
