"""The budget of a day, from the user's own settings: `budget.day` in `config.yml` of the user's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from deepwork.budgets.models import Budget
from deepwork.environment import get_user_folder
from deepwork.errors import DefinitionError

_NAME = "config.yml"
_KEYS = ("usd", "tokens", "minutes")


def load_day_budget() -> Budget | None:
    """Return what all work of a day may cost; None if the user set no limit.

    Every claim asks, so the file is read again only after it changed.
    """
    path = get_user_folder() / _NAME
    try:
        found = path.stat()
    except OSError:
        return None
    return _load(path, found.st_mtime_ns, found.st_size, found.st_ino)


def parse_budget(given: object, name: str) -> Budget:
    """Parse a budget as people write it; raises DefinitionError."""
    if not isinstance(given, Mapping) or not given:
        raise DefinitionError(f"`{name}` must have at least one of {', '.join(_KEYS)}.")
    if unknown := [key for key in given if key not in _KEYS]:
        raise DefinitionError(f"`{name}.{unknown[0]}` is not one of {', '.join(_KEYS)}.")
    numbers = {key: _parse_number(value, f"{name}.{key}") for key, value in given.items()}
    if not float(numbers.get("tokens", 0)).is_integer():
        raise DefinitionError(f"`{name}.tokens` must be a whole number.")
    tokens = int(numbers["tokens"]) if "tokens" in numbers else None
    return Budget(numbers.get("usd"), tokens, numbers.get("minutes"))


def _parse_number(value: object, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise DefinitionError(f"`{name}` must be a number above 0.")
    return value  # type: ignore[return-value]


@lru_cache(maxsize=8)
def _load(path: Path, _changed: int, _size: int, _inode: int) -> Budget | None:
    from deepwork.files.yaml import load_yaml  # noqa: PLC0415 - slow to import, and seldom needed

    data: Any = load_yaml(path.read_text(encoding="utf-8"), source=str(path)).data
    section = data.get("budget") if isinstance(data, Mapping) else None
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise DefinitionError(f"{path}: `budget` must be a mapping.")
    return parse_budget(section["day"], "budget.day") if section.get("day") is not None else None
