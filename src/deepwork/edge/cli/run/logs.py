"""What the agent of an attempt wrote, start by start: readable, as it was written, or as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.attempt_files import AttemptFiles, read_lines
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.signals import (
    Ended,
    LimitReached,
    Said,
    SessionStarted,
    Signal,
    ToolStarted,
    TransientFailure,
)
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.cli.framework.output import to_printable
from deepwork.kernel.foreign_text import dump_json, escape_controls

if TYPE_CHECKING:
    from pathlib import Path

    from deepwork.kernel.database.transaction import Database

_READ_BYTES = 256_000
_POLL_SECONDS = 0.5


class LogEntry(NamedTuple):
    """A line, of which start of which attempt."""

    attempt_id: str
    start: int
    line: str


Render = Callable[[LogEntry], list[str]]


class LogReader:
    """Reads the output of an attempt's processes, one after another."""

    def __init__(
        self, database: Database, state_folder: Path, attempt_id: str, *, is_stderr: bool = False
    ) -> None:
        self._database, self._folder, self._is_stderr = database, state_folder, is_stderr
        self._attempt = self._load(attempt_id)

    @property
    def vendor(self) -> str:
        return self._attempt.vendor

    def read(self, *, follow: bool) -> Iterator[LogEntry]:
        """Yield the lines of every start; with `follow`, new ones until the attempt has ended."""
        start, offset = 1, 0
        while True:
            attempt = self._load(self._attempt.id)  # before reading: what follows its end is nothing
            while start <= attempt.starts:
                is_over = start < attempt.starts or attempt.ended_at is not None
                files = self._locate(start)
                lines, after = read_lines(files, offset, _READ_BYTES, is_over=is_over or None)
                yield from (LogEntry(attempt.id, start, line) for line in lines)
                if after != offset:
                    offset = after
                elif is_over:
                    start, offset = start + 1, 0
                else:
                    break
            if not follow or attempt.ended_at is not None:
                return
            time.sleep(_POLL_SECONDS)

    def _locate(self, start: int) -> AttemptFiles:
        files = AttemptFiles.locate(self._folder, self._attempt.id, start)
        return _ErrorFiles(files.folder) if self._is_stderr else files

    def _load(self, id: str) -> Attempt:
        with self._database.reading() as tx:
            return AttemptStore(tx).get(id)


class _ErrorFiles(AttemptFiles):
    """The same files, where the error output is read."""

    @property
    def stdout(self) -> Path:
        return self.stderr


def choose_renderer(vendor: str, *, as_json: bool, is_raw: bool) -> Render:
    """Choose how a line is printed."""
    if as_json:
        return _render_json
    if is_raw:
        return lambda entry: [escape_controls(entry.line)]
    adapter = get_adapter(vendor)
    return lambda entry: [line for signal in adapter.read_line(entry.line) for line in render_signal(signal)]


def render_signal(signal: Signal) -> list[str]:
    """Render what a line of the stream says; most signals are of no interest to a person."""
    text = ""
    match signal:
        case SessionStarted(session_id=id):
            text = f"[session {id}]"
        case ToolStarted(name=name, detail=detail):
            text = f"[{name}] {detail}".rstrip()
        case Said(text=said):
            text = said
        case LimitReached(message=message):
            text = f"[limit] {message}"
        case TransientFailure(message=message):
            text = f"[failed request] {message}"
        case Ended(is_error=True, text=said, reason=reason):
            text = f"[error] {said or reason}"
    return [to_printable(line) for line in text.splitlines()]


def _render_json(entry: LogEntry) -> list[str]:
    about = {"type": "output", "id": entry.attempt_id, "start": entry.start}
    return [dump_json({**about, "line": entry.line})]
