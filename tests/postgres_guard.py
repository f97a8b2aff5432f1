"""Ends a PostgreSQL server of tests whose process was killed: `postgres_guard.py PARENT_PID FOLDER`.

It is a process of its own, in a session of its own, so no signal to the tests reaches it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 0.2


def guard(parent: int, folder: Path) -> None:
    """Wait until the parent has ended, then end the server and remove its data."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    with suppress(OSError, ValueError, IndexError):  # it may not have started, or have ended
        server = int((folder / "data/postmaster.pid").read_text().split()[0])
        while True:
            os.kill(server, signal.SIGQUIT)  # PostgreSQL then ends all its processes at once
            time.sleep(LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(int(sys.argv[1]), Path(sys.argv[2]))
