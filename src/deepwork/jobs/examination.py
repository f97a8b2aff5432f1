"""One folder looked at closely: the job in it, or everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deepwork.errors import Code, DefinitionError, InvalidInput
from deepwork.files.paths import read_confined
from deepwork.files.shape import Problem, shown
from deepwork.files.stamps import Stamp, stamp
from deepwork.files.yaml import Document, load_yaml
from deepwork.jobs.checks import cross_problems
from deepwork.jobs.discovery import JOB_FILE
from deepwork.jobs.models import Job
from deepwork.jobs.parsing import as_job
from deepwork.jobs.schema import shape_problems

_MAX_BYTES = 2**20
_MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Findings:
    """What is known of a folder that should hold a job."""

    job: Job | None
    heading: str = ""
    lines: tuple[str, ...] = ()
    unusable: tuple[tuple[str, Stamp | None], ...] = ()
    """Instructions files that cannot be used, as they were when looked at."""

    @property
    def text(self) -> str:
        return "\n".join(filter(None, [self.heading, *self.lines]))


def examined(folder: Path) -> Findings:
    """The job in this folder, or all that keeps it from being one."""
    if absence := _absence(folder):
        return Findings(None, lines=(absence,))
    try:
        document = _document(folder)
    except DefinitionError as error:
        return Findings(None, "Failed to load the job:", (error.message,))
    job = as_job(document.data, folder)
    unusable = dict(_unusable_instructions(job))
    found = [*_of_document(document, job), *(problem for problem, _ in unusable.values())]
    if not found:
        return Findings(job)
    seen = tuple((str(folder / path), was) for path, (_, was) in unusable.items())
    return Findings(None, "Job validation failed:", _lines(document, found), seen)


def instructions(folder: Path, path: str) -> str:
    """The text of an instructions file, which must lie inside the job's folder."""
    try:
        return read_confined(folder, path, max_bytes=_MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"The file {shown(path)} is not UTF-8 text.") from None


def reason(path: str, error: InvalidInput) -> tuple[str, str]:
    """Why an instructions file cannot be used, and what to do."""
    if error.code is Code.PATH_OUTSIDE_PROJECT:
        return f"{shown(path)} leads out of the job's folder", "keep the file beside job.yml, as in steps/"
    told = error.message.removesuffix(".")
    return f"{told[:1].lower()}{told[1:]}", "write the file as UTF-8 text, or correct the path"


def _absence(folder: Path) -> str | None:
    """Why there is nothing to read here."""
    try:
        return _missing(folder)
    except OSError as error:
        return f"{folder}: The job cannot be read ({error.strerror}); change the rights of its folder."


def _missing(folder: Path) -> str | None:
    if not folder.exists():
        return f"{folder}: The job directory does not exist; name a folder that holds a {JOB_FILE}."
    if not folder.is_dir():
        return f"{folder}: This is not a directory; name the folder that holds the {JOB_FILE}."
    if not (folder / JOB_FILE).exists():
        return f"{folder}: {JOB_FILE} not found; write one, or begin with `deepwork jobs new`."
    return None


def _document(folder: Path) -> Document:
    source = str(folder / JOB_FILE)
    try:
        content = read_confined(folder, JOB_FILE, max_bytes=_MAX_BYTES)
        document = load_yaml(content.decode("utf-8-sig"), source=source)
    except InvalidInput as error:
        raise DefinitionError(f"{source}:1: {reason(JOB_FILE, error)[0]}.") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{source}:{line}: The text is not UTF-8; save the file as UTF-8.") from error
    if document.data is not None and not isinstance(document.data, dict):
        raise document.error("A job must be a mapping of keys to values")
    return document


def _of_document(document: Document, job: Job) -> list[Problem]:
    """What is wrong with the file itself; what rests on a malformed part is left for the next round."""
    data = {} if document.data is None else document.data
    malformed = list(islice(shape_problems(data), _MOST_PROBLEMS))
    parts = {problem.where[:2] for problem in malformed}
    contradictions = (
        problem
        for problem in cross_problems(job)
        if problem.where[:2] not in parts and problem.also not in parts
    )
    return [*malformed, *islice(contradictions, _MOST_PROBLEMS - len(malformed))]


def _unusable_instructions(job: Job) -> Iterator[tuple[str, tuple[Problem, Stamp | None]]]:
    first = {step.instructions_file: index for index, step in reversed(list(enumerate(job.steps)))}
    for path, index in first.items():
        was = stamp(str(job.folder / path))  # before reading: what changes from here on will be noticed
        try:
            instructions(job.folder, path)
        except InvalidInput as error:
            if path:  # a missing path is the schema's to tell
                yield path, (Problem(("steps", index, "instructions_file"), *reason(path, error)), was)


def _lines(document: Document, found: list[Problem]) -> tuple[str, ...]:
    """One line for each problem, from the top of the file to its end."""
    placed = sorted(
        ((document.line(*problem.where), str(problem)) for problem in found), key=lambda at: at[0]
    )
    lines = [f"{document.source}:{line}: {problem}" for line, problem in placed[:_MOST_PROBLEMS]]
    if len(found) >= _MOST_PROBLEMS:
        lines.append(f"{document.source}:1: There may be more problems; mend these first.")
    return tuple(lines)
