"""Finds `.deepreview` files and loads their rules.

Both are cached: what was found until a folder of the project changes, a file until it changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.gates.reviews.models import RULES_FILE, ReviewRule, RuleSet
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER
from deepwork.kernel.errors import InvalidInput, NotARepository
from deepwork.kernel.files.definitions import DefinitionCatalog, DefinitionReader
from deepwork.kernel.files.private import FileStamp, are_reliable, find_stamp, to_printable_name
from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, InvalidDefinition, format_value
from deepwork.kernel.files.yaml import YamlDocument
from deepwork.kernel.git.changes import list_files
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.empty_repository import list_untracked_folders
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.gates.reviews.rule_file import RuleDefinition


_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".eggs",
        STATE_FOLDER,
    }
)
_IGNORE_FILE = ".gitignore"
_OWN_FOLDERS = {STATE_FOLDER, TMP_FOLDER}  # they change with every call and hold no rules
_MAX_SCAN_AGE_NS = 10_000_000_000


@dataclass(frozen=True)
class _Scan:
    """The rule files that one scan found, and the stamps of the folders afterwards."""

    files: tuple[str, ...]
    folders: dict[str, FileStamp | None]
    began: int

    def is_current(self) -> bool:
        if time.time_ns() - self.began > _MAX_SCAN_AGE_NS:
            return False  # settings outside the project can change what git ignores
        return all(find_stamp(folder) == was for folder, was in self.folders.items())

    def is_cacheable(self) -> bool:
        return are_reliable(self.folders.values(), self.began)


class RuleFinder:
    """Finds the `.deepreview` files of a project."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._last: _Scan | None = None

    def find_files(self) -> tuple[str, ...]:
        """Return every rule file, relative to the project."""
        last = self._last
        if last is None or not last.is_current():
            last = self._scan()
            self._last = last if last.is_cacheable() else None
        return last.files

    def _scan(self) -> _Scan:
        began = time.time_ns()
        known = list_project_files(self._git)
        watched = {*_list_folders(known), *self._list_bare_folders()} - _OWN_FOLDERS
        watched |= {file for file in known if _has_name(file, _IGNORE_FILE)}
        stamps = {path: find_stamp(path) for path in (str(self._git.root / each) for each in watched)}
        return _Scan(tuple(filter_rule_files(known)), stamps, began)

    def _list_bare_folders(self) -> list[str]:
        """List folders that have no listed file yet: the first file in one may be a rule file."""
        try:
            return list_untracked_folders(self._git)
        except NotARepository:
            return [folder for folder, _ in _walk_folders(self._git.root)]


def list_project_files(git: Git) -> tuple[str, ...]:
    """List the files that git tracks or would add; without git, every file on disk."""
    try:
        return list_files(git).files
    except NotARepository:
        return tuple(sorted(walk_files(git.root)))


def filter_rule_files(files: Iterable[str]) -> Iterator[str]:
    """Return the rule files among these files."""
    return (file for file in files if _has_name(file, RULES_FILE))


def walk_files(root: Path) -> Iterator[str]:
    """Yield every file below the root; skips symbolic links and the caches of tools."""
    for folder, names in _walk_folders(root):
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 - faster than a Path


def _walk_folders(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield every folder, relative to the root, and the names of its files."""
    for path, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _SKIPPED_FOLDERS and not name.endswith(".egg-info")]
        folder = os.path.relpath(path, root)
        yield "" if folder == os.curdir else folder, names


def _has_name(file: str, name: str) -> bool:
    return file.endswith(name) and (len(file) == len(name) or file[-len(name) - 1] == "/")


def _list_folders(files: Iterable[str]) -> set[str]:
    """Return every folder that contains one of the files, directly or not."""
    folders = {""}
    for file in files:
        while (file := file.rpartition("/")[0]) not in folders:
            folders.add(file)
    return folders


class RuleCatalog:
    """Loads the review rules of a project."""

    def __init__(self, root: Path) -> None:
        self._definitions = DefinitionCatalog(partial(_read_file, root))

    def load_rules(self, files: Iterable[str]) -> RuleSet:
        """Load the rules of these files, the deepest folder first."""
        ordered = sorted(files, key=lambda file: (-file.count("/"), file))
        loaded = self._definitions.load_all(ordered).values()
        return RuleSet(
            tuple(rule for file in loaded for rule in file.rules),
            tuple(problem for file in loaded for problem in file.problems),
        )


def _read_file(root: Path, file: str, reader: DefinitionReader) -> RuleSet:
    try:
        document = reader.read_document(root, file, to_printable_name(file))
        if document.data is not None and not isinstance(document.data, dict):
            raise document.build_error("The file must be a mapping of rule names to rules")
    except InvalidDefinition as error:
        return RuleSet((), error.problems)
    parse = _RuleParser(root, file, reader, document).parse
    parsed = [parse(name, written) for name, written in (document.data or {}).items()]
    rules = tuple(each for each in parsed if isinstance(each, ReviewRule))
    found = [document.locate(problem) for each in parsed if isinstance(each, list) for problem in each]
    return RuleSet(rules, tuple(sorted(found, key=lambda problem: problem.line)[:MAX_PROBLEMS]))


class _RuleParser:
    """Parses the rules of one file."""

    def __init__(self, root: Path, file: str, reader: DefinitionReader, document: YamlDocument) -> None:
        self._root, self._file, self._reader, self._document = root, file, reader, document

    def parse(self, name: str, written: Any) -> ReviewRule | list[DefinitionProblem]:
        """Return the rule, or its problems."""
        # Imported here, because building the models takes time and a server starts without reading rules.
        from deepwork.gates.reviews.rule_file import RuleFile  # noqa: PLC0415
        from deepwork.kernel.files.definition_models import validate_data  # noqa: PLC0415

        definition, problems = validate_data(RuleFile, {name: written})
        if definition is None:
            return problems
        rule = definition.root[name]
        instructions, what = self._load_instructions(rule)
        if what:
            remedy = "name a text file inside the project, relative to the folder of this file"
            return [DefinitionProblem((name, "review", "instructions", "file"), what, remedy)]
        return rule.to_rule(name, self._file, self._document.get_line(name), instructions)

    def _load_instructions(self, rule: RuleDefinition) -> tuple[str, str]:
        """Return the instructions, or a description of what is wrong with their file."""
        given = rule.review.instructions
        if isinstance(given, str):
            return given, ""
        path = os.path.normpath(os.path.join(os.path.dirname(self._file), given.file))  # noqa: PTH118, PTH120
        try:
            text = self._reader.read(self._root, path).decode("utf-8-sig").strip()
        except InvalidInput as error:
            return "", f"Instructions file not found or not usable: {error.message.removesuffix('.')}"
        except UnicodeDecodeError:
            return "", f"the instructions file {format_value(given.file)} is not UTF-8 text"
        return text, "" if text else f"the instructions file {format_value(given.file)} is empty"
