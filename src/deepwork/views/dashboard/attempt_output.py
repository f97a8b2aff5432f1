"""REST endpoint for the end of what an agent wrote."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Literal

from pydantic import Field

from deepwork.delivery.runner.attempt_files import AttemptFiles, read_tail
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.gates.access.models import Scope
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import escape_controls
from deepwork.views.dashboard.endpoints import Endpoint, NoParameters, ReadContext, RestAnswer

MAX_BYTES = 256 * 1024


class AttemptOutput(RestAnswer):
    """The end of what one start of an agent wrote, from the beginning of a line; controls are escaped."""

    attempt_id: str
    start: int
    stream: str
    text: str
    size: int | None = None
    """Bytes in the file; None if it is not on this machine."""
    reason: str | None = None
    """Why there is no text."""


class OutputQuery(NoParameters):
    stream: Literal["stdout", "stderr"] = "stdout"
    start: int | None = Field(default=None, ge=1, description="Of this start; the last one if not given")
    max_bytes: int = Field(default=64 * 1024, ge=1, le=MAX_BYTES)


def read_output(context: ReadContext, query: OutputQuery) -> AttemptOutput:
    """Read the end of an agent's output."""
    attempt = AttemptStore(context.tx).get(context.id)
    start = query.start or attempt.starts
    if start > attempt.starts:
        raise InvalidInput(
            f"Attempt {attempt.id} has {attempt.starts} starts.", suggestion="Leave `start` out for the last."
        )
    path = _locate(context.state_folder, attempt, start, query.stream)
    size = _measure(path) if path else None
    text = "" if path is None or size is None else escape_controls(read_tail(path, query.max_bytes))
    return AttemptOutput(
        attempt_id=attempt.id,
        start=start,
        stream=query.stream,
        text=text,
        size=size,
        reason=None if size is not None else _explain_absence(attempt),
    )


def _locate(state_folder: Path | None, attempt: Attempt, start: int, stream: str) -> Path | None:
    if state_folder is None or start == 0:
        return None
    files = AttemptFiles.locate(state_folder, attempt.id, start)
    return files.stdout if stream == "stdout" else files.stderr


def _measure(path: Path) -> int | None:
    """Return the size of a file; None if there is none: an agent could put a link or a pipe in its place."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _explain_absence(attempt: Attempt) -> str:
    if not attempt.starts:
        return "The agent was not started yet."
    return f"The output is on the machine {attempt.host}, or was removed."


ENDPOINTS = (
    Endpoint(
        "/api/v1/runner/attempts/{id}/output",
        "The end of what an agent wrote. Needs the scope work.",
        OutputQuery,
        AttemptOutput,
        read_output,
        scope=Scope.WORK,  # it may contain anything that the agent read, such as files and secrets
    ),
)
