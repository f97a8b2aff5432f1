"""Finds the folders that hold jobs, and decides which job each name refers to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepwork.files.stamps import FileStamp, find_stamp, read_stamp, to_printable_name
from deepwork.jobs.definitions.models import Job, LoadError

JOB_FILE = "job.yml"


class JobLocation(NamedTuple):
    """A folder with a job.yml, valid or not."""

    rank: int
    """The index of the search folder it is in; the lowest wins."""
    name: str
    folder: str
    stamp: FileStamp | None
    """None if the file exists but cannot be accessed."""


class JobLocations(NamedTuple):
    """The result of searching the folders."""

    locations: list[JobLocation]
    unreadable: list[LoadError]
    """Search folders that cannot be listed."""


@dataclass(frozen=True)
class LoadedJob:
    """The result of reading a job.yml: the job, or an error."""

    job: Job | None
    error: str
    stamp: FileStamp | None
    beside: tuple[tuple[str, FileStamp | None], ...]
    """Stamps of other unusable files; once one of them changes, this result is out of date."""

    def is_current(self, now: FileStamp | None) -> bool:
        """Whether reading again would give the same result."""
        return (
            now is not None
            and now == self.stamp
            and all(find_stamp(path) == was for path, was in self.beside)
        )


@dataclass(frozen=True)
class JobIndex:
    """All jobs and errors, and the one that each name refers to."""

    jobs: list[Job]
    errors: list[LoadError]
    by_name: dict[str, Job | LoadError]


def find_locations(folders: Sequence[Path]) -> JobLocations:
    """Find every folder with a job.yml, in the order of the search folders."""
    found = JobLocations([], [])
    for rank, folder in enumerate(folders):
        try:
            found.locations.extend(_list_locations(folder, rank))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            message = f"The folder cannot be read: {error.strerror}. Change its permissions, or exclude it."
            found.unreadable.append(
                LoadError(to_printable_name(folder.name), to_printable_name(str(folder)), message)
            )
    return found


def find_location(folder: Path, name: str, rank: int = 0) -> JobLocation | None:
    """Find the job with this directory name."""
    path = f"{folder}{os.sep}{name}"
    try:
        return JobLocation(rank, name, path, read_stamp(f"{path}{os.sep}{JOB_FILE}"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return JobLocation(rank, name, path, None)


def select_first(found: Iterable[JobLocation]) -> tuple[list[JobLocation], dict[str, str]]:
    """Select the first location of each directory name; also return the folders of the jobs they hide."""
    first: dict[str, JobLocation] = {}
    hidden: dict[str, str] = {}
    for candidate in found:
        if first.setdefault(candidate.name, candidate) is not candidate:
            hidden.setdefault(candidate.name, candidate.folder)
    return list(first.values()), hidden


def resolve_names(
    loaded: Iterable[tuple[JobLocation, LoadedJob]], hidden: dict[str, str], unreadable: list[LoadError]
) -> JobIndex:
    """Decide which job each name refers to.

    An earlier search folder takes precedence over a later one. Within one, a directory of that name takes
    precedence over a job whose `name` is equal. A broken job keeps its directory's name, so that a call never
    runs another job by mistake.
    """
    taken: dict[str, str] = {}
    jobs: list[tuple[JobLocation, Job]] = []
    errors: list[tuple[JobLocation, LoadError]] = []
    for location, reading in sorted(loaded, key=_get_precedence):
        rival = _find_rival(location, reading, taken)
        if rival is None:
            taken.update(dict.fromkeys(_list_names(location, reading), location.folder))
        if reading.job is None:
            errors.append((location, _build_broken_error(location, reading.error, hidden)))
        elif rival:
            errors.append((location, _build_clash_error(location, reading.job, rival)))
        else:
            jobs.append((location, reading.job))
    return _build_index(jobs, errors, unreadable)


def _list_locations(folder: Path, rank: int) -> Iterator[JobLocation]:
    names = sorted(os.listdir(folder))  # noqa: PTH208 - creating 500 Path objects is slow
    return filter(None, [find_location(folder, name, rank) for name in names])


def _get_precedence(pair: tuple[JobLocation, LoadedJob]) -> tuple[int, bool, str]:
    location, reading = pair
    return location.rank, reading.job is not None and reading.job.name != location.name, location.name


def _list_names(location: JobLocation, reading: LoadedJob) -> set[str]:
    return {location.name} if reading.job is None else {location.name, reading.job.name}


def _find_rival(location: JobLocation, reading: LoadedJob, taken: dict[str, str]) -> str | None:
    """Find the folder of a job that already has one of these names."""
    return next((taken[name] for name in sorted(_list_names(location, reading)) if name in taken), None)


def _build_broken_error(location: JobLocation, error: str, hidden: dict[str, str]) -> LoadError:
    if location.name in hidden:
        folder = to_printable_name(hidden[location.name])
        error += f"\nUntil it is fixed, it hides the job of the same name in {folder}."
    return LoadError(to_printable_name(location.name), to_printable_name(location.folder), error)


def _build_clash_error(location: JobLocation, job: Job, rival: str) -> LoadError:
    error = (
        f"{location.folder}/{JOB_FILE}: Two jobs share a name: {job.name!r} in {location.name!r} clashes "
        f"with the job in {rival}, which takes precedence. Change the `name`, or rename the directory."
    )
    return LoadError(
        to_printable_name(location.name), to_printable_name(location.folder), to_printable_name(error)
    )


def _build_index(
    jobs: list[tuple[JobLocation, Job]],
    errors: list[tuple[JobLocation, LoadError]],
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


def _get_order(pair: tuple[JobLocation, object]) -> tuple[int, str]:
    return pair[0].rank, pair[0].name
