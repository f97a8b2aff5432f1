"""Generated ids, and the base class of enums that callers pass by value."""

from __future__ import annotations

import os
from enum import StrEnum


class CaseInsensitiveEnum(StrEnum):
    """An enum of lower-case words; accepts any case and always returns lower case."""

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        if not isinstance(value, str):
            return None
        return cls._value2member_map_.get(value.strip().lower())  # type: ignore[return-value]


def new_id(prefix: str) -> str:
    """Return a new id such as `ag_3k9x0q2m7b1z`: 62 random bits, short because ids cost agents tokens."""
    return f"{prefix}_{encode_letters(os.urandom(12))}"


def new_ids(prefix: str, count: int) -> list[str]:
    """Return new ids, many times as fast as one by one."""
    letters = os.urandom(12 * count).translate(_LETTER_TABLE).decode()
    return [f"{prefix}_{letters[start : start + 12]}" for start in range(0, 12 * count, 12)]


def encode_letters(noise: bytes) -> str:
    """Encode the first twelve bytes, random or from a hash, as letters and digits."""
    return noise[:12].translate(_LETTER_TABLE).decode()


_LETTER_TABLE = (b"0123456789abcdefghijklmnopqrstuvwxyz" * 8)[:256]
