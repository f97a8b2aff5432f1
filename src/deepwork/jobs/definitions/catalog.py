"""Loads jobs from disk: one by its folder, or all that a project can use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from deepwork.config import STATE_FOLDER
from deepwork.errors import DefinitionError, InvalidInput, NotFound
from deepwork.files.json_schema import find_nearest, format_list, format_value
from deepwork.files.stamps import to_printable_name
from deepwork.jobs.definitions import discovery
from deepwork.jobs.definitions.checks import find_warnings
from deepwork.jobs.definitions.discovery import JOB_FILE, JobIndex, JobLocation, JobLocations, LoadedJob
from deepwork.jobs.definitions.models import Job, LoadError, Step
from deepwork.jobs.definitions.schema import is_identifier
from deepwork.jobs.definitions.validation import (
    JobValidation,
    explain_unusable,
    read_instructions_file,
    validate_job,
)

STANDARD_JOBS = Path(__file__).parent.with_name("standard")

_HELP = "Fix the file, or run the workflow repair_job of the job deepwork_jobs; then call again."

log = logging.getLogger("deepwork")


def load_job(folder: Path) -> Job:
    """Load the job in this folder; raise one DefinitionError that names every problem."""
    validation = validate_job(folder)
    if validation.job is None:
        raise DefinitionError(validation.text)
    _log_warnings(validation.job)
    return validation.job


def find_problems(folder: Path) -> list[str]:
    """Return every problem of the job in this folder, as `file:line: message`."""
    return list(validate_job(folder).lines)


def read_instructions(job: Job, step: Step) -> str:
    """Read the instructions of a step from a file inside the job's own folder."""
    try:
        return read_instructions_file(job.folder, step.instructions_file)
    except InvalidInput as error:
        what, remedy = explain_unusable(step.instructions_file, error)
        raise DefinitionError(
            f"{job.folder / JOB_FILE}: Step {format_value(step.id)} has no instructions: {what}.",
            code=error.code,
            suggestion=f"{remedy[:1].upper()}{remedy[1:]}; then call again.",
        ) from error


class JobCatalog:
    """All jobs that a project can use; a job is cached until its files change."""

    def __init__(self, project_root: Path, additional_folders: Callable[[], Sequence[Path]]) -> None:
        self._root, self._additional_folders = project_root, additional_folders
        self._own_folder = project_root / STATE_FOLDER / "jobs"
        self._loaded: dict[str, LoadedJob] = {}
        self._last: tuple[JobLocations, JobIndex] | None = None

    def list_folders(self) -> list[Path]:
        """List the folders to search; the first job with a directory name takes precedence."""
        further = [self._root / folder.expanduser() for folder in self._additional_folders()]
        return list(dict.fromkeys([self._own_folder, STANDARD_JOBS, *further]))

    def load_all(self) -> tuple[list[Job], list[LoadError]]:
        """Load every job; return the usable ones and the errors of the others."""
        index = self._load_index()
        return list(index.jobs), list(index.errors)

    def get(self, name: str) -> Job:
        """Return the job with this directory name or this `name`; raise if it is missing or broken."""
        found = self._find_own(name) or self._load_index().by_name.get(name)
        if found is None:
            raise NotFound("job", name[:200], suggestion=self._suggest_names(name))
        if isinstance(found, LoadError):
            raise DefinitionError(found.error, suggestion=_HELP)
        return found

    def _find_own(self, name: str) -> Job | None:
        """Find a job of the project whose directory has its name: nothing takes precedence over it."""
        if not is_identifier(name):  # the name becomes part of a path
            return None
        location = discovery.find_location(self._own_folder, name)
        job = self._load(location).job if location else None
        return job if job and job.name == name else None

    def _load_index(self) -> JobIndex:
        found = discovery.find_locations(self.list_folders())
        if self._last is not None and self._last[0] == found:
            return self._last[1]
        first, hidden = discovery.select_first(found.locations)
        loaded = [(location, self._load(location)) for location in first]
        self._loaded = {location.folder: job for location, job in loaded}
        index = discovery.resolve_names(loaded, hidden, found.unreadable)
        # Cache the whole index only if it depends on nothing but the stamps in `found`.
        is_cacheable = all(job.stamp and not job.beside for _, job in loaded)
        self._last = (found, index) if is_cacheable else None
        return index

    def _load(self, location: JobLocation) -> LoadedJob:
        known = self._loaded.get(location.folder)
        if known is not None and known.is_current(location.stamp):
            return known
        loaded = _read_job(location)
        if known is None or known.error != loaded.error:
            _log_result(loaded)
        self._loaded[location.folder] = loaded
        return loaded

    def _suggest_names(self, name: str) -> str:
        names = [job.name for job in self._load_index().jobs]
        near = find_nearest(name, names)
        return f"Available jobs: {format_list(names)}." + (f" Did you mean {near!r}?" if near else "")


def _read_job(location: JobLocation) -> LoadedJob:
    validation = _check_folder_name(location.folder) or validate_job(Path(location.folder))
    return LoadedJob(validation.job, validation.text, location.stamp, validation.unusable)


def _check_folder_name(folder: str) -> JobValidation | None:
    """Return a failed validation if the folder's name is not UTF-8 and so cannot be sent to a client."""
    printable = to_printable_name(folder)
    if printable == folder:
        return None
    return JobValidation(None, lines=(f"{printable}: The directory name is not UTF-8; rename it.",))


def _log_result(loaded: LoadedJob) -> None:
    if loaded.job is None:
        log.warning("%s", loaded.error)
    else:
        _log_warnings(loaded.job)


def _log_warnings(job: Job) -> None:
    for warning in find_warnings(job):
        log.warning("Job %s: %s", job.name, warning)
