"""What the agent of an attempt wrote, line by line, from its first start on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deepwork.delivery.runner.attempt_files import AttemptFiles, read_lines
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.transaction import Database

_READ_BYTES = 256_000
_POLL_SECONDS = 0.5


class LogEntry(NamedTuple):
    """A line, of which start of which attempt."""

    attempt_id: str
    start: int
    line: str


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
