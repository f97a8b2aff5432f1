"""Loads review rules from `.deepreview` files and caches each file until it changes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.gates.reviews.models import ReviewRule, RuleSet
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.files.definitions import DefinitionCatalog, DefinitionReader
from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, InvalidDefinition, format_value
from deepwork.kernel.files.stamps import to_printable_name
from deepwork.kernel.files.yaml import YamlDocument

if TYPE_CHECKING:
    from deepwork.gates.reviews.rule_file import RuleDefinition


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
