"""Drives a run and shows it until it has ended, or the person leaves it; or detaches it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.models import RunStatus
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.cli.framework.background_work import INTERRUPTED, TERMINATED, BackgroundWork, Interruptions
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.run.outputs import RunOutput, belongs_to, choose_output
from deepwork.edge.cli.run.rendering import (
    Row,
    choose_exit_code,
    decide,
    list_unattended,
    load_run,
    name_working,
)
from deepwork.edge.server.notifying import Notifier
from deepwork.kernel.errors import DeepworkError, NotAllowed, StorageError
from deepwork.kernel.events.feed import Backoff, ResyncRequired
from deepwork.kernel.files.private import make_private_folder, make_state_folder, to_storage_error
from deepwork.kernel.foreign_text import dump_json
from deepwork.kernel.supervision.supervisor import hide_process

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepwork.delivery.runner.models import Run
    from deepwork.edge.server.application import Application
    from deepwork.kernel.config import Settings
    from deepwork.kernel.events.log import Event as StoredEvent

_TICK_SECONDS = 1.0
_CTRL_C_TO_STOP = 2
_SECOND_THOUGHTS_SECONDS = 2.0
"""How long a second Ctrl-C is awaited."""
_SECONDS_TO_START = 60.0
_POLL_SECONDS = 0.05
_NEWEST_ATTEMPTS = 200
"""Attempts of which the names of tasks are learned, if one ended between two reads."""
_SHOWN_BYTES = 2_000
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def continue_run(
    app: Application, run_id: str, place: Mapping[str, Any], *, detach: bool, as_json: bool
) -> int:
    """Drive a run and show it here, or let another process do that; return the exit code."""
    if not detach:
        return follow_run(app, run_id, choose_output(as_json=as_json))
    log = get_log_path(app.settings.state_folder, run_id)
    pid = start_detached(app.settings, run_id, place, log)
    if as_json:
        about = {"type": "run", "id": run_id, "status": load_run(app, run_id)["status"]}
        print(dump_json({**about, "pid": pid, "log": str(log)}))
        return 0
    print(f"Run {run_id} goes on without this terminal; its events are in {to_printable(str(log))}.")
    print(f"deepwork runs attach {run_id}  # watch it")
    print(f"deepwork runs stop {run_id}  # start nothing more; --now ends its agents")
    return 0


def follow_run(app: Application, run_id: str, output: RunOutput) -> int:
    """Drive a run, and show it until it has ended; return the exit code."""
    run = load_run(app, run_id)
    if has_ended(run):
        output.begin(run)
        output.end(run)
        return choose_exit_code(run)

    def drive(stop: Event) -> Run:
        hide_process()  # our environment may have the password of the store, and agents have our rights
        return app.runner.drive(run_id, stop)

    with (
        _show_warnings(output),
        Interruptions() as interruptions,
        BackgroundWork(drive, interruptions) as driver,
        _notifying(app),
    ):
        return _Follower(app, run, output, interruptions, driver).follow()


@contextmanager
def _notifying(app: Application) -> Iterator[None]:
    """Notify people while a run is driven, and of its end."""
    notifier = Notifier(app).start()
    try:
        yield
    finally:
        notifier.stop(finishes=True)


@contextmanager
def _show_warnings(output: RunOutput) -> Iterator[None]:
    """Show what the runner logs where the run is shown: a line on standard error would tear a live screen."""
    log, handler = logging.getLogger("deepwork"), _NoticeHandler(output)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _NoticeHandler(logging.Handler):
    def __init__(self, output: RunOutput) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.notice(record.getMessage())


class _Follower:
    """Shows what happens, and heeds Ctrl-C."""

    def __init__(
        self,
        app: Application,
        run: Row,
        output: RunOutput,
        interruptions: Interruptions,
        driver: BackgroundWork[Run],
    ) -> None:
        self._app, self._run, self._output = app, run, output
        self._interruptions, self._driver = interruptions, driver
        self._reader = RunReader(app, run)
        self._backoff = Backoff()
        self._interrupted_at: float | None = None
        self._is_stopping = False

    def follow(self) -> int:
        """Show the run until it has ended or was left; return the exit code."""
        self._output.begin(self._run, list_unattended(self._app, but=self._run["id"]))
        while not self._has_ended():
            if code := self._heed_interruptions():
                return self._leave(code)
            self._interruptions.wait(_TICK_SECONDS)
        self._output.end(self._run)
        return INTERRUPTED if self._is_stopping else choose_exit_code(self._run)

    def _has_ended(self) -> bool:
        has_driver_ended = self._driver.has_ended  # asked first: what it did is in the store by now
        self._update()
        return has_ended(self._run) or has_driver_ended

    def _update(self) -> None:
        try:
            self._run, events = self._reader.read()
        except StorageError as error:
            if not error.recoverable:
                raise
            if not self._backoff.is_outage:
                self._output.notice(f"{error.message} Retrying until it responds; the agents go on.")
            self._backoff.wait(lambda: self._interruptions.is_any)
            return
        if self._backoff.is_outage:
            self._backoff = Backoff()
            self._output.notice("The store answers again.")
        self._output.show(self._run, events)

    def _heed_interruptions(self) -> int:
        """Return the exit code if it is time to leave, else 0."""
        seen = self._interruptions
        if seen.is_terminated:
            return TERMINATED
        if seen.count > _CTRL_C_TO_STOP:
            return INTERRUPTED
        if seen.count == _CTRL_C_TO_STOP:
            self._stop_agents()
        elif seen.count and self._interrupted_at is None:
            self._interrupted_at = time.monotonic()
            working = name_working(self._run)
            self._output.notice(f"Leaving. Press Ctrl-C again to stop them: {working}.")
        elif seen.count and self._interrupted_at is not None:
            is_over = time.monotonic() - self._interrupted_at >= _SECOND_THOUGHTS_SECONDS
            return INTERRUPTED if is_over else 0
        return 0

    def _stop_agents(self) -> None:
        if self._is_stopping:
            return
        try:
            with suppress(NotAllowed):  # the run has just ended
                decide(self._app, "stop_run", self._run["id"], now=True)
        except StorageError as error:  # asked again until the store can be used
            if not error.recoverable:
                raise
            return
        self._is_stopping = True
        self._output.notice("Stopping the agents. Press Ctrl-C again to leave at once.")

    def _leave(self, code: int) -> int:
        self._driver.leave()
        with suppress(StorageError):
            self._run, events = self._reader.read()
            self._output.show(self._run, events)
        self._output.end(self._run)
        return code


class RunReader:
    """Reads how a run is and the events since the last read, with the names of the tasks in them."""

    def __init__(self, app: Application, run: Row) -> None:
        self._app = app
        self._run, self._since = run, run["last_seq"]
        self._names: dict[str, str] = {}

    def read(self) -> tuple[Row, list[StoredEvent]]:
        """Return the run, with `task_names` by id, and its new events."""
        run = load_run(self._app, self._run["id"])
        events = [event for event in self._read_events() if belongs_to(event, run)]
        self._learn_names(run["attempts"])
        if {str(event.data.get("task_id", "")) for event in events} - {"", *self._names}:
            given = {"run_id": run["id"], "limit": _NEWEST_ATTEMPTS}
            self._learn_names(call_operation(self._app, "list_attempts", given)["attempts"])
        return run | {"task_names": dict(self._names)}, events

    def _read_events(self) -> Iterator[StoredEvent]:
        while True:
            batch = self._app.feed.read(self._since, workflow_id=self._run.get("workflow_id"))
            if isinstance(batch, ResyncRequired):
                self._since = batch.resume_at
                return
            yield from batch.events
            if batch.upto == self._since:
                return
            self._since = batch.upto

    def _learn_names(self, attempts: Sequence[Row]) -> None:
        self._names |= {attempt["task_id"]: attempt["task_name"] for attempt in attempts}


def has_ended(run: Row) -> bool:
    """Return whether nothing more happens in a run."""
    return RunStatus(run["status"]).is_final


def get_log_path(state_folder: Path, run_id: str) -> Path:
    """Return the file into which a detached run writes its events."""
    return state_folder / "runs" / f"{run_id}.log"


def start_detached(settings: Settings, run_id: str, place: Mapping[str, Any], log: Path) -> int:
    """Start a process that follows the run, and return its id when it does; raises if it cannot."""
    make_state_folder(log.parents[1])
    make_private_folder(log.parent)
    try:
        descriptor = os.open(log, _LOG_FLAGS, 0o600)
    except OSError as error:
        raise to_storage_error("write", log, error) from error
    try:
        size = os.fstat(descriptor).st_size
        process = subprocess.Popen(  # noqa: S603 - our own program
            build_command(settings, run_id, place),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    _wait_until_it_follows(process, log, size)
    return process.pid


def build_command(settings: Settings, run_id: str, place: Mapping[str, Any]) -> list[str]:
    """Build the command that follows a run in the same project and the same store."""
    words = [sys.executable, "-P", "-m", "deepwork", "runs", "attach", run_id]
    words += ["--path", str(settings.project_root)]
    words += ["--db", str(place["database"])] if place.get("database") else []
    return [*words, "--global"] if place.get("global_store") else words


def _wait_until_it_follows(process: subprocess.Popen[bytes], log: Path, size: int) -> None:
    """Wait for the first line, so that a process that cannot start is reported here."""
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if process.poll() not in (None, 0):
            with log.open("rb") as file:
                file.seek(size)
                said = file.read(_SHOWN_BYTES).decode(errors="replace").strip()
            raise DeepworkError(
                f"The detached process ended with exit code {process.returncode}: {said}",
                suggestion="Start it without --detach to see more.",
            )
        if log.stat().st_size > size or process.returncode == 0:
            return
        time.sleep(_POLL_SECONDS)
