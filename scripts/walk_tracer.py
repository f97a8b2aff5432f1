"""Runs a command of deepwork and writes down which of our modules work for it, and how many git programs it starts.

    python -P scripts/walk_tracer.py OUT now|signal COMMAND...

With `signal` nothing is recorded until SIGUSR1; SIGUSR2 writes the record. With `now` all of the command is recorded,
and written at its end.
"""

from __future__ import annotations

import atexit
import inspect
import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "deepwork"


class Record:
    """What happened while it was recording."""

    def __init__(self) -> None:
        self.is_recording = False
        self.modules: set[str] = set()
        self.calls = 0
        self.git_programs = 0
        self._here = threading.local()

    @property
    def _importing(self) -> int:
        """How many modules are being imported by this thread, each because of the one before."""
        return getattr(self._here, "importing", 0)

    def note_call(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the module of a called function; what an import calls only defines things."""
        name = _get_module(frame)
        if name is None or event not in ("call", "return"):
            return
        if frame.f_code.co_name == "<module>":
            self._here.importing = self._importing + (1 if event == "call" else -1)
        if event != "call" or not self.is_recording or self._importing:
            return
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
            return
        if name not in self.modules and not _is_importing(frame):
            self.modules.add(name)
        caller = _get_module(frame.f_back)
        self.calls += caller is not None and caller != name

    def note_program(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a started program, if it is git."""
        if event == "subprocess.Popen" and self.is_recording:
            self.git_programs += Path(str(arguments[0])).name == "git"

    def write(self, place: Path) -> None:
        found = {"modules": sorted(self.modules), "calls": self.calls, "git_programs": self.git_programs}
        part = place.with_suffix(".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.rename(place)  # at once: another process waits for it


def _get_module(frame: FrameType | None) -> str | None:
    name = frame.f_globals.get("__name__", "") if frame else ""
    return name if name == PACKAGE or name.startswith(f"{PACKAGE}.") else None


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module of ours is being imported: what it calls then, such as `dataclass`, only defines things."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _get_module(frame) is not None:
            return True
        frame = frame.f_back
    return False


def main() -> None:
    place, start, *words = sys.argv[1:]
    record, output = Record(), Path(place)

    def begin(*_: object) -> None:
        record.is_recording = True

    def end(*_: object) -> None:
        record.is_recording = False
        record.write(output)

    if start == "now":
        begin()
        atexit.register(end)
    else:
        signal.signal(signal.SIGUSR1, begin)
        signal.signal(signal.SIGUSR2, end)
    sys.addaudithook(record.note_program)
    sys.argv = [PACKAGE, *words]
    threading.setprofile(record.note_call)
    sys.setprofile(record.note_call)
    from deepwork.__main__ import main as run_command  # noqa: PLC0415 - after the hooks

    run_command()


if __name__ == "__main__":
    main()
