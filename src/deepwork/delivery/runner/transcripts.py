"""What an agent did and said, in pages that people read forwards or backwards; the same for every vendor.

A position names a line: `START-OFFSET`, the start of the attempt and the place in what it wrote. What was
written never moves, so a page that was read once is never read again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Self

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.attempt_files import AttemptFiles, find_line, read_lines
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.rules import explain_absence
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.operations import Traits, operation

_PAGE_BYTES = 128 * 1024
_MAX_PAGE_BYTES = 1_000_000
_MAX_WINDOW_BYTES = 16_000_000
"""How far back the beginning of one line is looked for."""
_MAX_PROMPT_BYTES = 64 * 1024
_POSITION_PATTERN = re.compile(r"([1-9]\d{0,6})-(\d{1,15})", re.ASCII)


class TranscriptEntry(Answer):
    """A part of what an agent did and said."""

    key: str
    """Where it is: the position of its line, and its place there."""
    kind: str
    """`prompt`, or the kind of a `TranscriptPart`."""
    text: str | None = None
    tool_id: str | None = None
    """Of a tool, and of the result that answers it."""
    name: str | None = None
    """Of a tool; of a session, its model."""
    is_error: bool | None = None
    is_delta: bool | None = None
    """Whether it continues the text before."""


class Transcript(Answer):
    """A page of a transcript, the oldest entry first."""

    attempt_id: str
    vendor: str
    entries: list[TranscriptEntry]
    first: str
    """The position of the page: `before` it are the entries before."""
    last: str
    """The position after the page: `after` it are those that follow."""
    has_earlier: bool
    is_over: bool
    """Whether nothing follows any more."""
    reason: str | None = None
    """Why there are no entries."""


class Position(NamedTuple):
    """A place between two lines of what an attempt wrote."""

    start: int
    offset: int

    def __str__(self) -> str:
        return f"{self.start}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a position that an earlier page had."""
        if match := _POSITION_PATTERN.fullmatch(text):
            return cls(int(match[1]), int(match[2]))
        raise InvalidInput(
            f"There is no position {text[:60]!r}.", suggestion="Pass `first` or `last` of an earlier page."
        )


class TranscriptOperations:
    """Reads what agents did and said."""

    traits: ClassVar = Traits(toolset="runner", people_only=True)

    def __init__(self, database: Database, state_folder: Path | None) -> None:
        """`state_folder` has the output of agents; None if it is not on this machine."""
        self._database, self._state_folder = database, state_folder

    # As the output itself, it may contain anything that the agent read, such as files and secrets.
    @operation("work", read_only=True)
    def get_attempt_transcript(
        self,
        id: Id,
        after: Annotated[str | None, Field(description="`last` of an earlier page: what follows it")] = None,
        before: Annotated[str | None, Field(description="`first` of a later page: what is before it")] = None,
        max_bytes: Annotated[int, Field(ge=1024, le=_MAX_PAGE_BYTES, description="To read")] = _PAGE_BYTES,
    ) -> Transcript:
        """What the agent of an attempt did and said: the end, or what is before or after a position."""
        if after is not None and before is not None:
            raise InvalidInput("Pass `after` or `before`, not both.", suggestion="Leave one of them out.")
        with self._database.reading() as tx:  # before reading: what follows its end is nothing
            attempt = AttemptStore(tx).get(id)
        if self._state_folder is None or not attempt.starts:
            return self._build_empty(attempt)
        reader = _Reader(attempt, self._state_folder, max_bytes)
        if after is not None:
            return reader.read_after(Position.parse(after))
        return reader.read_before(Position.parse(before) if before else reader.find_end())

    def _build_empty(self, attempt: Attempt) -> Transcript:
        here = str(Position(max(1, attempt.starts), 0))
        reason = explain_absence(attempt)
        return Transcript(
            attempt_id=attempt.id,
            vendor=attempt.vendor,
            entries=[],
            first=here,
            last=here,
            has_earlier=False,
            is_over=attempt.ended_at is not None,
            reason=reason,
        )


class _Reader:
    def __init__(self, attempt: Attempt, state_folder: Path, max_bytes: int) -> None:
        self._attempt, self._folder, self._max_bytes = attempt, state_folder, max_bytes
        self._adapter = get_adapter(attempt.vendor)

    def find_end(self) -> Position:
        """Return the end of what the last start that wrote anything wrote."""
        start = self._attempt.starts
        while start > 1 and not self._measure(start):
            start -= 1
        return Position(start, self._measure(start))

    def read_before(self, end: Position) -> Transcript:
        """Read the page that ends at a position; half a line at the end of all is left for later."""
        start, stop = min(end.start, self._attempt.starts), end.offset
        if stop == 0 and start > 1:
            start, stop = start - 1, self._measure(start - 1)
        files = self._locate(start)
        begin, is_first = _find_begin(files, stop, self._max_bytes)
        lines: list[str] = []
        after = stop
        if begin < stop:
            lines, after = read_lines(files, begin, stop - begin, is_over=self._is_over(start))
        entries = self._build_entries(Position(start, begin), lines)
        if is_first:
            entries = [*self._build_prompt(start), *entries]
        first = Position(start, 0 if is_first else begin)
        return self._build(
            entries, first, Position(start, max(after, begin)), has_earlier=start > 1 or not is_first
        )

    def read_after(self, at: Position) -> Transcript:
        """Read the page that begins at a position, also of the starts that follow."""
        first, entries = at, []
        while at.start <= self._attempt.starts:
            is_over = self._is_over(at.start)
            lines, after = read_lines(self._locate(at.start), at.offset, self._max_bytes, is_over=is_over)
            entries += self._build_entries(at, lines)
            if after != at.offset:
                at = Position(at.start, after)
                break
            if not is_over or at.start == self._attempt.starts:
                break
            at = Position(at.start + 1, 0)
            entries += self._build_prompt(at.start)
        return self._build(entries, first, at, has_earlier=True)

    def _build(
        self, entries: list[TranscriptEntry], first: Position, last: Position, *, has_earlier: bool
    ) -> Transcript:
        is_end = last.start >= self._attempt.starts and last.offset >= self._measure(last.start)
        return Transcript(
            attempt_id=self._attempt.id,
            vendor=self._attempt.vendor,
            entries=entries,
            first=str(first),
            last=str(last),
            has_earlier=has_earlier,
            is_over=self._attempt.ended_at is not None and is_end,
            reason=None if self._locate(last.start).stdout.exists() else explain_absence(self._attempt),
        )

    def _build_entries(self, at: Position, lines: Sequence[str]) -> list[TranscriptEntry]:
        parts = (part for line in lines for part in self._adapter.read_parts(line))
        return [
            TranscriptEntry(
                key=f"{at}-{number}",
                kind=part.kind,
                text=remove_invisible(part.text) or None,
                tool_id=part.tool_id or None,
                name=part.name or None,
                is_error=part.is_error or None,
                is_delta=part.is_delta or None,
            )
            for number, part in enumerate(parts)
        ]

    def _build_prompt(self, start: int) -> Iterator[TranscriptEntry]:
        """Build the entry with what a start was told, if that is still there."""
        try:
            files = self._locate(start)
            with files.prompt.open("rb") as file:
                text = file.read(_MAX_PROMPT_BYTES).decode(errors="replace")
        except OSError:
            return
        yield TranscriptEntry(
            key=f"{start}-prompt", kind="prompt", text=remove_invisible(text), name=str(start)
        )

    def _is_over(self, start: int) -> bool:
        return start < self._attempt.starts or self._attempt.ended_at is not None

    def _measure(self, start: int) -> int:
        try:
            return os.stat(self._locate(start).stdout, follow_symlinks=False).st_size  # noqa: PTH116
        except OSError:
            return 0

    def _locate(self, start: int) -> AttemptFiles:
        return AttemptFiles.locate(self._folder, self._attempt.id, start)


def _find_begin(files: AttemptFiles, stop: int, max_bytes: int) -> tuple[int, bool]:
    """Return where a page that ends at `stop` begins: at a line; and whether nothing is before it."""
    window = max_bytes
    while True:
        begin, is_first = find_line(files, max(0, stop - window), stop)
        if is_first or begin < stop:
            return begin, is_first
        if window >= _MAX_WINDOW_BYTES:  # it is all one line
            return stop - window, False
        window *= 4
