"""Rules as they stand in `.deepreview` files; a file that has not changed is not read again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepwork.errors import DefinitionError, InvalidInput
from deepwork.files import globs
from deepwork.files.globs import Globs
from deepwork.files.paths import read_confined
from deepwork.files.shape import Problem, Shape, Where, shown
from deepwork.files.stamps import Stamp, speakable, stamp
from deepwork.files.yaml import Document, load_yaml
from deepwork.reviews.models import Flaw, Rule, Rules, Strategy
from deepwork.reviews.settling import is_settled

SHAPE = Shape(Path(__file__).with_name("deepreview.schema.json"))

_MAX_BYTES = 2**20
_MOST_FLAWS = 100


@dataclass(frozen=True)
class _Reading:
    """What came of reading a file, and the files that it rests on, as they were."""

    rules: tuple[Rule, ...]
    flaws: tuple[Flaw, ...]
    began: int
    rests_on: Mapping[str, Stamp | None]

    def holds(self) -> bool:
        return is_settled(self.rests_on.values(), self.began) and all(
            was is not None and stamp(path) == was for path, was in self.rests_on.items()
        )


class RuleShelf:
    """The review rules of a project."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._readings: dict[str, _Reading] = {}

    def rules_in(self, files: Iterable[str]) -> Rules:
        """What these files define, the deepest folder first."""
        ordered = sorted(files, key=lambda file: (-file.count("/"), file))
        self._readings = {file: self._reading(file) for file in ordered}
        readings = self._readings.values()
        return Rules(
            tuple(rule for reading in readings for rule in reading.rules),
            tuple(flaw for reading in readings for flaw in reading.flaws),
        )

    def _reading(self, file: str) -> _Reading:
        known = self._readings.get(file)
        return known if known is not None and known.holds() else _read(self._root, file)


def _read(root: Path, file: str) -> _Reading:
    began = time.time_ns()
    before = {str(root / file): stamp(str(root / file))}
    spoken = speakable(file)
    try:
        document = _document(root, file, spoken)
    except DefinitionError as error:
        line, what = _told(spoken, error)
        return _Reading((), (Flaw(spoken, line, what),), began, before)
    rules: list[Rule] = []
    flaws: list[Flaw] = []
    beside: dict[str, Stamp | None] = {}
    for found in _rules(root, file, spoken, document):
        beside.update(found.beside)
        flaws += found.flaws
        rules += [found.rule] if found.rule else []
    flaws.sort(key=lambda flaw: flaw.line)
    return _Reading(tuple(rules), tuple(flaws[:_MOST_FLAWS]), began, before | beside)


def _document(root: Path, file: str, spoken: str) -> Document:
    try:
        content = read_confined(root, file, max_bytes=_MAX_BYTES)
        document = load_yaml(content.decode("utf-8-sig"), source=spoken)
    except InvalidInput as error:
        raise DefinitionError(f"{spoken}:1: {error.message}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{spoken}:{line}: The text is not UTF-8; save the file as UTF-8.") from error
    if document.data is not None and not isinstance(document.data, dict):
        raise document.error("The file must be a mapping of rule names to rules")
    return document


def _told(file: str, error: DefinitionError) -> tuple[int, str]:
    """The line and the words of an error that begins with its place."""
    line, _, what = error.message.removeprefix(f"{file}:").partition(": ")
    return (int(line), what) if line.isdigit() else (1, error.message)


@dataclass(frozen=True)
class _Found:
    """One rule, or what is wrong with it."""

    rule: Rule | None
    flaws: list[Flaw]
    beside: Mapping[str, Stamp | None]


def _rules(root: Path, file: str, spoken: str, document: Document) -> Iterator[_Found]:
    data: dict[str, Any] = document.data or {}
    malformed: dict[str | int, list[Problem]] = {}
    for problem in SHAPE.problems(data):
        malformed.setdefault(problem.where[0], []).append(problem)
    for name, written in data.items():
        problems = [*malformed.get(name, ()), *_hopeless(name, written)]
        beside: dict[str, Stamp | None] = {}
        instructions = ""
        if not problems:
            instructions, problems, beside = _instructions(root, file, name, written["review"])
        flaws = [Flaw(spoken, document.line(*problem.where), str(problem)) for problem in problems]
        rule = None if flaws else _rule(name, written, file, document.line(name), instructions)
        yield _Found(rule, flaws, beside)


def _hopeless(name: str, written: Any) -> Iterator[Problem]:
    """Patterns that can never match: silence would look like a file that needs no review."""
    match = written.get("match") if isinstance(written, dict) else None
    for side, patterns in match.items() if isinstance(match, dict) else ():
        for index, pattern in enumerate(patterns if isinstance(patterns, list) else ()):
            if isinstance(pattern, str) and pattern and (why := globs.problem(pattern)):
                what, _, remedy = why.partition("; ")
                yield Problem((name, "match", side, index), f"the pattern {shown(pattern)} {what}", remedy)


def _instructions(
    root: Path, file: str, name: str, review: Any
) -> tuple[str, list[Problem], dict[str, Stamp | None]]:
    """What the reviewer must do, or why that cannot be read; and the file that this rests on."""
    where: Where = (name, "review", "instructions")
    if isinstance(review["instructions"], str):
        text = review["instructions"].strip()
        return text, [] if text else [Problem(where, "this is empty", "write instructions")], {}
    named = review["instructions"]["file"]
    path = os.path.normpath(os.path.join(os.path.dirname(file), named))  # noqa: PTH118, PTH120
    rests_on = {str(root / path): stamp(str(root / path))}
    text, what = _text_of(root, path, named)
    remedy = "name a text file inside the project, relative to the folder of this file"
    return text, [Problem((*where, "file"), what, remedy)] if what else [], rests_on


def _text_of(root: Path, path: str, named: str) -> tuple[str, str]:
    """The text of an instructions file, or what is wrong with it."""
    try:
        text = read_confined(root, path, max_bytes=_MAX_BYTES).decode("utf-8-sig").strip()
    except InvalidInput as error:
        return "", f"Instructions file not found or not usable: {error.message.removesuffix('.')}"
    except UnicodeDecodeError:
        return "", f"the instructions file {shown(named)} is not UTF-8 text"
    return text, "" if text else f"the instructions file {shown(named)} is empty"


def _rule(name: str, written: Any, file: str, line: int, instructions: str) -> Rule:
    match, review = written["match"], written["review"]
    context = review.get("additional_context", {})
    return Rule(
        name=name,
        description=written["description"],
        file=file,
        line=line,
        include=Globs(match["include"]),
        exclude=Globs(match.get("exclude", ())),
        strategy=Strategy(review["strategy"]),
        instructions=instructions,
        agents=review.get("agent", {}),
        names_all_changed=context.get("all_changed_filenames", False),
        shows_unchanged=context.get("unchanged_matching_files", False),
    )
