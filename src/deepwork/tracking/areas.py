"""Whether a file belongs to the areas that a task said it would touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepwork.errors import InvalidInput
from deepwork.files.globs import Globs

_EVERYTHING = frozenset({".", "./", "/", "*", "**"})


@dataclass(frozen=True)
class Scope:
    """What came of the areas: which of them covers each file, and which files none does."""

    matches: bool
    covered_by: dict[str, str]
    unexpected: tuple[str, ...]
    warnings: tuple[str, ...]


class Areas:
    """The areas of a task: paths (`src/auth`), patterns (`src/**/*.py`, `*.md`) or words (`auth`).

    A path covers itself and all below it; so does what a pattern matches, which without a slash may be at any
    depth. A word covers files and folders of that name, with any extension, in upper or lower case.
    """

    def __init__(self, areas: Sequence[str]) -> None:
        self._areas = [(area, _Area(area)) for area in areas]

    def covering(self, path: str) -> str | None:
        """The first area that the file belongs to, as it was written."""
        return next((area for area, each in self._areas if each.covers(path)), None)


def scope_of(paths: Iterable[str], areas: Sequence[str]) -> Scope:
    """Every file against the areas; without areas everything is in scope."""
    if not areas:
        return Scope(True, {}, (), ())
    declared = Areas(areas)
    found = {path: declared.covering(path) for path in paths}
    unexpected = tuple(path for path, area in found.items() if area is None)
    warning = f"{len(unexpected)} file(s) modified outside declared scope ({', '.join(areas)})"
    covered_by = {path: area for path, area in found.items() if area is not None}
    return Scope(not unexpected, covered_by, unexpected, (warning,) if unexpected else ())


class _Area:
    def __init__(self, area: str) -> None:
        self._is_everything = area in _EVERYTHING
        self._path = area.removeprefix("./").strip("/")
        self._word = self._path.casefold() if "/" not in area.removeprefix("./").rstrip("/") else ""
        self._globs = _as_globs(area.removeprefix("./"))

    def covers(self, path: str) -> bool:
        if self._is_everything:
            return True
        if not self._path:
            return False
        if path == self._path or path.startswith(f"{self._path}/"):
            return True
        if self._globs is not None:
            return self._globs.matches(path)
        return self._word != "" and any(self._is_word(name) for name in path.casefold().split("/"))

    def _is_word(self, name: str) -> bool:
        return self._word in (name, name.rpartition(".")[0])


def _as_globs(area: str) -> Globs | None:
    """The area as git would read it in an ignore file; None if nothing in it is wild."""
    if not set(area) & set("*?["):
        return None
    inner = area.strip("/")
    anchored = inner if "/" in area.rstrip("/") else f"**/{inner}"
    try:
        return Globs([anchored, f"{anchored}/**"])
    except InvalidInput:  # a name with a bracket in it: it still is a path
        return None
