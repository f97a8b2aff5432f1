"""Starts an agent and waits; a test kills it. Arguments: the folder of the start, a window, and the program.

It kills itself in the window: `before_launch`, `after_launch`, `after_fork`; in `never` it waits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from deepwork.delivery.runner import processes
from deepwork.delivery.runner.attempt_files import AttemptFiles


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DeadlyPopen(subprocess.Popen[bytes]):
    """Starts a process, and kills its parent before that hears of it."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        die()


def patch(module: ModuleType, name: str, value: object) -> None:
    setattr(module, name, value)


def main() -> None:
    folder, window, *argv = sys.argv[1:]
    if window == "before_launch":
        patch(processes, "_write_record", die)
    elif window == "after_launch":
        patch(processes, "_run_shim", die)
    elif window == "after_fork":
        patch(subprocess, "Popen", DeadlyPopen)
    files = AttemptFiles(Path(folder))
    processes.start_process(files, argv, {"PATH": os.environ["PATH"]}, files.folder.parent, 600.0)
    print("started", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
