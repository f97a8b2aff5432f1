"""Loads review rules from `.deepreview` files and caches each file until it changes."""

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
from deepwork.files.json_schema import SchemaProblem, SchemaValidator, Where, format_value
from deepwork.files.paths import read_confined
from deepwork.files.stamps import FileStamp, find_stamp, to_printable_name
from deepwork.files.yaml import YamlDocument, load_yaml
from deepwork.reviews.models import ReviewRule, RuleProblem, RuleSet, Strategy
from deepwork.reviews.stamp_reliability import are_reliable

SHAPE = SchemaValidator(Path(__file__).with_name("deepreview.schema.json"))

_MAX_BYTES = 2**20
_MAX_PROBLEMS = 100


@dataclass(frozen=True)
class _LoadedFile:
    """The rules and problems of one file, and the stamps of every file they were read from."""

    rules: tuple[ReviewRule, ...]
    problems: tuple[RuleProblem, ...]
    began: int
    rests_on: Mapping[str, FileStamp | None]

    def is_current(self) -> bool:
        return are_reliable(self.rests_on.values(), self.began) and all(
            was is not None and find_stamp(path) == was for path, was in self.rests_on.items()
        )


class RuleCatalog:
    """Loads the review rules of a project."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loaded: dict[str, _LoadedFile] = {}

    def load_rules(self, files: Iterable[str]) -> RuleSet:
        """Load the rules of these files, the deepest folder first."""
        ordered = sorted(files, key=lambda file: (-file.count("/"), file))
        self._loaded = {file: self._load_file(file) for file in ordered}
        loaded = self._loaded.values()
        return RuleSet(
            tuple(rule for file in loaded for rule in file.rules),
            tuple(problem for file in loaded for problem in file.problems),
        )

    def _load_file(self, file: str) -> _LoadedFile:
        known = self._loaded.get(file)
        return known if known is not None and known.is_current() else _read_file(self._root, file)


def _read_file(root: Path, file: str) -> _LoadedFile:
    began = time.time_ns()
    before = {str(root / file): find_stamp(str(root / file))}
    printable_name = to_printable_name(file)
    try:
        document = _load_document(root, file, printable_name)
    except DefinitionError as error:
        line, message = _split_location(printable_name, error)
        return _LoadedFile((), (RuleProblem(printable_name, line, message),), began, before)
    rules: list[ReviewRule] = []
    problems: list[RuleProblem] = []
    beside: dict[str, FileStamp | None] = {}
    for found in _parse_rules(root, file, printable_name, document):
        beside.update(found.beside)
        problems += found.problems
        rules += [found.rule] if found.rule else []
    problems.sort(key=lambda problem: problem.line)
    return _LoadedFile(tuple(rules), tuple(problems[:_MAX_PROBLEMS]), began, before | beside)


def _load_document(root: Path, file: str, printable_name: str) -> YamlDocument:
    try:
        content = read_confined(root, file, max_bytes=_MAX_BYTES)
        document = load_yaml(content.decode("utf-8-sig"), source=printable_name)
    except InvalidInput as error:
        raise DefinitionError(f"{printable_name}:1: {error.message}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(
            f"{printable_name}:{line}: The text is not UTF-8; save the file as UTF-8."
        ) from error
    if document.data is not None and not isinstance(document.data, dict):
        raise document.build_error("The file must be a mapping of rule names to rules")
    return document


def _split_location(file: str, error: DefinitionError) -> tuple[int, str]:
    """Split a `file:line: message` error into its line and its message."""
    line, _, message = error.message.removeprefix(f"{file}:").partition(": ")
    return (int(line), message) if line.isdigit() else (1, error.message)


@dataclass(frozen=True)
class _ParsedRule:
    """One rule, or its problems, and the stamps of the files it refers to."""

    rule: ReviewRule | None
    problems: list[RuleProblem]
    beside: Mapping[str, FileStamp | None]


def _parse_rules(root: Path, file: str, printable_name: str, document: YamlDocument) -> Iterator[_ParsedRule]:
    data: dict[str, Any] = document.data or {}
    malformed: dict[str | int, list[SchemaProblem]] = {}
    for problem in SHAPE.find_problems(data):
        malformed.setdefault(problem.where[0], []).append(problem)
    for name, written in data.items():
        problems = [*malformed.get(name, ()), *_find_unmatchable_patterns(name, written)]
        beside: dict[str, FileStamp | None] = {}
        instructions = ""
        if not problems:
            instructions, problems, beside = _load_instructions(root, file, name, written["review"])
        reported = [
            RuleProblem(printable_name, document.get_line(*problem.where), str(problem))
            for problem in problems
        ]
        rule = None if reported else _build_rule(name, written, file, document.get_line(name), instructions)
        yield _ParsedRule(rule, reported, beside)


def _find_unmatchable_patterns(name: str, written: Any) -> Iterator[SchemaProblem]:
    """Find patterns that can never match; ignoring them would look like a file that needs no review."""
    match = written.get("match") if isinstance(written, dict) else None
    for side, patterns in match.items() if isinstance(match, dict) else ():
        for index, pattern in enumerate(patterns if isinstance(patterns, list) else ()):
            if isinstance(pattern, str) and pattern and (why := globs.find_problem(pattern)):
                what, _, remedy = why.partition("; ")
                yield SchemaProblem(
                    (name, "match", side, index), f"the pattern {format_value(pattern)} {what}", remedy
                )


def _load_instructions(
    root: Path, file: str, name: str, review: Any
) -> tuple[str, list[SchemaProblem], dict[str, FileStamp | None]]:
    """Return the instructions, the problems that prevent using them, and the stamp of their file."""
    where: Where = (name, "review", "instructions")
    if isinstance(review["instructions"], str):
        text = review["instructions"].strip()
        return text, [] if text else [SchemaProblem(where, "this is empty", "write instructions")], {}
    named = review["instructions"]["file"]
    path = os.path.normpath(os.path.join(os.path.dirname(file), named))  # noqa: PTH118, PTH120
    rests_on = {str(root / path): find_stamp(str(root / path))}
    text, what = _read_text(root, path, named)
    remedy = "name a text file inside the project, relative to the folder of this file"
    return text, [SchemaProblem((*where, "file"), what, remedy)] if what else [], rests_on


def _read_text(root: Path, path: str, named: str) -> tuple[str, str]:
    """Return the text of an instructions file, or a description of what is wrong with it."""
    try:
        text = read_confined(root, path, max_bytes=_MAX_BYTES).decode("utf-8-sig").strip()
    except InvalidInput as error:
        return "", f"Instructions file not found or not usable: {error.message.removesuffix('.')}"
    except UnicodeDecodeError:
        return "", f"the instructions file {format_value(named)} is not UTF-8 text"
    return text, "" if text else f"the instructions file {format_value(named)} is empty"


def _build_rule(name: str, written: Any, file: str, line: int, instructions: str) -> ReviewRule:
    match, review = written["match"], written["review"]
    context = review.get("additional_context", {})
    return ReviewRule(
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
