"""Catalog of template files. Unchanged files are not read again; a broken file does not hide the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepwork.config import STATE_FOLDER
from deepwork.errors import DefinitionError, InvalidInput
from deepwork.files.json_schema import SchemaValidator
from deepwork.files.paths import read_confined
from deepwork.files.stamps import FileStamp, find_stamp, to_printable_name
from deepwork.files.yaml import YamlDocument, load_yaml
from deepwork.templates import rules
from deepwork.templates.models import Source, Template, parse_task, parse_variable

SHAPE = SchemaValidator(Path(__file__).with_name("template.schema.json"))

_FOLDER = f"{STATE_FOLDER}/templates"
_ENDINGS = (".yml", ".yaml", ".json")
_MAX_BYTES = 2**20
_MAX_PROBLEMS = 100


@dataclass(frozen=True)
class TemplateFileProblem:
    """A problem in a template file, with its line."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True)
class CatalogContents:
    """The templates found in files, and the problems of those files."""

    all: tuple[Template, ...]
    templates: tuple[Template, ...]
    """One template per name: project before user before shipped."""
    problems: tuple[TemplateFileProblem, ...]
    broken: dict[str, TemplateFileProblem]
    """Unusable files by template id, with their first problem."""


class _TemplateFolder(NamedTuple):
    """A folder that is scanned for templates."""

    source: Source
    root: Path
    """Links must not point outside this folder."""
    subfolder: str
    display_path: str


class _TemplateFile(NamedTuple):
    id: str
    display_path: str
    template: Template | None
    problems: tuple[TemplateFileProblem, ...]
    stamp: FileStamp | None


class TemplateCatalog:
    """Templates in the files of a project, of its user, and of deepwork itself.

    Parsed files are cached by path and read again only when their stamp changes.
    """

    def __init__(self, project_root: Path, home: Path) -> None:
        folders = [_TemplateFolder(Source.PROJECT, project_root, _FOLDER, _FOLDER)]
        if home != project_root:
            folders.append(_TemplateFolder(Source.USER, home, _FOLDER, f"~/{_FOLDER}"))
        self._folders = [
            *folders,
            _TemplateFolder(Source.SHIPPED, Path(__file__).parent, "shipped", "shipped"),
        ]
        self._files: dict[str, _TemplateFile] = {}

    def scan(self) -> CatalogContents:
        """Return the current contents of all folders."""
        files: dict[str, _TemplateFile] = {}
        problems: list[TemplateFileProblem] = []
        for folder in self._folders:
            try:
                files |= {path: self._load_file(folder, path) for path in _list_paths(folder)}
            except OSError as error:
                message = f"The folder cannot be read: {error.strerror}. Change its permissions."
                problems.append(TemplateFileProblem(folder.display_path, 1, message))
        self._files = files
        return _build_contents(list(files.values()), problems)

    def _load_file(self, folder: _TemplateFolder, path: str) -> _TemplateFile:
        known, now = self._files.get(path), find_stamp(path)
        if known is not None and now is not None and known.stamp == now:
            return known
        return _read_file(folder, path, now)


def _list_paths(folder: _TemplateFolder) -> Iterator[str]:
    path = folder.root / folder.subfolder
    try:
        names = sorted(os.listdir(path))  # noqa: PTH208 - names are enough
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name.endswith(_ENDINGS) and not name.startswith("."):
            yield str(path / name)


def _build_contents(files: list[_TemplateFile], problems: list[TemplateFileProblem]) -> CatalogContents:
    """Choose one template per name and per id; `files` are sorted by precedence."""
    templates: dict[str, Template] = {}
    taken: dict[str, _TemplateFile] = {}
    broken: dict[str, TemplateFileProblem] = {}
    for file in files:
        if first := taken.get(file.id):
            message = (
                f"{Path(first.display_path).name} in the same folder has the same name; rename one of them."
            )
            problems.append(TemplateFileProblem(file.display_path, 1, message))
            continue
        taken[file.id] = file
        if file.template is None:
            problems += file.problems
            broken[file.id] = file.problems[0]
            continue
        winner = templates.setdefault(file.template.name, file.template)
        if winner is not file.template and winner.source is file.template.source:
            message = f"{winner.id} also has the name {winner.name!r}; rename one of them."
            problems.append(TemplateFileProblem(file.display_path, 1, message))
    usable = tuple(file.template for file in taken.values() if file.template)
    return CatalogContents(usable, tuple(templates.values()), tuple(problems[:_MAX_PROBLEMS]), broken)


def _read_file(folder: _TemplateFolder, path: str, now: FileStamp | None) -> _TemplateFile:
    name = to_printable_name(os.path.basename(path))  # noqa: PTH119 - it may not be text
    display_path, stem = f"{folder.display_path}/{name}", name.rpartition(".")[0]
    kind = folder.source if folder.source is Source.SHIPPED else f"file:{folder.source}"
    id = f"{kind}:{stem}"
    if name != os.path.basename(path):  # noqa: PTH119
        return _TemplateFile(
            id,
            display_path,
            None,
            (TemplateFileProblem(display_path, 1, "The file name is not UTF-8; rename it."),),
            now,
        )
    try:
        document = _load_document(folder, name, display_path)
        return _TemplateFile(id, display_path, _parse_template(document, id, stem, folder.source), (), now)
    except _InvalidTemplate as error:
        return _TemplateFile(id, display_path, None, error.problems, now)
    except DefinitionError as error:
        return _TemplateFile(id, display_path, None, (_problem_from_error(display_path, error),), now)


class _InvalidTemplate(Exception):
    """A document that is not a valid template."""

    def __init__(self, problems: list[TemplateFileProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line)[:_MAX_PROBLEMS])


def _load_document(folder: _TemplateFolder, name: str, display_path: str) -> YamlDocument:
    try:
        content = read_confined(folder.root, f"{folder.subfolder}/{name}", max_bytes=_MAX_BYTES)
        return load_yaml(content.decode("utf-8-sig"), source=display_path)
    except InvalidInput as error:
        raise DefinitionError(f"{display_path}:1: {error.message}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(
            f"{display_path}:{line}: The text is not UTF-8; save the file as UTF-8."
        ) from error


def _parse_template(document: YamlDocument, id: str, stem: str, source: Source) -> Template:
    display_path, data = document.source, document.data
    if malformed := [
        TemplateFileProblem(display_path, document.get_line(*problem.where), str(problem))
        for problem in SHAPE.find_problems(data)
    ]:
        raise _InvalidTemplate(malformed)
    tasks = [parse_task(task) for task in data["tasks"]]
    declared = [parse_variable(each) for each in data.get("variables", ())]
    wrong = [
        TemplateFileProblem(display_path, document.get_line("variables", index), message)
        for index, message in rules.find_variable_problems(declared)
    ]
    for problem in rules.find_plan_problems(tasks):
        where = () if problem.place is None else (problem.place,)
        wrong.append(TemplateFileProblem(display_path, document.get_line("tasks", *where), problem.message))
    if wrong:
        raise _InvalidTemplate(wrong)
    return Template(
        id=id, name=data.get("name", stem), description=data.get("description"), tasks=tuple(tasks),
        variables=rules.collect_variables(tasks, declared), version=data.get("version", 1), source=source,
    )  # fmt: skip


def _problem_from_error(display_path: str, error: DefinitionError) -> TemplateFileProblem:
    """Split an error message of the form `file:line: message`."""
    line, _, what = error.message.removeprefix(f"{display_path}:").partition(": ")
    return (
        TemplateFileProblem(display_path, int(line), what)
        if line.isdigit()
        else TemplateFileProblem(display_path, 1, error.message)
    )
