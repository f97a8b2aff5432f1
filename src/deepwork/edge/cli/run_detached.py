"""Follows a run in a process of its own, without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.os_errors import to_storage_error
from deepwork.kernel.files.private import make_private_folder
from deepwork.kernel.files.state import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepwork.delivery.runner.models import Run
    from deepwork.kernel.config import Settings

_SECONDS_TO_START = 60.0
_POLL_SECONDS = 0.05
_SHOWN_BYTES = 2_000
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def get_log_path(state_folder: Path, run_id: str) -> Path:
    """Return the file into which a detached run writes its events."""
    return state_folder / "runs" / f"{run_id}.log"


def start_detached(settings: Settings, run: Run, place: Mapping[str, Any], log: Path) -> int:
    """Start a process that follows the run, and return its id when it does; raises if it cannot."""
    make_state_folder(log.parents[1])
    make_private_folder(log.parent)
    try:
        descriptor = os.open(log, _LOG_FLAGS, 0o600)
    except OSError as error:
        raise to_storage_error("write", log, error) from error
    try:
        size = os.fstat(descriptor).st_size
        process = subprocess.Popen(  # noqa: S603 - our own program
            build_command(settings, run, place),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    _wait_until_it_follows(process, log, size)
    return process.pid


def build_command(settings: Settings, run: Run, place: Mapping[str, Any]) -> list[str]:
    """Build the command that follows a run in the same project and the same store."""
    words = [sys.executable, "-P", "-m", "deepwork", "runs", "attach", run.id]
    words += ["--path", str(settings.project_root)]
    words += ["--db", str(place["database"])] if place.get("database") else []
    return [*words, "--global"] if place.get("global_store") else words


def _wait_until_it_follows(process: subprocess.Popen[bytes], log: Path, size: int) -> None:
    """Wait for the first line, so that a process that cannot start is reported here."""
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if process.poll() not in (None, 0):
            with log.open("rb") as file:
                file.seek(size)
                said = file.read(_SHOWN_BYTES).decode(errors="replace").strip()
            raise DeepworkError(
                f"The detached process ended with exit code {process.returncode}: {said}",
                suggestion="Start it without --detach to see more.",
            )
        if log.stat().st_size > size or process.returncode == 0:
            return
        time.sleep(_POLL_SECONDS)
