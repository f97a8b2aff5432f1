"""Templates as they stand in files; one that has not changed is not read again, a broken one hides none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepwork.config import STATE_FOLDER
from deepwork.errors import DefinitionError, InvalidInput
from deepwork.files.paths import read_confined
from deepwork.files.shape import Shape
from deepwork.files.stamps import Stamp, speakable, stamp
from deepwork.files.yaml import Document, load_yaml
from deepwork.templates import rules
from deepwork.templates.models import Source, Template, outline, variable

SHAPE = Shape(Path(__file__).with_name("template.schema.json"))

_FOLDER = f"{STATE_FOLDER}/templates"
_ENDINGS = (".yml", ".yaml", ".json")
_MAX_BYTES = 2**20
_MOST_FLAWS = 100


@dataclass(frozen=True)
class Flaw:
    """What is wrong in a file, and where."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Shelf:
    """What the files hold, and what is wrong with them."""

    all: tuple[Template, ...]
    templates: tuple[Template, ...]
    """Of each name the one that wins."""
    flaws: tuple[Flaw, ...]
    broken: dict[str, Flaw]
    """Ids of files that cannot be used, and why."""


class _Place(NamedTuple):
    """A folder to look in."""

    source: Source
    root: Path
    """What no link may lead out of."""
    folder: str
    shown: str


class _File(NamedTuple):
    id: str
    shown: str
    template: Template | None
    flaws: tuple[Flaw, ...]
    stamp: Stamp | None


class TemplateShelf:
    """Templates in the files of a project, of its user, and of deepwork itself."""

    def __init__(self, project_root: Path, home: Path) -> None:
        places = [_Place(Source.PROJECT, project_root, _FOLDER, _FOLDER)]
        if home != project_root:
            places.append(_Place(Source.USER, home, _FOLDER, f"~/{_FOLDER}"))
        self._places = [*places, _Place(Source.SHIPPED, Path(__file__).parent, "shipped", "shipped")]
        self._files: dict[str, _File] = {}

    def look(self) -> Shelf:
        """The files as they are now."""
        files: dict[str, _File] = {}
        flaws: list[Flaw] = []
        for place in self._places:
            try:
                files |= {path: self._file(place, path) for path in _paths(place)}
            except OSError as error:
                told = f"The folder cannot be read: {error.strerror}. Change its rights."
                flaws.append(Flaw(place.shown, 1, told))
        self._files = files
        return _shelf(list(files.values()), flaws)

    def _file(self, place: _Place, path: str) -> _File:
        known, now = self._files.get(path), stamp(path)
        if known is not None and now is not None and known.stamp == now:
            return known
        return _read(place, path, now)


def _paths(place: _Place) -> Iterator[str]:
    folder = place.root / place.folder
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are enough
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.endswith(_ENDINGS) and not name.startswith("."):
            yield str(folder / name)


def _shelf(files: list[_File], flaws: list[Flaw]) -> Shelf:
    """One template for each name and each id: files come in the order in which they win."""
    templates: dict[str, Template] = {}
    taken: dict[str, _File] = {}
    broken: dict[str, Flaw] = {}
    for file in files:
        if first := taken.get(file.id):
            told = f"{Path(first.shown).name} in the same folder is called so too; rename one of them."
            flaws.append(Flaw(file.shown, 1, told))
            continue
        taken[file.id] = file
        if file.template is None:
            flaws += file.flaws
            broken[file.id] = file.flaws[0]
            continue
        winner = templates.setdefault(file.template.name, file.template)
        if winner is not file.template and winner.source is file.template.source:
            told = f"{winner.id} has the name {winner.name!r} too; give one of them another."
            flaws.append(Flaw(file.shown, 1, told))
    usable = tuple(file.template for file in taken.values() if file.template)
    return Shelf(usable, tuple(templates.values()), tuple(flaws[:_MOST_FLAWS]), broken)


def _read(place: _Place, path: str, now: Stamp | None) -> _File:
    name = speakable(os.path.basename(path))  # noqa: PTH119 - it may not be text
    shown, stem = f"{place.shown}/{name}", name.rpartition(".")[0]
    kind = place.source if place.source is Source.SHIPPED else f"file:{place.source}"
    id = f"{kind}:{stem}"
    if name != os.path.basename(path):  # noqa: PTH119
        return _File(id, shown, None, (Flaw(shown, 1, "The file's name is not UTF-8; rename it."),), now)
    try:
        document = _document(place, name, shown)
        return _File(id, shown, _template(document, id, stem, place.source), (), now)
    except _Flawed as error:
        return _File(id, shown, None, error.flaws, now)
    except DefinitionError as error:
        return _File(id, shown, None, (_told(shown, error),), now)


class _Flawed(Exception):
    """A document that is no template."""

    def __init__(self, flaws: list[Flaw]) -> None:
        self.flaws = tuple(sorted(flaws, key=lambda flaw: flaw.line)[:_MOST_FLAWS])


def _document(place: _Place, name: str, shown: str) -> Document:
    try:
        content = read_confined(place.root, f"{place.folder}/{name}", max_bytes=_MAX_BYTES)
        return load_yaml(content.decode("utf-8-sig"), source=shown)
    except InvalidInput as error:
        raise DefinitionError(f"{shown}:1: {error.message}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{shown}:{line}: The text is not UTF-8; save the file as UTF-8.") from error


def _template(document: Document, id: str, stem: str, source: Source) -> Template:
    shown, data = document.source, document.data
    if malformed := [
        Flaw(shown, document.line(*problem.where), str(problem)) for problem in SHAPE.problems(data)
    ]:
        raise _Flawed(malformed)
    tasks = [outline(task) for task in data["tasks"]]
    declared = [variable(each) for each in data.get("variables", ())]
    wrong = [
        Flaw(shown, document.line("variables", place), told) for place, told in rules.problems_of(declared)
    ]
    for problem in rules.plan_problems(tasks):
        where = () if problem.place is None else (problem.place,)
        wrong.append(Flaw(shown, document.line("tasks", *where), problem.message))
    if wrong:
        raise _Flawed(wrong)
    return Template(
        id=id, name=data.get("name", stem), description=data.get("description"), tasks=tuple(tasks),
        variables=rules.with_gaps(tasks, declared), version=data.get("version", 1), source=source,
    )  # fmt: skip


def _told(shown: str, error: DefinitionError) -> Flaw:
    """An error that begins with its place, as a place and words."""
    line, _, what = error.message.removeprefix(f"{shown}:").partition(": ")
    return Flaw(shown, int(line), what) if line.isdigit() else Flaw(shown, 1, error.message)
