"""Finds and loads jobs: one by its folder, or all that a project can use, and what each name refers to."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import DefinitionError, InvalidInput, NotFound
from deepwork.kernel.files.definitions import DefinitionCatalog, DefinitionReader, FolderEntry, list_entries
from deepwork.kernel.files.private import read_stamp, to_printable_name
from deepwork.kernel.files.problems import find_nearest, format_list, format_value
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.definitions.checks import find_warnings
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, LoadError, Step, is_identifier
from deepwork.work.jobs.definitions.validation import (
    JobValidation,
    explain_unusable,
    read_instructions_file,
    validate_job,
)

STANDARD_JOBS = Path(__file__).parent.with_name("standard")

_FIX_SUGGESTION = "Fix the file, or run the workflow repair_job of the job deepwork_jobs; then call again."

log = logging.getLogger("deepwork")


def load_job(folder: Path) -> Job:
    """Load the job in this folder; raise one DefinitionError that names every problem."""
    validation = validate_job(folder, DefinitionReader())
    if validation.job is None:
        raise DefinitionError(validation.text)
    _log_warnings(validation.job)
    return validation.job


def find_problems(folder: Path) -> list[str]:
    """Return every problem of the job in this folder, as `file:line: message`."""
    return list(validate_job(folder, DefinitionReader()).lines)


def read_instructions(job: Job, step: Step) -> str:
    """Read the instructions of a step from a file inside the job's own folder."""
    try:
        return read_instructions_file(job.folder, step.instructions_file, DefinitionReader())
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
        self._definitions = DefinitionCatalog(self._read)
        self._logged: dict[str, str] = {}
        self._last: tuple[tuple[list[FolderEntry], list[LoadError]], JobIndex] | None = None

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
            raise DefinitionError(found.error, suggestion=_FIX_SUGGESTION)
        return found

    def _find_own(self, name: str) -> Job | None:
        """Find a job of the project whose directory has its name: nothing takes precedence over it."""
        if not is_identifier(name):  # the name becomes part of a path
            return None
        location = find_location(FolderEntry(0, name, str(self._own_folder / name)))
        job = self._definitions.load(location.path).job if location else None
        return job if job and job.name == name else None

    def _load_index(self) -> JobIndex:
        found = find_locations(self.list_folders())
        last = self._last
        if last is not None and last[0] == found:
            return last[1]
        locations, unreadable = found
        first, hidden = select_first(locations)
        loaded = self._definitions.load_all(location.path for location in first)
        index = resolve_names(zip(first, loaded.values(), strict=True), hidden, unreadable)
        # Cache the whole index only if it depends on nothing but the stamps in `found`.
        self._last = (found, index) if self._definitions.depend_on_one_file_each() else None
        return index

    def _read(self, folder: str, reader: DefinitionReader) -> JobValidation:
        validation = _check_folder_name(folder) or validate_job(Path(folder), reader)
        if self._logged.get(folder) != validation.text:
            self._logged[folder] = validation.text
            _log_result(validation)
        return validation

    def _suggest_names(self, name: str) -> str:
        names = [job.name for job in self._load_index().jobs]
        near = find_nearest(name, names)
        return f"Available jobs: {format_list(names)}." + (f" Did you mean {near!r}?" if near else "")


def _check_folder_name(folder: str) -> JobValidation | None:
    """Return a failed validation if the folder's name is not UTF-8 and so cannot be sent to a client."""
    printable = to_printable_name(folder)
    if printable == folder:
        return None
    return JobValidation(None, lines=(f"{printable}: The directory name is not UTF-8; rename it.",))


def _log_result(validation: JobValidation) -> None:
    if validation.job is None:
        log.warning("%s", validation.text)
    else:
        _log_warnings(validation.job)


def _log_warnings(job: Job) -> None:
    for warning in find_warnings(job):
        log.warning("Job %s: %s", job.name, warning)


@dataclass(frozen=True)
class JobIndex:
    """All jobs and errors, and the one that each name refers to."""

    jobs: list[Job]
    errors: list[LoadError]
    by_name: dict[str, Job | LoadError]


def find_locations(folders: Sequence[Path]) -> tuple[list[FolderEntry], list[LoadError]]:
    """Find every folder with a job.yml, valid or not; also return the errors of unreadable folders."""
    entries, unreadable = list_entries(folders)
    errors = [
        LoadError(to_printable_name(folders[rank].name), to_printable_name(str(folders[rank])), message)
        for rank, message in unreadable.items()
    ]
    return list(filter(None, map(find_location, entries))), errors


def find_location(entry: FolderEntry) -> FolderEntry | None:
    """Return the folder with the stamp of its job.yml; None if it has none."""
    try:
        stamp = read_stamp(f"{entry.path}{os.sep}{JOB_FILE}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # it exists, but cannot be accessed
        stamp = None
    return FolderEntry(entry.rank, entry.name, entry.path, stamp)


def select_first(found: Iterable[FolderEntry]) -> tuple[list[FolderEntry], dict[str, str]]:
    """Select the first location of each directory name; also return the folders of the jobs they hide."""
    first: dict[str, FolderEntry] = {}
    hidden: dict[str, str] = {}
    for candidate in found:
        if first.setdefault(candidate.name, candidate) is not candidate:
            hidden.setdefault(candidate.name, candidate.path)
    return list(first.values()), hidden


def resolve_names(
    loaded: Iterable[tuple[FolderEntry, JobValidation]], hidden: dict[str, str], unreadable: list[LoadError]
) -> JobIndex:
    """Decide which job each name refers to.

    An earlier search folder takes precedence over a later one. Within one, a directory of that name takes
    precedence over a job whose `name` is equal. A broken job keeps its directory's name, so that a call never
    runs another job by mistake.
    """
    taken: dict[str, str] = {}
    jobs: list[tuple[FolderEntry, Job]] = []
    errors: list[tuple[FolderEntry, LoadError]] = []
    for location, reading in sorted(loaded, key=_get_precedence):
        rival = _find_rival(location, reading, taken)
        if rival is None:
            taken.update(dict.fromkeys(_list_names(location, reading), location.path))
        if reading.job is None:
            errors.append((location, _build_broken_error(location, reading.text, hidden)))
        elif rival:
            errors.append((location, _build_clash_error(location, reading.job, rival)))
        else:
            jobs.append((location, reading.job))
    return _build_index(jobs, errors, unreadable)


def _get_precedence(pair: tuple[FolderEntry, JobValidation]) -> tuple[int, bool, str]:
    location, reading = pair
    return location.rank, reading.job is not None and reading.job.name != location.name, location.name


def _list_names(location: FolderEntry, reading: JobValidation) -> set[str]:
    return {location.name} if reading.job is None else {location.name, reading.job.name}


def _find_rival(location: FolderEntry, reading: JobValidation, taken: dict[str, str]) -> str | None:
    """Find the folder of a job that already has one of these names."""
    return next((taken[name] for name in sorted(_list_names(location, reading)) if name in taken), None)


def _build_broken_error(location: FolderEntry, error: str, hidden: dict[str, str]) -> LoadError:
    if location.name in hidden:
        folder = to_printable_name(hidden[location.name])
        error += f"\nUntil it is fixed, it hides the job of the same name in {folder}."
    return LoadError(to_printable_name(location.name), to_printable_name(location.path), error)


def _build_clash_error(location: FolderEntry, job: Job, rival: str) -> LoadError:
    error = (
        f"{location.path}/{JOB_FILE}: Two jobs share a name: {job.name!r} in {location.name!r} clashes "
        f"with the job in {rival}, which takes precedence. Change the `name`, or rename the directory."
    )
    return LoadError(
        to_printable_name(location.name), to_printable_name(location.path), to_printable_name(error)
    )


def _build_index(
    jobs: list[tuple[FolderEntry, Job]],
    errors: list[tuple[FolderEntry, LoadError]],
    unreadable: list[LoadError],
) -> JobIndex:
    by_name: dict[str, Job | LoadError] = {location.name: error for location, error in errors}
    for location, job in jobs:
        by_name[location.name] = by_name[job.name] = job
    return JobIndex(
        jobs=[job for _, job in sorted(jobs, key=_get_order)],
        errors=[*(error for _, error in sorted(errors, key=_get_order)), *unreadable],
        by_name=by_name,
    )


def _get_order(pair: tuple[FolderEntry, object]) -> tuple[int, str]:
    return pair[0].rank, pair[0].name
