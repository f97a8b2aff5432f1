"""Matching files against the areas that a task declared it would touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.text_budget.lines import truncate_to_line

_MAX_SHOWN_LENGTH = 1000
_WHOLE_TREE_AREAS = frozenset({".", "./", "/", "*", "**"})


@dataclass(frozen=True)
class ScopeResult:
    """The result of matching files against areas: the covering area per file, and the uncovered files."""

    matches: bool
    covered_by: dict[str, str]
    unexpected: tuple[str, ...]
    warnings: tuple[str, ...]


class Areas:
    """The areas of a task: paths (`src/auth`), patterns (`src/**/*.py`, `*.md`) or words (`auth`).

    A path covers itself and everything below it, and so does each match of a pattern. A pattern without a
    slash matches at any depth. A word covers files and folders of that name, with any extension, ignoring
    case.
    """

    def __init__(self, areas: Sequence[str]) -> None:
        self._areas = [(area, _Area(area)) for area in areas]

    def find_covering(self, path: str) -> str | None:
        """Return the first area that covers the file, as it was declared; None if none does."""
        return next((area for area, each in self._areas if each.covers(path)), None)


def evaluate_scope(paths: Iterable[str], areas: Sequence[str]) -> ScopeResult:
    """Match every file against the areas; without areas everything is in scope."""
    if not areas:
        return ScopeResult(True, {}, (), ())
    declared = Areas(areas)
    found = {path: declared.find_covering(path) for path in paths}
    unexpected = tuple(path for path, area in found.items() if area is None)
    warning = f"{len(unexpected)} file(s) modified outside declared scope ({_format_areas(areas)})"
    covered_by = {path: area for path, area in found.items() if area is not None}
    return ScopeResult(not unexpected, covered_by, unexpected, (warning,) if unexpected else ())


def _format_areas(areas: Sequence[str]) -> str:
    """List the areas; a long list is cut, because the agent knows what it declared."""
    return truncate_to_line(", ".join(areas[:_MAX_SHOWN_LENGTH]), _MAX_SHOWN_LENGTH) or ""


class _Area:
    def __init__(self, area: str) -> None:
        self._is_everything = area in _WHOLE_TREE_AREAS
        self._path = area.removeprefix("./").strip("/")
        self._word = self._path.casefold() if "/" not in area.removeprefix("./").rstrip("/") else ""
        self._globs = _build_globs(area.removeprefix("./"))

    def covers(self, path: str) -> bool:
        if self._is_everything:
            return True
        if not self._path:
            return False
        if path == self._path or path.startswith(f"{self._path}/"):
            return True
        if self._globs is not None:
            return self._globs.matches(path)
        return self._word != "" and any(self._matches_word(name) for name in path.casefold().split("/"))

    def _matches_word(self, name: str) -> bool:
        return self._word in (name, name.rpartition(".")[0])


def _build_globs(area: str) -> Globs | None:
    """Convert an area to globs as in a .gitignore file; None if it has no wildcards."""
    if not set(area) & set("*?["):
        return None
    inner = area.strip("/")
    anchored = inner if "/" in area.rstrip("/") else f"**/{inner}"
    try:
        return Globs([anchored, f"{anchored}/**"])
    except InvalidInput:  # for example a file name with a bracket: treat it as a path
        return None
