"""Pins what a trusted command runs with: its program and its environment, as the person's shell had them.

An agent chooses the environment in which it starts deepwork, and can write some folders of the PATH. Neither
may decide which program runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from shutil import which

from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.trust.models import Pins

_Stamps = tuple[tuple[int, int, int] | None, ...]


def resolve_pins(run: Sequence[str], environment: Mapping[str, str] = os.environ) -> Pins:
    """Find the program of a command, and everything else that it depends on besides the files of the tree."""
    kept = build_child_environment(environment)
    path = os.pathsep.join(_list_folders(kept.get("PATH", "")))
    return Pins(find_program(run[0], path), {**kept, "PATH": path}, find_shadowed(path))


def find_program(word: str, path: str) -> str | None:
    """Return the program that a word means; a relative path stays one, because the tree has it."""
    return word if os.sep in word else which(word, path=path)


def find_shadowed(path: str) -> dict[str, str]:
    """Map each name that several folders of a PATH have to the folder whose program is used."""
    folders = _list_folders(path)
    return dict(_find_shadowed(folders, _read_stamps(folders)))


def find_problem(pins: Pins) -> str | None:
    """Say why a command would not run as it was trusted; None if it does."""
    is_pinned = pins.program is not None and pins.program.startswith(os.sep)
    if is_pinned and not os.access(pins.program or "", os.X_OK):
        return f"{pins.program} does not exist any more."
    for name, folder in find_shadowed(pins.environment["PATH"]).items():
        if pins.shadowed.get(name) != folder:
            return f"The program {name} in {folder} hides another one of this name since then."
    return None


def _list_folders(path: str) -> tuple[str, ...]:
    """List the folders of a PATH; a relative one would be part of the tree that is judged."""
    named = (each for each in path.split(os.pathsep) if each.startswith(os.sep))
    return tuple(dict.fromkeys(map(os.path.normpath, named)))


def _read_stamps(folders: Sequence[str]) -> _Stamps:
    return tuple(map(_read_stamp, folders))


def _read_stamp(folder: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116 - each decision asks this
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


@lru_cache(maxsize=8)
def _find_shadowed(folders: tuple[str, ...], stamps: _Stamps) -> dict[str, str]:
    used: dict[str, str] = {}
    shadowed: dict[str, str] = {}
    seen = set()
    for folder, stamp in zip(folders, stamps, strict=True):
        if stamp is None or stamp[:2] in seen:  # on many systems /bin is /usr/bin
            continue
        seen.add(stamp[:2])
        for name in _list_names(folder):
            if used.setdefault(name, folder) != folder:
                shadowed[name] = used[name]
    return shadowed


def _list_names(folder: str) -> list[str]:
    """List the files of a folder, whatever their mode: it can change without a trace in the folder."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir()]
    except OSError:
        return []
