"""What changed between the files that two rounds judge, line by line, as pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property

from deepwork.gates.reviews.rounds import Finding, Material
from deepwork.kernel.records import dataclass

_MAX_COMPARED = 4_000_000
"""Lines before times lines after; a larger change is shown as one."""
_CONTEXT_LINES = 3
MAX_RENDERED = 256 * 1024


@dataclass(frozen=True)
class FileVersion:
    """A file as a round judged it."""

    digest: str
    text: str | None = None
    """None if it is not text, or too large to compare."""


Tree = Mapping[str, FileVersion]


@dataclass(frozen=True)
class Hunk:
    """Lines that replace others; numbers begin at 0, and the ends are excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True)
class FileDelta:
    """How a file differs from the one of the round before. Without hunks, all of it counts as changed."""

    path: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] | None = None
    is_gone: bool = False

    @cached_property
    def changed_lines(self) -> frozenset[int]:
        """Numbers, from 1, of the new lines, and of the lines around those that were removed."""
        numbers: set[int] = set()
        for hunk in self.hunks or ():
            numbers.update(range(hunk.new_start + 1, hunk.new_end + 1))
            if hunk.new_start == hunk.new_end:
                numbers.update((hunk.new_start, hunk.new_start + 1))
        return frozenset(numbers)

    def has_changed(self, line: int | None) -> bool:
        return self.hunks is None or line is None or line in self.changed_lines


@dataclass(frozen=True)
class Delta:
    """What changed since the round before."""

    files: tuple[FileDelta, ...]
    unchanged: frozenset[str] = frozenset()

    def has_changed(self, finding: Finding) -> bool:
        """Whether the place of the finding changed; a finding without a known file may concern the change."""
        if finding.file is None or finding.file in self.unchanged:
            return finding.file is None
        changed = next((each for each in self.files if each.path == finding.file), None)
        return changed is None or changed.has_changed(finding.line)


def split_lines(text: str) -> tuple[str, ...]:
    """Split into lines with their line breaks; as editors and git count them, only `\\n` ends one."""
    *whole, rest = text.split("\n")
    return (*(f"{line}\n" for line in whole), *((rest,) if rest else ()))


def diff_lines(old: Sequence[str], new: Sequence[str]) -> tuple[Hunk, ...]:
    """Find the lines to replace in `old` to get `new`."""
    start, end = 0, 0
    shortest = min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    while end < shortest - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if not before and not after:
        return ()
    if not before or not after or len(before) * len(after) > _MAX_COMPARED:
        return (Hunk(start, start + len(before), start, start + len(after)),)
    codes = SequenceMatcher(None, before, after).get_opcodes()
    return tuple(
        Hunk(start + i1, start + i2, start + j1, start + j2)
        for kind, i1, i2, j1, j2 in codes
        if kind != "equal"
    )


def compute_delta(old: Tree, new: Tree) -> Delta:
    """Compare the files of two rounds."""
    unchanged = frozenset(path for path in new if path in old and old[path] == new[path])
    changed = sorted({*old, *new} - unchanged)
    return Delta(tuple(_compare(path, old.get(path), new.get(path)) for path in changed), unchanged)


def build_material(tree: Tree, delta: Delta | None) -> Material:
    """Build what the findings of a round are judged by; without a delta, everything is new."""
    lines = {path: split_lines(version.text) for path, version in tree.items() if version.text is not None}

    def get_anchor(file: str, line: int) -> str | None:
        found = lines.get(file, ())
        if not 1 <= line <= len(found):
            return None
        text = found[line - 1]
        return f"{text.strip()} ({found[:line].count(text)})"

    return Material(get_anchor, delta.has_changed if delta else lambda _: True)


def render_delta(delta: Delta) -> str:
    """Render the changed lines for a reviewer, with a few lines around them."""
    if not delta.files:
        return "[Nothing changed since the last round.]"
    parts: list[str] = []
    room = MAX_RENDERED
    for each in delta.files:
        text = "\n".join(_render_file(each))
        if len(text) > room:
            text = f"{each.path}: the changes are too long to be shown here; read the file"
        room -= len(text)
        parts.append(text)
    return "\n\n".join(parts)


def _compare(path: str, old: FileVersion | None, new: FileVersion | None) -> FileDelta:
    if new is None:
        return FileDelta(path, is_gone=True)
    if new.text is None or (old is not None and old.text is None):
        return FileDelta(path)
    before, after = split_lines(old.text or "") if old else (), split_lines(new.text)
    return FileDelta(path, before, after, diff_lines(before, after))


def _render_file(delta: FileDelta) -> Iterator[str]:
    if delta.is_gone or delta.hunks is None:
        yield f"{delta.path}: {'no longer submitted' if delta.is_gone else 'changed; read the file'}"
        return
    yield f"--- {delta.path}"
    for hunk in delta.hunks:
        before = delta.new[max(0, hunk.new_start - _CONTEXT_LINES) : hunk.new_start]
        after = delta.new[hunk.new_end : hunk.new_end + _CONTEXT_LINES]
        yield f"@@ line {hunk.new_start + 1} @@"
        yield from (f" {line.rstrip()}" for line in before)
        yield from (f"-{line.rstrip()}" for line in delta.old[hunk.old_start : hunk.old_end])
        yield from (f"+{line.rstrip()}" for line in delta.new[hunk.new_start : hunk.new_end])
        yield from (f" {line.rstrip()}" for line in after)
