"""The budget of a day, from the user's own settings."""

from __future__ import annotations

from functools import lru_cache

from deepwork.gates.budgets.models import Budget
from deepwork.kernel.files.stamps import FileStamp, find_stamp
from deepwork.kernel.user_settings import list_settings_files, load_user_settings


def load_day_budget() -> Budget | None:
    """Return what all work of a day may cost; None if the user set no limit.

    Every claim asks, so the files are read again only after one changed.
    """
    versions = tuple((str(path), find_stamp(str(path))) for path in list_settings_files())
    return _load(versions) if any(stamp for _, stamp in versions) else None


@lru_cache(maxsize=8)
def _load(_versions: tuple[tuple[str, FileStamp | None], ...]) -> Budget | None:
    day = load_user_settings().day_budget
    return Budget(day.usd, day.tokens, day.minutes) if day else None
