"""Validates the job in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deepwork.errors import Code, DefinitionError, InvalidInput
from deepwork.files.json_schema import SchemaProblem, format_value
from deepwork.files.paths import read_confined
from deepwork.files.stamps import FileStamp, find_stamp
from deepwork.files.yaml import YamlDocument, load_yaml
from deepwork.jobs.definitions.checks import find_contradictions
from deepwork.jobs.definitions.discovery import JOB_FILE
from deepwork.jobs.definitions.models import Job
from deepwork.jobs.definitions.parsing import parse_job
from deepwork.jobs.definitions.schema import find_shape_problems

_MAX_BYTES = 2**20
_MAX_PROBLEMS = 100


@dataclass(frozen=True)
class JobValidation:
    """The job of a folder, or everything that is wrong with it."""

    job: Job | None
    heading: str = ""
    lines: tuple[str, ...] = ()
    unusable: tuple[tuple[str, FileStamp | None], ...] = ()
    """Unusable instructions files, with their stamps when they were read."""

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [self.heading, *self.lines]))


def validate_job(folder: Path) -> JobValidation:
    """Read and validate the job in this folder."""
    if absence := _find_access_problem(folder):
        return JobValidation(None, lines=(absence,))
    try:
        document = _load_document(folder)
    except DefinitionError as error:
        return JobValidation(None, "Failed to load the job:", (error.message,))
    job = parse_job(document.data, folder)
    unusable = dict(_find_unusable_instructions(job))
    found = [*_find_document_problems(document, job), *(problem for problem, _ in unusable.values())]
    if not found:
        return JobValidation(job)
    seen = tuple((str(folder / path), was) for path, (_, was) in unusable.items())
    return JobValidation(None, "Job validation failed:", _format_problems(document, found), seen)


def read_instructions_file(folder: Path, path: str) -> str:
    """Read an instructions file, which must be inside the job's folder."""
    try:
        return read_confined(folder, path, max_bytes=_MAX_BYTES).decode()
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


def _load_document(folder: Path) -> YamlDocument:
    source = str(folder / JOB_FILE)
    try:
        content = read_confined(folder, JOB_FILE, max_bytes=_MAX_BYTES)
        document = load_yaml(content.decode("utf-8-sig"), source=source)
    except InvalidInput as error:
        raise DefinitionError(f"{source}:1: {explain_unusable(JOB_FILE, error)[0]}.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{source}:{line}: The text is not UTF-8; save the file as UTF-8.") from error
    if document.data is not None and not isinstance(document.data, dict):
        raise document.build_error("A job must be a mapping of keys to values")
    return document


def _find_document_problems(document: YamlDocument, job: Job) -> list[SchemaProblem]:
    """Find problems in job.yml; problems that may only follow from a malformed part are left out."""
    data = {} if document.data is None else document.data
    malformed = list(islice(find_shape_problems(data), _MAX_PROBLEMS))
    parts = {problem.where[:2] for problem in malformed}
    contradictions = (
        problem
        for problem in find_contradictions(job)
        if problem.where[:2] not in parts and problem.also not in parts
    )
    return [*malformed, *islice(contradictions, _MAX_PROBLEMS - len(malformed))]


def _find_unusable_instructions(job: Job) -> Iterator[tuple[str, tuple[SchemaProblem, FileStamp | None]]]:
    first = {step.instructions_file: index for index, step in reversed(list(enumerate(job.steps)))}
    for path, index in first.items():
        was = find_stamp(str(job.folder / path))  # before reading, so that a later change is noticed
        try:
            read_instructions_file(job.folder, path)
        except InvalidInput as error:
            if path:  # the schema reports a missing path
                yield (
                    path,
                    (
                        SchemaProblem(("steps", index, "instructions_file"), *explain_unusable(path, error)),
                        was,
                    ),
                )


def _format_problems(document: YamlDocument, found: list[SchemaProblem]) -> tuple[str, ...]:
    """Format one line per problem, in the order of the file."""
    placed = sorted(
        ((document.get_line(*problem.where), str(problem)) for problem in found), key=lambda at: at[0]
    )
    lines = [f"{document.source}:{line}: {problem}" for line, problem in placed[:_MAX_PROBLEMS]]
    if len(found) >= _MAX_PROBLEMS:
        lines.append(f"{document.source}:1: There may be more problems; fix these first.")
    return tuple(lines)
