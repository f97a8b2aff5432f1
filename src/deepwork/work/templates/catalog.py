"""Catalog of template files. Unchanged files are not read again; a broken file does not hide the others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.files.definitions import DefinitionCatalog, DefinitionReader, list_entries
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.files.problems import MAX_PROBLEMS, DefinitionProblem, FileProblem, InvalidDefinition
from deepwork.kernel.files.schema_check import is_surely_valid
from deepwork.kernel.files.yaml import YamlDocument
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import Outline
from deepwork.work.templates.models import (
    Template,
    TemplateSource,
    Variable,
    collect_variables,
    find_plan_problems,
    find_variable_problems,
    parse_variable,
)

SCHEMA_FILE = Path(__file__).with_name("template.schema.json")
_TEMPLATES_FOLDER = f"{STATE_FOLDER}/templates"
_FILE_SUFFIXES = (".yml", ".yaml", ".json")


@dataclass(frozen=True)
class CatalogContents:
    """The templates found in files, and the problems of those files."""

    all: tuple[Template, ...]
    templates: tuple[Template, ...]
    """One template per name: project before user before shipped."""
    problems: tuple[FileProblem, ...]
    broken: dict[str, FileProblem]
    """Unusable files by template id, with their first problem."""


class _TemplateFolder(NamedTuple):
    """A folder that is scanned for templates."""

    source: TemplateSource
    root: Path
    """Links must not point outside this folder."""
    subfolder: str
    display_path: str


class _TemplateFile(NamedTuple):
    id: str
    display_path: str
    template: Template | None
    problems: tuple[FileProblem, ...] = ()


class TemplateCatalog:
    """Templates in the files of a project, of its user, and of deepwork itself; cached until they change."""

    def __init__(self, project_root: Path, home: Path) -> None:
        folders = [
            _TemplateFolder(TemplateSource.PROJECT, project_root, _TEMPLATES_FOLDER, _TEMPLATES_FOLDER)
        ]
        if home != project_root:
            folders.append(
                _TemplateFolder(TemplateSource.USER, home, _TEMPLATES_FOLDER, f"~/{_TEMPLATES_FOLDER}")
            )
        folders.append(_TemplateFolder(TemplateSource.SHIPPED, Path(__file__).parent, "shipped", "shipped"))
        self._folders = {folder.root / folder.subfolder: folder for folder in folders}
        self._definitions = DefinitionCatalog(self._read)

    def scan(self) -> CatalogContents:
        """Return the current contents of all folders."""
        entries, unreadable = list_entries(list(self._folders))
        folders = list(self._folders.values())
        problems = [FileProblem(folders[rank].display_path, 1, why) for rank, why in unreadable.items()]
        paths = [
            entry.path for entry in entries if entry.name.endswith(_FILE_SUFFIXES) and entry.name[0] != "."
        ]
        return _build_contents(list(self._definitions.load_all(paths).values()), problems)

    def _read(self, path: str, reader: DefinitionReader) -> _TemplateFile:
        parent, name = os.path.split(path)
        folder, printable_name = self._folders[Path(parent)], to_printable_name(name)
        display_path, stem = f"{folder.display_path}/{printable_name}", printable_name.rpartition(".")[0]
        kind = folder.source if folder.source is TemplateSource.SHIPPED else f"file:{folder.source}"
        id = f"{kind}:{stem}"
        try:
            if name != printable_name:
                raise InvalidDefinition(  # noqa: TRY301 - handled like every other problem
                    FileProblem(display_path, 1, "The file name is not UTF-8; rename it.")
                )
            document = reader.read_document(folder.root, f"{folder.subfolder}/{name}", display_path)
            return _TemplateFile(id, display_path, _parse_template(document, id, stem, folder.source))
        except InvalidDefinition as error:
            return _TemplateFile(id, display_path, None, error.problems)


def _build_contents(files: list[_TemplateFile], problems: list[FileProblem]) -> CatalogContents:
    """Choose one template per name and per id; `files` are sorted by precedence."""
    templates: dict[str, Template] = {}
    taken: dict[str, _TemplateFile] = {}
    broken: dict[str, FileProblem] = {}
    for file in files:
        if first := taken.get(file.id):
            message = (
                f"{Path(first.display_path).name} in the same folder has the same name; rename one of them."
            )
            problems.append(FileProblem(file.display_path, 1, message))
            continue
        taken[file.id] = file
        if file.template is None:
            problems += file.problems
            broken[file.id] = file.problems[0]
            continue
        winner = templates.setdefault(file.template.name, file.template)
        if winner is not file.template and winner.source is file.template.source:
            message = f"{winner.id} also has the name {winner.name!r}; rename one of them."
            problems.append(FileProblem(file.display_path, 1, message))
    usable = tuple(file.template for file in taken.values() if file.template)
    return CatalogContents(usable, tuple(templates.values()), tuple(problems[:MAX_PROBLEMS]), broken)


def _parse_template(document: YamlDocument, id: str, stem: str, source: TemplateSource) -> Template:
    data = document.data
    if malformed := _find_malformed(data):
        raise _build_error(map(document.locate, malformed))
    tasks = [Outline.read(task) for task in data["tasks"]]
    declared = [parse_variable(each) for each in data.get("variables", ())]
    if wrong := [*_find_problems(document, tasks, declared)]:
        raise _build_error(wrong)
    return Template(
        id=id,
        name=data.get("name", stem),
        description=data.get("description"),
        tasks=tuple(tasks),
        variables=collect_variables(tasks, declared),
        version=data.get("version", 1),
        source=source,
    )


def _find_malformed(data: Any) -> list[DefinitionProblem]:
    if is_surely_valid(SCHEMA_FILE, data):
        return []
    # Imported here, because building the models takes longer than reading a valid template.
    from deepwork.kernel.files.definition_models import validate_data  # noqa: PLC0415
    from deepwork.work.templates.template_file import TemplateDefinition  # noqa: PLC0415

    return validate_data(TemplateDefinition, data)[1]


def _find_problems(
    document: YamlDocument, tasks: Sequence[Outline], declared: Sequence[Variable]
) -> Iterator[FileProblem]:
    for index, message in find_variable_problems(declared):
        yield FileProblem(document.source, document.get_line("variables", index), message)
    for problem in find_plan_problems(tasks):
        where = () if problem.place is None else (problem.place,)
        yield FileProblem(document.source, document.get_line("tasks", *where), problem.message)


def _build_error(problems: Iterable[FileProblem]) -> InvalidDefinition:
    return InvalidDefinition(*sorted(problems, key=lambda problem: problem.line)[:MAX_PROBLEMS])
