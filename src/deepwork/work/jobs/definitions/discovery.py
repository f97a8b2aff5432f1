"""Finds the folders that hold jobs, and decides which job each name refers to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.kernel.files.definitions import FolderEntry, list_entries
from deepwork.kernel.files.stamps import read_stamp, to_printable_name
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, LoadError
from deepwork.work.jobs.definitions.validation import JobValidation


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
