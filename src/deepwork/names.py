"""The words and ids that callers and deepwork pass to each other."""

from __future__ import annotations

import os
from enum import StrEnum


class Word(StrEnum):
    """One of a few lower-case words; accepted in either case, always answered in lower case."""

    @classmethod
    def _missing_(cls, value: object) -> Word | None:
        if not isinstance(value, str):
            return None
        return cls._value2member_map_.get(value.strip().lower())  # type: ignore[return-value]


def new_id(prefix: str) -> str:
    """A fresh id such as `ag_3k9x0q2m7b1z`: 62 random bits, short because agents pay for it in tokens."""
    return f"{prefix}_{as_letters(os.urandom(12))}"


def as_letters(noise: bytes) -> str:
    """Twelve letters and digits made of as many bytes: random ones, or those of a hash."""
    return noise[:12].translate(_LETTERS).decode()


_LETTERS = (b"0123456789abcdefghijklmnopqrstuvwxyz" * 8)[:256]
