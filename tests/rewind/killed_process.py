"""A process that rewinds a task, or undoes that, and is killed with SIGKILL at a given moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from application import Clock, make_app
from deepwork.delivery.rewind import service
from deepwork.delivery.rewind.landed_work import LandedWork
from deepwork.kernel.git import file_placing, tree_restores
from rewind.make import act

STAGES = ("_rescue", "_change_files", "_change_state", "_finish")
"""The beginning of each stage: the one before is complete."""
MOMENTS = {
    "rescue_work": tree_restores.TreeRestorer,
    "save": tree_restores.TreeRestorer,
    "_take_away": file_placing,
    "_put": file_placing,
    "_move_branch": tree_restores.TreeRestorer,
    "move_worktree": service,
}
"""Moments within the stages: just after each of these functions."""

_REVERTED = {"land": LandedWork}
"""Just after a revert commit has landed, which only a rewind of landed work has."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def act_and_die(folder: Path, location: str, moment: str, action: str, **arguments: Any) -> int | None:
    """Call an action of people in a new process that dies at the moment; return its exit code."""
    process = _context.Process(target=_act, args=(folder, location, moment, action, arguments))
    process.start()
    process.join(240)
    return process.exitcode


def _act(folder: Path, location: str, moment: str, action: str, arguments: dict[str, Any]) -> None:
    _plant_kill(moment)
    app = make_app(folder, location, Clock())
    act(app, action, **arguments)
    app.close()


def _plant_kill(moment: str) -> None:
    within = MOMENTS | _REVERTED
    place: Any = within.get(moment, service.RewindService)
    real = getattr(place, moment)

    def work(*given: Any, **named: Any) -> None:
        if moment in within:
            real(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(place, moment, work)
