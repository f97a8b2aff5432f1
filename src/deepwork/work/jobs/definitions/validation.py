"""What is wrong with a job's definition, and a skeleton of a right one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from string import Template

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.files.definitions import DefinitionReader
from deepwork.kernel.files.paths import confine
from deepwork.kernel.files.private import to_storage_error, write_atomically
from deepwork.kernel.files.problems import (
    MAX_PROBLEMS,
    DefinitionProblem,
    InvalidDefinition,
    Where,
    format_value,
)
from deepwork.kernel.files.yaml import YamlDocument
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.definitions.checks import find_contradictions
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, is_identifier
from deepwork.work.jobs.definitions.parsing import parse_job

_JOB_TEMPLATE = Template("""\
# Check this file with `deepwork jobs validate $name`.
name: $name
version: "0.1.0"
summary: Say in one line when to use this job.

common_job_info_provided_to_all_steps_at_runtime: |
  What every step should know: where things are, who reads the result, what to avoid.

workflows:
  - name: main
    summary: Say what this workflow produces.
    steps:
      - write

steps:
  - id: write
    name: Write the report
    description: Write a short report about what the user asked.
    instructions_file: steps/write.md
    inputs:
      - name: topic
        description: What the report is about.
    outputs:
      report.md:
        type: file
        description: The report, one page of Markdown.
        required: true
    reviews:
      - run_each: report.md
        quality_criteria:
          Answers the question: Does the first paragraph answer what the user asked?
""")

_INSTRUCTIONS_TEXT = """\
# Write the report

Say what the step is for, where to look, what to ask the user, and what the file must contain.

Write `report.md`, then call `finished_step` with `{"report.md": "report.md"}`.
"""


def write_skeleton(project_root: Path, name: str) -> list[Path]:
    """Create a new job in the project; raise if its folder exists."""
    if not is_identifier(name):
        raise InvalidInput(
            f"{format_value(name)} is not a valid job name.",
            suggestion="Use lower-case letters, digits and underscores, beginning with a letter.",
        )
    folder = project_root / STATE_FOLDER / "jobs" / name
    confine(project_root, str(folder.relative_to(project_root)), must_exist=False)  # no links out of it
    _create_folder(folder)
    written = [folder / "steps" / "write.md", folder / JOB_FILE]
    # job.yml last: without it the folder is not recognized as a job.
    for path, text in zip(written, (_INSTRUCTIONS_TEXT, _JOB_TEMPLATE.substitute(name=name)), strict=True):
        write_atomically(path, text.encode(), mode=0o644)
    return written


def _create_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / "steps").mkdir()
    except FileExistsError:
        raise NotAllowed(
            f"{folder} already exists.", suggestion="Choose another name, or edit the existing job."
        ) from None
    except OSError as error:
        raise to_storage_error("create", folder, error) from error


@dataclass(frozen=True)
class JobValidation:
    """The job of a folder, or everything that is wrong with it."""

    job: Job | None
    heading: str = ""
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [self.heading, *self.lines]))


def validate_job(folder: Path, reader: DefinitionReader) -> JobValidation:
    """Read and validate the job in this folder."""
    try:
        document = _read_document(folder, reader)
    except InvalidDefinition as error:
        if absence := _find_access_problem(folder):
            return JobValidation(None, lines=(absence,))
        return JobValidation(None, "Failed to load the job:", tuple(map(str, error.problems)))
    job, malformed, parts = parse_job(document.data or {}, folder)
    found = [*malformed, *_find_contradictions(job, parts, MAX_PROBLEMS - len(malformed))]
    found += _find_unusable_instructions(job, reader)
    if not found:
        return JobValidation(job)
    return JobValidation(None, "Job validation failed:", _format_problems(document, found))


def read_instructions_file(folder: Path, path: str, reader: DefinitionReader) -> str:
    """Read an instructions file, which must be inside the job's folder."""
    try:
        return reader.read(folder, path).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"The file {format_value(path)} is not UTF-8 text.") from None


def explain_unusable(path: str, error: InvalidInput) -> tuple[str, str]:
    """Return why an instructions file cannot be used, and what to do about it."""
    if error.code is Code.PATH_OUTSIDE_PROJECT:
        return (
            f"{format_value(path)} points outside the job's folder",
            "move the file into the job's folder, such as steps/",
        )
    message = error.message.removesuffix(".")
    return f"{message[:1].lower()}{message[1:]}", "write the file as UTF-8 text, or correct the path"


def _find_access_problem(folder: Path) -> str | None:
    """Return why there is no job.yml to read, or None."""
    try:
        return _find_missing_file(folder)
    except OSError as error:
        return f"{folder}: The job cannot be read ({error.strerror}); change the permissions of its folder."


def _find_missing_file(folder: Path) -> str | None:
    if not folder.exists():
        return f"{folder}: The job directory does not exist; name a folder that contains a {JOB_FILE}."
    if not folder.is_dir():
        return f"{folder}: This is not a directory; name the folder that contains the {JOB_FILE}."
    if not (folder / JOB_FILE).exists():
        return f"{folder}: {JOB_FILE} not found; write one, or run `deepwork jobs new`."
    return None


def _read_document(folder: Path, reader: DefinitionReader) -> YamlDocument:
    def explain(error: InvalidInput) -> str:
        return f"{explain_unusable(JOB_FILE, error)[0]}."

    document = reader.read_document(folder, JOB_FILE, str(folder / JOB_FILE), explain)
    if document.data is not None and not isinstance(document.data, dict):
        raise document.build_error("A job must be a mapping of keys to values")
    return document


def _find_contradictions(job: Job, malformed: set[Where], most: int) -> Iterator[DefinitionProblem]:
    """Find contradictions, without those that may only follow from a malformed part."""
    contradictions = (
        problem
        for problem in find_contradictions(job)
        if problem.where[:2] not in malformed and problem.also not in malformed
    )
    return islice(contradictions, most)


def _find_unusable_instructions(job: Job, reader: DefinitionReader) -> Iterator[DefinitionProblem]:
    first = {step.instructions_file: index for index, step in reversed(list(enumerate(job.steps)))}
    first.pop("", None)  # reported as missing
    for path, index in first.items():
        once = DefinitionReader()
        try:
            read_instructions_file(job.folder, path, once)
        except InvalidInput as error:
            reader.include(once)  # usable files are read again when their step starts
            where = ("steps", index, "instructions_file")
            yield DefinitionProblem(where, *explain_unusable(path, error))


def _format_problems(document: YamlDocument, found: list[DefinitionProblem]) -> tuple[str, ...]:
    """Format one line per problem, in the order of the file."""
    placed = sorted(map(document.locate, found), key=lambda problem: problem.line)
    lines = [str(problem) for problem in placed[:MAX_PROBLEMS]]
    if len(found) >= MAX_PROBLEMS:
        lines.append(f"{document.source}:1: There may be more problems; fix these first.")
    return tuple(lines)
