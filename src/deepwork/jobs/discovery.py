"""Where jobs are: which folders hold one, whether a file has changed, and who has a right to a name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepwork.files.stamps import Stamp, speakable, stamp, taken_stamp
from deepwork.jobs.models import Job, LoadError

JOB_FILE = "job.yml"


class Place(NamedTuple):
    """A folder with a job.yml, whatever that holds."""

    rank: int
    """Which of the folders to look in it is from; the lowest wins."""
    name: str
    folder: str
    stamp: Stamp | None
    """None when the file is there and cannot even be looked at."""


class Places(NamedTuple):
    """What looking around has found."""

    places: list[Place]
    unreadable: list[LoadError]
    """Folders to look in that cannot be listed."""


@dataclass(frozen=True)
class Reading:
    """What came of reading a job.yml: the job, or why there is none."""

    job: Job | None
    error: str
    stamp: Stamp | None
    beside: tuple[tuple[str, Stamp | None], ...]
    """Other files that were found wanting, as they were; mending one of them makes this out of date."""

    def holds(self, now: Stamp | None) -> bool:
        """Whether it is still what reading again would tell."""
        return now is not None and now == self.stamp and all(stamp(path) == was for path, was in self.beside)


@dataclass(frozen=True)
class Shelf:
    """Every name given to one job."""

    jobs: list[Job]
    errors: list[LoadError]
    by_name: dict[str, Job | LoadError]


def places(folders: Sequence[Path]) -> Places:
    """Every folder with a job.yml, in order."""
    found = Places([], [])
    for rank, folder in enumerate(folders):
        try:
            found.places.extend(_in(folder, rank))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            told = f"The folder cannot be read: {error.strerror}. Change its rights, or leave it out."
            found.unreadable.append(LoadError(speakable(folder.name), speakable(str(folder)), told))
    return found


def place(folder: Path, name: str, rank: int = 0) -> Place | None:
    """The job with that directory name, if there is one."""
    path = f"{folder}{os.sep}{name}"
    try:
        return Place(rank, name, path, taken_stamp(f"{path}{os.sep}{JOB_FILE}"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return Place(rank, name, path, None)


def foremost(found: Iterable[Place]) -> tuple[list[Place], dict[str, str]]:
    """Of each directory name the place in the first folder, and where the one it hides would have been."""
    first: dict[str, Place] = {}
    hidden: dict[str, str] = {}
    for candidate in found:
        if first.setdefault(candidate.name, candidate) is not candidate:
            hidden.setdefault(candidate.name, candidate.folder)
    return list(first.values()), hidden


def settled(
    readings: Iterable[tuple[Place, Reading]], hidden: dict[str, str], unreadable: list[LoadError]
) -> Shelf:
    """Give every name to one job.

    An earlier folder goes before a later one; in one folder, a directory goes before a job that merely calls
    itself so. A broken job keeps its directory's name, so that nobody gets another by mistake.
    """
    taken: dict[str, str] = {}
    jobs: list[tuple[Place, Job]] = []
    errors: list[tuple[Place, LoadError]] = []
    for where, reading in sorted(readings, key=_precedence):
        rival = _rival(where, reading, taken)
        if rival is None:
            taken.update(dict.fromkeys(_names(where, reading), where.folder))
        if reading.job is None:
            errors.append((where, _broken(where, reading.error, hidden)))
        elif rival:
            errors.append((where, _clash(where, reading.job, rival)))
        else:
            jobs.append((where, reading.job))
    return _shelf(jobs, errors, unreadable)


def _in(folder: Path, rank: int) -> Iterator[Place]:
    names = sorted(os.listdir(folder))  # noqa: PTH208 - a Path for each of 500 jobs costs more than asking
    return filter(None, [place(folder, name, rank) for name in names])


def _precedence(pair: tuple[Place, Reading]) -> tuple[int, bool, str]:
    where, reading = pair
    return where.rank, reading.job is not None and reading.job.name != where.name, where.name


def _names(where: Place, reading: Reading) -> set[str]:
    return {where.name} if reading.job is None else {where.name, reading.job.name}


def _rival(where: Place, reading: Reading, taken: dict[str, str]) -> str | None:
    """The folder of the job that already has one of these names."""
    return next((taken[name] for name in sorted(_names(where, reading)) if name in taken), None)


def _broken(where: Place, error: str, hidden: dict[str, str]) -> LoadError:
    if where.name in hidden:
        error += (
            f"\nUntil it is mended, it hides the job of the same name in {speakable(hidden[where.name])}."
        )
    return LoadError(speakable(where.name), speakable(where.folder), error)


def _clash(where: Place, job: Job, rival: str) -> LoadError:
    error = (
        f"{where.folder}/{JOB_FILE}: Two jobs share a name: {job.name!r} in {where.name!r} clashes with the "
        f"job in {rival}, which goes first. Change the `name`, or rename the directory."
    )
    return LoadError(speakable(where.name), speakable(where.folder), speakable(error))


def _shelf(
    jobs: list[tuple[Place, Job]], errors: list[tuple[Place, LoadError]], unreadable: list[LoadError]
) -> Shelf:
    by_name: dict[str, Job | LoadError] = {where.name: error for where, error in errors}
    for where, job in jobs:
        by_name[where.name] = by_name[job.name] = job
    return Shelf(
        jobs=[job for _, job in sorted(jobs, key=_order)],
        errors=[*(error for _, error in sorted(errors, key=_order)), *unreadable],
        by_name=by_name,
    )


def _order(pair: tuple[Place, object]) -> tuple[int, str]:
    return pair[0].rank, pair[0].name
