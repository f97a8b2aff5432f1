"""The budget of a day, from the user's own settings."""

from __future__ import annotations

from functools import lru_cache

from deepwork.gates.budgets.models import Budget
from deepwork.kernel.user_settings import get_user_settings_file, load_user_settings


def load_day_budget() -> Budget | None:
    """Return what all work of a day may cost; None if the user set no limit.

    Every claim asks, so the file is read again only after it changed.
    """
    path = get_user_settings_file()
    try:
        found = path.stat()
    except OSError:
        return None
    version = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
    return _load(str(path), version)


@lru_cache(maxsize=8)
def _load(_path: str, _version: tuple[int, ...]) -> Budget | None:
    day = load_user_settings().day_budget
    return Budget(day.usd, day.tokens, day.minutes) if day else None
