"""Jobs as they stand on disk: one by its folder, or all that a project can use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from deepwork.config import STATE_FOLDER
from deepwork.errors import DefinitionError, InvalidInput, NotFound
from deepwork.files.shape import listed, nearest, shown
from deepwork.files.stamps import speakable
from deepwork.jobs import discovery
from deepwork.jobs.checks import warnings
from deepwork.jobs.discovery import JOB_FILE, Place, Places, Reading, Shelf
from deepwork.jobs.examination import Findings, examined, instructions, reason
from deepwork.jobs.models import Job, LoadError, Step
from deepwork.jobs.schema import is_identifier

STANDARD_JOBS = Path(__file__).with_name("standard")

_HELP = "Correct the file, or start the workflow repair_job of the job deepwork_jobs; then call again."

log = logging.getLogger("deepwork")


def load_job(folder: Path) -> Job:
    """The job in this folder; if anything is wrong with it, one error that names every problem."""
    findings = examined(folder)
    if findings.job is None:
        raise DefinitionError(findings.text)
    _mention(findings.job)
    return findings.job


def problems(folder: Path) -> list[str]:
    """Everything that is wrong with the job in this folder, as a compiler would print it."""
    return list(examined(folder).lines)


def read_instructions(job: Job, step: Step) -> str:
    """What the step tells the agent to do: the text of a file inside the job's own folder."""
    try:
        return instructions(job.folder, step.instructions_file)
    except InvalidInput as error:
        what, remedy = reason(step.instructions_file, error)
        raise DefinitionError(
            f"{job.folder / JOB_FILE}: Step {shown(step.id)} has no instructions: {what}.",
            code=error.code,
            suggestion=f"{remedy[:1].upper()}{remedy[1:]}; then call again.",
        ) from error


class JobShelf:
    """All jobs that a project can use; a file that has not changed is not read again."""

    def __init__(self, project_root: Path, additional_folders: Callable[[], Sequence[Path]]) -> None:
        self._root, self._additional_folders = project_root, additional_folders
        self._own_folder = project_root / STATE_FOLDER / "jobs"
        self._readings: dict[str, Reading] = {}
        self._last: tuple[Places, Shelf] | None = None

    def folders(self) -> list[Path]:
        """Where jobs are looked for; of two with the same directory name the first wins."""
        further = [self._root / folder.expanduser() for folder in self._additional_folders()]
        return list(dict.fromkeys([self._own_folder, STANDARD_JOBS, *further]))

    def all(self) -> tuple[list[Job], list[LoadError]]:
        """Every job there is, and what could not be offered."""
        shelf = self._shelf()
        return list(shelf.jobs), list(shelf.errors)

    def find(self, name: str) -> Job:
        """The job with this directory name, or that calls itself so."""
        found = self._at_hand(name) or self._shelf().by_name.get(name)
        if found is None:
            raise NotFound("job", name[:200], suggestion=self._suggestion(name))
        if isinstance(found, LoadError):
            raise DefinitionError(found.error, suggestion=_HELP)
        return found

    def _at_hand(self, name: str) -> Job | None:
        """A job of the project in the directory of its own name: nothing can go before it."""
        if not is_identifier(name):  # a name becomes part of a path here, and nowhere else
            return None
        place = discovery.place(self._own_folder, name)
        job = self._reading(place).job if place else None
        return job if job and job.name == name else None

    def _shelf(self) -> Shelf:
        found = discovery.places(self.folders())
        if self._last is not None and self._last[0] == found:
            return self._last[1]
        first, hidden = discovery.foremost(found.places)
        readings = [(place, self._reading(place)) for place in first]
        self._readings = {place.folder: reading for place, reading in readings}
        shelf = discovery.settled(readings, hidden, found.unreadable)
        rests_on_these_files = all(reading.stamp and not reading.beside for _, reading in readings)
        self._last = (found, shelf) if rests_on_these_files else None
        return shelf

    def _reading(self, place: Place) -> Reading:
        known = self._readings.get(place.folder)
        if known is not None and known.holds(place.stamp):
            return known
        reading = _reading(place)
        if known is None or known.error != reading.error:
            _complain(reading)
        self._readings[place.folder] = reading
        return reading

    def _suggestion(self, name: str) -> str:
        names = [job.name for job in self._shelf().jobs]
        near = nearest(name, names)
        return f"There are {listed(names)}." + (f" Did you mean {near!r}?" if near else "")


def _reading(place: Place) -> Reading:
    findings = _unspeakable(place.folder) or examined(Path(place.folder))
    return Reading(findings.job, findings.text, place.stamp, findings.unusable)


def _unspeakable(folder: str) -> Findings | None:
    """A folder whose name cannot be sent to anybody."""
    spoken = speakable(folder)
    if spoken == folder:
        return None
    return Findings(None, lines=(f"{spoken}: The directory's name is not UTF-8; rename it.",))


def _complain(reading: Reading) -> None:
    if reading.job is None:
        log.warning("%s", reading.error)
    else:
        _mention(reading.job)


def _mention(job: Job) -> None:
    for warning in warnings(job):
        log.warning("Job %s: %s", job.name, warning)
